"""Items of an OTLP body are counted on its bytes: what would be a thousand times as much once read is refused."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from producers.otlp import item_bound
from producers.otlp.item_bound import ITEMS_MAX, METRICS, TRACES, demand_few, demand_few_in_json
from producers.otlp.json_signals import Unreadable
from producers.otlp.proto_signals import points_of_proto, spans_of_proto
from runtime.protobuf_wire import field

BODY_BYTES = 4 * 1024 * 1024


def spans(inner: bytes) -> bytes:
    return field(1, field(2, inner))


def points(inner: bytes) -> bytes:
    return field(1, field(2, field(2, inner)))


EMPTY = {
    "spans": (TRACES, spans(field(2, b"") * (BODY_BYTES // 2))),
    "attributes of a span": (TRACES, spans(field(2, field(9, b"") * (BODY_BYTES // 2)))),
    "events of a span": (TRACES, spans(field(2, field(11, b"") * (BODY_BYTES // 2)))),
    "items of a list": (TRACES, spans(field(2, field(9, field(2, field(5, field(1, b"") * (BODY_BYTES // 2))))))),
    "resources": (TRACES, field(1, b"") * (BODY_BYTES // 2)),
    "metrics": (METRICS, points(b"")[:0] + field(1, field(2, field(2, b"") * (BODY_BYTES // 2)))),
    "points of a gauge": (METRICS, points(field(5, field(1, b"") * (BODY_BYTES // 2)))),
    "points of a histogram": (METRICS, points(field(9, field(1, b"") * (BODY_BYTES // 2)))),
    "exemplars": (METRICS, points(field(7, field(1, field(5, b"") * (BODY_BYTES // 2))))),
}


@pytest.mark.parametrize(("shape", "body"), EMPTY.values(), ids=EMPTY)
def test_two_million_empty_items_are_refused_at_once(shape: Any, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """They fit 4 KiB of gzip; they are counted up to the bound, and no further."""
    read, varint = 0, item_bound._varint

    def counted(view: Any, at: int, end: int) -> tuple[int, int]:
        nonlocal read
        read += 1
        return varint(view, at, end)

    monkeypatch.setattr(item_bound, "_varint", counted)
    with pytest.raises(Unreadable, match="smaller batches"):
        demand_few(body, shape)

    assert read <= 2 * (ITEMS_MAX + 10)  # key and size of each item, and of the messages around them
    assert len(gzip.compress(body)) < 10_000


def nested(lists: int, value: bytes = b"") -> bytes:
    """A span with an attribute: a list in a list in a list ..., with ``value`` in the innermost."""
    value = field(5, value)
    for _ in range(lists - 1):
        value = field(5, field(1, value))
    return spans(field(2, field(9, field(2, value))))


@pytest.mark.parametrize("lists", [1, 13, 14, 15, 47, 48, 49, 500])
def test_empty_items_are_refused_however_deep_they_lie(lists: int) -> None:
    """Nothing that is read is passed over, and what is not counted is not read."""
    with pytest.raises(Unreadable):
        demand_few(nested(lists, field(1, b"") * (ITEMS_MAX + 50_000)), TRACES)


@pytest.mark.parametrize("lists", range(44, 52))
def test_what_protobuf_reads_may_be_as_deep(lists: int) -> None:
    """And no deeper."""
    body = nested(lists)
    try:
        ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        with pytest.raises(Unreadable, match="inside one another"):
            demand_few(body, TRACES)
    else:
        demand_few(body, TRACES)


def test_on_the_bound_a_body_is_read() -> None:
    """One attribute more is too many."""
    most = ITEMS_MAX - 30  # a resource, a scope and a span
    body = spans(field(2, field(9, b"") * most))

    demand_few(body, TRACES)
    with pytest.raises(Unreadable):
        demand_few(spans(field(2, field(9, b"") * (most + 1))), TRACES)


def test_what_is_counted_is_what_protobuf_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real requests, with everything in them that repeats."""
    traces, metrics = ExportTraceServiceRequest(), ExportMetricsServiceRequest()
    span = traces.resource_spans.add().scope_spans.add().spans.add(name="s", start_time_unix_nano=5, trace_id=b"t" * 16)
    span.attributes.add(key="a").value.array_value.values.add(string_value="x")
    span.events.add(name="e").attributes.add(key="b").value.int_value = 5
    span.links.add(trace_id=b"t" * 16)
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    point = metric.histogram.data_points.add(count=3, sum=1.5, bucket_counts=[1, 2], explicit_bounds=[0.5])
    point.attributes.add(key="c").value.double_value = 0.5

    for body, shape, items in ((traces, TRACES, 35), (metrics, METRICS, 41)):
        monkeypatch.setattr(item_bound, "ITEMS_MAX", items)
        demand_few(body.SerializeToString(), shape)
        monkeypatch.setattr(item_bound, "ITEMS_MAX", items - 1)
        with pytest.raises(Unreadable):
            demand_few(body.SerializeToString(), shape)


@pytest.mark.parametrize("read", [spans_of_proto, points_of_proto])
@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\xff", b"\xff" * 20, b"\x0b", b"\x08"])
def test_what_is_no_protobuf_is_unreadable(read: Any, body: bytes) -> None:
    """Counting meets it first."""
    with pytest.raises(Unreadable):
        read(body)


def test_json_is_bounded_too() -> None:
    """By what opens objects and lists, and by commas."""
    for piece in (b"{},", b"[],", b"0,"):
        with pytest.raises(Unreadable):
            demand_few_in_json(b"[" + piece * (BODY_BYTES // len(piece)) + b"0]")
    demand_few_in_json(b'{"resourceSpans":[]}')
