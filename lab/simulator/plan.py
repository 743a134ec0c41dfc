"""What is simulated, as data: hosts with GPUs, engines on them, who asks, how much, and what goes wrong when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fleetpulse.equipment import GPU_TYPES, MEMORY_SHARE, MODELS, RUNTIME_BYTES
from lab.simulator.faults import Fault
from lab.simulator.load import Load, PoissonLoad, Share, Trace, TraceLoad
from schemas.errors import ConfigError


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A host and its GPUs, all of one type (a key of ``equipment.GPU_TYPES``)."""

    name: str
    cluster: str
    region: str
    gpu_type: str
    gpus: int = 8


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """A serving engine on GPUs ``[first_gpu, first_gpu + tensor_parallel)`` of a host.

    ``chunk_tokens`` is the token budget of one step. A full queue (``queue_max``) rejects with 429. ``cold`` engines
    start to load their model when the fleet starts. ``gpu_share`` is the share of its GPUs' memory that it may take:
    engines whose shares add up to 1 at most may stand on one GPU (``sharing``).
    """

    engine_id: str
    host: str
    model: str
    model_version: str
    precision: str
    first_gpu: int
    tensor_parallel: int = 1
    batch_max: int = 64
    queue_max: int = 64
    chunk_tokens: int = 2_048
    cold: bool = False
    gpu_share: float = 1.0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A training job with a rank on each of the GPUs ``[first_gpu, first_gpu + ranks)`` of a host, which serve no
    engine."""

    job: str
    host: str
    model: str
    first_gpu: int
    ranks: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who asks, with which share of all requests and under which service class."""

    name: str
    slo_class: str
    weight: float


@dataclass(frozen=True, slots=True)
class Habits:
    """How requests behave, as shares of all: what cuts them short, how much of a prompt the cache knows."""

    aborted: float = 0.01
    server_error: float = 0.001
    client_error: float = 0.002
    prefix_hit: float = 0.4
    length_limited: float = 0.08
    tool_calls: float = 0.05
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("aborted", "server_error", "client_error", "prefix_hit", "length_limited", "tool_calls"):
            share = getattr(self, name)
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"habits.{name}", share, "must lie in [0, 1]")
        if self.aborted + self.server_error + self.client_error > 1.0:
            raise ConfigError("habits.aborted", self.aborted, "with the error shares must not exceed 1")


TENANTS_MAX = 255
"""So that their codes fit one byte."""
DEFAULT_TENANTS = (
    Tenant("acme", "interactive", 5.0),
    Tenant("globex", "interactive", 3.0),
    Tenant("initech", "batch", 2.0),
    Tenant("umbrella", "interactive", 1.0),
    Tenant("hooli", "batch", 1.0),
)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """All that is simulated. ``output_tokens_max`` bounds replies (longer ones are cut) and memory per engine."""

    hosts: tuple[HostPlan, ...]
    engines: tuple[EnginePlan, ...]
    load: Load
    tenants: tuple[Tenant, ...] = DEFAULT_TENANTS
    habits: Habits = field(default_factory=Habits)
    faults: tuple[Fault, ...] = ()
    output_tokens_max: int = 2_048
    host_samples: bool = False
    training: tuple[TrainingPlan, ...] = ()

    def __post_init__(self) -> None:
        hosts = {host.name: host for host in self.hosts}
        if not hosts or len(hosts) != len(self.hosts):
            raise ConfigError("hosts", len(self.hosts), "must be at least one, each name once")
        if not 1 <= len(self.tenants) <= TENANTS_MAX:
            raise ConfigError("tenants", len(self.tenants), f"must be 1 to {TENANTS_MAX}")
        if len({engine.engine_id for engine in self.engines}) != len(self.engines):
            raise ConfigError("engines", len(self.engines), "must have each engine_id once")
        taken: dict[tuple[str, int], float] = {}
        for engine in self.engines:
            _check_engine(engine, hosts, taken)
        for job in self.training:
            _check_training(job, hosts, taken)
        if len({job.job for job in self.training}) != len(self.training):
            raise ConfigError("training", len(self.training), "must have each job once")
        missing = set(self.load.models()) - {engine.model for engine in self.engines}
        if missing:
            raise ConfigError("load", sorted(missing), "asks for models that no engine serves")

    @property
    def gpus(self) -> int:
        """GPUs of the fleet."""
        return sum(host.gpus for host in self.hosts)


PREFILL_EFFICIENCY = 0.5
"""Share of peak operations that a prompt reaches; assumed, in the middle of what vLLM and DistServe report."""
DECODE_EFFICIENCY = 0.6
"""Share of peak bandwidth that a decode step reaches; assumed likewise."""
STEP_OVERHEAD_US = 1_500.0
"""Scheduling and launching of one step, host side."""
STARVED_STEP_US = 60_000.0
"""What a step waits for a core that is saturated by the process that feeds the engine."""
LOAD_BYTES_PER_S = 2e9
"""Weights from disk to GPU while an engine starts cold."""
START_S = 15.0
"""Process start, graph capture and warm-up beside loading."""
PRECISION_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class Rates:
    """What an engine (model, precision, ``tensor_parallel`` GPUs of one type) can do; times in microseconds."""

    weights_bytes_per_gpu: int
    cache_bytes_per_token_per_gpu: int
    cache_tokens_max: int
    weights_us: float
    cache_us_per_token: float
    prefill_us_per_token: float
    load_us: int


def engine_rates(engine: EnginePlan, host: HostPlan) -> Rates:
    """What ``engine`` can do on ``host``, by the roofline: a prompt token costs 2 x parameters operations, a decode
    step reads all weights and the cache of the batch once. ``ValueError`` when no room for a cache is left."""
    gpu, model, width = GPU_TYPES[host.gpu_type], MODELS[engine.model], engine.tensor_parallel
    weights = round(model.parameters * PRECISION_BYTES[engine.precision])
    per_gpu = -(-weights // width)
    cache = max(1, model.cache_bytes_per_token() // width)
    room = int(gpu.memory_bytes * MEMORY_SHARE * engine.gpu_share) - RUNTIME_BYTES - per_gpu
    if room < cache * 1_024:
        raise ValueError(f"{model.name} in {engine.precision} does not fit on {width} x {gpu.name}")
    tflops = gpu.tflops_8_bit if PRECISION_BYTES[engine.precision] == 1 else gpu.tflops_16_bit
    bandwidth = gpu.bandwidth_bytes_per_s * DECODE_EFFICIENCY
    return Rates(
        weights_bytes_per_gpu=per_gpu,
        cache_bytes_per_token_per_gpu=cache,
        cache_tokens_max=room // cache,
        weights_us=per_gpu / bandwidth * 1e6,
        cache_us_per_token=cache / bandwidth * 1e6,
        prefill_us_per_token=2.0 * model.parameters / (tflops * 1e12 * PREFILL_EFFICIENCY * width) * 1e6,
        load_us=round((weights / LOAD_BYTES_PER_S + START_S) * 1e6),
    )


def _check_engine(engine: EnginePlan, hosts: dict[str, HostPlan], taken: dict[tuple[str, int], float]) -> None:
    host = hosts.get(engine.host)
    if host is None:
        raise ConfigError("engines.host", engine.host, "must be a host of the plan")
    if host.gpu_type not in GPU_TYPES:
        raise ConfigError("hosts.gpu_type", host.gpu_type, f"must be one of {', '.join(GPU_TYPES)}")
    if engine.model not in MODELS:
        raise ConfigError("engines.model", engine.model, f"must be one of {', '.join(MODELS)}")
    if engine.precision not in PRECISION_BYTES:
        raise ConfigError("engines.precision", engine.precision, f"must be one of {', '.join(PRECISION_BYTES)}")
    if min(engine.batch_max, engine.queue_max, engine.chunk_tokens, engine.tensor_parallel) < 1:
        raise ConfigError("engines", engine.engine_id, "batch, queue, chunk and tensor_parallel must be at least 1")
    if not 0.0 < engine.gpu_share <= 1.0:
        raise ConfigError("engines.gpu_share", engine.gpu_share, "must be above 0, at most 1")
    gpus = [(engine.host, engine.first_gpu + offset) for offset in range(engine.tensor_parallel)]
    for gpu in gpus:
        taken[gpu] = taken.get(gpu, 0.0) + engine.gpu_share
    full = any(taken[gpu] > 1.0 + _SHARE_SLACK for gpu in gpus)
    if engine.first_gpu < 0 or engine.first_gpu + engine.tensor_parallel > host.gpus or full:
        raise ConfigError("engines.first_gpu", engine.first_gpu, "must name GPUs of the host that no other engine has")
    engine_rates(engine, host)


def _check_training(job: TrainingPlan, hosts: dict[str, HostPlan], taken: dict[tuple[str, int], float]) -> None:
    host = hosts.get(job.host)
    if host is None or host.gpu_type not in GPU_TYPES:
        raise ConfigError("training.host", job.host, "must be a host of the plan, its gpu_type a known one")
    if job.model not in MODELS:
        raise ConfigError("training.model", job.model, f"must be one of {', '.join(MODELS)}")
    gpus = [(job.host, job.first_gpu + offset) for offset in range(job.ranks)]
    free = job.ranks >= 1 and 0 <= job.first_gpu <= host.gpus - job.ranks
    if not free or any(gpu in taken for gpu in gpus):
        raise ConfigError("training.first_gpu", job.first_gpu, "must name GPUs of the host that nobody else has")
    taken |= dict.fromkeys(gpus, 1.0)


_SHARE_SLACK = 1e-9
_CLUSTERS = (("eu-1", "eu-central"), ("us-1", "us-east"))


Layout = tuple[tuple[str, str, int], ...]
"""Engines of a host: model, precision, GPUs."""


def _version(model: str) -> str:
    return f"{model.split('-')[0]}@2026-10"


def _fleet(layouts: Iterable[tuple[str, Layout]], digits: int, queue: int) -> tuple[list[HostPlan], list[EnginePlan]]:
    """A host of 8 GPUs for each (GPU type, engines on it), and those engines."""
    hosts: list[HostPlan] = []
    engines: list[EnginePlan] = []
    for index, (gpu_type, layout) in enumerate(layouts):
        name, first = f"gpu-{index:0{digits}d}", 0
        hosts.append(HostPlan(name, *_CLUSTERS[index % 2], gpu_type))
        for number, (model, precision, width) in enumerate(layout):
            what = (model, _version(model), precision)
            engines.append(EnginePlan(f"{name}/{number}", name, *what, first, width, 128, queue))
            first += width
    return hosts, engines


_CHAT_BIG = ("llama-3.3-70b-instruct", "fp8", 4)
_CHAT_BIGGER = ("qwen2.5-72b-instruct", "fp8", 4)
_CHAT = ("llama-3.1-8b-instruct", "fp8", 1)
_CHAT_16 = ("llama-3.1-8b-instruct", "bf16", 1)
_CODE_BIG = ("qwen2.5-coder-32b-instruct", "fp8", 2)
_CODE = ("qwen2.5-coder-7b-instruct", "fp8", 1)
_MIXED_HOSTS = (
    ("H100", (_CHAT_BIG, _CODE_BIG, _CHAT, _CODE)),
    ("H100", (_CHAT_BIG, _CHAT, _CHAT, _CODE, _CODE)),
    ("H200", (_CODE_BIG, _CHAT, _CHAT, _CHAT, _CHAT, _CODE, _CODE)),
    ("H200", (_CODE_BIG, _CODE_BIG, _CHAT, _CHAT, _CODE, _CODE)),
    ("B200", (_CHAT_BIG, _CHAT, _CHAT, _CHAT, _CHAT)),
    ("B200", (_CHAT_BIG, _CODE_BIG, _CHAT, _CHAT)),
    ("A100", (_CHAT_16,) * 5),
    ("L40S", (_CODE,) * 6),
)

CHAT_SHARES = (Share("llama-3.1-8b-instruct", 0.85), Share("llama-3.3-70b-instruct", 0.15))
CODE_SHARES = (Share("qwen2.5-coder-7b-instruct", 0.7), Share("qwen2.5-coder-32b-instruct", 0.3))


def side_by_side(
    host: str, gpu: int, number: int, models: tuple[tuple[str, str, str], ...], batch: int = 64, queue: int = 64
) -> tuple[EnginePlan, ...]:
    """Engines of these (model, version, precision) on one GPU, each with an equal share of its memory, named from
    ``number`` on."""
    share = 1.0 / len(models)
    return tuple(
        EnginePlan(f"{host}/{number + i}", host, *one, gpu, 1, batch, queue, gpu_share=share)
        for i, one in enumerate(models)
    )


def mixed_plan(hosts: int, load: Load, faults: tuple[Fault, ...] = (), *, shared_gpu: bool = False) -> FleetPlan:
    """``hosts`` hosts of 8 GPUs, of five types in turn, in two clusters: chat and coding models of two sizes each
    (all four on the first host), and some GPUs without an engine. Eight hosts, 64 GPUs, carry both Azure traces at
    speed 60. ``shared_gpu``: one more host of a single L40S, on which two engines stand side by side."""
    plans, engines = _fleet((_MIXED_HOSTS[index % len(_MIXED_HOSTS)] for index in range(hosts)), digits=3, queue=256)
    if shared_gpu:
        host = HostPlan(f"gpu-{hosts:03d}", *_CLUSTERS[hosts % 2], "L40S", 1)
        plans.append(host)
        models = tuple((model, _version(model), precision) for model, precision, _ in (_CHAT, _CODE))
        engines += side_by_side(host.name, 0, 0, models, batch=128, queue=256)
    return FleetPlan(tuple(plans), tuple(engines), load, faults=faults)


def azure_load(code: Trace, conversation: Trace, speed: float) -> TraceLoad:
    """Both Azure traces of 2023 side by side: code for the coding models, conversation for the chat models."""
    shares = {"code": CODE_SHARES, "conversation": CHAT_SHARES}
    return TraceLoad({"code": code, "conversation": conversation}, shares, speed)


def large_plan(hosts: int, requests_per_s_and_host: float = 40.0, faults: tuple[Fault, ...] = ()) -> FleetPlan:
    """``hosts`` equal hosts of 8 B200, each with two engines of 70 B parameters on four GPUs; Poisson load.

    Big steady engines, because a step costs the simulation the same whether it serves one GPU or eight.
    """
    plans, engines = _fleet([("B200", (_CHAT_BIG, _CHAT_BIGGER))] * hosts, digits=5, queue=128)
    shares = (Share(_CHAT_BIG[0], 1.0), Share(_CHAT_BIGGER[0], 1.0))
    return FleetPlan(tuple(plans), tuple(engines), PoissonLoad(requests_per_s_and_host * hosts, shares), faults=faults)
