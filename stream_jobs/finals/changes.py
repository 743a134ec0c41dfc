"""What a finals step owns per upstream partition: its state, and what it has not sent yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from schemas.codec.block import Block
from schemas.contract.record import Output
from schemas.contract.topics import WINDOW_FINALS
from schemas.limits import WINDOW_MS
from schemas.rows.finals import PROGRESS_SCHEMA, TOPIC_BY_SCHEMA, FinalsHeaders, finals_schema
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table
from stream_jobs.finals.held import Held
from stream_jobs.finals.progress import Progress
from stream_jobs.windows.emit import part_of
from stream_jobs.windows.messages import encoded, select_rows


class Mark(NamedTuple):
    """The progress before the record at ``offset``, which is the first with rows of a greater window than all before
    it, or with rows at all after nothing was held."""

    offset: int
    progress: Progress


@dataclass(slots=True)
class State:
    """``windows`` by start: open ones and hot ones. ``position`` is the offset behind the last record.

    Records below ``replay_to`` were folded before the state was dumped: they build windows again and emit nothing.
    ``rejected`` are offsets of records that made a fold raise; they are passed over whenever they come again.
    ``newest_ms`` is the newest window that had rows when the state was dumped. ``wait_ms`` is how long idle sources are
    waited for: what was committed and is folded again is folded with no less than before, since by less a window may
    pass that nobody has sent. ``lost_to_ms``: rows of windows that end by then were lost, which is said before anything
    else is; 0: none were, or it is long ago.
    """

    partition: int
    progress: Progress
    windows: dict[int, Held] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    rejected: set[int] = field(default_factory=set)
    position: int = 0
    replay_to: int = 0
    newest_ms: int = 0
    wait_ms: int = 0
    lost_to_ms: int = 0

    def checkpoint(self) -> Mark:
        """Where to begin again to build all that is held: the oldest mark, or here and now when nothing is held."""
        return self.marks[0] if self.marks else Mark(self.position, self.progress)

    def mark(self, offset: int) -> None:
        """Note the progress before the record at ``offset``."""
        if not self.marks or self.marks[-1].offset < offset:
            self.marks.append(Mark(offset, self.progress.copy()))

    def forget_marks(self) -> None:
        """Keep the last mark before all rows that are held, and those after it."""
        if not self.windows:
            self.marks.clear()
            return
        first = min(held.first_offset for held in self.windows.values())
        while len(self.marks) > 1 and self.marks[1].offset <= first:
            del self.marks[0]


@dataclass(slots=True)
class Changes:
    """Since the last commit: windows that were closed, blocks that came to windows closed before by schema, and
    whether the end of any window was passed; ``lost_to_ms`` as in ``State``, where it is to be said. The rest is
    counted; ``rows`` are those of the commit's records."""

    closed: dict[int, Held] = field(default_factory=dict)
    touched: dict[int, Held] = field(default_factory=dict)
    parts: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    passed: bool = False
    lost_to_ms: int = 0
    rows: int = 0
    late_rows: int = 0
    gaps: int = 0
    rejected: int = 0

    def holds(self, window_ms: int) -> bool:
        """Whether rows of the window have yet to be sent."""
        return window_ms in self.closed or window_ms in self.touched


RECORD_BYTES_MAX = 4 * 1024 * 1024
"""Larger blocks are cut between rows (a single row is never cut)."""

_ORDER = [*(table.schema for table in PARTIALS.values()), EXEMPLARS.schema]
_SCHEMAS = {PARTIALS[topic].schema: finals_schema(topic) for topic in TOPIC_BY_SCHEMA.values()}
_SCHEMAS[EXEMPLARS.schema] = EXEMPLARS.schema


def outputs_of(state: State, changes: Changes) -> list[Output]:
    """The records of a commit; notes how many rows they have. The first one says what was lost, if anything was, the
    last one how far this upstream has come."""
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
    if changes.lost_to_ms:
        found.insert(0, (FinalsHeaders(PROGRESS_SCHEMA, state.partition, changes.lost_to_ms, 0, False, 0, 0), b""))
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
