"""The rules of the protocol, each with a way to switch it off; the simulator must notice.

A rule often has a second one behind it (a gap in offsets ends the process whatever made it). Where that is so the
second is switched off too, and ``also_off`` says which: what is shown is that the wrong number comes about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.contract.record import Output, Record
from schemas.errors import UnavailableError
from stream_jobs.runner.bare_runner import _Listener
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.ports import Committed
from stream_jobs.runner.snapshot import Round, Snapshot
from tests.simulator.client import SimBroker, SimProducer
from tests.simulator.cluster import Parts, ThreadedListener
from tests.simulator.counting import CountingStep, QuietStep, Seen
from tests.simulator.edges import Edge, Spooled
from tests.simulator.schedule import Rules, World


@dataclass(frozen=True)
class Mutation:
    """``rule`` as the protocol states it, ``off`` how it is broken here."""

    name: str
    rule: str
    off: str
    rules: Rules
    also_off: str = ""
    world: type[World] | None = None
    """The job to try it on; None: the counting one."""
    seen_by: int = 1
    """The first schedule that shows it."""


def _owner(owner: type[PartitionOwner], **parts: Any) -> Rules:
    partitions = type("Mutated", (Partitions,), {"Owner": owner})
    return Rules(parts=Parts(partitions=partitions, **parts))


class _Early(PartitionOwner):
    _early: Committed | None = None

    async def _fence(self) -> None:
        self._early = await super()._read_committed()
        await super()._fence()

    async def _read_committed(self) -> Committed | None:
        return self._early


class _OwnIdBroker(SimBroker):
    def producer(self, transactional_id: str) -> SimProducer:
        return SimProducer(self.wire, f"{transactional_id}-{self.wire._process.name}")


class _OffsetApart(PartitionOwner):
    async def _commit_offset(self, committed: Committed) -> None:
        await self._producer.commit()
        wire, place = self._broker.wire, (self.source.topic, self.source.partition)  # type: ignore[attr-defined]
        await wire.call(lambda: wire.server.group_offsets.update({(self._names.group, place): committed}))


class _Newest(PartitionOwner):
    """Takes the newest snapshot there is, whoever wrote it and whatever became of its transaction."""

    async def _read_snapshot(self, offset: int, *, settled: bool) -> list[bytes]:
        topic = self._names.state_topic(self.source.topic)
        log = self._broker.wire.server.log((topic, self.source.partition))  # type: ignore[attr-defined]
        found: dict[tuple[bytes, bytes], list[Record]] = {}
        for record in log.read(0, 1 << 30, committed=False).records:
            headers = dict(record.headers)
            piece, _, pieces = headers["piece"].partition(b"/")
            round_ = found.setdefault((headers["position"], pieces), [])
            if int(piece) == 0:
                round_.clear()
            round_.append(record)
        whole = [(int(p), records) for (p, pieces), records in found.items() if len(records) == int(pieces)]
        position, records = max(whole, key=lambda each: each[1][0].offset)
        self._snapshot = Snapshot(position, records[0].offset, 0, -1)
        return [b"".join(record.value or b"" for record in records)]

    async def _check_log(self, start: int, committed: int) -> None: ...


class _NoSilentFold(PartitionOwner):
    async def _continue_from(self, committed: Committed) -> None:
        await super()._continue_from(committed)
        self._position = self._committed


class _LoudFold(PartitionOwner):
    def _committed_among(self, records: Sequence[Record]) -> int:
        return 0


class _LoudRest(PartitionOwner):
    """Takes a fetch for replayed or new by its first record."""

    def _committed_among(self, records: Sequence[Record]) -> int:
        return len(records) if super()._committed_among(records) else 0


class _CommitsWhileReplaying(PartitionOwner):
    """As if nothing had been committed beyond what was folded again."""

    def wants_commit(self) -> bool:
        return (self.replaying and not self._committing) or super().wants_commit()

    async def commit(self) -> bool:
        return await self._commit(self._clock.now_ms())


class _KeepsChanges(PartitionOwner):
    def _forget_changes(self) -> None:
        if self._changes is None:
            super()._forget_changes()


class _CarelessProducer(SimProducer):
    async def _produce(self, place: tuple[str, int], output: Output) -> int:
        try:
            return await super()._produce(place, output)
        except UnavailableError:
            return self._wire.server.log(place).end


class _CarelessBroker(SimBroker):
    def producer(self, transactional_id: str) -> SimProducer:
        return _CarelessProducer(self.wire, transactional_id)


class _GoesOn(PartitionOwner):
    def _abandon(self) -> None: ...


class _GoOnPartitions(Partitions):
    Owner = _GoesOn

    def fail(self, error: BaseException) -> None:
        if not isinstance(error, UnavailableError):
            super().fail(error)


class _AbsentBroker(SimBroker):
    def _absent(self) -> bool:
        return True


class _BeginsAnew(PartitionOwner):
    async def _refuse_if_known(self) -> None: ...


class _NoContiguity(PartitionOwner):
    def _is_contiguous(self, records: Sequence[Record]) -> bool:
        return True


class _NoLogChecks(_NoContiguity):
    async def _check_log(self, start: int, committed: int) -> None: ...


class _HastyListener(_Listener):
    """Installs, and only some time later seeks."""

    async def on_partitions_assigned(self, assigned: Any) -> None:
        positions = await self._partitions.assign(assigned)
        if positions is not None:
            self._partitions.install()
            await self._consumer._wire.delay()
            for place, position in positions.items():
                self._consumer.seek(place, position)


class _Unstamped(ThreadedListener):
    def fresh(self, seeks: int) -> bool:
        return True


class _NoGeneration(Partitions):
    Owner = _NoContiguity

    async def feed(self, topic: str, partition: int, generation: int, records: Sequence[Record]) -> None:
        await super().feed(topic, partition, self.generation, records)


class _EarlyPointer(PartitionOwner):
    def _to_point_to(self, round_: Round) -> Snapshot | None:
        assert round_.offset is not None
        return Snapshot(round_.position, round_.offset, round_.slot, round_.number)


class _OneSlotNames(Names):
    def state_key(self, slot: int, piece: int) -> bytes:
        return super().state_key(0, piece)


class _OneSlotOwner(PartitionOwner):
    def __init__(self, step: Any, source: Any, broker: Any, names: Names, *rest: Any) -> None:
        super().__init__(step, source, broker, _OneSlotNames(names.deployment, names.job), *rest)


class _KeepsSpoilt(PartitionOwner):
    async def _isolate(self, records: Sequence[Record], error: Exception, *, silent: bool) -> None:
        for record in records:
            try:
                self._step.fold(self._state, [record], self._changes)
            except Exception as cause:
                self._reject(record, cause)


class _PoisonWithoutSnapshot(PartitionOwner):
    async def _commit(self, now_ms: int, *, idle: bool = False, whole: bool = False) -> bool:
        return await super()._commit(now_ms, idle=idle)


class _CommitsWhileRebuilding(PartitionOwner):
    _isolating = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]


class _ForgetsNumber(PartitionOwner):
    async def _continue_from(self, committed: Committed) -> None:
        await super()._continue_from(committed)
        self._number = 0


class _IdleUnasked(PartitionOwner):
    async def _end_read_to(self) -> int | None:
        return self._position


class _NoIdleSnapshot(PartitionOwner):
    def _snapshot_is_behind(self, end: int) -> bool:
        return False


class _HighestSeen(Seen):
    """Remembers nothing but the highest identity."""

    def take(self, identity: tuple[int, int], low: tuple[int, int]) -> bool:
        if identity < self.low:
            return False
        self.low = (identity[0], identity[1] + 1)
        return True


class _HighestStep(CountingStep):
    Seen = _HighestSeen


class _HashingEdge(Edge):
    def _where(self, record: Spooled) -> int:
        return self.draw.randrange(self.partitions)


class _ForgetfulEdge(Edge):
    def restart(self) -> None:
        super().restart()
        self.boot -= 1


_CONTIGUITY = "the check that offsets are contiguous"
_REFUSAL = "refusing to start over when there is a snapshot"


def _with(rules: Rules, **changed: Any) -> Rules:
    return dataclasses.replace(rules, **changed)


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "read before fencing",
        "the committed offset is read only after the producer's init has fenced every predecessor",
        "the offset is read first",
        _owner(_Early),
        seen_by=9,
    ),
    Mutation(
        "an id of one's own",
        "the transactional id is that of the source partition, the same for every owner",
        "each process adds its name to it",
        Rules(parts=Parts(broker=_OwnIdBroker)),
        seen_by=3,
    ),
    Mutation(
        "offset apart",
        "outputs and source offset are in one transaction",
        "the offset is committed right after the transaction",
        _owner(_OffsetApart),
    ),
    Mutation(
        "newest snapshot",
        "the snapshot is the one that the committed offset's metadata points to, read committed",
        "the newest one in the state topic is taken",
        _owner(_Newest),
        seen_by=2,
    ),
    Mutation(
        "no silent fold",
        "the source is folded from the snapshot's position up to the committed offset",
        "the snapshot's state is taken for the state at the committed offset",
        _owner(_NoSilentFold),
        seen_by=4,
    ),
    Mutation(
        "loud fold",
        "that fold, after going live, is silent: what it changes was sent before",
        "its changes are sent with the next commit",
        _owner(_LoudFold),
        seen_by=4,
    ),
    Mutation(
        "silent beyond the commit",
        "of a fetch that crosses the committed offset, what stands beyond it is sent",
        "a fetch that begins before the committed offset is folded silently as a whole",
        _owner(_LoudRest),
        seen_by=4,
    ),
    Mutation(
        "commit while replaying",
        "nothing is committed before the replay has reached the committed offset",
        "the owner commits where it is",
        _owner(_CommitsWhileReplaying),
        seen_by=4,
    ),
    Mutation(
        "changes kept",
        "what a commit has sent is forgotten",
        "it stays, and is sent again",
        _owner(_KeepsChanges),
    ),
    Mutation(
        "sends not awaited",
        "every send's future is awaited before the commit (`kafka_ports`)",
        "a failed send does not stop the commit",
        Rules(parts=Parts(broker=_CarelessBroker)),
        seen_by=44,
    ),
    Mutation(
        "going on after a fatal error",
        "every error of a port ends the process",
        "a failed or timed-out call is forgotten, and the next commit tries again",
        Rules(parts=Parts(partitions=_GoOnPartitions)),
        seen_by=16,
    ),
    Mutation(
        "absent means none",
        "a response without an offset is requested again; only -1 means none (`kafka_ports`)",
        "a restarted coordinator's empty response is believed",
        _owner(_BeginsAnew, broker=_AbsentBroker),
        _REFUSAL,
        seen_by=5,
    ),
    Mutation(
        "beginning anew",
        "a job whose offset is gone while its snapshot exists refuses to start over",
        "it begins at the beginning",
        _with(_owner(_BeginsAnew), offsets_may_vanish=True),
    ),
    Mutation(
        "install before seek",
        "on a bare loop, seek and install with no await between the two",
        "installed first, sought later",
        _owner(_NoContiguity, bare_listener=_HastyListener),
        _CONTIGUITY,
        seen_by=26,
    ),
    Mutation(
        "fetches without stamps",
        "a fetch made before the last seek is dropped (`faust_runner`)",
        "it is folded",
        _owner(_NoContiguity, threaded_listener=_Unstamped),
        _CONTIGUITY,
        seen_by=13,
    ),
    Mutation(
        "stale batches",
        "a batch of an earlier assignment is dropped",
        "it is folded when the partition is owned again",
        Rules(parts=Parts(partitions=_NoGeneration)),
        _CONTIGUITY,
        seen_by=17,
    ),
    Mutation(
        "gaps pass",
        "offsets of a source must be contiguous",
        "a gap left by retention is not noticed",
        _with(_owner(_NoLogChecks), log_may_be_cut=True),
        "the check at assignment that the log still holds what the snapshot needs",
        seen_by=2,
    ),
    Mutation(
        "read uncommitted",
        "readers of job topics read committed records only",
        "they read everything",
        Rules(committed_only=False),
        seen_by=3,
    ),
    Mutation(
        "early pointer",
        "the pointer moves only with the commit that writes a snapshot's last piece",
        "it moves with the first piece",
        _owner(_EarlyPointer),
        seen_by=7,
    ),
    Mutation(
        "one slot",
        "a snapshot never reuses the keys of the one that is pointed to",
        "all snapshots use the same keys, and the topic is compacted",
        _owner(_OneSlotOwner),
        seen_by=64,
    ),
    Mutation(
        "spoilt state",
        "a state in which `fold` raised is thrown away and built again",
        "folding goes on with it",
        _owner(_KeepsSpoilt),
        seen_by=3,
    ),
    Mutation(
        "poison without snapshot",
        "the commit that rejects an unreadable record carries a whole snapshot",
        "it does not, and a later release reads the record in another way",
        _owner(_PoisonWithoutSnapshot),
        seen_by=22,
    ),
    Mutation(
        "commit while rebuilding",
        "nothing is committed while a state is being built again",
        "whatever it is by then is committed",
        _owner(_CommitsWhileRebuilding),
        seen_by=16,
    ),
    Mutation(
        "numbers from 0",
        "the number of records written goes on over restarts",
        "each owner begins at 0",
        _owner(_ForgetsNumber),
    ),
    Mutation(
        "idle unasked",
        "only an owner that has looked up the end, and has read up to it, reports that time has passed",
        "a partition that brought nothing for a while is taken for read",
        _owner(_IdleUnasked),
    ),
    Mutation(
        "no idle snapshot",
        "an idle partition whose last snapshot stands before its end gets one more",
        "it does not, and retention takes what the snapshot needs",
        _with(_owner(_NoIdleSnapshot), step=QuietStep, retention_passes=True),
        seen_by=6,
    ),
    Mutation(
        "highest seen",
        "a source's dedup state is everything below its low mark and the ranges seen above it",
        "only the highest identity is kept",
        Rules(step=_HighestStep),
    ),
    Mutation(
        "partition by hash",
        "the partition is stored with the record and stays the same for re-sends",
        "it is worked out for each send",
        Rules(edge=_HashingEdge),
    ),
    Mutation(
        "boot not counted",
        "each start of a sender has its own boot ordinal, made durable before the first send",
        "a restarted sender numbers from 0 under the old one",
        Rules(edge=_ForgetfulEdge),
    ),
)


def caught_at(mutation: Mutation, schedules: int, run: Callable[..., Any], seed: int = 1) -> int | None:
    """How many schedules it takes until one shows a violation; None when none of ``schedules`` does."""
    for number in range(schedules):
        if run(seed + number, mutation.rules, mutation.world).violations:
            return number + 1
    return None
