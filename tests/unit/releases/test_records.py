"""Records of 0.1.0 are read as that read them; so are records of a later release, without what is new in them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from schemas.codec import native, wire
from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.native_cursor import read_varint
from schemas.contract import alert_commands, alerts
from schemas.contract.admission import Reject, admit, read_headers
from schemas.contract.headers import NATIVE, NDJSON
from schemas.contract.record import Record
from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    COSTS_TOPIC,
    DERIVED_TOPICS,
    WINDOW_FINALS,
    WINDOW_PARTIALS,
)
from schemas.contract.verdicts import Verdict
from schemas.errors import NewerReleaseError
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import sets_of
from schemas.fields import Field, Kind, Role
from schemas.limits import DEFAULT_LIMITS
from schemas.rows import finals
from schemas.rows.spend import SPEND
from schemas.rows.tables import BY_TABLE_SCHEMA
from sinks.landing import land_derived
from tests.unit.releases.frozen import JOBS, SOURCES, Job, between, columns_of, lines, read_as_0_1_0, records

TOPICS = {*SOURCES, *(one.name for one in DERIVED_TOPICS), WINDOW_FINALS, COSTS_TOPIC, ALERTS_TOPIC, ALERT_COMMANDS}
FIELDS = {
    **{event.schema: event.fields for event in BY_TOPIC.values()},
    **{schema: table.fields for schema, table in {**BY_TABLE_SCHEMA, **finals.TABLE_BY_SCHEMA}.items()},
    SPEND.schema: SPEND.fields,
}
NEVER_WRITTEN = {"alert_history/1", "actions/1"} | {
    schema
    for topic in BY_TOPIC
    for schema in (f"{topic}/1", *(f"{topic.replace('.', '_')}_{kind}/1" for kind in ("partials", "finals")))
    if topic not in SOURCES or (not sets_of(topic) and schema != f"{topic}/1")
}
"""Alerts and commands are JSON; events without grouping sets have no partial rows; other topics are newer."""
NEWER: dict[Kind, Any] = {
    Kind.BINS: {3: 4, 9: 1},
    Kind.LABEL: "new",
    Kind.TEXT: "new",
    Kind.OPTIONAL_TEXT: "new",
    Kind.LIST_INT64: [1, 2],
    Kind.LIST_OPTIONAL_INT64: [None, 2],
    Kind.LIST_LABEL: ["a", None],
}
COLUMNS = tuple(Field(f"newer_{kind.name.lower()}", kind, Role.ATTRIBUTE, "", "of a later release") for kind in Kind)
"""A column of every kind that fleetpulse writes."""


def schema_of(record: Record) -> str:
    return dict(record.headers).get("schema", b"").decode()


def is_json(record: Record) -> bool:
    return record.topic in (ALERTS_TOPIC, ALERT_COMMANDS) or schema_of(record) == finals.COMMANDS_SCHEMA


def test_records_of_every_topic_and_schema_are_frozen() -> None:
    """Whatever a worker of 0.1.0 or of today may find."""
    assert {one.topic for one in records()} == TOPICS
    assert {schema_of(one) for one in records() if one.value and not is_json(one)} == {*FIELDS} - NEVER_WRITTEN


def test_values_are_those_that_0_1_0_read() -> None:
    """Every field of every row of every record; what is null is left out."""
    compared: Counter[str] = Counter()
    for record, expected in zip(records(), lines("values.jsonl.xz"), strict=True):
        if record.value and not is_json(record):
            fields, form = FIELDS[schema_of(record)], dict(record.headers)["content-type"].decode()
            rows = rows_of(fields, wire.parse(form, record.value, fields).block)
            mine = columns_of(schema_of(record)) or {field.name for field in fields}
            known = [{n: value for n, value in row.items() if value is not None and n in mine} for row in rows]
            assert orjson.loads(orjson.dumps(known, option=orjson.OPT_NON_STR_KEYS)) == expected, record.where
            compared[schema_of(record)] += len(rows)

    assert set(compared) == {*FIELDS} - NEVER_WRITTEN


def test_alerts_and_commands_are_those_that_0_1_0_wrote() -> None:
    """An alert is written again to the same bytes; so is a command."""
    found = [one for one in records() if is_json(one) and one.value]

    for one in found:
        if one.topic == ALERTS_TOPIC:
            assert alerts.encode(alerts.decode(one.value or b"")) == one.value
        else:
            assert alert_commands.encode(alert_commands.decode(one.value or b"")) == one.value
    assert {one.topic for one in found} == {ALERTS_TOPIC, ALERT_COMMANDS, WINDOW_FINALS}


def with_columns(value: bytes, more: bytes) -> bytes:
    """A Native block and behind its columns those of another, of as many rows."""
    (columns, start), (added, more_start) = read_varint(value, 0), read_varint(more, 0)
    (rows, _), (more_rows, end) = read_varint(value, start), read_varint(more, more_start)
    assert rows == more_rows
    return native.varint(columns + added) + value[start:] + more[end:]


def newer(record: Record) -> Record:
    """The record as a later release may write it: one more header, a column of every kind, a key in each object."""
    value, headers = record.value, (*record.headers, ("newer", b"1"))
    form = dict(record.headers).get("content-type", b"").decode()
    if not value:
        pass
    elif is_json(record):
        value = orjson.dumps({**orjson.loads(value), "newer": {"of": ["a", "later"]}})
    elif form == NDJSON:
        value = b"".join(orjson.dumps({**orjson.loads(row), "newer": {"a": [1]}}) + b"\n" for row in value.splitlines())
    elif form == NATIVE:
        rows = native.decode(value, FIELDS[schema_of(record)]).rows
        row = {one.name: NEWER.get(one.kind, 7) for one in COLUMNS}
        value = with_columns(value, native.encode(COLUMNS, block_from_rows(COLUMNS, [row] * rows)))
    else:
        found = orjson.loads(value)
        count = len(next(iter(found.values())))
        value = orjson.dumps({**found, "newer": [[1, "a"]] * count})
    return record._replace(value=value, headers=headers)


def verdicts(topic: str, log: list[Record]) -> tuple[Any, Any]:
    event = BY_TOPIC[topic]
    heads = read_headers(event, log, DEFAULT_LIMITS)
    readable = [head for head in heads if not isinstance(head, Reject)]
    assert len(readable) == len(log)
    found = admit(event, log, readable, DEFAULT_LIMITS)
    refused = [(one.record, one.row, one.events, one.reason) for one in found.rejects]
    return rows_of(event.fields, found.block), (found.verdicts.tolist(), refused)


@pytest.mark.parametrize("topic", SOURCES)
def test_events_with_newer_fields_are_accepted(topic: str) -> None:
    """They have the verdicts and values that they have without them."""
    log = [one for one in records() if one.topic == topic]

    found, expected = verdicts(topic, [newer(one) for one in log]), verdicts(topic, log)

    assert found == expected
    assert Verdict.ACCEPTED in expected[1][0]


@pytest.mark.parametrize("topic", SOURCES)
def test_events_of_another_schema_version_are_rejected_with_a_reason(topic: str) -> None:
    """The number rises only where what older readers would make of it is wrong."""
    (record, *_) = [one for one in records() if one.topic == topic and dict(one.headers).get("count")]
    headers = tuple((name, f"{topic}/2".encode() if name == "schema" else value) for name, value in record.headers)

    _, (_, refused) = verdicts(topic, [record._replace(headers=headers)])

    assert refused == [(0, None, int(dict(record.headers)["count"]), "unknown_schema")]


@pytest.mark.parametrize("job", [one for one in JOBS if one.name != "windows"], ids=str)
def test_jobs_make_the_same_of_derived_records_with_newer_fields(job: Job) -> None:
    """Of each kind that they read; what they pass on, they pass on whole."""
    step, compared = job.step(), 0
    state = step.new(job.topic, 0)
    for commit, written in job.commits():
        changes = step.changes()
        if log := between(job.topic, commit.offset_from, commit.offset_to):
            step.fold(state, [newer(one) for one in log], changes)
        found = step.rows(state, changes, commit)
        if job.topic == ALERT_COMMANDS:
            found = [one._replace(value=alert_commands.encode(alert_commands.decode(one.value))) for one in found]
        assert [*map(read_as_0_1_0, found)] == [*map(read_as_0_1_0, written)], commit
        compared += len(written)
    assert compared > 0


def test_the_sink_inserts_the_same_of_derived_records_with_newer_fields() -> None:
    """Every column that its tables have."""
    landed = [one for one in records() if one.topic in TOPICS - {*SOURCES, WINDOW_FINALS, ALERT_COMMANDS}]
    log_ids = dict.fromkeys(TOPICS, "aaaa")

    found, expected = (
        land_derived(log, log_ids, landed[-1].timestamp_ms, DEFAULT_LIMITS)
        for log in ([newer(one) for one in landed], landed)
    )

    assert [inserted(one) for one in found.inserts] == [inserted(one) for one in expected.inserts]
    assert len(expected.inserts) > 10


def inserted(one: Any) -> tuple[Any, ...]:
    """Of the history of alerts all but the record as it came, which is kept whole."""
    return (one.table, one.columns, one.rows, b"" if one.table == "alerts" else b"".join(one.pieces))


def of_a_newer_version(topic: str) -> list[Record]:
    """One record of each schema of a topic, as if its version had risen."""
    found = {schema_of(one): one for one in records() if one.topic == topic and one.value}
    return [
        one._replace(
            headers=tuple(
                (name, value.replace(b"/1", b"/2") if name == "schema" else value) for name, value in one.headers
            )
        )
        for one in found.values()
    ]


@pytest.mark.parametrize(
    "job", [one for one in JOBS if one.topic in (WINDOW_PARTIALS, WINDOW_FINALS, COSTS_TOPIC)], ids=str
)
def test_a_job_ends_at_a_derived_record_of_a_newer_schema_version(job: Job) -> None:
    """It never leaves out what another job counted; it goes on from there after its upgrade."""
    step, newer_ones = job.step(), of_a_newer_version(job.topic)

    for record in newer_ones:
        with pytest.raises(
            NewerReleaseError, match=r"has schema '\S+/2': a newer release wrote it, upgrade this process"
        ):
            step.fold(step.new(job.topic, 0), [record], step.changes())
    assert newer_ones


ONLY_JOBS_WRITE = [name for name in (*(one.name for one in DERIVED_TOPICS), COSTS_TOPIC) if name != BOOKS_TOPIC]


@pytest.mark.parametrize("topic", ONLY_JOBS_WRITE)
def test_the_sink_ends_at_a_derived_record_of_a_newer_schema_version(topic: str) -> None:
    """As the jobs do, where nobody but they may write it."""
    newer_ones = of_a_newer_version(topic)

    for record in newer_ones:
        with pytest.raises(
            NewerReleaseError, match=r"has schema '\S+/2': a newer release wrote it, upgrade this process"
        ):
            land_derived([record], {topic: "a"}, record.timestamp_ms, DEFAULT_LIMITS)
    assert newer_ones


def test_the_sink_leaves_out_books_of_a_newer_schema_version() -> None:
    """Any edge may write there, and say that it is of any version; it must not be able to stop the sink by that."""
    newer_ones = of_a_newer_version(BOOKS_TOPIC)

    landing = land_derived(newer_ones, {BOOKS_TOPIC: "a"}, newer_ones[-1].timestamp_ms, DEFAULT_LIMITS)

    assert (landing.inserts, landing.unreadable) == ((), len(newer_ones))
    assert landing.first_unreadable.endswith("/2': a newer release wrote it, upgrade this process")
