"""Puts a fleet's history into the tables by the sink's own way: Native blocks, its settings.

Rows of every level are drawn and inserted as such, as far back from the end as any query of the catalogue reads them: a
day of a big fleet in rows of ten seconds would be hundreds of millions of rows that nobody asks for. Rows of one level
don't add up to those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fleetpulse.bench.dashboard_history import Fleet
from fleetpulse.bench.workload import Profile, Workload
from fleetpulse.queries import dashboard as catalogue
from schemas import native
from schemas.block import Block, Column, Labels, Numbers
from schemas.events import BY_TOPIC, LLM_REQUESTS
from schemas.fields import Kind
from schemas.grouping import GROUPING_SETS, GroupingSet
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.merging import BY_LEVEL, labels_of, rollup_table
from schemas.stored import LANDED, RAW
from schemas.tables import PARTIALS, Table
from sinks.database import SinkDatabase
from sinks.landing import Insert

ROWS_PER_INSERT = 100_000
"""About: windows go together, the server pays for each insert."""
FRESH_MS = 10 * MINUTE_MS
"""Rows of ten seconds of what only *Pipeline* looks at."""
FILLED = (catalogue.FINEST, "1m", "1h")
_SORTED_ANEW = {"gpu.history": "gpu.samples"}
REQUESTS = Profile("history", hosts=25, requests_per_record=40, gpus_per_host=0, seconds=1)
"""A second of raw requests: a thousand."""


@dataclass(frozen=True, slots=True)
class Span:
    """History ``[from_ms, to_ms)``, whole minutes."""

    from_ms: int
    to_ms: int

    def starts(self, grouping: GroupingSet, level: str) -> range:
        """Windows of a level: as many of the last ones as a query may read."""
        width_ms = width_of(level)
        far_ms = reach_ms(grouping, level)
        from_ms = self.from_ms if far_ms is None else max(self.from_ms, self.to_ms - far_ms)
        return range(from_ms - from_ms % width_ms, self.to_ms, width_ms)


def width_of(level: str) -> int:
    """Width of a row of a level [ms]."""
    return WINDOW_MS if level == catalogue.FINEST else BY_LEVEL[level].bucket_ms


def reach_ms(grouping: GroupingSet, level: str) -> int | None:
    """The longest range over which any query reads rows of this grouping set at this level [ms]; None without bound."""
    bounds = [
        most_ms
        for query in map(catalogue.query, catalogue.names())
        if f"grouping = '{grouping.name}'" in query.sql
        for source in query.sources.values()
        if _SORTED_ANEW.get(source.topic, source.topic) == grouping.topic
        for at, most_ms in source.levels
        if at == level
    ]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    return max(known, default=FRESH_MS if level == catalogue.FINEST else 0)


def fill(database: SinkDatabase, fleet: Fleet, span: Span, tell: Callable[[str, int, int], None]) -> int:
    """Insert everything; the rows inserted. ``tell`` hears (what, done, of how many)."""
    rows = 0
    for grouping in GROUPING_SETS:
        for level in FILLED:
            starts = span.starts(grouping, level)
            each = max(1, ROWS_PER_INSERT // fleet.rows(grouping))
            for first in range(0, len(starts), each):
                some = starts[first : first + each]
                rows += _put(database, [_insert(fleet, grouping, level, some)])
                tell(f"{grouping.name}, rows of {level}", first + len(some), len(starts))
    return rows


def _insert(fleet: Fleet, grouping: GroupingSet, level: str, starts: Sequence[int]) -> Insert:
    """The rows of several windows of a level."""
    table = PARTIALS[grouping.topic]
    block = native.concat(table.fields, [fleet.block(grouping, at_ms, width_of(level)) for at_ms in starts])
    return _partials(table, block, starts[0]) if level == catalogue.FINEST else _rollup(grouping.topic, block, level)


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
    return Insert(table.name, tuple(one.name for one in fields), native.pieces(fields, whole), block.rows)


def _rollup(topic: str, block: Block, level: str) -> Insert:
    """The same rows as those of a rollup."""
    event, table = BY_TOPIC[topic], PARTIALS[topic]
    labels = {"grouping", *(one.name for one in labels_of(event))}
    kept = [one for one in table.fields if one.kind is not Kind.LABEL or one.name in labels]
    pieces = native.pieces(kept, block)
    return Insert(rollup_table(event, level), tuple(one.name for one in kept), pieces, block.rows)


def fill_requests(database: SinkDatabase, span: Span, seconds: int, seed: int) -> int:
    """Raw requests of so many seconds, spread evenly over the last hour; how many there are."""
    table = RAW[LLM_REQUESTS.topic]
    columns = tuple(one.name for one in table.fields)
    step_ms = (span.to_ms - max(span.from_ms, span.to_ms - HOUR_MS)) // seconds // 1_000 * 1_000
    rows = 0
    for number in range(seconds):
        at_ms = max(span.from_ms, span.to_ms - HOUR_MS) + number * step_ms
        emissions = next(Workload(REQUESTS, seed + number).steps(at_ms, 1))
        block = native.concat(LLM_REQUESTS.fields, [one.block for one in emissions])
        pieces = native.pieces(table.fields, Block(block.rows, {**block.columns, **_sent(block.rows, number, at_ms)}))
        rows += _put(database, [Insert(table.name, columns, pieces, block.rows)])
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
