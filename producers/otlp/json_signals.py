"""OTLP's signals, and its JSON as such (ids in hex, 64-bit numbers as text: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_MALFORMED = (TypeError, ValueError, AttributeError, OverflowError, RecursionError)


class Unreadable(Exception):
    """The body is not what its content type says."""


def spans_of_json(body: bytes) -> Iterator[Span]:
    """The spans of an ``ExportTraceServiceRequest``. Raises ``Unreadable``."""
    for resource, scope in _scopes(body, "resourceSpans", "scopeSpans"):
        for span in _list(scope, "spans"):
            try:
                yield Span(
                    name=str(span.get("name", "")),
                    trace_id=str(span.get("traceId", "")).lower(),
                    span_id=str(span.get("spanId", "")).lower(),
                    start_ns=int(span.get("startTimeUnixNano", 0)),
                    end_ns=int(span.get("endTimeUnixNano", 0)),
                    attributes=_attributes(span),
                    resource=resource,
                    status=int((span.get("status") or {}).get("code", 0)),
                    events=_events(span),
                )
            except _MALFORMED as error:
                raise Unreadable(f"a span: {error}") from error


def _events(span: Any) -> tuple[tuple[str, int], ...]:
    return tuple(
        (str(each.get("name", "")), int(each.get("timeUnixNano", 0)))
        for each in _list(span, "events")[:EVENTS_READ_MAX]
    )


def points_of_json(body: bytes) -> Iterator[Point]:
    """The sums and histograms of an ``ExportMetricsServiceRequest``; others with no amount; none that say themselves
    that they hold no value. Raises ``Unreadable``."""
    for resource, scope in _scopes(body, "resourceMetrics", "scopeMetrics"):
        for metric in _list(scope, "metrics"):
            for name, kind in _KINDS.items():
                data = metric.get(name)
                if data is not None:
                    yield from _points(metric, kind, data, resource, scope)


_KINDS = {
    "histogram": "histogram",
    "exponentialHistogram": "exponential_histogram",
    "sum": "sum",
    "gauge": "gauge",
    "summary": "summary",
}


def _points(metric: Any, kind: str, data: Any, resource: dict[str, Value], scope: Any) -> Iterator[Point]:
    try:
        name, unit = str(metric.get("name", "")), str(metric.get("unit", ""))
    except _MALFORMED as error:
        raise Unreadable(f"a metric's name: {error}") from error
    for point in _list(data, "dataPoints"):
        try:
            if int(point.get("flags", 0)) & NO_VALUE:
                continue
            amount = point.get("sum", point.get("asDouble", point.get("asInt")))
            yield Point(
                metric=name,
                start_ns=int(point.get("startTimeUnixNano", 0)),
                at_ns=int(point.get("timeUnixNano", 0)),
                temporality=int(data.get("aggregationTemporality", 0)),
                count=int(point.get("count", 0)),
                total=None if amount is None else float(amount),
                attributes=_attributes(point),
                resource=resource,
                kind=kind,
                unit=unit,
                monotonic=data.get("isMonotonic") is True,
                scope=_name_and_version(scope.get("scope") or {}),
            )
        except _MALFORMED as error:
            raise Unreadable(f"a point of {name!r}: {error}") from error


def _name_and_version(scope: Any) -> tuple[str, str]:
    return str(scope.get("name", "")), str(scope.get("version", ""))


def _scopes(body: bytes, resources: str, scopes: str) -> Iterator[tuple[dict[str, Value], Any]]:
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error}") from error
    try:
        for resource in _list(tree, resources):
            attributes = _attributes(resource.get("resource") or {})
            for scope in _list(resource, scopes):
                yield attributes, scope
    except _MALFORMED as error:
        raise Unreadable(f"{resources}: {error}") from error


def _list(tree: Any, name: str) -> list[Any]:
    found = tree.get(name) if isinstance(tree, dict) else None
    if found is None:
        if not isinstance(tree, dict):
            raise Unreadable(f"no object around {name}")
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unreadable(f"{name} is no list of objects")
    return found


def _attributes(tree: Any) -> dict[str, Value]:
    return {str(each["key"]): _value(each.get("value")) for each in _list(tree, "attributes") if "key" in each}


def _value(value: Any) -> Value:
    if not isinstance(value, dict) or not value:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [_value(each) for each in (inner or {}).get("values", [])]
    return inner if kind in ("stringValue", "doubleValue", "boolValue") and not isinstance(inner, dict | list) else None


Value = str | int | float | bool | list["Value"] | None
Attributes = Mapping[str, Value]

EVENTS_READ_MAX = 128
"""Events read of one span, from its first: they show when a stream began, and some write one for every chunk."""
STATUS_ERROR = 2
"""``STATUS_CODE_ERROR`` of OTLP."""
NO_VALUE = 1
"""``DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`` of OTLP: nothing was measured (the series has ended)."""
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
    events: tuple[tuple[str, int], ...] = ()
    """Name and time of each, as far as they are read."""


@dataclass(frozen=True, slots=True)
class Point:
    """A metric's point: ``count`` observations that add up to ``total`` since ``start_ns``."""

    metric: str
    start_ns: int
    at_ns: int
    temporality: int
    count: int
    total: float | None
    attributes: Attributes
    resource: Attributes = field(default_factory=dict)
    kind: str = ""
    """What holds it, by protobuf's name: gauge, sum, histogram, exponential_histogram, summary."""
    unit: str = ""
    monotonic: bool = False
    scope: tuple[str, str] = ("", "")
    """Name and version of the instrumentation that measured it."""
