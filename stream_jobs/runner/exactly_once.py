"""The owner of one source partition: the protocol that makes results exactly once.

States: *new* -> ``acquire`` -> *live* -> ``stop`` -> *gone*. The order inside ``acquire`` is the protocol:

1. start the partition's transactional producer, which fences every predecessor and ends its open transaction;
2. only then read the group's committed offset (before that, a commit could still be pending behind the answer);
3. load the snapshot that the offset's metadata points to. Its position is what ``Step.replay_from`` returned at the
   dump;
4. the caller seeks to the position returned and feeds from there.

Live, ``feed`` folds and sends nothing. What stands before the committed offset it folds *silently*: those changes were
sent before and are dropped, and nothing is committed meanwhile. So a takeover takes no longer the further its snapshot
lies behind, and no limit of time applies to the whole of what is folded again. Where nothing was sent since the
snapshot, of a step with ``snapshot_with_outputs``, nothing is folded silently.

``commit`` writes one transaction: outputs, pieces of a snapshot, the source offset with its pointer. A partition that
is read to its end and idle gets one more snapshot if its last one stands before that: it would need a part of the log
that retention deletes some day. It also gets one now and then if it writes nothing at all: brokers forget transactional
ids that are quiet for days, and the next transaction would end the process. A step's outputs are taken without an
await, and folding continues while the transaction is on its way: if it fails, the process ends and everything since the
last commit is folded again.

Every error of a port propagates and must end the process: the outcome of a commit may be unknown. Two exceptions. A
``PartitionError`` says that no restart can mend this partition, whose log, offset or snapshot is damaged: it alone is
quarantined (``stream_jobs.runner.quarantine``). Where the log is found damaged while it is folded, what was folded
before is committed first, with a whole snapshot: so the state of the last owner is kept. The other is
a record that makes ``fold`` raise. The state, which it may have spoilt, is rebuilt from the snapshot and the log; the
record is booked by ``Step.reject``; the commit that holds it carries a whole snapshot, so that no later owner folds it.

Nothing here knows asyncio, Kafka's client or Faust: the simulator in the tests drives this very code.
"""

from __future__ import annotations

import logging
import traceback
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from runtime.clock import Clock
from runtime.counters import COUNTERS, Counters
from runtime.runbook import Cause
from runtime.tracing import Tracer
from schemas.contract.record import Output, Record
from schemas.errors import NewerReleaseError, PartitionError
from stream_jobs.runner import recovery, snapshot
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.ports import Broker, Committed
from stream_jobs.runner.snapshot import Pointer, Round, Snapshot
from stream_jobs.runner.spans import CommitSpans, PartitionSpans
from stream_jobs.step import Commit, Stat, Step

_log = logging.getLogger(__name__)
_CAUSES = {
    "job_events": Cause.REJECTED,
    "job_overflow_events": Cause.SERIES,
    "job_overflow_labels": Cause.SERIES,
    "cost_unpriced_ms": Cause.PRICE,
}
"""What the runbook calls it where a commit counts these; of events those with the verdict rejected."""

DETAIL_CHARS_MAX = 4_000


def _bytes(outputs: Sequence[Output]) -> int:
    """Of their values."""
    return sum(len(output.value or b"") for output in outputs)


class RevokedError(Exception):
    """The partition was revoked meanwhile: nothing more to do, and no fatal error."""


@dataclass(slots=True)
class Plan:
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
        counters: Counters = COUNTERS,
        tracer: Tracer | None = None,
    ) -> None:
        self.source = source
        self._step = step
        self._broker = broker
        self._names = names
        self._policy = policy
        self._clock = clock
        self._counters = counters
        self._spans = None if tracer is None else PartitionSpans(tracer, names.group, source)
        self._producer = broker.producer(names.transactional_id(source.topic, source.partition))
        self._state: Any = None
        self._changes: Any = None
        self._position = 0
        self._committed = self._read_to = 0
        self._found: Committed | None = None
        self._number = 0
        self._topic_id: str | None = None
        self._snapshot: Snapshot | None = None
        self._round: Round | None = None
        self._checkpoint: tuple[int, list[bytes]] | None = None
        self._dumped_to, self._dumped_bytes = -1, 0
        self._read_ms: int | None = None
        self._snapshot_at_ms = self._committed_at_ms = self._fed_at_ms = self._looked_at_ms = float("-inf")
        self._transacted_at_ms = self._topic_seen_ms = float("-inf")
        self._rests_ms = 0.0
        self._committing = False
        self._isolating = False
        self._stopped = False
        self.output_bytes = 0
        self.progressed: Callable[[], None] = lambda: None
        """Called whenever the log was read a little further, by whoever limits the time without progress."""

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

    @property
    def done_to(self) -> int:
        """The offset up to which everything is committed: behind the last commit were found markers of transactions."""
        return max(self._committed, self._read_to)

    @property
    def found(self) -> Committed | None:
        """What is committed as far as this owner knows; None before it has read that, and where nothing is."""
        return self._found

    @property
    def replaying(self) -> bool:
        """What comes next was committed by an owner before: it is folded silently."""
        return self._position < self._committed

    # assignment

    async def acquire(self) -> int:
        """Fence the previous owner and restore its state; returns the offset to feed from."""
        await recovery.demand_partitions(self._broker, self._names, self.source)
        await self._fence()
        return await self._take_up()

    async def examine(self) -> None:
        """Do what ``acquire`` does without fencing anybody. Raises ``PartitionError`` while that cannot succeed. Never
        feed this owner."""
        await recovery.demand_partitions(self._broker, self._names, self.source)
        await self._take_up()
        self._stopped = True

    async def _take_up(self) -> int:
        committed = self._found = await self._read_committed()
        if committed is None:
            await self._start_at_beginning()
        else:
            await self._continue_from(committed)
        if not self.replaying:
            self._checkpoint = None
        self._dumped_to = -1 if self._snapshot is None else self._snapshot.position
        self._forget_changes()
        self._transacted_at_ms = self._topic_seen_ms = self._elapsed_ms()
        self._fed_at_ms = self._elapsed_ms()  # the first commit waits for no interval: a takeover is late already
        return self._position

    async def _fence(self) -> None:
        await self._producer.start()

    async def _read_committed(self) -> Committed | None:
        return await self._broker.committed(self._names.group, self.source.topic, self.source.partition)

    async def _start_at_beginning(self) -> None:
        await self._refuse_if_known()
        self._topic_id = await self._broker.topic_id(self.source.topic)
        self._committed = await self._broker.begin_offset(self.source.topic, self.source.partition)
        await self._restore()

    async def _refuse_if_known(self) -> None:
        await recovery.refuse_if_known(self._broker, self._names, self.source, self.progressed)

    async def _continue_from(self, committed: Committed) -> None:
        pointer = Pointer.decode(committed.metadata, str(self.source))
        self._number = pointer.number
        parts = await self._read_snapshot(pointer.snapshot, settled=True)
        assert self._snapshot is not None
        self._topic_id = await self._demand_same_topic(self._snapshot.topic_id)
        self._checkpoint = (self._snapshot.position, parts)
        await self._restore()
        await self._pass_over_deleted(committed.offset)
        await self._check_log(self._position, committed.offset)
        sent_since = not (self._step.snapshot_with_outputs and self._snapshot.number == pointer.number)
        self._committed = committed.offset if sent_since else self._position

    async def _demand_same_topic(self, known: str | None) -> str | None:
        return await recovery.demand_same_topic(self._broker, self.source, known)

    async def _pass_over_deleted(self, committed: int) -> None:
        """Where retention deleted records after the snapshot's position, continue at the log's beginning, if the step
        can. Never beyond ``committed``: records that nobody has read are not passed over."""
        begin = await self._broker.begin_offset(self.source.topic, self.source.partition)
        if not self._position < begin <= committed or not self._step.pass_over(self._state, begin):
            return
        _log.warning(
            "log begins after the snapshot; windows open at the snapshot are not emitted",
            extra={"source": str(self.source), "snapshot": self._position, "log_begins": begin},
        )
        self._position = begin
        self._checkpoint = self._dumped()

    async def _read_snapshot(self, offset: int, *, settled: bool) -> list[bytes]:
        self._snapshot, parts = await recovery.read_snapshot(
            self._broker, self._names, self.source, offset, settled=settled, progressed=self.progressed
        )
        return parts

    async def _check_log(self, start: int, committed: int) -> None:
        await recovery.check_log(self._broker, self.source, start, committed)

    async def _restore(self) -> None:
        """Restore the last checkpoint in memory, else the last snapshot, else a new state; no changes."""
        topic, partition = self.source.topic, self.source.partition
        if self._checkpoint is None and self._snapshot is not None:
            parts = await self._read_snapshot(self._snapshot.offset, settled=False)
            self._checkpoint = (self._snapshot.position, parts)
        if self._checkpoint is None:
            self._state, self._position = self._step.new(topic, partition), self._committed
        else:
            self._position, parts = self._checkpoint
            self._state = recovery.loaded(self._step, self.source, parts)
        self._forget_changes()

    async def _fold_silently(self, end: int) -> None:
        await self._fold_log(end, silent=True)

    async def _fold_log(self, end: int, *, silent: bool) -> None:
        """Fold the log from the position up to ``end``."""
        if self._position == end:
            return
        begun, folded = self._position, 0
        reader = await self._broker.reader(self.source.topic, self.source.partition, begun)
        try:
            while self._position < end:
                self._check_owned()
                batch = await reader.poll()
                if batch.position > self._position:  # else the partition may have no leader
                    self.progressed()
                records = [record for record in batch.records if record.offset < end]
                if records:
                    await self._fold(records, silent=silent)
                    folded += len(records)
                self._position = max(self._position, min(batch.position, end))
        finally:
            await reader.close()
        if self.source.gapless and folded < end - begun:  # markers, unless the log was cut meanwhile
            await recovery.demand_log_from(self._broker, self.source, begun)

    # live

    async def feed(self, records: Sequence[Record]) -> None:
        """Fold the records of a fetch (in order, not empty)."""
        self._check_owned()
        if self._spans is not None:
            self._spans.fed(records)
        try:
            again = self._committed_among(records)
            if again:
                await self._fold(records[:again], silent=True)
                self._forget_changes()
            if again < len(records):
                if not (self.source.gapless and self.replaying):  # there the records show whether any is missing
                    self._end_replay()
                await self._fold(records[again:], silent=False)
        except BaseException:
            self._stopped = True
            raise
        if self._elapsed_ms() - self._fed_at_ms >= self._policy.idle_after_ms:
            self._topic_seen_ms = float("-inf")
        self._fed_at_ms, self._read_ms = self._elapsed_ms(), records[-1].timestamp_ms

    def _committed_among(self, records: Sequence[Record]) -> int:
        """How many of the records are to be folded silently."""
        if not self.replaying:
            return 0
        return bisect_left(records, self._committed, key=lambda record: record.offset)

    def _end_replay(self) -> None:
        """All before the committed offset has been folded: what is left of it are markers."""
        self._position = max(self._position, self._committed)
        self._checkpoint = None

    async def _fold(self, records: Sequence[Record], *, silent: bool) -> None:
        if not self._is_contiguous(records):
            try:
                await recovery.demand_only_markers(self._broker, self.source, self._position, records)
            except PartitionError:
                if not (silent or self._isolating or self.replaying):
                    await self._keep()
                raise
        try:
            self._step.fold(self._state, records, self._changes)
        except (MemoryError, NewerReleaseError):
            raise
        except Exception as error:
            await self._isolate(records, error, silent=silent)
        self._position = records[-1].offset + 1

    def _is_contiguous(self, records: Sequence[Record]) -> bool:
        """Whether nothing can be missing before or among the records; where offsets have holes anyhow: seems to be."""
        first, last = records[0].offset, records[-1].offset
        holes = last - first - (len(records) - 1)
        return first == self._position and holes == 0 if self.source.gapless else first >= self._position and holes >= 0

    async def _keep(self) -> None:
        """The log is damaged behind what was folded: commit that with a whole snapshot, then nothing more."""
        await self._settle()
        await self._commit(self._clock.now_ms(), whole=True, damaged=True)
        self._stopped = True

    def _forget_changes(self) -> None:
        self._changes = self._step.changes()

    def _elapsed_ms(self) -> float:
        return self._clock.monotonic_s() * 1_000

    def _check_owned(self) -> None:
        if self._stopped:
            raise RevokedError(f"{self.source} was revoked")

    # committing

    def wants_commit(self) -> bool:
        """Something changed, and the interval is over, no records arrive for now, or the step is due."""
        if self._committing or self._isolating or self._stopped or self._position <= self._committed:
            return False
        now_ms, policy = self._elapsed_ms(), self._policy
        waited_ms = now_ms - self._committed_at_ms
        if waited_ms < max(policy.due_interval_ms, self._rests_ms):
            return False
        quiet = waited_ms >= policy.idle_interval_ms and now_ms - self._fed_at_ms >= policy.idle_after_ms
        return quiet or waited_ms >= policy.interval_ms or self._step.due(self._state, self._changes)

    def seems_idle(self) -> bool:
        """No records for a while and nothing to commit; ``commit_idle`` checks whether the log has more."""
        return self._is_quiet() and self._elapsed_ms() - self._looked_at_ms >= self._policy.idle_after_ms

    def _is_quiet(self) -> bool:
        if self._committing or self._isolating or self._stopped or self._position > self._committed:
            return False
        now_ms = self._elapsed_ms()
        return (
            now_ms - self._committed_at_ms >= self._policy.idle_interval_ms
            and now_ms - self._fed_at_ms >= self._policy.idle_after_ms
        )

    async def commit_idle(self) -> bool:
        """Commit as idle, if the partition is read to its end. ``now_ms`` is taken before the end offset is fetched, so
        that every record appended before it has been folded."""
        now_ms = self._clock.now_ms()
        self._looked_at_ms = self._elapsed_ms()
        position = self._position
        end = await self._end_read_to()
        if end is None or not self._is_quiet() or position != self._position:
            return False
        self._end_replay()
        self._read_to = end
        if self._snapshot_is_behind(end):
            self._position = end  # markers count as read: retention may delete them too
        silent_ms = self._elapsed_ms() - self._transacted_at_ms
        return await self._commit(now_ms, idle=True, whole=silent_ms >= self._policy.keep_alive_ms)

    async def _end_read_to(self) -> int | None:
        """The log's end; None while there is more to read before it."""
        end = await self._broker.end_offset(self.source.topic, self.source.partition)
        try:
            only_markers = await recovery.only_markers(self._broker, self.source, self._position, end)
        except PartitionError:
            if not self.replaying and self._is_quiet():
                await self._keep()
            raise
        return end if only_markers else None

    async def commit(self) -> bool:
        """Commit what was folded; False when there was nothing to commit, while a rejected record is isolated, and
        while what was committed before is folded again."""
        if self._isolating or self.replaying:
            return False
        return await self._commit(self._clock.now_ms())

    async def _commit(self, now_ms: int, *, idle: bool = False, whole: bool = False, damaged: bool = False) -> bool:
        self._check_owned()
        assert not self._committing, "one commit at a time"
        self._committing = True
        try:
            plan, stats = self._plan(now_ms, idle=idle, whole=whole)
            self._committed_at_ms = self._elapsed_ms()
            if plan is not None:
                recreated = None if damaged else await self._look_at_topic()
                if recreated is not None:
                    await self._end_log(plan, stats, recreated, idle=idle)
                await self._transact(plan)
            self._count(stats)
        except BaseException:
            self._abandon()
            raise
        finally:
            self._committing = False
        return plan is not None

    async def _look_at_topic(self) -> PartitionError | None:
        """The error where the topic was recreated since the owner began. It looks once a snapshot interval, and
        whenever records come after a pause, which nobody recreates a topic without."""
        if self._elapsed_ms() - self._topic_seen_ms >= self._policy.snapshot_interval_ms:
            try:
                self._topic_id = await self._demand_same_topic(self._topic_id)
            except PartitionError as error:
                return error
            self._topic_seen_ms = self._elapsed_ms()
        return None

    async def _end_log(self, plan: Plan, stats: Sequence[Stat], recreated: PartitionError, *, idle: bool) -> NoReturn:
        """The log of before is gone, with what nobody had read. What was folded of it is committed where all that was
        folded since the last commit is of it, which the new log shows by ending before that. Else some may be of the
        new one, whose records a reset counts from the first, and the error says which offsets. Always raises it."""
        self._stopped = True
        if idle:
            raise recreated
        source, folded = self.source, f"[{self._committed}, {self._position})"
        if await self._broker.end_offset(source.topic, source.partition) >= self._position:
            text = f"{recreated}; what was read at offsets {folded} and is not of the new log is in no window"
            raise PartitionError(recreated.cause, text) from recreated
        await self._transact(plan)
        self._count(stats)
        rest, stats = self._plan(self._clock.now_ms(), idle=False, whole=True)  # what was folded beside it, too
        assert rest is not None
        await self._transact(rest)
        self._count(stats)
        raise recreated

    def _abandon(self) -> None:
        """The outcome of the transaction is unknown: nothing may follow it."""
        self._stopped = True

    def _count(self, stats: Sequence[Stat]) -> None:
        for metric, value, labels in stats:
            self._counters.record(metric, value, **labels)
            if value and labels.get("verdict", "rejected") == "rejected" and (cause := _CAUSES.get(metric)):
                facts = {"cause": cause, "counted": metric, "number": value, **labels}
                _log.warning("a commit counted what should be 0", extra=facts)

    def _plan(self, now_ms: int, *, idle: bool, whole: bool) -> tuple[Plan | None, list[Stat]]:
        """The transaction, None when there is nothing to write, and the step's statistics of it."""
        source = self.source
        commit = Commit(source.topic, source.partition, self._committed, self._position, self._number, now_ms, idle)
        outputs = self._step.rows(self._state, self._changes, commit)
        stats = list(self._step.stats(self._state, self._changes))
        self._forget_changes()
        stays = self._position == self._committed and not (idle and self._snapshot_is_behind(self._position))
        if not outputs and stays and not whole:
            return None, stats
        whole = whole or self._snapshot is None or (bool(outputs) and self._step.snapshot_with_outputs)
        round_ = self._next_round(self._number + len(outputs), whole=whole)
        pieces_max = None if whole else self._policy.snapshot_pieces_per_commit
        pieces = [] if round_ is None else round_.next_pieces(pieces_max)
        spans = None if self._spans is None else self._spans.commit(self._committed, self._position, now_ms)
        if spans is not None:
            outputs = spans.stamped(outputs)
        return Plan(outputs, pieces, round_, self._position, self._number + len(outputs), spans), stats

    def _next_round(self, number: int, *, whole: bool) -> Round | None:
        """The snapshot to continue: the one under way, or a new one when it is due."""
        if not whole:
            if self._round is not None:
                return self._round
            if not self._snapshot_due():
                return None
        self._snapshot_at_ms = self._elapsed_ms()
        slot = 0 if self._snapshot is None else (self._snapshot.slot + 1) % snapshot.SLOTS
        source, (position, parts) = self.source, self._dumped()
        last = () if self._snapshot is None else self._snapshot.stored
        self._round = snapshot.begin(
            self._names,
            source.topic,
            source.partition,
            position,
            slot,
            number,
            parts,
            last if self._step.snapshot_with_outputs else None,
            self._topic_id,
        )
        return self._round

    def _dumped(self) -> tuple[int, list[bytes]]:
        """The state as parts, and the position from which folding goes on once they are loaded."""
        parts = list(self._step.dump(self._state))
        self._dumped_to, self._dumped_bytes = self._position, sum(map(len, parts))
        return self._replay_from(self._position), parts

    def _replay_from(self, position: int) -> int:
        found = self._step.replay_from(self._state, position)
        assert found <= position, f"{self._step.name}: replay from {found}, beyond {position}"
        return found

    def _snapshot_due(self) -> bool:
        assert self._snapshot is not None
        folded = self._position - self._snapshot.position
        waited_ms = self._elapsed_ms() - self._snapshot_at_ms
        return folded > 0 and (
            waited_ms >= self._policy.snapshot_interval_ms or folded >= self._policy.snapshot_records
        )

    def _snapshot_is_behind(self, end: int) -> bool:
        """Whether a snapshot is under way, or due and better than the last for an owner that starts at ``end``."""
        if self._snapshot is None:
            return False
        return self._round is not None or (
            self._elapsed_ms() - self._snapshot_at_ms >= self._policy.snapshot_interval_ms
            and (self._replay_from(end) > self._snapshot.position or self._dumped_to < end)
        )

    async def _transact(self, plan: Plan) -> None:
        await self._producer.begin()
        offsets = await self._send([*plan.outputs, *plan.pieces])
        found = self._snapshot
        if plan.round is not None:
            plan.round.wrote(offsets[len(plan.outputs) :])
            found = self._to_point_to(plan.round) or found
        assert found is not None, "the first commit carries a whole snapshot"
        committed = Committed(plan.offset_to, Pointer(plan.number, found.offset).encode())
        await self._commit_offset(committed)
        self._found = committed
        self._transacted_at_ms = self._elapsed_ms()
        self._committed, self._number = plan.offset_to, plan.number
        written = _bytes(plan.outputs)
        self.output_bytes += written
        self._rests_ms = 1_000 * (written + _bytes(plan.pieces)) / self._policy.commit_bytes_per_s
        if plan.spans is not None:
            plan.spans.committed(len(plan.outputs), self._clock.now_ms())
        now_ms, place = self._clock.now_ms(), {"topic": self.source.topic, "partition": self.source.partition}
        self._counters.set("job_committed_ms", now_ms, **place)
        if self._read_ms is not None:
            self._counters.set("job_read_ms", self._read_ms, **place)
        if found is not self._snapshot:
            self._snapshot, self._round, self._checkpoint = found, None, None
            self._counters.set("job_snapshot_ms", now_ms, **place)
            self._counters.set("job_snapshot_bytes", self._dumped_bytes, **place)

    async def _send(self, outputs: list[Output]) -> list[int]:
        return await self._producer.send(outputs)

    def _to_point_to(self, round_: Round) -> Snapshot | None:
        return round_.complete()

    async def _commit_offset(self, committed: Committed) -> None:
        source = self.source
        await self._producer.add_offset(self._names.group, source.topic, source.partition, committed)
        await self._producer.commit()

    # records that make fold raise

    async def _isolate(self, records: Sequence[Record], error: Exception, *, silent: bool) -> None:
        """``fold`` raised somewhere in ``records`` and may have corrupted the state: rebuild it up to them, then fold
        them one by one and reject those that raise."""
        _log.error(
            "a record made the job raise, please report it; isolating it, to reject it",
            extra={"source": str(self.source), "offset": records[0].offset, "records": len(records)},
            exc_info=error,
        )
        outer, self._isolating = self._isolating, True
        try:
            await self._settle()
            await self._rebuild(silent=silent)
            await self._fold_one_by_one(records, silent=silent)
        finally:
            self._isolating = outer

    async def _rebuild(self, *, silent: bool) -> None:
        """Restore state and changes as of the position."""
        position = self._position
        await self._restore()
        if not silent:
            await self._fold_silently(self._committed)
            self._forget_changes()
        await self._fold_log(position, silent=silent)

    async def _fold_one_by_one(self, records: Sequence[Record], *, silent: bool) -> None:
        base = await self._check_in(silent=silent)
        good: list[Record] = []
        for record in records:
            try:
                self._step.fold(self._state, [record], self._changes)
                good.append(record)
            except (MemoryError, NewerReleaseError):
                raise
            except Exception as cause:
                await self._fold_again(base, good)
                self._reject(record, cause)
                self._position = record.offset + 1
                base, good = await self._check_in(silent=silent), []

    async def _check_in(self, *, silent: bool) -> tuple[int, list[bytes]]:
        """The state as dumped at the position, with nothing unsent: live, everything is committed with a snapshot."""
        self._check_owned()
        dumped = self._dumped()
        if silent:
            self._forget_changes()
            self._checkpoint = dumped
        else:
            await self._commit(self._clock.now_ms(), whole=True)
        return dumped

    async def _fold_again(self, base: tuple[int, list[bytes]], good: list[Record]) -> None:
        """Load ``base``, which was dumped at the position, and fold ``good`` into it."""
        position, (self._position, parts) = self._position, base
        self._state = self._step.load(self.source.topic, self.source.partition, parts)
        await self._fold_silently(position)
        self._forget_changes()
        if good:
            self._step.fold(self._state, good, self._changes)

    def _reject(self, record: Record, cause: Exception) -> None:
        detail = "".join(traceback.format_exception(cause))[-DETAIL_CHARS_MAX:]
        self._step.reject(self._state, record, detail, self._changes)

    # revocation

    async def stop(self) -> None:
        """Release the partition: no commit begins after this; waits for one under way."""
        self._stopped = True
        await self._settle()
        await self._producer.stop()

    async def _settle(self) -> None:
        while self._committing:
            await self._broker.pause()
