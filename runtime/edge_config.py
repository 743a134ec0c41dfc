"""Configuration of the agent on a GPU host (section ``agent``): what it collects, how often, how long it waits.

Addresses hold no credentials; secrets are ``SecretStr`` and never stand in a repr.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from runtime.addresses import http_address
from runtime.receiver_config import ReceiverConfig

STRICT = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

Switch = Literal["auto", "on", "off"]
"""``on``: collected, whatever the probe says; ``auto``: when the probe finds it; ``off``: never."""


def _http_address(value: str) -> str:
    return http_address(value, path="/path")


HttpUrl = Annotated[str, AfterValidator(_http_address)]
Label = Annotated[str, Field(min_length=1, max_length=256)]


class CollectorSwitches(BaseModel):
    """Which collectors run. Of the sources of GPU samples, ``auto`` takes the first that answers, in this order."""

    model_config = STRICT

    host: Switch = "auto"
    """Processors, memory, disks and network of this host. ``auto`` is on."""
    host_devices: Switch = "auto"
    """Each interface, disk and NUMA node, at the slow interval. ``auto`` is on."""
    nvml: Switch = "auto"
    """GPUs by the driver's library."""
    dcgm: Switch = "auto"
    """GPUs by dcgm-exporter's page (``dcgm_url``)."""
    nvidia_smi: Switch = "auto"
    """GPUs by the program nvidia-smi, the last resort."""
    gpu_processes: Switch = "auto"
    """Processes on the GPUs, at the slow interval. ``auto`` follows NVML."""
    engines: Switch = "auto"
    """Serving engines: those configured, and with ``engine_ports`` those found on this host."""


class PlacementConfig(BaseModel):
    """What a GPU is used for, where no engine reports it. None: not known."""

    model_config = STRICT

    engine_id: Label | None = None
    placement_group: Label | None = None
    workload: Literal["inference", "training", "fine_tuning", "idle"] | None = None


class EngineConfig(BaseModel):
    """A serving engine whose metrics are scraped."""

    model_config = STRICT

    url: HttpUrl
    """Address of its metrics, or without a path that of its server, whose usual paths are tried."""
    facts_url: HttpUrl | None = None
    """Address of its API, where that is another server. None: the same."""
    kind: Label | None = None
    """Software (vllm, sglang, tgi, trtllm, triton, llamacpp). None: recognised by its metrics."""
    api_key: SecretStr | None = None
    """Bearer token for its pages; ``api_key_file`` reads it from a file."""
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


class JobConfig(BaseModel):
    """Other work on GPUs than serving."""

    model_config = STRICT

    workload: Literal["inference", "training", "fine_tuning", "idle"]
    pattern: Annotated[str, Field(min_length=1, max_length=1_024)]
    """Regular expression that is found in a process' name or command line."""


class OtlpConfig(BaseModel):
    """OTLP on loopback, for other people's GenAI instrumentation."""

    model_config = STRICT

    enabled: bool = False
    """Off by default: it needs the package's extra ``otlp``, and memory."""
    http_port: int = Field(default=4318, ge=0, le=65_535)
    """OTLP/HTTP, protobuf and JSON. 0 takes a free port."""
    grpc_port: int | None = Field(default=None, ge=0, le=65_535)
    """OTLP/gRPC (usually 4317). None: off."""
    body_bytes_max: int = Field(default=4 * 1024 * 1024, ge=1_024, le=64 * 1024 * 1024)
    """Of one request, before and after it is unpacked; larger ones are refused with 413."""


class LogTailConfig(BaseModel):
    """A file of JSON lines, one request each."""

    model_config = STRICT

    path: Path
    fields: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Our field name -> where the line holds it (dotted path)."""
    from_start: bool = False
    """A file seen for the first time is read from its beginning; else only what is added."""


class AgentConfig(BaseModel):
    """Section ``agent``."""

    model_config = STRICT

    host: Label | None = None
    """Name of this host in every row, and in the ids of engines that agent and proxy give. None: as the system says."""
    cluster: Label | None = None
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
    engines: tuple[EngineConfig, ...] = Field(default=(), max_length=64)
    engine_ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = Field(
        default=(8000, 30000, 8080, 8002, 3000), max_length=32
    )
    """Ports of this host that are tried for an engine's /metrics when none is configured. Empty: none."""
    jobs: tuple[JobConfig, ...] = Field(default=(), max_length=64)
    """Work on GPUs that is no serving engine, recognised by its processes."""
    receiver: ReceiverConfig = ReceiverConfig()
    otlp: OtlpConfig = OtlpConfig()
    log_tails: tuple[LogTailConfig, ...] = Field(default=(), max_length=64)
    health_port: int | None = Field(default=None, ge=0, le=65_535)
    """/healthz /readyz /metrics on loopback. None: off; 0 takes a free port."""

    @model_validator(mode="after")
    def _intervals(self) -> Self:
        longest = max(self.period_ms, self.engine_period_ms)
        if self.interval_ms_max < longest:
            raise ValueError(f"interval_ms_max must be at least period_ms and engine_period_ms ({longest})")
        return self
