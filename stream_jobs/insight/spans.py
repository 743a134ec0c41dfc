"""The windows of rules that are longer than the grain: their parts as they come, brought together at their end.

A part that is missing stalls nothing; a window whose beginning was not heard (a start in its middle) counts as
incomplete. Parts are brought together early once there are ``PARTS_MAX`` of them, so that a window of a day does not
keep thousands: merging is exact, whatever the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.codec import native
from schemas.codec.block import Block
from stream_jobs.insight.project import View, merge

PARTS_MAX = 3
"""Few: what is left to bring together at the end delays what that tells."""


@dataclass(slots=True)
class Parts:
    """Projected rows of a view: ``heard`` parts of a window, some of them merged already."""

    heard: int = 0
    blocks: list[Block] = field(default_factory=list)

    def add(self, view: View, block: Block) -> None:
        """One more part."""
        self.heard += 1
        self.blocks.append(block)
        if len(self.blocks) >= PARTS_MAX:
            self.blocks = [merge(view, self.blocks)]

    def whole(self, view: View) -> Block:
        """All rows so far; none for a view that has heard nothing."""
        if not self.blocks:
            return native.concat(view.fields, ())
        self.blocks = [merge(view, self.blocks)]
        return self.blocks[0]


class Span:
    """The running window of all rules with the same length. ``start_ms`` None: none yet."""

    def __init__(self, length_ms: int, views: Sequence[View]) -> None:
        self.length_ms = length_ms
        self.views = tuple(dict.fromkeys(views))
        self.start_ms: int | None = None
        self.complete = True
        self.whole = True
        """Heard from its beginning, whatever the parts lack."""
        self.series_whole = True
        """No part lacks anything but sources as a whole."""
        self.heard = 0
        self.parts: dict[View, Parts] = {}

    def begin(self, part_ms: int, *, from_start: bool) -> None:
        """The window that holds ``part_ms``; ``from_start`` says that nothing of it can have been missed."""
        self.start_ms = part_ms - part_ms % self.length_ms
        self.complete = self.whole = from_start or part_ms == self.start_ms
        self.series_whole = True
        self.heard = 0
        self.parts = {view: Parts() for view in self.views}

    def add(self, rows: Sequence[tuple[View, Block]], complete: bool, series_whole: bool = False) -> None:
        """One more part of it."""
        self.heard += 1
        self.complete = self.complete and complete
        self.series_whole = self.series_whole and (complete or series_whole)
        for view, block in rows:
            self.parts[view].add(view, block)

    def heard_all(self, view: View) -> bool:
        """True where the view has heard every part that came: it is not newer than the window."""
        return self.complete and self.parts[view].heard == self.heard

    def heard_whole(self, view: View) -> bool:
        """The same of a window in which some parts lack some source."""
        return self.whole and self.parts[view].heard == self.heard
