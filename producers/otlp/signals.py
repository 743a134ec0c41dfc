"""Spans and metric points of OTLP with plain attributes, decoded from either encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool | list["Value"] | None
Attributes = Mapping[str, Value]

STATUS_ERROR = 2
"""``STATUS_CODE_ERROR`` of OTLP."""
DELTA, CUMULATIVE = 1, 2
"""``AGGREGATION_TEMPORALITY_*`` of OTLP."""


@dataclass(frozen=True, slots=True)
class Span:
    """Times are nanoseconds since the epoch; ids are hex digits."""

    name: str
    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    resource: Attributes = field(default_factory=dict)
    status: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """A histogram's or a sum's point: ``count`` observations that add up to ``total`` since ``start_ns``."""

    metric: str
    start_ns: int
    at_ns: int
    temporality: int
    count: int
    total: float | None
    attributes: Attributes
    resource: Attributes = field(default_factory=dict)
