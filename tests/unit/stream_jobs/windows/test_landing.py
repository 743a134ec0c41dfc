"""The books and the raw tables: what the windows job counts is what the sink lands, event by event."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native, wire
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import CONTENT_TYPES, Identity, encode_headers
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.ddl.stored import LOG_PREFIX, RAW, VERDICT_WORDS
from schemas.events.event_types import BY_TOPIC
from schemas.limits import Limits
from sinks.landing import land_raw
from tests.unit.stream_jobs.windows.cases import BASE_MS, a_request, a_sample, a_step, fold_all

LIMITS = Limits(batch_events_max=4, record_bytes_max=4_096)
LATE_MS, FUTURE_MS = BASE_MS - LIMITS.allowed_lateness_ms - 1, BASE_MS + LIMITS.future_skew_ms + 1
SOURCES = ("0" * 32, "f" * 32)

Events = Counter[tuple[str, int, str]]
"""Events by source, boot and verdict; the source is empty where a record has no identity."""

TIMES = st.sampled_from([BASE_MS, BASE_MS - 1_000, LATE_MS, LATE_MS + 1, FUTURE_MS, FUTURE_MS - 1])
ROWS = {
    "gpu.samples": st.builds(a_sample, TIMES, util_gpu_pct=st.sampled_from([None, 0, 100, 101])),
    "llm.requests": st.builds(a_request, TIMES, status=st.sampled_from(["ok", "error", "no such status"])),
}
ODD_HEADERS: tuple[tuple[str, Any], ...] = (
    ("count", b"5"),
    ("count", b"999999999999999999"),
    ("count", b"3"),
    ("count", None),
    ("source", b"nobody"),
    ("low", b"9.9"),
    ("schema", b"no.such/1"),
    ("schema", None),
    ("content-type", b"text/plain"),
)
ODD_VALUES = (None, b"", b"junk", b"x" * 5_000)


@st.composite
def sent(draw: st.DrawFn, topic: str) -> list[Record]:
    """What a partition may hold: good and bad records of two sources and of third parties, re-sent in any order."""
    originals = []
    for number in range(draw(st.integers(1, 6))):
        record = _record(draw, topic, draw(st.lists(ROWS[topic], min_size=0, max_size=5)), number)
        if draw(st.integers(0, 3)) == 0:
            odd, value = draw(st.sampled_from(ODD_HEADERS))
            headers: Any = tuple((name, value if name == odd else known) for name, known in record.headers)
            record = record._replace(headers=headers)
        if draw(st.integers(0, 4)) == 0:
            record = record._replace(value=draw(st.sampled_from(ODD_VALUES)))
        originals.append(record)
    log = draw(st.lists(st.sampled_from(originals), min_size=1, max_size=12))
    appended = sorted(draw(st.lists(TIMES, min_size=len(log), max_size=len(log))))
    return [
        record._replace(offset=100 + place, timestamp_ms=at)
        for place, (record, at) in enumerate(zip(log, appended, strict=True))
    ]


def _record(draw: st.DrawFn, topic: str, rows: list[dict[str, Any]], number: int) -> Record:
    event = BY_TOPIC[topic]
    content_type = draw(st.sampled_from(CONTENT_TYPES))
    value = wire.encode(content_type, event.fields, block_from_rows(event.fields, rows))
    source = draw(st.sampled_from((*SOURCES, None)))
    if source is None:
        headers: Any = (("schema", event.schema.encode()), ("content-type", content_type.encode()))
    else:
        headers = encode_headers(event.schema, content_type, Identity(source, 2, number, (2, 0)), len(rows))
    return Record(topic, 0, 0, 0, None, value, headers)


def booked(topic: str, records: list[Record]) -> Events:
    """What the windows job books."""
    _, changes = fold_all(a_step(LIMITS), records, topic)
    found: Events = Counter()
    for source, boot, verdict, _, events in changes.books.lines():
        if verdict < len(VERDICT_WORDS):
            found[source, boot, VERDICT_WORDS[verdict]] += events
    return found


def landed(topic: str, records: list[Record], cut: int) -> Events:
    """What the raw table shows when two inserts brought these records: of every event the first copy."""
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for part in (records[cut:], records[:cut]):  # a table has no order of arrival
        for insert in land_raw(topic, part, {topic: "log"}, BASE_MS, LIMITS).inserts if part else ():
            fields = RAW[topic].fields
            for row in rows_of(fields, native.decode(b"".join(insert.pieces), fields)):
                who = (row["source"], row["boot"], row["seq"], row["row"])
                first[who] = min(row, first.get(who, row), key=lambda known: known["offset"])
    found: Events = Counter()
    for row in first.values():
        source = row["source"]
        found["" if source.startswith(LOG_PREFIX) else source, row["boot"], row["verdict"]] += 1
    return found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_booked_is_what_is_landed(data: st.DataObject) -> None:
    """Accepted, late and future events per source equal the raw rows, whatever was sent, refused or sent again."""
    topic = data.draw(st.sampled_from(sorted(ROWS)))
    records = data.draw(sent(topic))

    assert landed(topic, records, data.draw(st.integers(0, len(records)))) == booked(topic, records)


def test_a_record_sent_again_lands_once_with_its_first_verdict() -> None:
    """It was punctual when it was first appended; its second copy is a duplicate to the job and hidden in the table."""
    topic = "gpu.samples"
    event = BY_TOPIC[topic]
    value = native.encode(event.fields, block_from_rows(event.fields, [a_sample(), a_sample(FUTURE_MS)]))
    headers = encode_headers(event.schema, CONTENT_TYPES[0], Identity(SOURCES[0], 1, 0, (1, 0)), 2)
    again = BASE_MS + LIMITS.allowed_lateness_ms + 60_000
    records = [
        Record(topic, 0, offset, at, None, value, headers) for offset, at in enumerate((BASE_MS, again, again + 1))
    ]

    assert landed(topic, records, 1) == {(SOURCES[0], 1, "accepted"): 1, (SOURCES[0], 1, "future"): 1}
    assert booked(topic, records) == landed(topic, records, 1)
    assert len(VERDICT_WORDS) == Verdict.REJECTED
