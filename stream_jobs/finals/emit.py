"""The records of a commit: windows that were closed as a whole, hot ones that changed by their changed series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.select import select
from schemas.contract.record import Output
from schemas.contract.topics import WINDOW_FINALS
from schemas.limits import WINDOW_MS
from schemas.rows.finals import PROGRESS_SCHEMA, TOPIC_BY_SCHEMA, FinalsHeaders, finals_schema
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table
from stream_jobs.finals.changes import Changes, State
from stream_jobs.finals.held import Held
from stream_jobs.windows.emit import part_of

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
            found += [(replace(headers, rows=rows), value) for rows, value in _cut(table, block)]
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


def _cut(table: Table, block: Block) -> Iterator[tuple[int, bytes]]:
    """The block as Native, in pieces of about equal rows that each fit."""
    value = native.encode(table.fields, block)
    pieces = min(-(-len(value) // RECORD_BYTES_MAX), block.rows)
    if pieces <= 1:
        yield block.rows, value
        return
    for start, stop in pairwise(block.rows * piece // pieces for piece in range(pieces + 1)):
        yield from _cut(table, _part(table, block, start, stop))


def _part(table: Table, block: Block, start: int, stop: int) -> Block:
    if table is not EXEMPLARS:
        return part_of(block, start, stop)
    rows = np.arange(block.rows)
    return select(block, (rows >= start) & (rows < stop))
