"""The barrier: finals of all upstreams, gathered until a window can be judged, and the windows in order of time.

An upstream is a partition of ``window.partials``. A window is ready when every upstream told that it is through with
it, or when one is through with what comes ``wait_ms`` after it: then it is judged without the others and counts as
incomplete. Every window is judged once, empty ones too (silence is news), but of a gap longer than ``gap_ms`` only the
beginning. What comes for a window after its upstream was through with it, or after it was judged, is a late revision:
counted and left to readers of the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.finals import FinalsHeaders
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS

WAIT_MS = MINUTE_MS
GAP_MS = HOUR_MS


class Piece(NamedTuple):
    """One record's rows, as they came."""

    upstream: int
    schema: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """A window to be judged now. ``complete`` is False when an upstream is missing or said so itself."""

    window_ms: int
    complete: bool
    pieces: tuple[Piece, ...]


@dataclass(slots=True)
class Waiting:
    """What came of a window so far."""

    complete: bool = True
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class Gather:
    """``through_ms`` by upstream; ``next_ms`` is the window to be judged next, None before the first."""

    through_ms: list[int]
    window_ms: int = WINDOW_MS
    wait_ms: int = WAIT_MS
    gap_ms: int = GAP_MS
    waiting: dict[int, Waiting] = field(default_factory=dict)
    next_ms: int | None = None
    empty: int = 0
    """Windows in a row that nothing came for."""
    late: int = 0
    strange: int = 0
    """Records of upstreams that we do not expect."""

    def add(self, headers: FinalsHeaders, value: bytes) -> None:
        """Take a record of finals, exemplars or progress."""
        if not 0 <= headers.upstream < len(self.through_ms):
            self.strange += 1
            return
        if headers.rows:
            self._add_rows(headers, value)
        before = self.through_ms[headers.upstream]
        self.through_ms[headers.upstream] = max(before, headers.through_ms)

    def _add_rows(self, headers: FinalsHeaders, value: bytes) -> None:
        window_ms = headers.window_ms
        judged = self.next_ms is not None and window_ms < self.next_ms
        if judged or window_ms + self.window_ms <= self.through_ms[headers.upstream]:
            self.late += 1
            return
        waiting = self.waiting.setdefault(window_ms, Waiting())
        waiting.complete = waiting.complete and headers.complete
        waiting.pieces.append(Piece(headers.upstream, headers.schema, value))

    def ready(self) -> Iterator[Ready]:
        """The windows that can be judged now, in order of time; each comes once."""
        passed = min(self.through_ms)
        limit = max(passed, max(self.through_ms) - self.wait_ms)
        if self.next_ms is None:
            first = min(self.waiting, default=limit)
            if first + self.window_ms > limit:
                return  # time begins with the first window that anything came for
            self.next_ms = first
        while self.next_ms + self.window_ms <= limit:
            self._skip(limit)
            if self.next_ms + self.window_ms > limit:
                break
            window_ms, end_ms = self.next_ms, self.next_ms + self.window_ms
            waiting = self.waiting.pop(window_ms, None)
            self.next_ms, self.empty = end_ms, 0 if waiting else self.empty + 1
            waiting = waiting or Waiting()
            yield Ready(window_ms, waiting.complete and end_ms <= passed, tuple(waiting.pieces))

    def _skip(self, limit: int) -> None:
        """Over the rest of a long gap, to the next window that something came for."""
        if self.next_ms in self.waiting or self.empty * self.window_ms < self.gap_ms:
            return
        self.next_ms = min(min(self.waiting, default=limit), limit - limit % self.window_ms)

    def head(self) -> dict[str, Any]:
        """The state but for the values, as plain values; ``values`` go in the order of ``waiting``."""
        waiting = [
            [window_ms, one.complete, [[piece.upstream, piece.schema, len(piece.value)] for piece in one.pieces]]
            for window_ms, one in self.waiting.items()
        ]
        names = ("through_ms", "next_ms", "empty", "late", "strange")
        return {**{name: getattr(self, name) for name in names}, "waiting": waiting}

    def values(self) -> list[bytes]:
        """The values that wait."""
        return [piece.value for one in self.waiting.values() for piece in one.pieces]

    def load(self, head: dict[str, Any], data: bytes) -> None:
        """Take over a dump. Upstreams that are new have told nothing yet."""
        told = head["through_ms"][: len(self.through_ms)]
        self.through_ms[: len(told)] = told
        self.next_ms, self.empty, self.late, self.strange = (
            head[name] for name in ("next_ms", "empty", "late", "strange")
        )
        position = 0
        for window_ms, complete, pieces in head["waiting"]:
            waiting = self.waiting[window_ms] = Waiting(complete)
            for upstream, schema, length in pieces:
                waiting.pieces.append(Piece(upstream, schema, data[position : position + length]))
                position += length
