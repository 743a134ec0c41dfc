"""Grouping sets: by which dimensions each event type is aggregated. One more set is one more line.

``placed_by`` decides the partition of ``window.partials`` a series goes to: rows of sets that hold a host, GPU or
engine follow their ``placement_group`` (what must be joined meets), all others follow their whole series.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Derived:
    """A dimension computed from a number: the label of the first bound that is not below the value."""

    name: str
    topic: str
    field: str
    bounds: tuple[int, ...]
    words: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """``dimensions`` are kept; every other dimension of the event is null in the set's rows."""

    name: str
    topic: str
    dimensions: tuple[str, ...]
    placed_by: str
    """``placement_group`` or ``series``."""


DERIVED = (
    Derived(
        "input_bucket",
        "llm.requests",
        "input_tokens",
        (256, 1_024, 4_096, 16_384, 65_536),
        ("<=256", "<=1k", "<=4k", "<=16k", "<=64k", ">64k"),
        "length of the prompt in tokens, in steps of four",
    ),
)


def _set(name: str, topic: str, own: str, placed_by: str = "placement_group") -> GroupingSet:
    """``own``: dimensions beside cluster and region, with which every set begins."""
    return GroupingSet(name, topic, ("cluster", "region", *own.split()), placed_by)


_PLACED = "host engine_id placement_group"
_FATE = "status error_kind start origin"
_GPU = "host gpu_uuid gpu_model engine_id placement_group"
GROUPING_SETS = (
    _set("service", "llm.requests", f"model model_version precision tenant slo_class input_bucket {_FATE}", "series"),
    _set("engine", "llm.requests", f"{_PLACED} model model_version precision {_FATE}"),
    _set("gpu", "gpu.samples", f"{_GPU} workload origin parent_uuid mig_profile"),
    _set("gpu_event", "gpu.events", f"{_GPU} kind severity origin"),
    _set("host", "host.samples", "host origin"),
    _set("engine_sample", "engine.samples", f"{_PLACED} model model_version precision engine_kind origin"),
    _set("process", "host.processes", f"{_PLACED} process_name workload origin"),
    _set("training", "training.steps", f"{_PLACED} job rank model origin"),
    _set("custom", "custom.metrics", "host service metric unit attributes origin"),
)

NAMED_BY_CLIENTS = frozenset({"model", "model_version", "slo_class"})
"""Dimensions beside the tenant whose values clients can make up; all others come from agents and engines."""

OTHER = "__other__"
"""The value of every dimension of the series that stands for those beyond the limit."""


def sets_of(topic: str) -> tuple[GroupingSet, ...]:
    """The grouping sets of a source topic, in the order in which they are emitted; none: kept raw, not aggregated."""
    return tuple(grouping for grouping in GROUPING_SETS if grouping.topic == topic)


def derived_of(topic: str) -> tuple[Derived, ...]:
    """The derived dimensions of a source topic."""
    return tuple(derived for derived in DERIVED if derived.topic == topic)
