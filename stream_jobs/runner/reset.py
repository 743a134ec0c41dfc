"""The way back for a partition that is quarantined: a new place to go on from, with what is missing said in the books.

A reset is a transaction with the transactional id of the partition's owner. So it is one with the protocol: its
producer fences an owner that still runs, whose next commit fails, and every later owner finds offset, snapshot and
books of the reset, or, where the reset was killed, nothing of it. A record that an owner had to obey would leave open
what a frozen one does. An owner that starts meanwhile fences the reset, which then has changed nothing.

Nothing is counted twice: what was committed is never folded aloud again, so folding goes on at the committed offset or
behind it. Where the group's offset is lost, that is where the books end; without books, where the last snapshot
stands, and what was committed behind that counts again. The state is the last snapshot's, and what the log still has
behind it is folded silently. Three ranges of offsets say what the reset costs:

- *missing*: ``[counted to, to)``, never folded: their events are in no window;
- *forgotten*: ``[snapshot, begin of the log)``, folded and emitted, and no part of the state any more: a record among
  them that is sent again counts again, windows still open are left out by steps that hold whole windows;
- *again*: ``[snapshot, ...)`` where nobody knows what was committed.

The topic's id, which the snapshot names, tells another log of the same name from the one that was counted: none of its
records was, and offsets of before are those of other records. Where the id is the same, a log that ends before what was
counted was truncated, and all that it holds was counted. Where nobody knows the id, such a log is taken for another
one. Behind either, and where records are missing, the step begins again (``Step.begin_again``): what its state knows of
offsets means nothing any more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.contract.record import Output
from schemas.errors import ConfigError, ContractError, PartitionError
from schemas.limits import MINUTE_MS
from stream_jobs.runner import recovery
from stream_jobs.runner.exactly_once import PartitionOwner, Plan
from stream_jobs.runner.ports import Committed
from stream_jobs.runner.snapshot import Pointer
from stream_jobs.step import Commit

EARLIEST = "earliest"
LATEST = "latest"
NUMBERS_LEFT_OUT = 1 << 32
"""Numbers of outputs only have to rise. Where the last one is lost with the offset, so many are left out."""
CLOCKS_APART_MS = MINUTE_MS
"""How far the clocks of workers, brokers and whoever resets may differ."""

Span = tuple[int, int]
"""Offsets ``[from, to)``."""


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does. ``cause`` None: nothing is damaged. ``committed`` is the group's offset, ``snapshot`` the
    position of the last snapshot; None where they are lost. ``log`` is what the log holds; ``same_topic``: by its id
    or by word of whoever resets it is the one that was counted, None where nobody knows. ``booked``: the books know of
    an owner."""

    source: str
    cause: str | None
    committed: int | None
    counted_to: int
    certain: bool
    snapshot: int | None
    log: Span
    to: int
    same_topic: bool | None = None
    booked: bool = False

    @property
    def done_to(self) -> int:
        """The offset up to which this log was counted."""
        return self.log[0] if self.same_topic is False else self.counted_to

    @property
    def missing(self) -> Span | None:
        """Offsets that are never folded."""
        return (self.done_to, self.to) if self.to > self.done_to else None

    @property
    def forgotten(self) -> Span | None:
        """Offsets that were folded and are no part of the state any more."""
        if self.committed is None and self.snapshot is None and not self.booked:
            return None  # it never had an owner
        start = self.snapshot or 0
        stop = self.counted_to if self.has_other_offsets else min(self.log[0], self.counted_to)
        return (start, stop) if start < stop else None

    @property
    def unread(self) -> Span | None:
        """The part of what is missing that the log still holds."""
        first = max(self.done_to, self.log[0])
        return (first, self.to) if first < self.to else None

    @property
    def is_another_log(self) -> bool:
        """It was recreated under the same name, or is taken for such a one."""
        return self.same_topic is False or (self.same_topic is None and self.counted_to > self.log[1])

    @property
    def is_truncated(self) -> bool:
        """It is the log that was counted, and ends before what was."""
        return self.same_topic is True and self.counted_to > self.log[1]

    @property
    def has_other_offsets(self) -> bool:
        """What the state knows of offsets means nothing in this log."""
        return self.is_another_log or self.is_truncated

    @property
    def again(self) -> Span | None:
        """Offsets of which nobody knows whether they were committed; if so, they count again."""
        is_known = self.certain or self.same_topic is False
        return None if is_known or self.to >= self.log[1] else (self.to, self.log[1])


Declare = Callable[[Reset, Commit], list[Output]]
"""The records that say in the books what is missing: the commit's offsets, if any."""
Books = Callable[[], Awaitable[int | None]]
"""Where the books of the partition end; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Known:
    """What tells how far the partition was counted. Where a committed offset points to a snapshot, that is all. Without
    one, where the books end, and ``snapshots``: offsets of all those in the state topic."""

    committed: Committed | None
    pointer: Pointer | None
    books: int | None
    snapshots: tuple[int, ...]
    topic_id: str | None = None


async def _no_books() -> int | None:
    return None


class Resetting(PartitionOwner):
    """An owner that lives for one transaction. Use it once: ``plan``, then perhaps ``carry_out``."""

    async def plan(self, to: str, books: Books = _no_books, *, same_topic: bool = False) -> Reset:
        """What going on at ``to`` (earliest, latest or an offset) would do; changes nothing. ``same_topic``: it is the
        one that was counted, record for record, whatever its id. Raises ``ConfigError`` for an offset that cannot be
        gone on from, and for files under which alerts would end."""
        await recovery.demand_partitions(self._broker, self._names, self.source)
        self._books = books
        cause = await self._damage()
        topic, partition = self.source.topic, self.source.partition
        known = self._known = await self._look()
        parts = await self._last_snapshot(known.snapshots)
        begin = await self._broker.begin_offset(topic, partition)
        end = await self._broker.end_offset(topic, partition)
        position = None if self._snapshot is None else self._snapshot.position
        certain = known.pointer is not None or known.books is not None or position is None
        counted = self._counted_to(known, begin)
        counted_id = None if self._snapshot is None else self._snapshot.topic_id
        same = self._same_topic = same_topic or _is_same(counted_id, known.topic_id)
        self._found = known.committed
        self._checkpoint = None if position is None else (position, parts)
        self._number = (
            known.pointer.number
            if known.pointer
            else (self._snapshot.number + NUMBERS_LEFT_OUT if self._snapshot else 0)
        )
        self._committed = counted
        where = self._where(to, counted, begin, end)
        committed = None if known.committed is None else known.committed.offset
        log, booked = (begin, end), known.books is not None
        reset = Reset(str(self.source), cause, committed, counted, certain, position, log, where, same, booked)
        self._topic_id = known.topic_id or (None if reset.is_another_log else counted_id)
        return reset

    async def _look(self) -> Known:
        found = await self._read_committed()
        pointer, topic_id = _pointer(found, str(self.source)), await self._broker.topic_id(self.source.topic)
        if pointer is not None:
            return Known(found, pointer, None, (pointer.snapshot,), topic_id)
        snapshots = await recovery.snapshots(self._broker, self._names, self.source)
        return Known(found, None, await self._books(), tuple(snapshots), topic_id)

    async def _damage(self) -> str | None:
        try:
            await self._beside().examine()
        except PartitionError as error:
            return error.cause
        return None

    def _beside(self) -> PartitionOwner:
        return PartitionOwner(
            self._step, self.source, self._broker, self._names, self._policy, self._clock, self._counters
        )

    async def _last_snapshot(self, offsets: Sequence[int]) -> list[bytes]:
        """Parts of the last of them that can be loaded."""
        for offset in reversed(offsets):
            try:
                parts = await self._read_snapshot(offset, settled=True)
                self._demand_files(recovery.loaded(self._step, self.source, parts))
                return parts
            except PartitionError:
                self._snapshot = None
        return []

    def _demand_files(self, state: Any) -> None:
        """Raise ``ConfigError`` where something that is open in the state would end under the files that were given."""
        if lacking := ", ".join(self._step.ends_without(state)):
            bound = f"must be the file that the job runs with: it lacks {lacking}, of which alerts are open"
            raise ConfigError("--rules", None, bound)

    def _counted_to(self, known: Known, begin: int) -> int:
        if known.committed is not None and known.pointer is not None:
            return known.committed.offset
        if self._snapshot is None:
            return begin if known.books is None else known.books
        return self._snapshot.position if known.books is None else max(self._snapshot.position, known.books)

    def _where(self, to: str, counted: int, begin: int, end: int) -> int:
        """The offset meant by ``to``."""
        check_to(to)
        first = _first(counted, begin, end, self._same_topic)
        if to in (EARLIEST, LATEST):
            return first if to == EARLIEST else end
        if not first <= int(to) <= end:
            raise ConfigError("--to", to, f"must be an offset from {first} (what is before has been counted) to {end}")
        return int(to)

    async def carry_out(self, reset: Reset, declare: Declare) -> None:
        """Do it. Raises ``ContractError`` when somebody has committed since it was planned, ``FencedError`` when an
        owner started meanwhile: both have changed nothing."""
        planned = self._known
        await self._rebuild_state(reset)
        await self._fence()
        await self._demand_unchanged(planned)
        commit = Commit(
            self.source.topic,
            self.source.partition,
            reset.done_to,
            reset.to,
            self._number,
            self._clock.now_ms(),
            idle=False,
        )
        outputs = declare(reset, commit)
        round_ = self._next_round(self._number, whole=True)
        assert round_ is not None
        await self._transact(Plan(outputs, round_.next_pieces(None), round_, reset.to, self._number, None))

    async def _demand_unchanged(self, planned: Known) -> None:
        """All that was looked at, not the committed offset alone: an owner's commit may be lost again already. And no
        snapshot after the one that was read: until the owner was fenced, its last one may have stood behind an open
        transaction."""
        if await self._look() != planned or await self._can_load_any(self._unread(planned.snapshots)):
            raise ContractError(f"{self.source}: its owner has committed meanwhile; stop the worker, and plan again")

    def _unread(self, offsets: Sequence[int]) -> Sequence[int]:
        """Those after the snapshot that was read."""
        return offsets if self._snapshot is None else offsets[bisect_right(offsets, self._snapshot.offset) :]

    async def _can_load_any(self, offsets: Sequence[int]) -> bool:
        for offset in offsets:
            try:
                _, parts = await recovery.read_snapshot(self._broker, self._names, self.source, offset, settled=True)
                recovery.loaded(self._step, self.source, parts)
            except PartitionError:
                continue
            return True
        return False

    async def _rebuild_state(self, reset: Reset) -> None:
        """The state as of ``reset.to``: the snapshot's, and silently what the log has behind it."""
        begin, counted_to = reset.log[0], reset.counted_to
        await self._restore()
        if self._checkpoint is None:
            self._position = min(begin, counted_to)
        is_gone = self._position < begin or reset.forgotten is not None
        if not reset.has_other_offsets and begin < counted_to:
            knows_nothing = self._checkpoint is None
            if is_gone and (knows_nothing or not self._step.pass_over(self._state, begin)):
                await self._begin_again(begin, reset.log)
            self._position = max(self._position, begin)
            if self._position < counted_to:
                await self._fold_silently(counted_to)
        if reset.missing or reset.has_other_offsets or (is_gone and begin >= counted_to):
            await self._begin_again(reset.to, reset.log)
        self._position = reset.to
        self._forget_changes()

    async def _begin_again(self, offset: int, log: Span) -> None:
        """Timestamps are of several clocks: those of a topic with CreateTime are of the workers that wrote it, and a
        record that was sent again behind others has the older one; now is of whoever resets. So what was lost may be a
        little newer than what comes next."""
        created_ms = await recovery.first_created_ms(self._broker, self.source, (offset, log[1]))
        if created_ms is None:
            last_ms = await recovery.last_created_ms(self._broker, self.source, log)
            created_ms = max(last_ms or 0, self._clock.now_ms())
        lost_to_ms = created_ms + self._policy.transaction_timeout_ms + CLOCKS_APART_MS
        self._step.begin_again(self._state, offset, lost_to_ms)


def check_to(to: str) -> None:
    """Raise ``ConfigError`` for what is neither earliest, latest nor an offset."""
    if to not in (EARLIEST, LATEST) and not (to.isascii() and to.isdigit()):
        raise ConfigError("--to", to, "must be earliest, latest or an offset")


def _is_same(counted: str | None, found: str | None) -> bool | None:
    """Whether these ids are of one topic; None where either is not known."""
    return None if counted is None or found is None else counted == found


def _first(counted: int, begin: int, end: int, same: bool | None) -> int:
    """The first offset that was not counted."""
    if same is False or (same is None and counted > end):
        return begin
    return min(max(counted, begin), end)


def _pointer(found: Committed | None, where: str) -> Pointer | None:
    try:
        return None if found is None else Pointer.decode(found.metadata, where)
    except PartitionError:
        return None


def describe(reset: Reset) -> list[str]:
    """Sentences for people: what is wrong, and what the reset would cost."""
    begin, end = reset.log
    lines = [
        f"{reset.source}: {reset.cause or 'nothing is damaged'}; log [{begin}, {end}),"
        f" committed {_or_lost(reset.committed)}, snapshot at {_or_lost(reset.snapshot)}",
        f"goes on at offset {reset.to}",
    ]
    if reset.same_topic is False:
        lines.append("the topic was recreated under the same name, as its id says: none of its records was counted")
    elif reset.is_truncated:
        lines.append(
            f"the log was truncated, as its id or --same-topic says: it ends before offset {reset.counted_to}, up to"
            " which it was counted, so all that it holds was. Records that came since are left out, too"
        )
    elif reset.is_another_log:
        lines.append(
            f"the log ends before offset {reset.counted_to}, up to which it was counted: it is taken for another one of"
            f" the same name, none of whose records was counted. If it is the same and was truncated, all before {end}"
            " was: then --to latest"
        )
    if reset.missing:
        first, stop = reset.missing
        lines.append(f"missing: up to {stop - first:,} records, offsets [{first}, {stop}), are in no window")
    if reset.forgotten:
        first, stop = reset.forgotten
        lines.append(
            f"forgotten: offsets [{first}, {stop}) are counted, but not known any more: a record of them that is sent"
            " again counts again"
        )
    if reset.again:
        first, stop = reset.again
        lines.append(f"again: what of offsets [{first}, {stop}) was counted before, counts again")
    return lines


def _or_lost(offset: int | None) -> str:
    return "lost" if offset is None else f"{offset}"
