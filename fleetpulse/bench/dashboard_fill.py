"""Puts a fleet's history into the tables by the sink's own way: Native blocks, its settings, its rollup statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fleetpulse.bench.dashboard_history import Fleet
from fleetpulse.bench.workload import Profile, Workload
from schemas import native
from schemas.block import Block, Column, Labels, Numbers
from schemas.events import LLM_REQUESTS
from schemas.fields import Kind
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.merging import LEVELS, Level, labels_of, rollup_insert, rollup_table
from schemas.stored import LANDED, RAW
from schemas.tables import GROUPED, PARTIALS, Table
from sinks.database import SinkDatabase
from sinks.landing import Insert

ROWS_PER_INSERT = 60_000
"""About: windows of small fleets go together, the server pays for each insert."""
ROWS_AT_ONCE = 1_000
"""Of a window: more are rolled up five minutes at a time, to bound the memory of a statement."""
ROLLUP_SETTINGS = {"max_threads": 1, "max_bytes_before_external_group_by": 800_000_000}
REQUESTS = Profile("history", hosts=25, requests_per_record=40, gpus_per_host=0, seconds=1)
"""A second of raw requests: a thousand."""


@dataclass(frozen=True, slots=True)
class Span:
    """History ``[from_ms, to_ms)``, whole minutes. Its last hour has rows of 10 s, all of it has minutes and hours."""

    from_ms: int
    to_ms: int

    @property
    def fine_from_ms(self) -> int:
        """From here on there are rows of 10 s."""
        return max(self.from_ms, self.to_ms - HOUR_MS)


def fill(database: SinkDatabase, fleet: Fleet, span: Span, tell: Callable[[str, int, int], None]) -> int:
    """Insert everything; the rows inserted. ``tell`` hears (what, done, of how many)."""
    fine = range(span.fine_from_ms, span.to_ms, WINDOW_MS)
    coarse = range(span.from_ms, span.fine_from_ms, MINUTE_MS)
    rows = 0
    for done, batch in enumerate(_batches(fine, fleet), 1):
        rows += _put(database, [_partials(*pair, done) for pair in _together(fleet, batch, WINDOW_MS)])
        tell("windows of ten seconds", min(done * len(batch), len(fine)), len(fine))
    for done, batch in enumerate(_batches(coarse, fleet), 1):
        rows += _put(database, [_minute(*pair) for pair in _together(fleet, batch, MINUTE_MS)])
        tell("minutes before", min(done * len(batch), len(coarse)), len(coarse))
    _roll(database, span, 5 * MINUTE_MS if fleet.rows_max > ROWS_AT_ONCE else HOUR_MS, tell)
    return rows


def _batches(starts: Sequence[int], fleet: Fleet) -> Iterator[Sequence[int]]:
    each = max(1, ROWS_PER_INSERT // fleet.rows_max)
    return (starts[first : first + each] for first in range(0, len(starts), each))


def _together(fleet: Fleet, starts: Sequence[int], width_ms: int) -> Iterator[tuple[Table, Block]]:
    """The rows of several windows as one block for each grouping set."""
    for parts in zip(*(fleet.blocks(start, width_ms) for start in starts), strict=True):
        table = parts[0][0]
        yield table, native.concat(table.fields, [block for _, block in parts])


def _put(database: SinkDatabase, inserts: list[Insert]) -> int:
    database.insert(inserts)
    return sum(one.rows for one in inserts)


def _partials(table: Table, block: Block, number: int) -> Insert:
    fields = LANDED[table.schema].fields
    row = np.arange(block.rows, dtype="<u4")
    place: dict[str, Column] = {
        "source_partition": Numbers(np.zeros(block.rows, "<u4")),
        "log_id": Labels(np.ones(block.rows, np.uint8), [None, b"bench"]),
        "log_partition": Numbers(np.zeros(block.rows, "<u4")),
        "log_offset": Numbers(np.full(block.rows, number, "<u8")),
        "log_row": Numbers(row),
    }
    whole = Block(block.rows, {**block.columns, **place})
    return Insert(table.name, tuple(one.name for one in fields), native.encode(fields, whole), block.rows)


def _minute(table: Table, block: Block) -> Insert:
    """The same rows as one of the minute's rollup: it is made of six partial rows."""
    (event,) = [event for event in GROUPED if PARTIALS[event.topic] is table]
    name = rollup_table(event, LEVELS[0].name)
    labels = {"grouping", *(one.name for one in labels_of(event))}
    kept = [one for one in table.fields if one.kind is not Kind.LABEL or one.name in labels]
    body = native.encode(kept, block)
    return Insert(name, tuple(one.name for one in kept), body, block.rows)


def _roll(database: SinkDatabase, span: Span, step_ms: int, tell: Callable[[str, int, int], None]) -> None:
    minute, hour = LEVELS[0], LEVELS[1]
    steps = list(_statements(minute, span.fine_from_ms, span.to_ms, step_ms))
    steps += _statements(hour, span.from_ms, span.to_ms, HOUR_MS)
    for done, sql in enumerate(steps):
        database.command(sql, ROLLUP_SETTINGS)
        tell("rollups", done + 1, len(steps))


def _statements(level: Level, from_ms: int, to_ms: int, step_ms: int) -> Iterator[str]:
    for event in GROUPED:
        for first in range(from_ms - from_ms % level.bucket_ms, to_ms, step_ms):
            buckets = tuple(range(first, min(to_ms, first + step_ms), level.bucket_ms))
            yield rollup_insert(event, level, buckets)


def fill_requests(database: SinkDatabase, span: Span, seconds: int, seed: int) -> int:
    """Raw requests of so many seconds, spread evenly over the last hour; how many there are."""
    table = RAW[LLM_REQUESTS.topic]
    columns = tuple(one.name for one in table.fields)
    step_ms = (span.to_ms - span.fine_from_ms) // seconds // 1_000 * 1_000
    rows = 0
    for number in range(seconds):
        at_ms = span.fine_from_ms + number * step_ms
        emissions = next(Workload(REQUESTS, seed + number).steps(at_ms, 1))
        block = native.concat(LLM_REQUESTS.fields, [one.block for one in emissions])
        body = native.encode(table.fields, Block(block.rows, {**block.columns, **_sent(block.rows, number, at_ms)}))
        rows += _put(database, [Insert(table.name, columns, body, block.rows)])
    return rows


def _sent(rows: int, number: int, at_ms: int) -> dict[str, Column]:
    """Identity of raw rows, as if one sender had sent a record each second."""
    word = np.ones(rows, np.uint8)
    return {
        "source": Labels(word, [None, b"bench"]),
        "boot": Numbers(np.ones(rows, "<u8")),
        "seq": Numbers(np.full(rows, number + 1, "<u8")),
        "row": Numbers(np.arange(rows, dtype="<u4")),
        "appended_ms": Numbers(np.full(rows, at_ms + 1_000, "<i8")),
        "partition": Numbers(np.zeros(rows, "<u4")),
        "offset": Numbers(np.full(rows, number, "<u8")),
        "verdict": Labels(word, [None, b"accepted"]),
    }
