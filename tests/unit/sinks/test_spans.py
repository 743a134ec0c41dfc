from __future__ import annotations

from runtime.trace_context import LINKS_MAX, Span, TraceContext, batch_context, trace_of
from schemas.contract.headers import Identity
from schemas.contract.record import Record
from schemas.contract.topics import ALERTS_TOPIC
from schemas.limits import DEFAULT_LIMITS
from sinks.landing import Landing, land_derived, land_raw, together
from sinks.spans import end_landed, followed
from tests.unit.recording_tracer import RecordingTracer
from tests.unit.sinks.landing_cases import LOG_IDS, NOW_MS, partials, requests

SPOOL = "ab" * 16


def traced(record: Record, context: TraceContext) -> Record:
    return record._replace(headers=(*record.headers, context.header))


def told(records: list[Record], landing: Landing) -> RecordingTracer:
    tracer = RecordingTracer()
    end_landed(tracer, "d-raw", records, landing, NOW_MS + 900)
    return tracer


def test_a_batch_of_the_edge_ends_in_its_raw_table() -> None:
    """From its appending to the database's word, in the trace that its sending began, with all that finds its rows."""
    sent_by = batch_context(SPOOL, 4, 9)
    records = [requests([NOW_MS], 5), traced(requests([NOW_MS, NOW_MS], 6, Identity(SPOOL, 4, 9, (4, 9)), 2), sent_by)]

    tracer = told(records, land_raw("llm.requests", records, LOG_IDS, NOW_MS, DEFAULT_LIMITS))

    (span,) = tracer.spans
    assert span == Span(
        "land llm_requests",
        "consumer",
        span.context,
        sent_by,
        NOW_MS,
        NOW_MS + 900,
        (sent_by,),
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "land",
            "messaging.operation.type": "process",
            "messaging.destination.name": "llm.requests",
            "messaging.destination.partition.id": "2",
            "messaging.kafka.offset": 6,
            "messaging.consumer.group.name": "d-raw",
            "db.system.name": "clickhouse",
            "db.operation.name": "INSERT",
            "db.collection.name": "llm_requests",
            "db.operation.batch.size": 3,
            "fleetpulse.source": SPOOL,
            "fleetpulse.boot": "4",
            "fleetpulse.seq": "9",
        },
    )
    assert span.context.trace_id == sent_by.trace_id
    assert span.context.span_id != sent_by.span_id


def test_what_a_job_told_ends_in_the_table_of_its_schema() -> None:
    """Records of one topic go to several tables; progress without rows goes nowhere."""
    commits = [trace_of(number) for number in range(3)]
    records = [
        traced(partials([{"window_ms": NOW_MS, "grouping": "service"}], 1), commits[0]),
        traced(partials([{"window_ms": NOW_MS, "grouping": "gpu"}], 2, "gpu.samples"), commits[1]),
        traced(partials([], 3), commits[2]),
    ]

    tracer = told(records, land_derived(records, LOG_IDS, NOW_MS, DEFAULT_LIMITS))

    assert [(span.name, span.parent) for span in tracer.spans] == [
        ("land llm_requests_partials", commits[0]),
        ("land gpu_samples_partials", commits[1]),
    ]


def test_an_insert_tells_of_so_many_batches_and_counts_the_rest() -> None:
    """Table by table."""
    records = [traced(requests([NOW_MS], seq), batch_context(SPOOL, 1, seq)) for seq in range(LINKS_MAX + 3)]

    tracer = told(records, land_raw("llm.requests", records, LOG_IDS, NOW_MS, DEFAULT_LIMITS))

    assert (len(tracer.spans), tracer.dropped) == (LINKS_MAX, 3)


def test_what_no_insert_holds_has_not_landed() -> None:
    """Everything of the table was rejected, or came past its time."""
    assert told([traced(requests([NOW_MS], 0), trace_of(1))], Landing()).spans == []


def test_records_of_strangers_are_passed_over() -> None:
    """No context, a malformed one, a schema nobody knows, a topic that is not the sink's; an alert has its table."""
    bad = requests([NOW_MS], 0)
    bad = bad._replace(headers=(*bad.headers, ("traceparent", b"00-zz")))
    context = trace_of(1)
    odd = Record("books", 0, 0, NOW_MS, None, b"x", (("schema", b"\xff"), context.header))
    none = odd._replace(headers=(("schema", None), context.header))  # type: ignore[arg-type]
    alert = Record(ALERTS_TOPIC, 0, 0, NOW_MS, b"k", b"{}", (context.header,))

    found = followed([requests([NOW_MS], 0), bad, odd, none, odd._replace(topic="else"), alert])

    assert [(one.record, one.table) for one in found] == [(alert, "alerts")]
    assert told([bad, odd], together([])).spans == []
