"""What the tables of events are written with: closed sets of words, makers of fields, fields that many events share.

Labels that no grouping set keeps are attributes (``kept_label``): as dimensions they would be columns of every partial
and rollup row.
"""

from __future__ import annotations

from schemas.fields import Field, Kind, Role

STATUSES = ("ok", "error", "aborted", "timeout", "rejected")
ERROR_KINDS = ("oom", "server", "timeout", "client", "overload", "network", "engine_lost", "other")
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "abort", "error", "other")
STARTS = ("cold", "warm")
ORIGINS = ("measured", "simulated")
WORKLOADS = ("inference", "training", "fine_tuning", "idle", "startup")
APIS = ("chat", "completions", "embeddings", "responses", "messages", "rerank", "score", "audio", "images", "other")
TOKENS_FROM = ("engine", "counted")
REPORTERS = ("proxy", "plugin", "gateway", "sdk", "otlp", "log", "replay", "simulator")
DEVICE_KINDS = ("interface", "disk", "numa_node", "rdma")
ENGINE_EVENT_KINDS = ("registered", "changed", "lost", "found", "marked")
GPU_EVENT_KINDS = ("xid", "ecc", "recovery", "clocks", "gpu_lost", "gpu_found", "gpu_unresponsive", "driver_restart")
SEVERITIES = ("info", "warning", "critical")
ACTIONS = (
    "none", "reset_gpu", "reboot_node", "drain_node", "drain_and_reset", "restart_workload", "check_cooling",
    "check_power", "check_link", "contact_vendor", "watch",
)  # fmt: skip

HOUR_US = 3_600_000_000
COUNT_MAX = 1_000_000_000
AMOUNT_MAX = 2**44
"""Ceiling of byte levels and of differences: half a million of them add up in an Int64 without overflow."""


def event_time(meaning: str) -> Field:
    """The time of the event."""
    return Field("at_ms", Kind.INT64, Role.TIME, "ms", meaning, low=0)


def label(
    name: str, meaning: str, *, allowed: tuple[str, ...] = (), required: bool = False, bounded: bool = False
) -> Field:
    """A dimension; ``bounded``: of few values, or no more than another has."""
    return Field(name, Kind.LABEL, Role.DIMENSION, "", meaning, allowed=allowed, required=required, bounded=bounded)


def duration(name: str, meaning: str, source: str) -> Field:
    """A magnitude of at most an hour that gets a sketch."""
    return Field(name, Kind.OPTIONAL_UINT32, Role.SKETCH, "us", meaning, source, high=HOUR_US)


def gauge(
    name: str,
    unit: str,
    meaning: str,
    source: str,
    *,
    high: int,
    kind: Kind = Kind.OPTIONAL_UINT32,
    distributed: bool = False,
) -> Field:
    """A level; ``distributed``: with the sketch of its values in windows."""
    return Field(name, kind, Role.GAUGE, unit, meaning, source, high=high, distributed=distributed)


def share(name: str, meaning: str, source: str) -> Field:
    """A level in millionths of one."""
    return gauge(name, "ppm", meaning, source, high=1_000_000)


def celsius(name: str, meaning: str, source: str, *, role: Role = Role.GAUGE, low: int = -100) -> Field:
    """A temperature, or a difference of two."""
    return Field(name, Kind.OPTIONAL_INT32, role, "C", meaning, source, low=low, high=300)


def micro_level(name: str, meaning: str, source: str = "") -> Field:
    """A level of any unit and sign, in millionths of it: up to 17.6 million units."""
    return Field(name, Kind.OPTIONAL_INT64, Role.GAUGE, "1e-6", meaning, source, low=-AMOUNT_MAX, high=AMOUNT_MAX)


def byte_level(name: str, meaning: str, source: str) -> Field:
    """A level in bytes."""
    return gauge(name, "bytes", meaning, source, high=AMOUNT_MAX, kind=Kind.OPTIONAL_UINT64)


def difference(name: str, unit: str, meaning: str, source: str) -> Field:
    """An amount since the previous reading."""
    return Field(name, Kind.OPTIONAL_UINT64, Role.DIFFERENCE, unit, meaning, source, high=AMOUNT_MAX)


def error_count(name: str, meaning: str, source: str) -> Field:
    """A count of things that should not happen, since the previous reading."""
    return Field(name, Kind.OPTIONAL_UINT32, Role.DIFFERENCE, "", meaning, source, high=COUNT_MAX)


def kept(
    name: str, unit: str, meaning: str, source: str = "", *, high: int = COUNT_MAX, low: int | None = None
) -> Field:
    """A number of four bytes that is kept with the raw event."""
    return Field(name, Kind.OPTIONAL_UINT32, Role.ATTRIBUTE, unit, meaning, source, low=low, high=high)


def kept_us(name: str, meaning: str, source: str = "") -> Field:
    """A time of at most an hour that is kept with the raw event."""
    return kept(name, "us", meaning, source, high=HOUR_US)


def kept_bytes(name: str, meaning: str, source: str) -> Field:
    """Bytes that are kept with the raw event."""
    return Field(name, Kind.OPTIONAL_UINT64, Role.ATTRIBUTE, "bytes", meaning, source, high=AMOUNT_MAX)


def kept_count(name: str, meaning: str, source: str = "") -> Field:
    """A large count that is kept with the raw event."""
    return Field(name, Kind.OPTIONAL_UINT64, Role.ATTRIBUTE, "", meaning, source, high=AMOUNT_MAX)


def kept_label(name: str, meaning: str, source: str = "", *, allowed: tuple[str, ...] = ()) -> Field:
    """A label that is kept with the raw event."""
    return Field(name, Kind.LABEL, Role.ATTRIBUTE, "", meaning, source, allowed=allowed)


def tokens(name: str, meaning: str) -> Field:
    """Tokens of a request."""
    return Field(name, Kind.OPTIONAL_UINT32, Role.DIFFERENCE, "tokens", meaning, high=100_000_000)


def text(name: str, meaning: str) -> Field:
    """A text that may be missing; it is kept with the raw event."""
    return Field(name, Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", meaning)


WHERE = (
    label("cluster", "cluster the host belongs to", bounded=True),
    label("region", "region of the cluster", bounded=True),
    label("host", "host name of the edge that measured", required=True),
)
ENGINE = (
    label("engine_id", "serving engine, unique in the deployment"),
    label("placement_group", "engines that share any GPU; else the host", bounded=True),
)
PODS = (
    Field("pod_name", Kind.LABEL, Role.ATTRIBUTE, "", "name of the Kubernetes pod it runs in", "Kubernetes"),
    Field("pod_namespace", Kind.LABEL, Role.ATTRIBUTE, "", "namespace of that pod", "Kubernetes"),
)
ORIGIN = label("origin", "measured on real equipment or simulated", allowed=ORIGINS, required=True)
_COVERED = "time the differences of this sample cover"
INTERVAL = Field("interval_ms", Kind.OPTIONAL_UINT32, Role.DIFFERENCE, "ms", _COVERED, high=3_600_000)
