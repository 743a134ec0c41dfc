"""Compiling ahead of time: see ``stream_jobs.windows.warm``."""

from __future__ import annotations

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Field, Kind
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.finals import PASSED_ON_TOPICS
from schemas.rows.tables import PARTIALS, Table
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.finals.upstream import TABLES
from stream_jobs.step import Commit

_WINDOW_MS = 1_700_000_000_000


def warm() -> None:
    """Run everything the job runs once on tiny input, for every table; compiles what is not in the cache."""
    for number, table in enumerate(TABLES.values()):
        topic = next((topic for topic, partials in PARTIALS.items() if partials is table), "llm.requests")
        step = FinalsStep(DEFAULT_LIMITS, {topic: 1})
        state, changes = step.new(WINDOW_PARTIALS, number), step.changes()
        step.fold(state, [_a_record(table, topic, 0), _a_record(table, topic, 1)], changes)
        step.rows(state, changes, Commit(WINDOW_PARTIALS, number, 0, 1, 0, _WINDOW_MS, idle=False))
        step.fold(state, [], step.changes())
        step.load(WINDOW_PARTIALS, number, step.dump(state))
    for topic in PASSED_ON_TOPICS:
        event = BY_TOPIC[topic]
        value = native.encode(event.fields, block_from_rows(event.fields, [_a_row(event.fields)]))
        headers = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()))
        forward = ForwardStep(DEFAULT_LIMITS)
        forward.fold(forward.new(topic, 0), [Record(topic, 0, 0, _WINDOW_MS, None, value, headers)], forward.changes())


def _a_record(table: Table, topic: str, number: int) -> Record:
    value = native.encode(table.fields, block_from_rows(table.fields, [_a_row(table.fields)]))
    headers = (
        ("schema", table.schema.encode()),
        ("source-topic", topic.encode()),
        ("source-partition", b"0"),
        ("offsets", b"%d-%d" % (number, number + 1)),
        ("number", b"%d" % number),
        ("watermark", b"%d" % (_WINDOW_MS + 2 * WINDOW_MS)),
    )
    return Record(WINDOW_PARTIALS, 0, number, _WINDOW_MS, None, value, headers)


def _a_row(fields: tuple[Field, ...]) -> dict[str, object]:
    return {field.name: _a_value(field) for field in fields} | {fields[0].name: _WINDOW_MS}


def _a_value(field: Field) -> object:
    if field.kind in (Kind.LABEL, Kind.TEXT, Kind.OPTIONAL_TEXT):
        return field.allowed[0] if field.allowed else "warm"
    return {0: 1} if field.kind is Kind.BINS else min(100, 100 if field.high is None else field.high)
