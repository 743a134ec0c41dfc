from __future__ import annotations

from producers.publish.spans import PublishSpans
from producers.spool.frame import Spooled
from runtime.trace_context import Span, batch_context, is_sampled, threshold
from tests.unit.recording_tracer import RecordingTracer
from tests.virtual_clock import VirtualClock

SOURCE = "ab" * 16


def record(seq: int) -> Spooled:
    return Spooled(2, seq, 1_000, "gpu.samples", 3, "gpu.samples/1", "application/x-ndjson", b"key", 40, b"v" * 10)


def test_a_sampled_record_has_a_header_and_once_it_is_acknowledged_a_span() -> None:
    """From its sealing to the broker's word, at the offset it came to stand at."""
    tracer = RecordingTracer()
    spans = PublishSpans(tracer, lambda _boot: SOURCE, VirtualClock(1_250))

    headers = [spans.headers(record(seq)) for seq in (0, 1)]
    spans.published([record(0), record(1)], 70)

    contexts = [batch_context(SOURCE, 2, seq) for seq in (0, 1)]
    assert headers == [[context.header] for context in contexts]
    assert tracer.spans[0] == Span(
        "publish gpu.samples",
        "producer",
        contexts[0],
        None,
        1_000,
        1_250,
        (),
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": "gpu.samples",
            "messaging.destination.partition.id": "3",
            "messaging.message.body.size": 10,
            "fleetpulse.source": SOURCE,
            "fleetpulse.boot": 2,
            "fleetpulse.seq": 0,
            "fleetpulse.events": 40,
            "messaging.kafka.offset": 70,
        },
    )
    assert [(span.context, span.attributes["messaging.kafka.offset"]) for span in tracer.spans if span.attributes] == [
        (contexts[0], 70),
        (contexts[1], 71),
    ]


def test_an_offset_that_nobody_told_is_unknown() -> None:
    """Not -1, not 0."""
    tracer = RecordingTracer()
    spans = PublishSpans(tracer, lambda _boot: SOURCE, VirtualClock(0))

    for first_offset in (None, -1):
        spans.headers(record(0))
        spans.published([record(0)], first_offset)

    assert ["messaging.kafka.offset" in (span.attributes or {}) for span in tracer.spans] == [False, False]


def test_which_records_are_followed_is_decided_by_their_identity() -> None:
    """A re-send says the same; one that is not followed gets neither header nor span."""
    tracer = RecordingTracer(threshold=threshold(0.1))
    spans = PublishSpans(tracer, lambda _boot: SOURCE, VirtualClock(0))
    records = [record(seq) for seq in range(200)]

    first, again = ([spans.headers(each) for each in records] for _ in range(2))
    spans.published(records, 0)

    chosen = [seq for seq in range(200) if is_sampled(batch_context(SOURCE, 2, seq).trace_id, tracer.threshold)]
    assert first == again
    assert 0 < len(chosen) < 100
    assert [seq for seq, headers in enumerate(first) if headers] == chosen
    assert [span.attributes["fleetpulse.seq"] for span in tracer.spans if span.attributes] == chosen
