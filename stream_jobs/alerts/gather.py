"""The barrier: finals of all upstreams, gathered until a window can be judged, and the windows in order of time.

An upstream is a partition of ``window.partials``. A window is ready when every upstream reported that it is through
with it. Those that are silent are not waited for any more when one is through with what comes ``wait_ms`` after it, and
every upstream that still moves has reached it: then it is judged without the others and counts as incomplete. An
upstream is silent when it has reported no progress for ``wait_ms`` of a clock that is read off the records: it goes on
by the time from one to the next, by ``PAUSE_MS`` at most. So a backlog is waited for while it is worked off, one
upstream after the other, up to ``WAITING_BYTES_MAX``: beyond, the oldest window goes as it is.

Every window is judged once, empty ones too (silence is news), but of a gap longer than ``gap_ms`` only the
beginning. What comes for a window after its upstream was through with it, or after it was judged, is a late revision:
counted and left to readers of the topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from schemas.codec import native, native_walk, native_words
from schemas.codec.block import Block
from schemas.errors import RejectedError
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows import finals
from schemas.rows.finals import FinalsHeaders
from schemas.rows.tables import EXEMPLARS
from stream_jobs.insight.frame import Window
from stream_jobs.parts import compress, decompress

WAIT_MS = MINUTE_MS
PAUSE_MS = 15_000
"""A silence of everybody counts as no more: normally a window is reported every ten seconds."""
GAP_MS = HOUR_MS
WAITING_BYTES_MAX = 128 * 1024 * 1024
"""Of what waits; at 10,000 GPUs some two minutes. It is part of every snapshot, an eighth of its size there."""


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
    _packed: list[bytes] = field(default_factory=list, repr=False, compare=False)

    def packed(self) -> list[bytes]:
        """The pieces' values compressed, each once: events open alerts, and so take snapshots, while others wait."""
        fresh = self.pieces[len(self._packed) :]
        self._packed += [compress(piece.value) for piece in fresh]
        return self._packed

    def take(self, piece: Piece, packed: bytes) -> None:
        """One more, of which it is known how it is compressed; of a dump."""
        self.pieces.append(piece)
        self._packed.append(packed)


@dataclass(slots=True)
class Gather:
    """``through_ms`` by upstream, and in ``rose_ms`` the clock when that rose; ``next_ms`` is the window to be judged
    next, None before the first."""

    through_ms: list[int]
    window_ms: int = WINDOW_MS
    wait_ms: int = WAIT_MS
    gap_ms: int = GAP_MS
    waiting_bytes_max: int = WAITING_BYTES_MAX
    waiting: dict[int, Waiting] = field(default_factory=dict)
    next_ms: int | None = None
    empty: int = 0
    """Windows in a row that nothing came for."""
    late: int = 0
    strange: int = 0
    """Records of upstreams that we do not expect."""
    rose_ms: list[int] = field(default_factory=list)
    clock_ms: int = 0
    heard_ms: int = 0
    waiting_bytes: int = 0
    """Of what waits."""

    def __post_init__(self) -> None:
        self.rose_ms = self.rose_ms or [0] * len(self.through_ms)

    def add(self, headers: FinalsHeaders, value: bytes, at_ms: int | None = None) -> None:
        """Take a record of finals, exemplars or progress that was appended at ``at_ms``; without append times (None)
        event time alone decides who is waited for."""
        self._hear(at_ms)
        if not 0 <= headers.upstream < len(self.through_ms):
            self.strange += 1
            return
        if headers.rows:
            self._add_rows(headers, value)
        if headers.through_ms > self.through_ms[headers.upstream]:
            self.through_ms[headers.upstream] = headers.through_ms
            self.rose_ms[headers.upstream] = self.clock_ms

    def _hear(self, at_ms: int | None) -> None:
        if at_ms is None:
            self.clock_ms += self.wait_ms + 1
            return
        if self.heard_ms:
            self.clock_ms += min(max(at_ms - self.heard_ms, 0), PAUSE_MS)
        self.heard_ms = max(self.heard_ms, at_ms)

    def _limit(self) -> int:
        """The end of what can be judged, now that all or those that are waited for have passed it."""
        progress = zip(self.through_ms, self.rose_ms, strict=True)
        moving = [through_ms for through_ms, rose_ms in progress if self.clock_ms - rose_ms <= self.wait_ms]
        limit = max(min(self.through_ms), min([*moving, max(self.through_ms) - self.wait_ms]))
        if self.waiting_bytes <= self.waiting_bytes_max:
            return limit
        return max(limit, min(min(self.waiting) + self.window_ms, max(self.through_ms)))

    def _add_rows(self, headers: FinalsHeaders, value: bytes) -> None:
        window_ms = headers.window_ms
        judged = self.next_ms is not None and window_ms < self.next_ms
        if judged or window_ms + self.window_ms <= self.through_ms[headers.upstream]:
            self.late += 1
            return
        waiting = self.waiting.setdefault(window_ms, Waiting())
        waiting.complete = waiting.complete and headers.complete
        waiting.pieces.append(Piece(headers.upstream, headers.schema, value))
        self.waiting_bytes += len(value)

    def ready(self) -> Iterator[Ready]:
        """The windows that can be judged now, in order of time; each comes once."""
        passed, limit = min(self.through_ms), self._limit()
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
            self.waiting_bytes -= sum(len(piece.value) for piece in waiting.pieces)
            yield Ready(window_ms, waiting.complete and end_ms <= passed, tuple(waiting.pieces))

    def _skip(self, limit: int) -> None:
        """Over the rest of a long gap, to the next window that something came for."""
        if self.next_ms in self.waiting or self.empty * self.window_ms < self.gap_ms:
            return
        assert self.next_ms is not None
        ahead = (window_ms for window_ms in self.waiting if window_ms >= self.next_ms)
        self.next_ms = min(min(ahead, default=limit), limit - limit % self.window_ms)

    def head(self) -> dict[str, Any]:
        """The state but for the values, as plain values; ``values`` go in the order of ``waiting``."""
        waiting = []
        for window_ms, one in self.waiting.items():
            pieces = [[*piece[:2], len(value)] for piece, value in zip(one.pieces, one.packed(), strict=True)]
            waiting.append([window_ms, one.complete, pieces])
        names = ("through_ms", "rose_ms", "clock_ms", "heard_ms", "next_ms", "empty", "late", "strange")
        return {**{name: getattr(self, name) for name in names}, "waiting": waiting, "packed": True}

    def values(self) -> list[bytes]:
        """The values that wait, compressed."""
        return [value for one in self.waiting.values() for value in one.packed()]

    def load(self, head: dict[str, Any], data: bytes) -> None:
        """Restore a dump. New upstreams have reported nothing yet and are waited for."""
        through_ms = head["through_ms"][: len(self.through_ms)]
        self.through_ms[: len(through_ms)] = through_ms
        rose_ms = head["rose_ms"][: len(self.rose_ms)]
        self.rose_ms = [*rose_ms, *[head["clock_ms"]] * (len(self.rose_ms) - len(rose_ms))]
        for name in ("clock_ms", "heard_ms", "next_ms", "empty", "late", "strange"):
            setattr(self, name, head[name])
        position = self.waiting_bytes = 0
        for window_ms, complete, pieces in head["waiting"]:
            waiting = self.waiting[window_ms] = Waiting(complete)
            for upstream, schema, length in pieces:
                packed = data[position : position + length]
                piece = Piece(upstream, schema, decompress(packed))
                waiting.take(piece, packed)
                self.waiting_bytes += len(piece.value)
                position += length


_TEXT_BYTES_ANY = int(np.iinfo(np.int64).max)


def window_of(ready: Ready) -> tuple[Window, int]:
    """The window of what was gathered, and how many of its pieces could not be read: without them it is incomplete.

    Pieces of a table are opened together, by the compiled walk; dictionaries are remembered, because a fleet sends the
    same words in every window."""
    values: dict[str, list[bytes]] = {}
    for piece in ready.pieces:
        values.setdefault(piece.schema, []).append(piece.value)
    opened = {schema: _opened(schema, found) for schema, found in values.items()}
    unread = sum(failed for _, failed in opened.values())
    whole = {schema: block for schema, (block, _) in opened.items() if block is not None}
    exemplars = whole.pop(EXEMPLARS.schema, None)
    tables = {finals.TOPIC_BY_SCHEMA[schema]: block for schema, block in whole.items()}
    return Window(ready.window_ms, tables, exemplars, ready.complete and not unread), unread


def _opened(schema: str, values: Sequence[bytes]) -> tuple[Block | None, int]:
    """The rows of all values that can be read (None: of none can they), and how many cannot."""
    fields = finals.TABLE_BY_SCHEMA[schema].fields
    measured = native_walk.measure(fields, values)
    if (measured.rows >= 0).all() and measured.rows.any():
        return native_walk.fill(measured, _dictionaries(schema), _TEXT_BYTES_ANY).block, 0
    blocks = []
    for value in values:
        try:
            blocks.append(native.decode(value, fields))
        except RejectedError:
            continue
    return native.concat(fields, blocks) if blocks else None, len(values) - len(blocks)


@lru_cache(maxsize=len(finals.TABLE_BY_SCHEMA))
def _dictionaries(schema: str) -> native_words.Dictionaries:
    return native_words.Dictionaries(finals.TABLE_BY_SCHEMA[schema].fields, native_words.any_word)
