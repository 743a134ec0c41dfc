"""The records of a commit: windows that were closed as a whole, hot ones that changed by their changed series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schemas.codec.block import Block
from schemas.contract.record import Output
from schemas.contract.topics import WINDOW_FINALS
from schemas.limits import WINDOW_MS
from schemas.rows.finals import PROGRESS_SCHEMA, TOPIC_BY_SCHEMA, FinalsHeaders, finals_schema
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table
from stream_jobs.finals.changes import Changes, State
from stream_jobs.finals.held import Held
from stream_jobs.windows.emit import part_of
from stream_jobs.windows.messages import encoded, select_rows

RECORD_BYTES_MAX = 4 * 1024 * 1024
"""Larger blocks are cut between rows (a single row is never cut)."""

_ORDER = [*(table.schema for table in PARTIALS.values()), EXEMPLARS.schema]
_SCHEMAS = {PARTIALS[topic].schema: finals_schema(topic) for topic in TOPIC_BY_SCHEMA.values()}
_SCHEMAS[EXEMPLARS.schema] = EXEMPLARS.schema


def outputs(state: State, changes: Changes) -> list[Output]:
    """The records of a commit; notes how many rows they have. The last one says how far this upstream has come."""
    low_ms = state.progress.low_ms
    found: list[tuple[FinalsHeaders, bytes]] = []
    for window_ms, held in sorted((changes.closed | changes.touched).items()):
        for table, block in _blocks(held, changes):
            headers = FinalsHeaders(
                schema=_SCHEMAS[table.schema],
                upstream=state.partition,
                window_ms=window_ms,
                revision=held.revision,
                complete=window_ms + WINDOW_MS <= low_ms,
                through_ms=0,
                rows=block.rows,
            )
            part = select_rows if table is EXEMPLARS else part_of
            pieces = encoded(table, block, part, RECORD_BYTES_MAX)
            found += [(replace(headers, rows=rows), value) for rows, value in pieces]
    if changes.passed and not found:
        found = [(FinalsHeaders(PROGRESS_SCHEMA, state.partition, 0, 0, False, 0, 0), b"")]
    if found:
        headers, value = found[-1]
        found[-1] = (replace(headers, through_ms=state.progress.through_ms), value)
    changes.rows = sum(headers.rows for headers, _ in found)
    return [Output(WINDOW_FINALS, 0, None, value, headers.encode()) for headers, value in found]


def _blocks(held: Held, changes: Changes) -> Iterator[tuple[Table, Block]]:
    """What is emitted of a window, by table in their fixed order."""
    for schema in _ORDER:
        pile = held.piles.get(schema)
        if pile is None:
            continue
        parts = changes.parts.get((held.window_ms, schema), 0)
        if held.window_ms in changes.closed:
            yield pile.table, pile.whole()
        elif parts:
            yield pile.table, pile.changed(parts)
