"""The owner of one source partition: the protocol that makes results exactly once.

States: *new* -> ``acquire`` -> *live* -> ``stop`` -> *gone*. The order inside ``acquire`` is the protocol:

1. start the partition's transactional producer, which fences every predecessor and ends its open transaction;
2. only then read the group's committed offset (before that, a commit could still be pending behind the answer);
3. load the snapshot that the offset's metadata points to, and fold the source from the snapshot's position up to the
   committed offset *silently*: what that changes was sent before. The position is where the state was dumped, or what
   ``Step.replay_from`` said then. Where nothing was sent since, of a step that is ``SNAPSHOT_WITH_OUTPUTS``, nothing is
   folded silently: it goes on, live, from the snapshot;
4. the caller seeks to the position returned and feeds from there.

Live, ``feed`` folds and sends nothing. ``commit`` writes one transaction: outputs, pieces of a snapshot, the source
offset with its pointer. A partition that is read to its end and idle gets one more snapshot if its last one stands
before that: it would need a part of the log that retention takes one day. What the step says is taken in one go,
without waiting, and folding goes on while the transaction is on its way: if it fails, the process ends and everything
since the last commit is folded again.

Whatever a port raises goes up and must end the process; the owner does nothing more after it. The one exception is a
record that makes ``fold`` raise: it is poison, not doubt. The state it may have spoilt is thrown away and built again
from the snapshot and the log, the record is booked by ``Step.reject``, and the commit that holds it carries a whole
snapshot, so that nobody has to find it again.

Nothing here knows asyncio, Kafka's client or Faust: the simulator in the tests drives this very code.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.clock import Clock
from runtime.tracing import Tracer
from schemas.errors import ContractError
from schemas.record import Output, Record
from stream_jobs.host import recovery, snapshot
from stream_jobs.host.names import Names
from stream_jobs.host.policy import CommitPolicy
from stream_jobs.host.ports import Broker, Committed
from stream_jobs.host.snapshot import Pointer, Round, Snapshot
from stream_jobs.host.source import Source
from stream_jobs.host.spans import CommitSpans, PartitionSpans
from stream_jobs.step import Commit, Step, passes_over, replay_from

_log = logging.getLogger(__name__)

DETAIL_CHARS_MAX = 4_000
SNAPSHOT_WITH_OUTPUTS = "snapshot_with_outputs"
"""Name of the attribute by which a step asks that every commit with outputs carries a whole snapshot. A step whose
results hang on rules that people change needs it: what was sent is then never folded again, under other rules."""


def tells_with_snapshot(step: Step[Any, Any]) -> bool:
    """Whether every commit of the step's outputs carries a whole snapshot."""
    return bool(getattr(step, SNAPSHOT_WITH_OUTPUTS, False))


def _bytes(outputs: Sequence[Output]) -> int:
    """Of their values."""
    return sum(len(output.value or b"") for output in outputs)


class GivenUpError(Exception):
    """The partition was given up meanwhile: no doubt, only nothing more to do."""


@dataclass(slots=True)
class _Plan:
    """A transaction as it was decided, before anything was sent."""

    outputs: list[Output]
    pieces: list[Output]
    round: Round | None
    offset_to: int
    number: int
    spans: CommitSpans | None


class PartitionOwner:
    """Owns ``source`` on behalf of ``step``. One coroutine at a time may acquire or feed; one commit may go beside."""

    def __init__(
        self,
        step: Step[Any, Any],
        source: Source,
        broker: Broker,
        names: Names,
        policy: CommitPolicy,
        clock: Clock,
        tracer: Tracer | None = None,
    ) -> None:
        self.source = source
        self._step = step
        self._broker = broker
        self._names = names
        self._policy = policy
        self._clock = clock
        self._spans = None if tracer is None else PartitionSpans(tracer, names.group, source)
        self._producer = broker.producer(names.transactional_id(source.topic, source.partition))
        self._state: Any = None
        self._changes: Any = None
        self._position = 0
        self._committed = 0
        self._number = 0
        self._snapshot: Snapshot | None = None
        self._round: Round | None = None
        self._checkpoint: tuple[int, list[bytes]] | None = None
        self._dumped_to = -1
        self._snapshot_at_ms = self._committed_at_ms = self._fed_at_ms = float("-inf")
        self._rests_ms = 0.0
        self._committing = False
        self._isolating = False
        self._gone = False
        self.output_bytes = 0

    @property
    def number(self) -> int:
        """Outputs written about this partition so far, by all its owners."""
        return self._number

    @property
    def position(self) -> int:
        """The offset that comes next."""
        return self._position

    @property
    def committed(self) -> int:
        """The source offset of the last commit."""
        return self._committed

    # taking over

    async def acquire(self) -> int:
        """Take over; returns the offset to feed from."""
        await self._fence()
        committed = await self._read_committed()
        if committed is None:
            await self._begin_anew()
        else:
            await self._continue_from(committed)
        self._committed = self._position
        self._checkpoint = None
        self._dumped_to = -1 if self._snapshot is None else self._snapshot.position
        self._forget_changes()
        self._fed_at_ms = self._elapsed_ms()  # and the first commit waits for no interval: a take-over is late already
        return self._position

    async def _fence(self) -> None:
        await self._producer.start()

    async def _read_committed(self) -> Committed | None:
        return await self._broker.committed(self._names.group, self.source.topic, self.source.partition)

    async def _begin_anew(self) -> None:
        await self._refuse_if_known()
        self._committed = await self._broker.begin_offset(self.source.topic, self.source.partition)
        await self._restore()

    async def _refuse_if_known(self) -> None:
        await recovery.refuse_if_known(self._broker, self._names, self.source)

    async def _continue_from(self, committed: Committed) -> None:
        pointer = Pointer.decode(committed.metadata, str(self.source))
        self._number = pointer.number
        parts = await self._read_snapshot(pointer.snapshot, settled=True)
        assert self._snapshot is not None
        first = await self._first_to_read(committed.offset)
        await self._check_log(first, committed.offset)
        self._checkpoint = (self._snapshot.position, parts)
        await self._restore()
        if first > self._snapshot.position:
            self._pass_over(first)
        if not (tells_with_snapshot(self._step) and self._snapshot.number == pointer.number):
            await self._fold_silently(committed.offset)

    async def _first_to_read(self, committed: int) -> int:
        """Where the silent fold begins: at the snapshot, or at the log's beginning where the step goes on without what
        retention took. Never beyond what was committed and not yet taken: what nobody has read is not passed over."""
        assert self._snapshot is not None
        if not passes_over(self._step):
            return self._snapshot.position
        begin = await self._broker.begin_offset(self.source.topic, self.source.partition)
        return max(self._snapshot.position, begin)

    def _pass_over(self, offset: int) -> None:
        _log.warning(
            "the log does not go back to the snapshot; windows that were open then are not told",
            extra={"source": str(self.source), "snapshot": self._position, "log_begins": offset},
        )
        self._step.pass_over(self._state, offset)  # type: ignore[attr-defined]
        self._position = offset
        self._checkpoint = self._dumped()

    async def _read_snapshot(self, offset: int, *, settled: bool) -> list[bytes]:
        self._snapshot, parts = await recovery.read_snapshot(
            self._broker, self._names, self.source, offset, settled=settled
        )
        return parts

    async def _check_log(self, start: int, committed: int) -> None:
        await recovery.check_log(self._broker, self.source, start, committed)

    async def _restore(self) -> None:
        """The state of the last checkpoint in memory, else of the last snapshot, else a new one; nothing unsent."""
        topic, partition = self.source.topic, self.source.partition
        if self._checkpoint is None and self._snapshot is not None:
            parts = await self._read_snapshot(self._snapshot.offset, settled=False)
            self._checkpoint = (self._snapshot.position, parts)
        if self._checkpoint is None:
            self._state, self._position = self._step.new(topic, partition), self._committed
        else:
            self._position, parts = self._checkpoint
            self._state = self._step.load(topic, partition, parts)
        self._forget_changes()

    async def _fold_silently(self, end: int) -> None:
        await self._fold_log(end, silent=True)

    async def _fold_log(self, end: int, *, silent: bool) -> None:
        """Fold the log from the position up to ``end``."""
        if self._position == end:
            return
        reader = await self._broker.reader(self.source.topic, self.source.partition, self._position)
        try:
            while self._position < end:
                self._still_here()
                batch = await reader.poll()
                records = [record for record in batch.records if record.offset < end]
                if records:
                    await self._fold(records, silent=silent)
                if not self.source.gapless:
                    self._position = max(self._position, min(batch.position, end))
        finally:
            await reader.close()

    # live

    async def feed(self, records: Sequence[Record]) -> None:
        """Fold what a fetch brought (in order, not empty)."""
        self._still_here()
        if self._spans is not None:
            self._spans.fed(records)
        try:
            await self._fold(records, silent=False)
        except BaseException:
            self._gone = True
            raise
        self._fed_at_ms = self._elapsed_ms()

    async def _fold(self, records: Sequence[Record], *, silent: bool) -> None:
        self._check_contiguous(records)
        try:
            self._step.fold(self._state, records, self._changes)
        except MemoryError:
            raise
        except Exception as error:
            await self._isolate(records, error, silent=silent)
        self._position = records[-1].offset + 1

    def _check_contiguous(self, records: Sequence[Record]) -> None:
        first, last = records[0].offset, records[-1].offset
        holes = last - first - (len(records) - 1)
        good = first == self._position and holes == 0 if self.source.gapless else first >= self._position and holes >= 0
        if not good:
            raise ContractError(
                f"{self.source}: {len(records)} records, offsets {first} to {last}, came where {self._position} was due"
            )

    def _forget_changes(self) -> None:
        self._changes = self._step.changes()

    def _elapsed_ms(self) -> float:
        return self._clock.monotonic_s() * 1_000

    def _still_here(self) -> None:
        if self._gone:
            raise GivenUpError(f"{self.source} was given up")

    # committing

    def wants_commit(self) -> bool:
        """Something changed and it is time, nothing more comes for now, or the step asks for it."""
        if self._committing or self._isolating or self._gone or self._position == self._committed:
            return False
        now_ms, policy = self._elapsed_ms(), self._policy
        waited_ms = now_ms - self._committed_at_ms
        if waited_ms < max(policy.due_interval_ms, self._rests_ms):
            return False
        quiet = waited_ms >= policy.idle_interval_ms and now_ms - self._fed_at_ms >= policy.idle_after_ms
        return quiet or waited_ms >= policy.interval_ms or self._step.due(self._state, self._changes)

    def seems_idle(self) -> bool:
        """Nothing came for a while and nothing waits; whether the log has more is for ``commit_idle`` to ask."""
        if self._committing or self._isolating or self._gone or self._position != self._committed:
            return False
        now_ms = self._elapsed_ms()
        return (
            now_ms - self._committed_at_ms >= self._policy.idle_interval_ms
            and now_ms - self._fed_at_ms >= self._policy.idle_after_ms
        )

    async def commit_idle(self) -> bool:
        """Commit as idle, if the partition is read to its end. The time told is from before the end was asked for, so
        whatever was appended until then has been folded."""
        now_ms = self._clock.now_ms()
        position = self._position
        end = await self._end_read_to()
        if end is None or not self.seems_idle() or position != self._committed:
            return False
        if self._snapshot_is_behind(end):
            self._position = end  # markers are read: retention may take them too
        return await self._commit(now_ms, idle=True)

    async def _end_read_to(self) -> int | None:
        """The log's end; None while there is more to read before it."""
        end = await self._broker.end_offset(self.source.topic, self.source.partition)
        return end if await recovery.only_markers(self._broker, self.source, self._position, end) else None

    async def commit(self) -> bool:
        """Commit what was folded; False when there was nothing to commit or a poisoned record is being looked for."""
        if self._isolating:
            return False
        return await self._commit(self._clock.now_ms())

    async def _commit(self, now_ms: int, *, idle: bool = False, whole: bool = False) -> bool:
        self._still_here()
        assert not self._committing, "one commit at a time"
        self._committing = True
        try:
            plan = self._plan(now_ms, idle=idle, whole=whole)
            self._committed_at_ms = self._elapsed_ms()
            if plan is not None:
                await self._transact(plan)
        except BaseException:
            self._doubt()
            raise
        finally:
            self._committing = False
        return plan is not None

    def _doubt(self) -> None:
        """Nobody knows what became of the transaction: nothing may follow it."""
        self._gone = True

    def _plan(self, now_ms: int, *, idle: bool, whole: bool) -> _Plan | None:
        source = self.source
        commit = Commit(source.topic, source.partition, self._committed, self._position, self._number, now_ms, idle)
        outputs = self._step.rows(self._state, self._changes, commit)
        self._forget_changes()
        stays = self._position == self._committed and not (idle and self._snapshot_is_behind(self._position))
        if not outputs and stays and not whole:
            return None
        whole = whole or self._snapshot is None or (bool(outputs) and tells_with_snapshot(self._step))
        round_ = self._next_round(self._number + len(outputs), whole=whole)
        pieces_max = None if whole else self._policy.snapshot_pieces_per_commit
        pieces = [] if round_ is None else round_.next_pieces(pieces_max)
        spans = None if self._spans is None else self._spans.commit(self._committed, self._position, now_ms)
        if spans is not None:
            outputs = spans.stamped(outputs)
        return _Plan(outputs, pieces, round_, self._position, self._number + len(outputs), spans)

    def _next_round(self, number: int, *, whole: bool) -> Round | None:
        """The snapshot to go on with: the one under way, or a new one when it is time."""
        if not whole:
            if self._round is not None:
                return self._round
            if not self._snapshot_due():
                return None
        self._snapshot_at_ms = self._elapsed_ms()
        slot = 0 if self._snapshot is None else (self._snapshot.slot + 1) % snapshot.SLOTS
        source, (position, parts) = self.source, self._dumped()
        self._round = snapshot.begin(self._names, source.topic, source.partition, position, slot, number, parts)
        return self._round

    def _dumped(self) -> tuple[int, list[bytes]]:
        """The state as parts, and the position from which folding goes on once they are loaded."""
        parts = list(self._step.dump(self._state))
        self._dumped_to = self._position
        return replay_from(self._step, self._state, self._position), parts

    def _snapshot_due(self) -> bool:
        assert self._snapshot is not None
        folded = self._position - self._snapshot.position
        waited_ms = self._elapsed_ms() - self._snapshot_at_ms
        return folded > 0 and (
            waited_ms >= self._policy.snapshot_interval_ms or folded >= self._policy.snapshot_records
        )

    def _snapshot_is_behind(self, end: int) -> bool:
        """Whether a snapshot is under way, or due and better than the last for who begins at ``end``."""
        if self._snapshot is None:
            return False
        return self._round is not None or (
            self._elapsed_ms() - self._snapshot_at_ms >= self._policy.snapshot_interval_ms
            and (replay_from(self._step, self._state, end) > self._snapshot.position or self._dumped_to < end)
        )

    async def _transact(self, plan: _Plan) -> None:
        await self._producer.begin()
        offsets = await self._send([*plan.outputs, *plan.pieces])
        found = self._snapshot
        if plan.round is not None:
            plan.round.wrote(offsets[len(plan.outputs) :])
            found = self._to_point_to(plan.round) or found
        assert found is not None, "the first commit carries a whole snapshot"
        await self._commit_offset(Committed(plan.offset_to, Pointer(plan.number, found.offset).encode()))
        self._committed, self._number = plan.offset_to, plan.number
        written = _bytes(plan.outputs)
        self.output_bytes += written
        self._rests_ms = 1_000 * (written + _bytes(plan.pieces)) / self._policy.commit_bytes_per_s
        if plan.spans is not None:
            plan.spans.committed(len(plan.outputs), self._clock.now_ms())
        if found is not self._snapshot:
            self._snapshot, self._round, self._checkpoint = found, None, None

    async def _send(self, outputs: list[Output]) -> list[int]:
        return await self._producer.send(outputs)

    def _to_point_to(self, round_: Round) -> Snapshot | None:
        return round_.complete()

    async def _commit_offset(self, committed: Committed) -> None:
        source = self.source
        await self._producer.add_offset(self._names.group, source.topic, source.partition, committed)
        await self._producer.commit()

    # poison

    async def _isolate(self, records: Sequence[Record], error: Exception, *, silent: bool) -> None:
        """``fold`` raised somewhere in ``records`` and may have spoilt the state: build it again up to them, then take
        them one by one and reject what raises."""
        _log.error(
            "a record makes fold raise; looking for it among %d from offset %d of %s",
            len(records),
            records[0].offset,
            self.source,
            exc_info=error,
        )
        outer, self._isolating = self._isolating, True
        try:
            await self._settle()
            await self._rebuild(silent=silent)
            await self._take_one_by_one(records, silent=silent)
        finally:
            self._isolating = outer

    async def _rebuild(self, *, silent: bool) -> None:
        """State and changes as they were at the position."""
        position = self._position
        await self._restore()
        if not silent:
            await self._fold_silently(self._committed)
            self._forget_changes()
        await self._fold_log(position, silent=silent)

    async def _take_one_by_one(self, records: Sequence[Record], *, silent: bool) -> None:
        base = await self._check_in(silent=silent)
        good: list[Record] = []
        for record in records:
            try:
                self._step.fold(self._state, [record], self._changes)
                good.append(record)
            except MemoryError:
                raise
            except Exception as cause:
                await self._fold_again(base, good)
                self._reject(record, cause)
                self._position = record.offset + 1
                base, good = await self._check_in(silent=silent), []

    async def _check_in(self, *, silent: bool) -> tuple[int, list[bytes]]:
        """The state as dumped at the position, with nothing unsent beside it: live, all is committed and snapshot."""
        self._still_here()
        dumped = self._dumped()
        if silent:
            self._forget_changes()
            self._checkpoint = dumped
        else:
            await self._commit(self._clock.now_ms(), whole=True)
        return dumped

    async def _fold_again(self, base: tuple[int, list[bytes]], good: list[Record]) -> None:
        """The state of ``base``, which was dumped at the position, and ``good`` folded into it."""
        position, (self._position, parts) = self._position, base
        self._state = self._step.load(self.source.topic, self.source.partition, parts)
        await self._fold_silently(position)
        self._forget_changes()
        if good:
            self._step.fold(self._state, good, self._changes)

    def _reject(self, record: Record, cause: Exception) -> None:
        detail = "".join(traceback.format_exception(cause))[-DETAIL_CHARS_MAX:]
        self._step.reject(self._state, record, detail, self._changes)

    # giving up

    async def stop(self) -> None:
        """Forget the partition: no commit begins after this; one under way is waited for."""
        self._gone = True
        await self._settle()
        await self._producer.stop()

    async def _settle(self) -> None:
        while self._committing:
            await self._broker.pause()
