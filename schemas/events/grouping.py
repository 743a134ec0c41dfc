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

GROUPING_SETS = (
    GroupingSet(
        "service",
        "llm.requests",
        (
            "cluster",
            "region",
            "model",
            "model_version",
            "precision",
            "tenant",
            "slo_class",
            "input_bucket",
            "status",
            "error_kind",
            "start",
            "origin",
        ),
        "series",
    ),
    GroupingSet(
        "engine",
        "llm.requests",
        (
            "cluster",
            "region",
            "host",
            "engine_id",
            "placement_group",
            "model",
            "model_version",
            "precision",
            "status",
            "error_kind",
            "start",
            "origin",
        ),
        "placement_group",
    ),
    GroupingSet(
        "gpu",
        "gpu.samples",
        (
            "cluster",
            "region",
            "host",
            "gpu_uuid",
            "gpu_model",
            "engine_id",
            "placement_group",
            "workload",
            "origin",
            "parent_uuid",
            "mig_profile",
        ),
        "placement_group",
    ),
    GroupingSet(
        "gpu_event",
        "gpu.events",
        (
            "cluster",
            "region",
            "host",
            "gpu_uuid",
            "gpu_model",
            "engine_id",
            "placement_group",
            "kind",
            "severity",
            "origin",
        ),
        "placement_group",
    ),
    GroupingSet("host", "host.samples", ("cluster", "region", "host", "origin"), "placement_group"),
    GroupingSet(
        "engine_sample",
        "engine.samples",
        (
            "cluster",
            "region",
            "host",
            "engine_id",
            "placement_group",
            "model",
            "model_version",
            "precision",
            "engine_kind",
            "origin",
        ),
        "placement_group",
    ),
    GroupingSet(
        "process",
        "host.processes",
        ("cluster", "region", "host", "engine_id", "placement_group", "process_name", "workload", "origin"),
        "placement_group",
    ),
    GroupingSet(
        "training",
        "training.steps",
        ("cluster", "region", "host", "engine_id", "placement_group", "job", "rank", "model", "origin"),
        "placement_group",
    ),
    GroupingSet(
        "custom",
        "custom.metrics",
        ("cluster", "region", "host", "service", "metric", "unit", "attributes", "origin"),
        "placement_group",
    ),
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
