"""Compiling ahead of time: see ``stream_jobs.warm_rows``."""

from __future__ import annotations

from schemas.contract.headers import NATIVE
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.finals import PASSED_ON_TOPICS
from schemas.rows.tables import PARTIALS
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.finals.upstream import TABLES
from stream_jobs.step import Commit
from stream_jobs.warm_rows import encoded, partials_record, row_of

_WINDOW_MS = 1_700_000_000_000


def warm() -> None:
    """Run everything the job runs once on tiny input, for every table; compiles what is not in the cache."""
    for number, table in enumerate(TABLES.values()):
        topic = next((topic for topic, partials in PARTIALS.items() if partials is table), "llm.requests")
        step = FinalsStep(DEFAULT_LIMITS, {topic: 1})
        state, changes = step.new(WINDOW_PARTIALS, number), step.changes()
        passed_ms, given = _WINDOW_MS + 2 * WINDOW_MS, {table.fields[0].name: _WINDOW_MS}
        records = [partials_record(table, topic, n, _WINDOW_MS, passed_ms, **given) for n in range(2)]
        step.fold(state, records, changes)
        step.rows(state, changes, Commit(WINDOW_PARTIALS, number, 0, 1, 0, _WINDOW_MS, idle=False))
        step.fold(state, [], step.changes())
        step.load(WINDOW_PARTIALS, number, step.dump(state))
    for topic in PASSED_ON_TOPICS:
        event = BY_TOPIC[topic]
        value = encoded(event.fields, row_of(event.fields, at_ms=_WINDOW_MS))
        headers = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()))
        forward = ForwardStep(DEFAULT_LIMITS)
        forward.fold(forward.new(topic, 0), [Record(topic, 0, 0, _WINDOW_MS, None, value, headers)], forward.changes())
