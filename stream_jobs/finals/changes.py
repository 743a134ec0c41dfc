"""What a finals step owns per upstream partition: its state, and what it has not sent yet."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_jobs.finals.held import Held
from stream_jobs.finals.progress import Progress


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
    ``newest_ms`` is the newest window that had rows when the state was dumped.
    """

    partition: int
    progress: Progress
    windows: dict[int, Held] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    rejected: set[int] = field(default_factory=set)
    position: int = 0
    replay_to: int = 0
    newest_ms: int = 0

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
    whether the end of any window was passed. The rest is counted; ``rows`` are those of the commit's records."""

    closed: dict[int, Held] = field(default_factory=dict)
    touched: dict[int, Held] = field(default_factory=dict)
    parts: dict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    passed: bool = False
    rows: int = 0
    late_rows: int = 0
    gaps: int = 0
    rejected: int = 0

    def holds(self, window_ms: int) -> bool:
        """Whether rows of the window have yet to be sent."""
        return window_ms in self.closed or window_ms in self.touched
