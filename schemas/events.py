"""The five event types, as data. Adding a column is one line here; a change of meaning is a new version.

Sources named: NVML API reference (NVIDIA, nvidia-ml-py 12/13), vLLM and OpenTelemetry semantic conventions for GenAI,
psutil documentation. Unknown is null, never 0.
"""

from __future__ import annotations

from schemas.fields import Event, Field, Kind, Role

STATUSES = ("ok", "error", "aborted", "timeout", "rejected")
ERROR_KINDS = ("oom", "server", "timeout", "client", "overload", "network", "engine_lost", "other")
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "abort", "error", "other")
STARTS = ("cold", "warm")
ORIGINS = ("measured", "simulated")
WORKLOADS = ("inference", "training", "fine_tuning", "idle")
GPU_EVENT_KINDS = (
    "xid",
    "ecc",
    "recovery",
    "clocks",
    "gpu_lost",
    "gpu_found",
    "gpu_unresponsive",
    "driver_restart",
)
SEVERITIES = ("info", "warning", "critical")

HOUR_US = 3_600_000_000
AMOUNT_MAX = 2**44
"""Ceiling of byte levels and of differences: half a million of them add up in an Int64 without overflow."""


def _time(meaning: str) -> Field:
    return Field("at_ms", Kind.INT64, Role.TIME, "ms", meaning, low=0)


def _label(name: str, meaning: str, *, allowed: tuple[str, ...] = (), required: bool = False) -> Field:
    return Field(name, Kind.LABEL, Role.DIMENSION, "", meaning, allowed=allowed, required=required)


def _duration(name: str, meaning: str, source: str) -> Field:
    return Field(name, Kind.OPTIONAL_UINT32, Role.SKETCH, "us", meaning, source, high=HOUR_US)


def _gauge(name: str, unit: str, meaning: str, source: str, *, high: int, kind: Kind = Kind.OPTIONAL_UINT32) -> Field:
    return Field(name, kind, Role.GAUGE, unit, meaning, source, high=high)


def _bytes(name: str, meaning: str, source: str) -> Field:
    return _gauge(name, "bytes", meaning, source, high=AMOUNT_MAX, kind=Kind.OPTIONAL_UINT64)


def _difference(name: str, unit: str, meaning: str, source: str) -> Field:
    return Field(name, Kind.OPTIONAL_UINT64, Role.DIFFERENCE, unit, meaning, source, high=AMOUNT_MAX)


_WHERE = (
    _label("cluster", "cluster the host belongs to"),
    _label("region", "region of the cluster"),
    _label("host", "host name of the edge that measured", required=True),
)
_ENGINE = (
    _label("engine_id", "serving engine, unique in the deployment"),
    _label("placement_group", "engines that share any GPU; else the host"),
)
_ORIGIN = _label("origin", "measured on real equipment or simulated", allowed=ORIGINS, required=True)
_INTERVAL = Field(
    "interval_ms",
    Kind.OPTIONAL_UINT32,
    Role.DIFFERENCE,
    "ms",
    "time the differences of this sample cover",
    high=3_600_000,
)

LLM_REQUESTS = Event(
    topic="llm.requests",
    version=1,
    meaning="one terminal event per LLM request, at its end",
    key=("placement_group", "host"),
    fields=(
        _time("end of the request: last byte, or the moment it failed"),
        _duration("ttft_us", "received to first token that carries content", "request tracker"),
        _duration("tpot_us", "(last - first token) / (output tokens - 1); null below two tokens", "request tracker"),
        _duration("e2e_us", "received to last byte", "request tracker"),
        _duration("queue_us", "received to scheduled by the engine", "engine, where it tells"),
        Field(
            "ttfo_us",
            Kind.OPTIONAL_UINT32,
            Role.ATTRIBUTE,
            "us",
            "received to first non-reasoning token",
            high=HOUR_US,
        ),
        Field("prefill_us", Kind.OPTIONAL_UINT32, Role.ATTRIBUTE, "us", "scheduled to first token", high=HOUR_US),
        Field("decode_us", Kind.OPTIONAL_UINT32, Role.ATTRIBUTE, "us", "first to last token", high=HOUR_US),
        Field(
            "input_tokens",
            Kind.OPTIONAL_UINT32,
            Role.DIFFERENCE,
            "tokens",
            "prompt tokens, cached ones included",
            high=100_000_000,
        ),
        Field(
            "cached_tokens",
            Kind.OPTIONAL_UINT32,
            Role.DIFFERENCE,
            "tokens",
            "prompt tokens served from the prefix cache",
            high=100_000_000,
        ),
        Field(
            "output_tokens",
            Kind.OPTIONAL_UINT32,
            Role.DIFFERENCE,
            "tokens",
            "generated tokens, reasoning included",
            high=100_000_000,
        ),
        Field(
            "reasoning_tokens",
            Kind.OPTIONAL_UINT32,
            Role.DIFFERENCE,
            "tokens",
            "reasoning tokens inside the output",
            high=100_000_000,
        ),
        Field(
            "http_status",
            Kind.OPTIONAL_UINT32,
            Role.ATTRIBUTE,
            "",
            "HTTP status answered to the client",
            low=100,
            high=599,
        ),
        *_WHERE,
        *_ENGINE,
        _label("model", "model name as served", required=True),
        _label("model_version", "revision or digest of the weights"),
        _label("precision", "weight precision, such as fp8"),
        _label("tenant", "who asked"),
        _label("slo_class", "service class whose objectives apply"),
        _label("status", "how the request ended", allowed=STATUSES, required=True),
        _label("error_kind", "why it failed; null when it did not", allowed=ERROR_KINDS),
        _label("finish_reason", "why generation stopped", allowed=FINISH_REASONS),
        _label("start", "cold when the engine had to load the model for it", allowed=STARTS),
        _ORIGIN,
        Field("itl_bins", Kind.BINS, Role.SKETCH_BINS, "us", "sketch of inter-token gaps inside the request"),
        Field(
            "request_id",
            Kind.TEXT,
            Role.ATTRIBUTE,
            "",
            "id of the request, unique in the deployment",
            required=True,
        ),
        Field("trace_id", Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", "W3C trace id, 32 hex digits"),
    ),
)

GPU_SAMPLES = Event(
    topic="gpu.samples",
    version=1,
    meaning="one reading of one GPU, once a second by default",
    key=("placement_group", "host"),
    fields=(
        _time("moment of the reading"),
        _gauge("util_gpu_pct", "%", "share of time a kernel ran", "nvmlDeviceGetUtilizationRates.gpu", high=100),
        _gauge(
            "util_memory_pct",
            "%",
            "share of time memory was read or written",
            "nvmlDeviceGetUtilizationRates.memory",
            high=100,
        ),
        _gauge("power_mw", "mW", "power draw", "nvmlDeviceGetPowerUsage", high=10_000_000),
        _gauge("power_limit_mw", "mW", "enforced power limit", "nvmlDeviceGetEnforcedPowerLimit", high=10_000_000),
        Field(
            "temperature_c",
            Kind.OPTIONAL_INT32,
            Role.GAUGE,
            "C",
            "core temperature",
            "nvmlDeviceGetTemperatureV",
            low=-100,
            high=300,
        ),
        Field(
            "temperature_memory_c",
            Kind.OPTIONAL_INT32,
            Role.GAUGE,
            "C",
            "memory temperature",
            "NVML field 82",
            low=-100,
            high=300,
        ),
        _gauge("clock_sm_mhz", "MHz", "SM clock", "nvmlDeviceGetClockInfo(SM)", high=100_000),
        _gauge("clock_memory_mhz", "MHz", "memory clock", "nvmlDeviceGetClockInfo(MEM)", high=100_000),
        _gauge("sm_active_ppm", "ppm", "share of SMs with a resident warp", "GPM metric 2", high=1_000_000),
        _gauge(
            "tensor_active_ppm",
            "ppm",
            "share of cycles the tensor cores worked",
            "GPM metric 5",
            high=1_000_000,
        ),
        _bytes("memory_used_bytes", "memory in use, reserved excluded", "nvmlDeviceGetMemoryInfo v2"),
        _bytes("memory_total_bytes", "physical memory", "nvmlDeviceGetMemoryInfo v2"),
        _INTERVAL,
        _difference("energy_mj", "mJ", "energy since the previous reading", "nvmlDeviceGetTotalEnergyConsumption"),
        _difference("throttled_us", "us", "time clocks were held down by power or heat", "NVML fields 74, 76-79"),
        _difference("pcie_tx_bytes", "bytes", "sent over PCIe", "NVML field 197"),
        _difference("pcie_rx_bytes", "bytes", "received over PCIe", "NVML field 198"),
        _difference("nvlink_tx_bytes", "bytes", "sent over NVLink", "NVML field 138"),
        _difference("nvlink_rx_bytes", "bytes", "received over NVLink", "NVML field 139"),
        Field(
            "clock_reasons",
            Kind.OPTIONAL_UINT64,
            Role.ATTRIBUTE,
            "bits",
            "why clocks are not higher",
            "nvmlDeviceGetCurrentClocksEventReasons",
        ),
        *_WHERE,
        *_ENGINE,
        _label("gpu_uuid", "UUID of the GPU or MIG device", required=True),
        _label("gpu_model", "product name"),
        _label("workload", "what the GPU is used for", allowed=WORKLOADS),
        _ORIGIN,
    ),
)

GPU_EVENTS = Event(
    topic="gpu.events",
    version=1,
    meaning="something happened to a GPU at a moment: XID, ECC error, recovery action, lost, found",
    key=("placement_group", "host"),
    fields=(
        _time("moment it was noticed"),
        Field("code", Kind.OPTIONAL_UINT32, Role.ATTRIBUTE, "", "XID or recovery code"),
        *_WHERE,
        *_ENGINE,
        _label("gpu_uuid", "UUID of the GPU or MIG device", required=True),
        _label("gpu_model", "product name"),
        _label("kind", "what kind of event", allowed=GPU_EVENT_KINDS, required=True),
        _label("severity", "how bad", allowed=SEVERITIES, required=True),
        _ORIGIN,
        Field("message", Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", "what the driver or the agent said"),
    ),
)

HOST_SAMPLES = Event(
    topic="host.samples",
    version=1,
    meaning="one reading of one host, once a second by default",
    key=("host",),
    fields=(
        _time("moment of the reading"),
        _gauge(
            "cpu_busy_ppm",
            "ppm",
            "share of all processors' time not idle",
            "psutil.cpu_times",
            high=1_000_000,
        ),
        _gauge(
            "cpu_iowait_ppm",
            "ppm",
            "share of all processors' time waiting for disks",
            "psutil.cpu_times",
            high=1_000_000,
        ),
        _gauge("load_1m_milli", "1/1000", "load average over one minute", "os.getloadavg", high=1_000_000_000),
        _gauge("processors", "", "logical processors", "psutil.cpu_count", high=65_536),
        _bytes("memory_used_bytes", "total minus available", "psutil.virtual_memory"),
        _bytes("memory_total_bytes", "physical memory", "psutil.virtual_memory"),
        _bytes("swap_used_bytes", "swap in use", "psutil.swap_memory"),
        _gauge(
            "disk_queue_milli",
            "1/1000",
            "mean requests in flight, all disks (weighted busy time / interval)",
            "psutil.disk_io_counters",
            high=1_000_000_000,
        ),
        _INTERVAL,
        _difference("network_tx_bytes", "bytes", "sent, all interfaces but loopback", "psutil.net_io_counters"),
        _difference("network_rx_bytes", "bytes", "received, all interfaces but loopback", "psutil.net_io_counters"),
        _difference("network_errors", "", "errors and drops, both ways", "psutil.net_io_counters"),
        _difference("disk_read_bytes", "bytes", "read from disks", "psutil.disk_io_counters"),
        _difference("disk_write_bytes", "bytes", "written to disks", "psutil.disk_io_counters"),
        _difference("disk_busy_ms", "ms", "time disks were busy, summed", "psutil.disk_io_counters"),
        _difference("swap_in_bytes", "bytes", "read back from swap", "psutil.swap_memory"),
        *_WHERE,
        _ORIGIN,
    ),
)

ENGINE_SAMPLES = Event(
    topic="engine.samples",
    version=1,
    meaning="one reading of one serving engine, once a second by default",
    key=("placement_group", "host"),
    fields=(
        _time("moment of the reading"),
        _gauge("running", "requests", "requests being computed", "vllm:num_requests_running", high=10_000_000),
        _gauge("waiting", "requests", "requests in the queue", "vllm:num_requests_waiting", high=10_000_000),
        _gauge(
            "kv_used_ppm",
            "ppm",
            "share of KV cache blocks in use",
            "vllm:kv_cache_usage_perc",
            high=1_000_000,
        ),
        _INTERVAL,
        _difference("preemptions", "", "requests thrown out of the batch for lack of KV cache", "vllm:num_preemptions"),
        _difference("prompt_tokens", "tokens", "prompt tokens computed or found in cache", "vllm:prompt_tokens"),
        _difference("prefix_hit_tokens", "tokens", "prompt tokens found in cache", "vllm:prefix_cache_hits"),
        _difference("generation_tokens", "tokens", "tokens generated", "vllm:generation_tokens"),
        _difference("finished_requests", "requests", "requests that ended", "vllm:request_success"),
        *_WHERE,
        *_ENGINE,
        _label("model", "model name as served"),
        _label("model_version", "revision or digest of the weights"),
        _label("precision", "weight precision, such as fp8"),
        _label("engine_kind", "software: vllm, sglang, tgi, trtllm, llamacpp, simulated"),
        _ORIGIN,
    ),
)

EVENTS: tuple[Event, ...] = (LLM_REQUESTS, GPU_SAMPLES, GPU_EVENTS, HOST_SAMPLES, ENGINE_SAMPLES)
BY_TOPIC = {event.topic: event for event in EVENTS}
BY_SCHEMA = {event.schema: event for event in EVENTS}
