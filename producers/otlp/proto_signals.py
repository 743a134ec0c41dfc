"""OTLP's protobuf as signals. Only imported when OTLP is switched on: it brings protobuf's runtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from producers.otlp.item_bound import METRICS, TRACES, Shape, demand_few
from producers.otlp.json_signals import EVENTS_READ_MAX, NO_VALUE, Point, Span, Unreadable, Value


def spans_of_proto(body: bytes) -> Iterator[Span]:
    """The spans of an ``ExportTraceServiceRequest``. Raises ``Unreadable``."""
    return spans_of_message(_parsed(ExportTraceServiceRequest(), body, TRACES))


def points_of_proto(body: bytes) -> Iterator[Point]:
    """The sums and histograms of an ``ExportMetricsServiceRequest``. Raises ``Unreadable``."""
    return points_of_message(_parsed(ExportMetricsServiceRequest(), body, METRICS))


def spans_of_message(request: Any) -> Iterator[Span]:
    """The spans of a message that was parsed."""
    for resource in request.resource_spans:
        attributes = _attributes(resource.resource)
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=_attributes(span),
                    resource=attributes,
                    status=span.status.code,
                    events=tuple((each.name, each.time_unix_nano) for each in span.events[:EVENTS_READ_MAX]),
                )


def points_of_message(request: Any) -> Iterator[Point]:
    """The points of a message that was parsed, without those that say themselves that they hold no value."""
    for resource in request.resource_metrics:
        attributes = _attributes(resource.resource)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is not None:
                    data = getattr(metric, kind)
                    about = {
                        "metric": metric.name,
                        "temporality": getattr(data, "aggregation_temporality", 0),
                        "kind": kind,
                        "unit": metric.unit,
                        "monotonic": getattr(data, "is_monotonic", False),
                        "resource": attributes,
                        "scope": (scope.scope.name, scope.scope.version),
                    }
                    for point in data.data_points:
                        if not point.flags & NO_VALUE:
                            yield _point(about, point)


def _point(about: dict[str, Any], point: Any) -> Point:
    fields = {field.name for field, _ in point.ListFields()}
    amount = next((getattr(point, each) for each in ("sum", "as_double", "as_int") if each in fields), None)
    return Point(
        **about,
        start_ns=point.start_time_unix_nano,
        at_ns=point.time_unix_nano,
        count=getattr(point, "count", 0),
        total=None if amount is None else float(amount),
        attributes=_attributes(point),
    )


def _parsed(message: Any, body: bytes, shape: Shape) -> Any:
    demand_few(body, shape)
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Unreadable(f"not protobuf: {error}") from error
    return message


def _attributes(message: Any) -> dict[str, Value]:
    return {each.key: _value(each.value) for each in message.attributes}


def _value(value: Any) -> Value:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    found: Value = getattr(value, kind) if kind in ("string_value", "int_value", "double_value", "bool_value") else None
    return found
