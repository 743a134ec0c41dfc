from __future__ import annotations

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.sdk.resources import Resource

from runtime.trace_context import Span, TraceContext
from runtime.trace_export import readable_span

TRACE, OTHER = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0xAF7651916CD43DD8448EB211C80319C0


def encoded(span: Span) -> ProtoSpan:
    return encode_spans([readable_span(span, Resource({}))]).resource_spans[0].scope_spans[0].spans[0]


def test_a_span_goes_over_the_wire_as_it_is() -> None:
    """Ids, parent, links, kind, times in nanoseconds, attributes with their types."""
    parent, link = TraceContext(TRACE, 1), TraceContext(OTHER, 2)
    about = {"messaging.system": "kafka", "messaging.kafka.offset": 2**40}
    span = Span("fold gpu.samples", "consumer", TraceContext(TRACE, 3), parent, 1_000, 1_250, (link,), about)

    found = encoded(span)

    assert (found.name, found.kind) == ("fold gpu.samples", ProtoSpan.SPAN_KIND_CONSUMER)
    assert (found.trace_id, found.span_id) == (TRACE.to_bytes(16), (3).to_bytes(8))
    assert found.parent_span_id == (1).to_bytes(8)
    assert [(one.trace_id, one.span_id) for one in found.links] == [(OTHER.to_bytes(16), (2).to_bytes(8))]
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (1_000_000_000, 1_250_000_000)
    assert {one.key: one.value.string_value or one.value.int_value for one in found.attributes} == about


def test_an_end_before_its_start_takes_no_time() -> None:
    """The broker's clock may be ahead of ours."""
    found = encoded(Span("publish t", "producer", TraceContext(TRACE, 3), None, 1_000, 990))

    assert (found.parent_span_id, found.kind) == (b"", ProtoSpan.SPAN_KIND_PRODUCER)
    assert found.end_time_unix_nano == found.start_time_unix_nano == 1_000_000_000
