"""Admission: each event gets one verdict, each refusal its reason, and nothing that anybody sends makes it raise.

Covers schemas.contract.admission, schemas.codec.faults and schemas.codec.wire.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import faults, native, ndjson, ndjson_walk, wire
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.admission import Admitted, Reject, admit, read_headers
from schemas.contract.headers import (
    CONTENT_TYPES,
    JSON_COLUMNS,
    NATIVE,
    NDJSON,
    Identity,
    RecordHeaders,
    encode_headers,
)
from schemas.contract.record import Headers, Record
from schemas.contract.verdicts import REASONS, Verdict
from schemas.errors import RejectedError
from schemas.events.event_types import EVENTS, GPU_SAMPLES, LLM_REQUESTS
from schemas.fields import Event, Field, Kind, Role
from schemas.limits import DEFAULT_LIMITS, Limits
from tests.strategies.blocks import valid_row, valid_rows

NOW_MS = 1_700_000_000_000
IDENTITY = Identity("9f2c" * 8, 3, 1041, (3, 1040))
EVENT = LLM_REQUESTS
BY_TOPIC = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic)
BY_FORMAT = pytest.mark.parametrize("content_type", CONTENT_TYPES)


def record(
    value: bytes | None,
    *,
    event: Event = EVENT,
    content_type: str = NATIVE,
    count: int | None = None,
    headers: Headers | None = None,
    appended_ms: int = NOW_MS,
) -> Record:
    if headers is None and count is None:
        headers = (("schema", event.schema.encode()), ("content-type", content_type.encode()))
    elif headers is None:
        headers = encode_headers(event.schema, content_type, IDENTITY, count or 0)
    return Record(event.topic, 0, 7, appended_ms, None, value, headers)


def record_of(rows: list[dict[str, Any]], event: Event = EVENT, content_type: str = NATIVE) -> Record:
    value = wire.encode(content_type, event.fields, block_from_rows(event.fields, rows))
    return record(value, event=event, content_type=content_type, count=len(rows))


def rows(count: int, seed: int = 1, event: Event = EVENT) -> list[dict[str, Any]]:
    return valid_rows(event.fields, count, seed, NOW_MS)


def run(*records: Record, event: Event = EVENT, limits: Limits = DEFAULT_LIMITS, texts: bool = True) -> Admitted:
    headers = [found for found in read_headers(event, records, limits) if isinstance(found, RecordHeaders)]
    assert len(headers) == len(records)
    return admit(event, records, headers, limits, texts=texts)


def whole(admitted: Admitted) -> list[tuple[int, str]]:
    """The only thing that happened: records refused as a whole."""
    assert admitted.block.rows == 0
    assert all(reject.row is None for reject in admitted.rejects)
    return [(reject.events, reject.reason) for reject in admitted.rejects]


@BY_TOPIC
@BY_FORMAT
def test_valid_events_are_accepted_in_every_format(event: Event, content_type: str) -> None:
    """All events of all records, in their order, unchanged."""
    batches = [rows(count, count, event) for count in (1, 8, 40)]

    admitted = run(*(record_of(batch, event, content_type) for batch in batches), event=event)

    assert rows_of(event.fields, admitted.block) == [row for batch in batches for row in batch]
    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED] * 49
    assert admitted.record_of.tolist() == [0] + [1] * 8 + [2] * 40
    assert admitted.row_of.tolist() == [*range(1), *range(8), *range(40)]
    assert admitted.rejects == []


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.data())
def test_any_cut_of_the_records_gives_the_same_events(seed: int, data: st.DataObject) -> None:
    """Admitting records together or apart makes no difference, whatever is wrong with them."""
    records = [_damaged(random.Random(seed + number)) for number in range(6)]
    cut = data.draw(st.integers(0, 6))

    together = run(*records)
    apart = [run(*records[:cut]), run(*records[cut:])]

    assert rows_of(EVENT.fields, together.block) == [r for part in apart for r in rows_of(EVENT.fields, part.block)]
    assert together.verdicts.tolist() == [verdict for part in apart for verdict in part.verdicts.tolist()]
    assert [_shown(reject, 0) for reject in together.rejects] == [
        _shown(reject, offset) for part, offset in zip(apart, (0, cut), strict=True) for reject in part.rejects
    ]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_json_lines_are_judged_as_the_careful_reader_judges_them(seed: int) -> None:
    """Rows, verdicts, reasons, details and what is kept: compiled or not, whatever is wrong with the lines."""
    rng = random.Random(seed)
    records = [_damaged_lines(rng) for _ in range(4)]

    compiled = run(*records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndjson_walk, "translate", lambda fields, values, rows_max: [b""] * len(values))
        careful = run(*records)

    assert rows_of(EVENT.fields, compiled.block) == rows_of(EVENT.fields, careful.block)
    assert compiled.verdicts.tolist() == careful.verdicts.tolist()
    assert compiled.rejects == careful.rejects


def _damaged_lines(rng: random.Random) -> Record:
    """A record of JSON lines: values that may not stand there, and bytes that were changed."""
    batch = rows(rng.randint(1, 6), rng.randrange(2**32))
    lines = [{name: value for name, value in row.items() if rng.random() < 0.98} for row in batch]
    for line in rng.sample(lines, rng.randint(0, len(lines))):
        name = rng.choice([field.name for field in EVENT.fields])
        line[name] = rng.choice([None, True, -1, 0, 3.0, 2**32, 2**63, 10**30, "", "é" * 200, [], {}, {"5": 1, "1": 0}])
    value = bytearray(b"\n".join(json.dumps(line).encode() for line in lines))
    if rng.random() < 0.5:
        value[rng.randrange(len(value))] = rng.randrange(256)
    return record(bytes(value), content_type=NDJSON, count=len(lines))


def _shown(reject: Reject, offset: int) -> tuple[object, ...]:
    return (reject.record + offset, reject.row, reject.events, reject.reason, reject.detail, reject.kept)


def _damaged(rng: random.Random) -> Record:
    """A record of some format in which something may be wrong."""
    batch = rows(rng.randint(1, 4), rng.randrange(2**32))
    for row in batch:
        row["at_ms"] += rng.choice([0, 0, 0, 10**10, -(10**10)])
        row[rng.choice(["ttft_us", "http_status"])] = rng.choice([None, 2**32 - 1, 200])
    content_type = rng.choice(CONTENT_TYPES)
    taken = record_of(batch, EVENT, content_type)
    value = bytearray(taken.value or b"")
    if rng.random() < 0.5:
        value[rng.randrange(len(value))] = rng.randrange(256)
    return taken._replace(value=bytes(value))


def test_texts_are_judged_also_when_they_are_left_out() -> None:
    """Verdicts and rejects do not depend on whether texts are wanted."""
    batch = rows(3)
    batch[1]["request_id"] = "r" * 4_097

    with_texts, without = run(record_of(batch)), run(record_of(batch), texts=False)

    assert with_texts.rejects == without.rejects
    assert [reject.reason for reject in without.rejects] == ["too_long"]
    assert "request_id" not in without.block.columns
    assert "request_id" in with_texts.block.columns


TIMES = [
    ("on the horizon", -DEFAULT_LIMITS.allowed_lateness_ms, Verdict.ACCEPTED),
    ("one before the horizon", -DEFAULT_LIMITS.allowed_lateness_ms - 1, Verdict.LATE),
    ("at append time", 0, Verdict.ACCEPTED),
    ("on the allowed skew", DEFAULT_LIMITS.future_skew_ms, Verdict.ACCEPTED),
    ("one beyond the skew", DEFAULT_LIMITS.future_skew_ms + 1, Verdict.FUTURE),
    ("ten years ahead", 10 * 365 * 86_400_000, Verdict.FUTURE),
    ("at the end of time", 2**63 - 1 - NOW_MS, Verdict.FUTURE),
    ("at the epoch", -NOW_MS, Verdict.LATE),
]


@pytest.mark.parametrize(("offset_ms", "verdict"), [case[1:] for case in TIMES], ids=[case[0] for case in TIMES])
def test_late_and_future_are_told_from_the_append_time(offset_ms: int, verdict: Verdict) -> None:
    """Bounds belong to the accepted side; each record is judged by its own append time."""
    batch = [valid_row(EVENT.fields, random.Random(1), NOW_MS) | {"at_ms": NOW_MS + offset_ms}]
    other = record_of([valid_row(EVENT.fields, random.Random(1), 5) | {"at_ms": 5}])._replace(timestamp_ms=5)

    admitted = run(other, record_of(batch), other)

    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED, verdict, Verdict.ACCEPTED]
    assert admitted.rejects == []


def test_a_refused_event_is_neither_late_nor_future() -> None:
    """Rejected comes before late and future."""
    batch = [row | {"at_ms": 5, "status": "fine"} for row in rows(1)]

    assert run(record_of(batch)).verdicts.tolist() == [Verdict.REJECTED]


@BY_FORMAT
def test_one_bad_event_costs_only_itself(content_type: str) -> None:
    """Its neighbours are accepted; reason, row, and the event as sent are kept, in every format."""
    batch = rows(5)
    batch[2]["ttft_us"] = 3_600_000_001

    admitted = run(record_of(rows(2)), record_of(batch, content_type=content_type))

    assert admitted.verdicts.tolist() == [0, 0, 0, 0, Verdict.REJECTED, 0, 0]
    (reject,) = admitted.rejects
    assert (reject.record, reject.row, reject.events, reject.reason) == (1, 2, 1, "out_of_range")
    assert reject.detail == "ttft_us = 3600000001: must lie in [the least of its kind, 3600000000]"
    assert orjson.loads(reject.kept)["request_id"] == batch[2]["request_id"]
    assert reject.bytes_total == len(reject.kept)


def test_what_is_kept_of_a_refusal_is_cut_at_the_limit() -> None:
    """The size before the cut is told."""
    limits = Limits(rejected_bytes_kept_max=10)
    batch = [row | {"status": "fine"} for row in rows(1)]

    (of_row,) = run(record_of(batch), limits=limits).rejects
    (of_record,) = run(record(b"x" * 100), limits=limits).rejects

    assert (len(of_row.kept), of_record.kept, of_record.bytes_total) == (10, b"x" * 10, 100)
    assert of_row.bytes_total > 100


LABELS = [
    ("empty where required", "host", "", "missing_field"),
    ("null where required", "host", None, "missing_field"),
    ("not in the closed set", "status", "fine", "not_allowed"),
    ("as long as may be", "tenant", "t" * 256, None),
    ("too long", "tenant", "t" * 257, "too_long"),
    ("too long in bytes", "tenant", "ü" * 129, "too_long"),
    ("no UTF-8", "tenant", b"\xff", "wrong_type"),
    ("null in a closed set", "error_kind", None, None),
    ("empty in a closed set", "error_kind", "", "not_allowed"),
    ("empty where not required", "tenant", "", None),
]


@pytest.mark.parametrize(("name", "word", "reason"), [case[1:] for case in LABELS], ids=[case[0] for case in LABELS])
def test_labels_are_judged_by_the_word(name: str, word: str | bytes | None, reason: str | None) -> None:
    """Length, closed set, need and encoding; a refused word does not enter the block."""
    batch = [*rows(1), rows(1)[0] | {name: word}]

    admitted = run(record_of(batch))

    assert [(reject.row, reject.reason) for reject in admitted.rejects] == ([(1, reason)] if reason else [])
    if reason:
        assert rows_of(EVENT.fields, admitted.block)[1][name] in (None, "")


def test_the_first_field_at_fault_gives_the_reason() -> None:
    """In wire order, whether the codec or the judgement found it."""
    line = orjson.dumps(rows(1)[0] | {"ttft_us": -1, "input_tokens": "x", "status": "fine", "itl_bins": {}})
    other = orjson.dumps(rows(1)[0] | {"http_status": 99, "model": 5, "itl_bins": {}})

    admitted = run(record(line + b"\n" + other, content_type=NDJSON))

    assert [reject.detail.split()[0] for reject in admitted.rejects] == ["ttft_us", "http_status"]


def test_a_broken_line_counts_as_an_event() -> None:
    """The count header covers it, and only it is refused."""
    lines = [orjson.dumps(rows(1)[0] | {"itl_bins": {}}), b'{"at_ms": 17', orjson.dumps(rows(1)[0] | {"itl_bins": {}})]

    admitted = run(record(b"\n".join(lines), content_type=NDJSON, count=3))

    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED, Verdict.REJECTED, Verdict.ACCEPTED]
    assert [(reject.row, reject.reason, reject.kept) for reject in admitted.rejects] == [(1, "syntax", lines[1])]


def of_schema(schema: str) -> Headers:
    return encode_headers(schema, NATIVE, IDENTITY, 2)


SMALL = Limits(batch_events_max=3, record_bytes_max=3_000)
THREE = [row | {"request_id": "r", "trace_id": None, "itl_bins": {}} for row in rows(3)]
NOTHING = native.encode(EVENT.fields, block_from_rows(EVENT.fields, []))
MIXED = b'{"at_ms": [1, 2], "host": ["a"]}'
WHOLE = [
    ("a tombstone", record(None, count=3), 3, "no_value"),
    ("a tombstone without identity", record(None), 1, "no_value"),
    ("too large", record(b"x" * 3_001, count=3), 3, "too_large"),
    ("an unknown version", record(b"", headers=of_schema("llm.requests/2")), 2, "unknown_schema"),
    ("another topic's schema", record(b"", headers=of_schema("gpu.samples/1")), 2, "unknown_schema"),
    ("an unknown format", record(b"", content_type="application/avro", count=2), 2, "unknown_format"),
    ("no bytes as Native", record(b"", count=2), 2, "syntax"),
    ("no bytes as lines", record(b"", content_type=NDJSON, count=2), 2, "empty"),
    ("no bytes as columns", record(b"", content_type=JSON_COLUMNS, count=2), 2, "syntax"),
    ("nonsense as Native", record(b"\1\2\3", count=2), 2, "syntax"),
    ("nonsense as columns", record(b"{", content_type=JSON_COLUMNS, count=2), 2, "syntax"),
    ("no object of columns", record(b"[]", content_type=JSON_COLUMNS, count=2), 2, "wrong_type"),
    ("mixed column lengths", record(MIXED, content_type=JSON_COLUMNS), 1, "column_lengths"),
    ("an empty block", record(NOTHING, count=2), 2, "empty"),
    ("an empty block that says so", record(NOTHING, count=0), 0, "empty"),
    ("an empty block without count", record(NOTHING), 1, "empty"),
    ("fewer events than announced", record_of(THREE[:1])._replace(headers=record(b"", count=2).headers), 2, "count"),
    ("more events than announced", record_of(THREE[:3])._replace(headers=record(b"", count=2).headers), 2, "count"),
    ("too many lines", record(b"{}\n" * 4, content_type=NDJSON), 1, "too_many"),
    ("too many columns", record(b'{"at_ms":[1,2,3,4]}', content_type=JSON_COLUMNS), 1, "too_many"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "events", "reason"), [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE])
def test_a_record_refused_as_a_whole_leaves_no_rows(bad: Record, events: int, reason: str) -> None:
    """It stands for the events its header announced, else for one; its neighbours are accepted."""
    assert whole(run(bad, limits=SMALL)) == [(events, reason)]

    good = record_of(THREE[:1])
    admitted = run(good, bad, good, limits=SMALL)
    assert admitted.record_of.tolist() == [0, 2]
    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED] * 2
    assert [(reject.record, reject.row, reject.reason) for reject in admitted.rejects] == [(1, None, reason)]


def test_a_native_block_of_too_many_events_is_refused() -> None:
    """One above the limit is too many, the limit is not."""
    limits = Limits(batch_events_max=3)
    value = [native.encode(EVENT.fields, block_from_rows(EVENT.fields, rows(count))) for count in (3, 4)]

    assert run(record(value[0]), limits=limits).block.rows == 3
    assert whole(run(record(value[1]), limits=limits)) == [(1, "too_many")]


def test_an_announced_bomb_is_refused_by_its_bytes() -> None:
    """A block that announces a thousand rows and brings none costs nothing."""
    bomb = native.varint(len(EVENT.fields)) + native.varint(1_000) + b"".join(map(native.column_prefix, EVENT.fields))

    assert whole(run(record(bomb, count=1_000))) == [(1_000, "syntax")]


def test_fifty_megabytes_are_refused_unread() -> None:
    """The size alone decides."""
    (reject,) = run(record(bytes(50 * 1024 * 1024))).rejects

    assert (reject.reason, reject.bytes_total) == ("too_large", 50 * 1024 * 1024)
    assert len(reject.kept) == DEFAULT_LIMITS.rejected_bytes_kept_max


def test_a_missing_required_column_refuses_the_native_record() -> None:
    """There is no row without the fault."""
    fields = [field for field in EVENT.fields if field.name != "model"]

    admitted = run(record(native.encode(fields, block_from_rows(fields, rows(2))), count=2))

    assert whole(admitted) == [(2, "missing_field")]


def test_unusual_native_blocks_are_judged_like_canonical_ones() -> None:
    """Other orders, widths and unknown columns make no difference to the verdicts."""
    batch = rows(4)
    batch[3]["e2e_us"] = 2**32 - 1
    wide = [_wider(field) for field in reversed(EVENT.fields)]
    wide.append(Field("news", Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", ""))

    unusual = run(record(native.encode(wide, block_from_rows(wide, batch)), count=4))
    canonical = run(record_of(batch))

    assert rows_of(EVENT.fields, unusual.block) == rows_of(EVENT.fields, canonical.block)
    assert unusual.verdicts.tolist() == canonical.verdicts.tolist() == [0, 0, 0, Verdict.REJECTED]
    assert [reject.detail for reject in unusual.rejects] == [reject.detail for reject in canonical.rejects]


def _wider(field: Field) -> Field:
    kind = Kind.OPTIONAL_INT64 if field.kind is Kind.OPTIONAL_UINT32 else field.kind
    return Field(field.name, kind, field.role, field.unit, field.meaning)


def test_the_number_of_a_row_survives_a_refusal_before_it() -> None:
    """Problems of the tolerant readers meet the right rows when other records are refused."""
    lines = orjson.dumps(rows(1)[0] | {"itl_bins": {}}) + b'\n{"at_ms": "x"}'
    odd = record(lines, content_type=NDJSON, count=2)

    admitted = run(odd, record(b"", count=1), record(lines, content_type=NDJSON, count=3), record_of(rows(2)), odd)

    assert admitted.verdicts.tolist() == [0, 3, 0, 0, 0, 3]
    assert [(reject.record, reject.row, reject.reason) for reject in admitted.rejects] == [
        (0, 1, "wrong_type"),
        (1, None, "syntax"),
        (2, None, "count"),
        (4, 1, "wrong_type"),
    ]


def test_nothing_in_gives_nothing_out() -> None:
    """No record is no event, with all columns there."""
    admitted = run()

    assert (admitted.block.rows, len(admitted.verdicts), admitted.rejects) == (0, 0, [])
    assert set(admitted.block.columns) == {field.name for field in EVENT.fields}
    assert "request_id" not in run(texts=False).block.columns


GOOD = encode_headers(EVENT.schema, NATIVE, IDENTITY, 2)
BAD_HEADERS = [
    ("none", ()),
    ("no schema", GOOD[1:]),
    ("no content-type", (GOOD[0], *GOOD[2:])),
    ("a source without count", GOOD[:-1]),
    ("a count that is no number", (*GOOD[:-1], ("count", b"two"))),
    ("a negative count", (*GOOD[:-1], ("count", b"-2"))),
    ("a count above the limit", (*GOOD[:-1], ("count", b"1001"))),
    ("a header twice", (*GOOD, GOOD[0])),
    ("a source that is no spool id", (*GOOD[:2], ("source", b"me"), *GOOD[3:])),
    ("a header without value", (*GOOD[:2], ("source", None), *GOOD[3:])),
    ("a low above the record itself", (*GOOD[:5], ("low", b"3.1042"), GOOD[6])),
    ("a schema of a thousand letters", (("schema", b"s" * 1_000), *GOOD[1:])),
    ("a schema that is no ASCII", (("schema", b"\xff"), *GOOD[1:])),
]


@pytest.mark.parametrize("headers", [case[1] for case in BAD_HEADERS], ids=[case[0] for case in BAD_HEADERS])
def test_a_record_whose_headers_cannot_be_read_counts_as_one_event(headers: Headers) -> None:
    """It has no identity: whatever it says of itself is void."""
    (reject,) = read_headers(EVENT, [record(b"value", headers=headers)], DEFAULT_LIMITS)

    assert isinstance(reject, Reject)
    assert (reject.record, reject.row, reject.events, reject.reason) == (0, None, 1, "headers")
    assert reject.kept == b"value"


def test_identity_is_read_before_anything_else_is_judged() -> None:
    """A record of an unknown schema and format keeps its identity, so that its re-sends are recognised."""
    headers = encode_headers("no.such/1", "text/plain", IDENTITY, 2)

    (read,) = read_headers(EVENT, [record(None, headers=headers)], DEFAULT_LIMITS)

    assert read == RecordHeaders("no.such/1", "text/plain", IDENTITY, 2)


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("application/x-ndjson; charset=utf-8", NDJSON),
        ("Application/X-NDJSON", NDJSON),
        ("application/json;layout=columns", JSON_COLUMNS),
        ("application/json", None),
        ("application/json; layout=rows", None),
        ("", None),
        (";;;", None),
    ],
)
def test_content_types_are_read_generously(sent: str, meant: str | None) -> None:
    """Case, spaces and a charset make no difference; anything else is not known."""
    assert wire.format_of(sent) == meant


@BY_FORMAT
def test_the_wire_reads_what_it_writes(content_type: str) -> None:
    """encode and decode by content-type."""
    batch = rows(3)

    data = wire.encode(content_type, EVENT.fields, block_from_rows(EVENT.fields, batch))

    assert rows_of(EVENT.fields, wire.decode(content_type, data, EVENT.fields)) == batch


def test_the_wire_names_the_formats_it_knows() -> None:
    """An unknown content-type is refused with those that would be taken."""
    with pytest.raises(RejectedError, match="application/x-ndjson"):
        wire.decode("text/plain", b"", EVENT.fields)


ANY_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["schema", "content-type", "source", "boot", "seq", "low", "count", "x"]) | st.text(max_size=3),
        st.sampled_from([EVENT.schema.encode(), *(kind.encode() for kind in CONTENT_TYPES), b"1", b"1.0", b"a" * 32])
        | st.binary(max_size=40),
    ),
    max_size=9,
).map(tuple)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=200), ANY_HEADERS | st.sampled_from(CONTENT_TYPES)), max_size=4)
)
def test_nothing_that_is_sent_makes_admission_raise(sent: list[tuple[bytes | None, Headers | str]]) -> None:
    """Arbitrary bytes under arbitrary or plausible headers end in rejects with a reason of the closed set."""
    records = [
        record(value, content_type=headers) if isinstance(headers, str) else record(value, headers=headers)
        for value, headers in sent
    ]

    read = read_headers(EVENT, records, DEFAULT_LIMITS)
    good = [(one, found) for one, found in zip(records, read, strict=True) if isinstance(found, RecordHeaders)]
    admitted = admit(EVENT, [one for one, _ in good], [found for _, found in good], DEFAULT_LIMITS)

    refused = [found for found in read if isinstance(found, Reject)] + admitted.rejects
    assert {reject.reason for reject in refused} <= set(REASONS) - {"internal"}
    _each_event_is_judged_once(admitted, len(good))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from([field.name for field in EVENT.fields]), JSON_VALUES, max_size=4), st.booleans())
def test_no_json_value_makes_admission_raise(change: dict[str, Any], columns: bool) -> None:
    """Whatever value stands in whatever field: the event is judged, and its neighbour accepted."""
    good = rows(1)[0] | {"itl_bins": {}}
    bad = good | change
    if columns:
        value = _json({name: [good[name], bad[name]] for name in good})
        taken = record(value, content_type=JSON_COLUMNS, count=2)
    else:
        taken = record(_json(good) + b"\n" + _json(bad), content_type=NDJSON, count=2)

    admitted = run(taken)

    assert admitted.verdicts[0] == Verdict.ACCEPTED
    assert {reject.reason for reject in admitted.rejects} <= set(REASONS) - {"internal"}
    _each_event_is_judged_once(admitted, 1)


@pytest.mark.parametrize("depth", [300, 1_000])
def test_a_value_nested_deep_among_columns_costs_its_event_alone(depth: int) -> None:
    """Readers of JSON take twice the depth that writers do."""
    good = rows(1)[0] | {"itl_bins": {}}
    value = _json({name: [good[name], good[name]] for name in good} | {"model": [good["model"], "deep"]})

    admitted = run(
        record(value.replace(b'"deep"', b"[" * depth + b"]" * depth), content_type=JSON_COLUMNS, count=2),
    )

    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED, Verdict.REJECTED]
    (reject,) = admitted.rejects
    assert reject.reason == "wrong_type"
    assert json.loads(reject.kept)["model"] == "a value nested more than 100 deep"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.data())
def test_no_change_of_native_bytes_makes_admission_raise(seed: int, data: st.DataObject) -> None:
    """Flipped, cut and inserted bytes end in verdicts and reasons; the neighbours are untouched."""
    good = record_of(rows(2, seed, GPU_SAMPLES), GPU_SAMPLES)
    value = bytearray(good.value or b"")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(value) - 1))
        value[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))

    admitted = run(good, good._replace(value=bytes(value)), good, event=GPU_SAMPLES)

    assert (admitted.verdicts[np.isin(admitted.record_of, [0, 2])] == Verdict.ACCEPTED).all()
    assert {reject.record for reject in admitted.rejects} <= {1}
    assert {reject.reason for reject in admitted.rejects} <= set(REASONS) - {"internal"}
    _each_event_is_judged_once(admitted, 3)


def _each_event_is_judged_once(admitted: Admitted, records: int) -> None:
    """Rows refused are exactly the rows rejected; a record has rows or one refusal, never both or neither."""
    refused = [(reject.record, reject.row) for reject in admitted.rejects if reject.row is not None]
    marked = admitted.verdicts == Verdict.REJECTED
    assert refused == list(zip(admitted.record_of[marked].tolist(), admitted.row_of[marked].tolist(), strict=True))
    with_rows = set(admitted.record_of.tolist())
    without = [reject.record for reject in admitted.rejects if reject.row is None]
    assert sorted([*with_rows, *without]) == list(range(records))


def test_a_defect_of_ours_costs_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a reader fails in a way nobody thought of, the record is kept as internal and the rest goes on."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(ndjson, "parse", fail)

    admitted = run(record_of(rows(1)), record(b"{}", content_type=NDJSON))

    assert admitted.verdicts.tolist() == [Verdict.ACCEPTED]
    assert [(r.record, r.reason, r.detail) for r in admitted.rejects] == [
        (1, "internal", "ZeroDivisionError: nobody thought of it")
    ]


def test_words_are_judged_alike_in_passing_and_in_detail() -> None:
    """word_fault has no complaint about a sound word."""
    status = EVENT.field("status")

    assert faults.word_fault(status, b"ok", 256) is None
    assert faults.word_fault(status, b"fine", 256) == (
        "not_allowed",
        "status = 'fine': must be one of ok, error, aborted, timeout, rejected",
    )
