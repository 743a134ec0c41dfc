"""The barrier: finals of all upstreams, gathered until a window can be judged, and the windows in order of time.

An upstream is a partition of ``window.partials``. A window is ready when every upstream reported that it is through
with it. Those that are silent are not waited for any more when one is through with what comes ``wait_ms`` after it, and
every upstream that still moves has reached it: then it is judged without the others and counts as incomplete. An
upstream is silent when it has reported no progress for ``wait_ms`` of the records' clock (``record_clock``). So a
backlog is waited for while it is worked off, one upstream after the other, up to ``WINDOWS_MAX`` windows: beyond, the
oldest goes as it is. How large a fleet is decides nothing: of what waits ``MEMORY_BYTES_MAX`` is in memory, and the
rest in files, one per window.

A window that some upstream keeps waiting is *looked at early*, once: ``early_ms`` of that clock after the first
upstream was through with it, with what came of those that are. So no machine waits to be seen for what somebody else
delays; the window is judged all the same when its time has come, and trains nothing before. When it is looked at
follows from the log alone.

A dump holds no values, only their offsets: an owner that loads it reads them again from the log (``add_again``).

Every window is judged once, empty ones too (silence is news), but of a gap longer than ``gap_ms`` only the
beginning. What comes for a window after its upstream was through with it, or after it was judged, is a late revision:
counted and left to readers of the topic.

An upstream that lost rows says up to which window: those that it was not through with lack it, whatever it is through
with then, and are judged as if it were silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.finals import PROGRESS_SCHEMA, FinalsHeaders
from stream_jobs.parts import compress, decompress
from stream_jobs.record_clock import RecordClock

WAIT_MS = MINUTE_MS
EARLY_MS = 5_000
"""Upstreams that are well are through with a window within two or three seconds of one another."""
PAUSE_MS = 15_000
"""A silence of everybody counts as no more: normally a window is reported every ten seconds."""
GAP_MS = HOUR_MS
WINDOWS_MAX = HOUR_MS // WINDOW_MS
"""That wait. A window of 10,000 GPUs has some 10 MiB."""
MEMORY_BYTES_MAX = 256 * 1024 * 1024
"""Of values that wait in memory, where there is a place for files."""

_log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """One record's rows, as they came."""

    upstream: int
    schema: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Ready:
    """A window to be judged now. ``complete`` is False when an upstream is missing or said so itself; then
    ``series_whole`` says that upstreams are missing alone: of those that are there nothing is."""

    window_ms: int
    complete: bool
    pieces: tuple[Piece, ...]
    series_whole: bool = False


class _Came(NamedTuple):
    """A piece that waits. ``offset`` None: it stands in no log, and so in every dump; ``value`` None: the file has it,
    ``length`` bytes at ``start``."""

    upstream: int
    schema: str
    offset: int | None
    value: bytes | None
    start: int
    length: int


@dataclass(slots=True)
class Waiting:
    """What came of a window so far. ``expected`` are offsets of pieces that are yet to be read again; ``passed_ms`` is
    the clock when the first upstream was through with it, None before; ``looked``: it was looked at early."""

    complete: bool = True
    came: list[_Came] = field(default_factory=list)
    expected: list[int] = field(default_factory=list)
    passed_ms: int | None = None
    looked: bool = False
    _file: BinaryIO | None = field(default=None, repr=False, compare=False)
    _written: int = 0
    _refused: bool = False

    @property
    def memory_bytes(self) -> int:
        """Of values in memory."""
        return sum(one.length for one in self.came if one.value is not None)

    def take(self, piece: Piece, offset: int | None, open_file: Callable[[], BinaryIO] | None = None) -> int:
        """One more piece; its value goes to the file if one can be opened. Bytes that it takes of memory."""
        length, value = len(piece.value), piece.value
        if open_file is not None and self._wrote(value, open_file):
            self.came.append(_Came(piece.upstream, piece.schema, offset, None, self._written - length, length))
            return 0
        self.came.append(_Came(piece.upstream, piece.schema, offset, value, 0, length))
        return length

    def _wrote(self, value: bytes, open_file: Callable[[], BinaryIO]) -> bool:
        try:
            if self._file is None:
                self._file = open_file()
            self._file.seek(self._written)
            if self._file.write(value) != len(value):
                raise OSError("the disk took a part of it")
        except OSError as error:
            if not self._refused:  # once a window
                facts = {"bytes": len(value), "error": str(error)}
                _log.warning("finals that wait cannot be written to disk; they stay in memory", extra=facts)
            self._refused = True
            return False
        self._written += len(value)
        return True

    def pieces(self, upstreams: Container[int] | None = None) -> tuple[Piece, ...]:
        """All that came (of these upstreams), in the order of their offsets."""
        came = [one for one in self.came if upstreams is None or one.upstream in upstreams]
        return tuple(Piece(one.upstream, one.schema, self._value(one)) for one in came)

    def _value(self, one: _Came) -> bytes:
        if one.value is not None:
            return one.value
        assert self._file is not None
        try:
            self._file.seek(one.start)
            value = self._file.read(one.length)
        except OSError as error:
            raise MemoryError(f"a file of finals that wait cannot be read: {error}") from error
        if len(value) != one.length:
            raise MemoryError("a file of finals that wait was cut short")  # no fault of a record: the process ends
        return value

    def forget(self) -> None:
        """The log has none of it any more: it is incomplete, with what stands in the dumps alone."""
        self.came = [one for one in self.came if one.offset is None]
        self.complete, self.expected = False, []

    def close(self) -> None:
        """It waits no more: its file goes."""
        if self._file is not None:
            self._file.close()


@dataclass(slots=True)
class Gather:
    """``through_ms`` by upstream, and in ``rose_ms`` the clock when that rose; ``next_ms`` is the window to be judged
    next, None before the first."""

    through_ms: list[int]
    window_ms: int = WINDOW_MS
    wait_ms: int = WAIT_MS
    early_ms: int = EARLY_MS
    gap_ms: int = GAP_MS
    windows_max: int = WINDOWS_MAX
    memory_bytes_max: int = MEMORY_BYTES_MAX
    open_file: Callable[[], BinaryIO] | None = None
    """For values beyond ``memory_bytes_max``; None: all stay in memory."""
    waiting: dict[int, Waiting] = field(default_factory=dict)
    next_ms: int | None = None
    empty: int = 0
    """Windows in a row that nothing came for."""
    late: int = 0
    strange: int = 0  # records of upstreams that we do not expect
    rose_ms: list[int] = field(default_factory=list)
    clock: RecordClock = field(default_factory=lambda: RecordClock(PAUSE_MS))
    memory_bytes: int = 0  # of values that wait in memory
    torn: list[int] = field(default_factory=list)  # upstreams: finals may be missing before those that come next
    lost_to_ms: int = 0  # windows that end by then may lack finals
    lost: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By upstream: windows that end after the one and by the other moment lack its rows."""

    def __post_init__(self) -> None:
        self.rose_ms = self.rose_ms or [0] * len(self.through_ms)

    @property
    def clock_ms(self) -> int:
        """What it shows now."""
        return self.clock.now_ms

    def add(self, headers: FinalsHeaders, value: bytes, at_ms: int | None = None, offset: int | None = None) -> None:
        """Take a record of finals, exemplars or progress that was appended at ``at_ms``; without append times (None)
        event time alone decides who is waited for. ``offset`` None: it cannot be read again."""
        if not 0 <= headers.upstream < len(self.through_ms):
            self.strange += 1
            return
        if at_ms is None:
            self.clock.now_ms += self.wait_ms + 1
        else:
            self.clock.hear(headers.upstream, at_ms)
        if headers.rows:
            self._add_rows(headers, value, offset)
        elif headers.schema == PROGRESS_SCHEMA and headers.window_ms:
            self._lose(headers.upstream, headers.window_ms)
        if headers.through_ms > self.through_ms[headers.upstream]:
            if headers.upstream in self.torn:
                self.torn.remove(headers.upstream)
                self.lost_to_ms = max(self.lost_to_ms, headers.through_ms)
            self.through_ms[headers.upstream] = headers.through_ms
            self.rose_ms[headers.upstream] = self.clock_ms
            self._pass(headers.through_ms)

    def _lose(self, upstream: int, to_ms: int) -> None:
        after_ms, _ = self.lost.get(upstream, (self.through_ms[upstream], 0))
        if to_ms > after_ms:
            self.lost[upstream] = after_ms, to_ms

    def _is_lost(self, upstream: int, end_ms: int) -> bool:
        after_ms, to_ms = self.lost.get(upstream, (0, 0))
        return after_ms < end_ms <= to_ms

    def _pass(self, through_ms: int) -> None:
        """An upstream is through with these windows, some of them as the first."""
        for window_ms, waiting in self.waiting.items():
            if waiting.passed_ms is None and window_ms + self.window_ms <= through_ms:
                waiting.passed_ms = self.clock_ms

    def _limit(self) -> int:
        """The end of what can be judged, now that all or those that are waited for have passed it."""
        progress = zip(self.through_ms, self.rose_ms, strict=True)
        moving = [through_ms for through_ms, rose_ms in progress if self.clock_ms - rose_ms <= self.wait_ms]
        limit = max(min(self.through_ms), min([*moving, max(self.through_ms) - self.wait_ms]))
        if len(self.waiting) <= self.windows_max:
            return limit
        return max(limit, min(min(self.waiting) + self.window_ms, max(self.through_ms)))

    def _add_rows(self, headers: FinalsHeaders, value: bytes, offset: int | None) -> None:
        window_ms, upstream = headers.window_ms, headers.upstream
        judged, end_ms = self.next_ms is not None and window_ms < self.next_ms, window_ms + self.window_ms
        if judged or end_ms <= self.through_ms[upstream] or self._is_lost(upstream, end_ms):
            self.late += 1
            return
        waiting = self.waiting.setdefault(window_ms, Waiting())
        waiting.complete = waiting.complete and headers.complete
        self._keep(waiting, Piece(upstream, headers.schema, value), offset)

    def _keep(self, waiting: Waiting, piece: Piece, offset: int | None) -> None:
        is_full = self.memory_bytes + len(piece.value) > self.memory_bytes_max
        self.memory_bytes += waiting.take(piece, offset, self.open_file if is_full else None)

    def add_again(self, offset: int, headers: FinalsHeaders, value: bytes) -> None:
        """Take what is read again after a dump was loaded: pieces that waited then, and nothing else of a record."""
        waiting = self.waiting.get(headers.window_ms)
        if waiting is not None and waiting.expected and waiting.expected[0] == offset:
            del waiting.expected[0]
            self._keep(waiting, Piece(headers.upstream, headers.schema, value), offset)

    def first_offset(self) -> int | None:
        """Where to begin to read again all that waits; None where nothing does that has an offset."""
        firsts = [[*one.expected[:1], *(came.offset for came in one.came)] for one in self.waiting.values()]
        return min((offset for found in firsts for offset in found if offset is not None), default=None)

    def pass_over(self, offset: int) -> None:
        """Nothing before ``offset`` can be read again: windows that lack some of it are incomplete."""
        for waiting in self.waiting.values():
            kept = [one for one in waiting.expected if one >= offset]
            waiting.complete = waiting.complete and len(kept) == len(waiting.expected)
            waiting.expected = kept

    def begin_again(self) -> None:
        """What came so far cannot be read again, and finals may be missing before those that come next."""
        for waiting in self.waiting.values():
            waiting.forget()
        self.memory_bytes = sum(waiting.memory_bytes for waiting in self.waiting.values())
        self.torn = list(range(len(self.through_ms)))

    def _is_whole(self, window_ms: int, waiting: Waiting) -> bool:
        """Nothing is missing of what upstreams that are through with the window sent of it."""
        return waiting.complete and not waiting.expected and window_ms + self.window_ms > self.lost_to_ms

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
            self.memory_bytes -= waiting.memory_bytes
            pieces = waiting.pieces()
            waiting.close()
            whole = self._is_whole(window_ms, waiting)
            complete = whole and end_ms <= passed and not any(self._is_lost(one, end_ms) for one in self.lost)
            self.lost = {one: span for one, span in self.lost.items() if span[1] > end_ms}
            yield Ready(window_ms, complete, pieces, series_whole=whole and not complete)

    def early(self) -> Iterator[Ready]:
        """Windows that are to be looked at early, in order of time and behind ``ready``; each comes once. Without
        append times there is no clock to say so."""
        for window_ms, waiting in sorted(self.waiting.items()) if self.clock.heard_ms else ():
            if waiting.looked or waiting.passed_ms is None or self.clock_ms - waiting.passed_ms < self.early_ms:
                continue
            waiting.looked = True
            end_ms = window_ms + self.window_ms
            through = {upstream for upstream, at_ms in enumerate(self.through_ms) if at_ms >= end_ms}
            pieces = waiting.pieces(through) if self._is_whole(window_ms, waiting) else ()
            if pieces:
                yield Ready(window_ms, False, pieces, series_whole=True)

    def _skip(self, limit: int) -> None:
        """Over the rest of a long gap, to the next window that something came for."""
        if self.next_ms in self.waiting or self.empty * self.window_ms < self.gap_ms:
            return
        assert self.next_ms is not None
        ahead = (window_ms for window_ms in self.waiting if window_ms >= self.next_ms)
        self.next_ms = min(min(ahead, default=limit), limit - limit % self.window_ms)

    def head(self) -> dict[str, Any]:
        """The state but for the values, as plain values: of each window the offsets of its pieces, and those that have
        none, whose ``values`` go in the order of ``waiting``."""
        waiting = []
        for window_ms, one in self.waiting.items():
            offsets = [*(came.offset for came in one.came if came.offset is not None), *one.expected]
            carried = [(*came[:2], len(value)) for came, value in self._carried(one)]
            waiting.append([window_ms, one.complete, carried, offsets, one.passed_ms, one.looked])
        names = ("through_ms", "rose_ms", "clock_ms", "next_ms", "empty", "late", "strange")
        rare = {"torn": self.torn, "lost_to_ms": self.lost_to_ms, "behind_ms": [*self.clock.behind_ms.items()]}
        rare |= {"lost": [(upstream, *span) for upstream, span in self.lost.items()]}
        found = {**{name: getattr(self, name) for name in names}, "heard_ms": self.clock.heard_ms, "waiting": waiting}
        return found | {name: value for name, value in rare.items() if value}

    def values(self) -> list[bytes]:
        """The values that wait and cannot be read again, compressed."""
        return [value for one in self.waiting.values() for _, value in self._carried(one)]

    def _carried(self, waiting: Waiting) -> list[tuple[_Came, bytes]]:
        """They are few: of a snapshot of a release before, for a minute."""
        return [(one, compress(one.value)) for one in waiting.came if one.offset is None and one.value is not None]

    def load(self, head: dict[str, Any], data: bytes) -> None:
        """Restore a dump; pieces of the log are then ``expected``. New upstreams have reported nothing yet and are
        waited for. One of a release before has no offsets, and the values of all pieces."""
        through_ms = head["through_ms"][: len(self.through_ms)]
        self.through_ms[: len(through_ms)] = through_ms
        rose_ms = head["rose_ms"][: len(self.rose_ms)]
        self.rose_ms = [*rose_ms, *[head["clock_ms"]] * (len(self.rose_ms) - len(rose_ms))]
        self.clock = RecordClock(PAUSE_MS, head["clock_ms"], head["heard_ms"], dict(head.get("behind_ms", ())))
        for name in ("next_ms", "empty", "late", "strange"):
            setattr(self, name, head[name])
        self.torn, self.lost_to_ms = list(head.get("torn", ())), head.get("lost_to_ms", 0)
        self.lost = {upstream: (after_ms, to_ms) for upstream, after_ms, to_ms in head.get("lost", ())}
        position = self.memory_bytes = 0
        for window_ms, complete, carried, *rest in head["waiting"]:
            waiting = self.waiting[window_ms] = Waiting(complete)
            if rest:
                waiting.expected, waiting.passed_ms, waiting.looked = list(rest[0]), rest[1], rest[2]
            for upstream, schema, length in carried:
                piece = Piece(upstream, schema, decompress(data[position : position + length]))
                self.memory_bytes += waiting.take(piece, None)
                position += length
