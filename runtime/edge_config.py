"""Configuration of the agent on a GPU host (section ``agent``).

Addresses hold no credentials; secrets are ``SecretStr`` and never stand in a repr. Every limit says what happens when
it is reached.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from runtime.addresses import is_loopback
from runtime.config_keys import Section, http_url
from runtime.pod_config import KubernetesConfig


class ReceiverConfig(Section):
    """Section ``agent.receiver``. What a limit does when it is reached is said beside it."""

    enabled: bool = True
    socket: Path | None = None
    """Unix datagram socket. None: FLEETPULSE_SOCKET where it is set, else /run/fleetpulse/agent.sock where that folder
    can be written to, else fleetpulse.sock in XDG_RUNTIME_DIR; the SDK looks in the same places."""
    socket_group: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Group whose processes may send (the socket has mode 0660). None: the agent's own."""
    linger_ms: int = Field(default=200, ge=1, le=1_000)
    """How long requests gather before they are spooled; a kill -9 of the agent loses no older ones."""
    batch_datagrams_max: int = Field(default=1_000, ge=1, le=10_000)
    """Spooled at once when so many have gathered."""
    buffer_bytes: int = Field(default=4 * 1024 * 1024, ge=256 * 1024, le=256 * 1024 * 1024)
    """Datagrams that gather, twice. Full: they stay in the socket, then in the clients, which count what they drop."""
    clients_max: int = Field(default=4_096, ge=16, le=1_048_576)
    """Processes whose sequences are followed; the one silent longest is forgotten for a new one."""
    metric_series_max: int = Field(default=1_000, ge=0, le=1_000_000)
    """Series of custom metrics that this process takes; values of more are dropped, counted (``receiver_datagrams``,
    ``series``) and declared as shed."""
    http_port: int | None = Field(default=None, ge=0, le=65_535)
    """POST /v1/requests on loopback, one JSON object a line. None: off; 0 takes a free port."""
    http_body_bytes_max: int = Field(default=1024 * 1024, ge=1_024, le=8 * 1024 * 1024)
    """Of one request; larger ones are refused with 413."""
    http_connections_max: int = Field(default=64, ge=1, le=4_096)
    """Open at a time; more are refused with 503."""
    http_idle_ms: int = Field(default=30_000, ge=100, le=600_000)
    """A connection that sends nothing for so long, or a request that takes longer to arrive, is closed."""


Switch = Literal["auto", "on", "off"]
"""``on``: collected, whatever the probe says; ``auto``: when the probe finds it; ``off``: never."""


HttpUrl = Annotated[str, http_url(path="/path")]
Label = Annotated[str, Field(min_length=1, max_length=256)]


class CollectorSwitches(Section):
    """Which collectors run. Of the sources of GPU samples, ``auto`` takes the first that answers, in this order."""

    host: Switch = "auto"
    """Processors, memory, disks and network of this host. ``auto`` is on."""
    host_devices: Switch = "auto"
    """Each interface, disk, NUMA node and RDMA port, at the slow interval. ``auto`` is on."""
    nvml: Switch = "auto"
    """GPUs by the driver's library."""
    dcgm: Switch = "auto"
    """GPUs by dcgm-exporter's page (``dcgm_url``)."""
    nvidia_smi: Switch = "auto"
    """GPUs by the program nvidia-smi, the last resort."""
    rocm_smi: Switch = "auto"
    """AMD GPUs by the program rocm-smi."""
    gpu_processes: Switch = "auto"
    """Processes on the GPUs, at the slow interval. ``auto`` follows NVML."""
    host_processes: Switch = "auto"
    """Processes of engines and jobs. ``auto`` is on where there is ``/proc``."""
    kubernetes: Switch = "auto"
    """Names of the pods of this node, and engines among them. ``auto`` is on in a pod whose account may list pods."""
    engines: Switch = "auto"
    """Serving engines: those configured, and with ``engine_ports`` those found on this host."""


class PlacementConfig(Section):
    """What a GPU is used for, where no engine reports it. None: not known."""

    engine_id: Label | None = None
    placement_group: Label | None = None
    workload: Literal["inference", "training", "fine_tuning", "idle"] | None = None


class EngineConfig(Section):
    """A serving engine whose metrics are scraped."""

    url: HttpUrl
    """Address of its metrics, or without a path that of its server, whose usual paths are tried."""
    facts_url: HttpUrl | None = None
    """Address of its API, where that is another server. None: the same."""
    kind: Label | None = None
    """Software (vllm, sglang, tgi, trtllm, triton, llamacpp). None: recognised by its metrics."""
    api_key: SecretStr | None = None
    """Bearer token for its pages."""
    api_key_file: Path | None = None
    """Holds it in place of ``api_key``; the agent alone reads it."""
    engine_id: Label | None = None
    """Unique in the deployment. None: host and port of the address."""
    model: Label | None = None
    """None: as the engine reports it."""
    model_version: Label | None = None
    precision: Label | None = None
    context_tokens_max: int | None = Field(default=None, ge=1, le=100_000_000)
    tensor_parallel: int | None = Field(default=None, ge=1, le=65_536)
    placement_group: Label | None = None
    gpu_uuids: tuple[Label, ...] = Field(default=(), max_length=64)
    """GPUs it runs on. Empty: not known."""
    addresses: tuple[Label, ...] = Field(default=(), max_length=16)
    """More ``name:port`` under which clients reach it, such as the name of its service. Those of the host are known."""


class JobConfig(Section):
    """Other work on GPUs than serving."""

    workload: Literal["inference", "training", "fine_tuning", "idle"]
    pattern: Annotated[str, Field(min_length=1, max_length=1_024)]
    """Regular expression that is found in a process' name or command line."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from error
        return value

    def matches(self, process: str) -> bool:
        """True when the pattern is found anywhere in the process' name or command line."""
        return re.search(self.pattern, process) is not None


class OtlpConfig(Section):
    """OTLP, for other people's GenAI instrumentation: on loopback, elsewhere for those who know a token."""

    enabled: bool = False
    """Off by default: it needs the package's extra ``otlp``, and memory."""
    host: str = "127.0.0.1"
    """Address to listen on. Any but loopback needs ``token``; there is no TLS on this side."""
    token: SecretStr | None = Field(default=None, min_length=16)
    """Senders must bring it as ``authorization: Bearer TOKEN`` (``OTEL_EXPORTER_OTLP_HEADERS`` of theirs). None: no
    sender needs one."""
    token_file: Path | None = None
    """Holds it in place of ``token``; the agent alone reads it."""
    http_port: int = Field(default=4318, ge=0, le=65_535)
    """OTLP/HTTP, protobuf and JSON. 0 takes a free port."""
    grpc_port: int | None = Field(default=None, ge=0, le=65_535)
    """OTLP/gRPC (usually 4317). None: off."""
    tenant_attributes: tuple[Label, ...] = Field(default=("tenant.id", "tenant"), max_length=16)
    """Attributes that name the tenant, best first; looked for in a span, then in its resource."""
    metric_series_max: int = Field(default=1_000, ge=0, le=1_000_000)
    """Series of metrics outside ``gen_ai.`` that become ``custom.metrics``; points of more are counted (``/unmapped``).
    0: none do."""
    body_bytes_max: int = Field(default=4 * 1024 * 1024, ge=1_024, le=64 * 1024 * 1024)
    """Of one request, before and after it is unpacked; larger ones are refused with 413."""

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        if self.token is None and self.token_file is None and not is_loopback(self.host):
            raise ValueError("host beyond loopback needs a token")
        return self


class ExpositionConfig(Section):
    """Figures of GPUs, engines and the host on the agent's ``/metrics`` (``health_port``), for Prometheus."""

    enabled: bool = False
    """Off by default: ``/metrics`` holds what the agent counts about itself, and no figures."""
    series_max: int = Field(default=512, ge=1, le=65_536)
    """GPUs, engines and hosts shown. More are left out and counted (``agent_exposition_dropped``)."""
    stale_ms: int = Field(default=60_000, ge=1_000, le=3_600_000)
    """A reading older than this is left out."""


class LogTailConfig(Section):
    """A file of log lines: requests, or steps of training."""

    path: Path
    format: Literal["requests", "training", "hf_trainer", "megatron"] = "requests"
    """JSON lines of a request each, or of a training step each; the text of transformers' Trainer or of Megatron-LM."""
    fields: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Our field name -> where the line holds it (dotted path), or ``=text``. Training needs ``job``."""
    engine: Label | None = None
    """Id or ``name:port`` of the engine whose log it is. None: lines name theirs, or none."""
    from_start: bool = False
    """A file seen for the first time is read from its beginning; else only what is added."""

    @property
    def takes(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        """The same for two that make rows of the same lines: the file, the format and, where lines are JSON, the fields
        that are read from them."""
        read = self.fields.items() if self.format in ("requests", "training") else ()
        named = frozenset((name, where) for name, where in read if not where.startswith("="))
        return os.path.realpath(self.path), self.format, named


class AgentConfig(Section):
    """Section ``agent``."""

    host: Label | None = None
    """Name of this host in every row, and in the ids of engines that agent and proxy give. None: as the system says."""
    cluster: Label | None = None
    """In every row, and before the ids of engines in pods: names of pods come again in another cluster."""
    region: Label | None = None
    collectors: CollectorSwitches = CollectorSwitches()
    placement: dict[str, PlacementConfig] = Field(default_factory=dict, max_length=1_024)
    """By GPU UUID."""
    period_ms: int = Field(default=1_000, ge=100, le=60_000)
    """Interval of host and GPU samples, on the grid of the wall clock; lengthened while readings cost too much."""
    engine_period_ms: int = Field(default=1_000, ge=200, le=60_000)
    """Interval of engine scrapes."""
    slow_period_ms: int = Field(default=30_000, ge=1_000, le=600_000)
    """Interval of devices and of processes on GPUs."""
    process_period_ms: int = Field(default=5_000, ge=1_000, le=600_000)
    """Interval of processes of engines and jobs."""
    processes_max: int = Field(default=256, ge=1, le=65_536)
    """Processes of engines and jobs of this host; of more, those with the lowest ids are reported, the rest counted."""
    threads_max: int = Field(default=512, ge=1, le=65_536)
    """Threads of one such process that are looked at; with more, its busiest is unknown, which is counted."""
    interval_ms_max: int = Field(default=60_000, ge=1_000, le=600_000)
    """No interval is lengthened beyond this for its cost."""
    cost_share_max_ppm: int = Field(default=20_000, ge=100, le=1_000_000)
    """Share of its interval that a reading may spend in processor time before the interval is doubled."""
    call_limit_ms: int = Field(default=10_000, ge=100, le=600_000)
    """The longest one reading of a collector may take before its thread is abandoned."""
    probe_limit_ms: int = Field(default=5_000, ge=100, le=60_000)
    """The longest a probe may take; one that takes longer found nothing."""
    probe_period_ms: int = Field(default=300_000, ge=100, le=86_400_000)
    """Between two looks for ``auto`` sources that were not there. What is collected is never stopped by one."""
    hung_threads_max: int = Field(default=3, ge=1, le=16)
    """Abandoned threads of one collector that may hang at a time; then it stays off until one comes back."""
    drain_ms: int = Field(default=15_000, ge=0, le=600_000)
    """After SIGTERM, how long the spool is sent; the rest stays on disk for the next start."""
    dcgm_url: HttpUrl = "http://127.0.0.1:9400/metrics"
    nvidia_smi_path: str = "nvidia-smi"
    """Program to run; a bare name is looked up on PATH."""
    rocm_smi_path: str = "rocm-smi"
    """The same for AMD GPUs; looked up in /opt/rocm/bin too."""
    engines: tuple[EngineConfig, ...] = Field(default=(), max_length=64)
    kubernetes: KubernetesConfig = KubernetesConfig()
    engine_ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = Field(
        default=(8000, 30000, 8080, 8002, 3000), max_length=32
    )
    """Ports of this host that are tried for an engine's /metrics when none is configured. Empty: none."""
    jobs: tuple[JobConfig, ...] = Field(default=(), max_length=64)
    """Work on GPUs that is no serving engine, recognised by its processes."""
    receiver: ReceiverConfig = ReceiverConfig()
    otlp: OtlpConfig = OtlpConfig()
    exposition: ExpositionConfig = ExpositionConfig()
    log_tails: tuple[LogTailConfig, ...] = Field(default=(), max_length=64)
    health_port: int | None = Field(default=None, ge=0, le=65_535)
    """/healthz /readyz /metrics on loopback. None: off; 0 takes a free port."""

    @property
    def host_name(self) -> str:
        """Name of this host, as configured or as the system says."""
        return self.host or os.uname().nodename

    def read_secrets(self) -> Self:
        """With the engines' keys and, where OTLP is on, its token from their files. Raises as ``Section.read``."""
        engines = tuple(engine.read(f"agent.engines.{index}") for index, engine in enumerate(self.engines))
        otlp = self.otlp.read("agent.otlp") if self.otlp.enabled else self.otlp
        return self.model_copy(update={"engines": engines, "otlp": otlp})

    @model_validator(mode="after")
    def _intervals(self) -> Self:
        longest = max(self.period_ms, self.engine_period_ms)
        if self.interval_ms_max < longest:
            raise ValueError(f"interval_ms_max must be at least period_ms and engine_period_ms ({longest})")
        return self

    @model_validator(mode="after")
    def _each_line_once(self) -> Self:
        for takes, times in Counter(log.takes for log in self.log_tails).items():
            if times > 1:
                file, form, _ = takes
                raise ValueError(
                    f"log_tails must follow {file} once in format {form} by the same fields: lines count twice"
                )
        return self
