"""All partitions that this process owns: assignment, feeding by fetch, commits when due, revocation.

Both shells use it in the same way::

    positions = await partitions.assign(assigned)     # acquire all; None: revoked meanwhile
    seek(positions); partitions.install()             # nothing may be awaited between the two
    await partitions.feed(topic, partition, generation, records)
    await partitions.revoke()

What a shell learns of logs' ends from its fetches it hands to ``partitions.lag``; then commits update the consumer lag.

``generation`` counts installations. A fetch from before the last seek carries an older one and is dropped. Every error
ends up in ``fatal``; the shell waits for it and ends the process. But a ``PartitionError`` quarantines one partition
(``stream_jobs.runner.quarantine``): it has no position to seek to and what is fetched of it is dropped. Once that is
mended, ``again`` is called: the shell assigns what it was assigned last. ``progressed`` is called whenever acquiring
made progress: the limits are on the time without it, not on the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from runtime.clock import Clock
from runtime.counters import COUNTERS, Counters
from runtime.health import Readiness
from runtime.runbook import cause_of
from runtime.tracing import Tracer
from schemas.contract.record import Record
from schemas.errors import PartitionError, UnavailableError
from stream_jobs.runner.broker_clock import BrokerClock
from stream_jobs.runner.exactly_once import PartitionOwner, RevokedError
from stream_jobs.runner.job import Job, Names
from stream_jobs.runner.lag import Lag
from stream_jobs.runner.limits import SlowCommits, first_of, in_slot, progress_within
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.ports import Broker
from stream_jobs.runner.quarantine import Quarantine

_log = logging.getLogger(__name__)

STOP_AFTER_FATAL_MS = 500
"""After a fatal error the process ends soon, whether or not its producers can be stopped."""


def worker_readiness() -> Readiness:
    """Whether the partitions of a worker are live; none is before it has joined its group."""
    return Readiness(partitions="the worker has not joined its group yet")


Commit = Callable[[], Awaitable[bool]]


class TopicPartition(NamedTuple):
    """A partition of a topic; equal to the type that a Kafka client has for it."""

    topic: str
    partition: int


class Partitions:
    """Make it inside a running event loop."""

    Owner = PartitionOwner

    def __init__(
        self,
        job: Job,
        broker: Broker,
        names: Names,
        policy: CommitPolicy,
        clock: Clock,
        counters: Counters = COUNTERS,
        readiness: Readiness | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._job = job
        self._broker = broker
        self._names = names
        self._policy = policy
        self._clock = BrokerClock(clock)
        self._counters = counters
        self._readiness = readiness or worker_readiness()
        self._slow = SlowCommits(self._readiness)
        self._tracer = tracer
        self._live: dict[TopicPartition, PartitionOwner] = {}
        self._ready: dict[TopicPartition, PartitionOwner] = {}
        self._acquiring: asyncio.Task[dict[TopicPartition, int]] | None = None
        self._commits: dict[TopicPartition, asyncio.Task[None]] = {}
        self._commit_slots = asyncio.Semaphore(policy.commits_at_once)
        self._wake = asyncio.Event()
        self._ticker: asyncio.Task[None] | None = None
        self._quarantine = Quarantine(broker, names, policy, self._clock, counters, self._readiness)
        self._looks: set[asyncio.Task[None]] = set()
        self.again: Callable[[], None] = lambda: None
        self.progressed: Callable[[], None] = lambda: None
        self.generation = 0
        self.lag = Lag(counters)
        self.fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def live(self) -> Mapping[TopicPartition, PartitionOwner]:
        """Owners that are fed and commit."""
        return self._live

    @property
    def quarantined(self) -> frozenset[tuple[str, int]]:
        """Partitions that are not fed, because they are damaged."""
        return self._quarantine.partitions

    @property
    def acquiring(self) -> bool:
        """Assigned partitions are being acquired."""
        return self._acquiring is not None

    def fail(self, error: BaseException) -> None:
        """Let the process end because of ``error``."""
        if isinstance(error, asyncio.CancelledError):  # aiokafka leaks those of its own tasks
            error = UnavailableError("the client was cancelled from within")
        if not self.fatal.done():
            self._readiness.hold("fatal", f"exiting after a fatal error: {error}", cause_of(error))
            self.fatal.set_exception(error)

    # assignment

    async def assign(self, assigned: Iterable[tuple[str, int]]) -> dict[TopicPartition, int] | None:
        """Acquire these partitions instead of those owned before; returns the offsets to seek to. None when they were
        revoked meanwhile, or after an error, which ends up in ``fatal``."""
        generation = self.generation + 1
        await self.revoke()
        if self.generation != generation:
            return None
        partitions = [TopicPartition(*each) for each in assigned]
        self._readiness.hold("partitions", f"acquiring {len(partitions)} assigned partitions")
        task = self._acquiring = asyncio.create_task(self._acquire_all(partitions))
        try:
            positions = await asyncio.shield(task)
            return positions if self._acquiring is task else None
        except asyncio.CancelledError:
            if not task.cancelled():  # the caller was cancelled
                await self.revoke()
                raise
            return None
        except BaseException as error:
            self.fail(error)
            return None
        finally:
            if self._acquiring is task:
                self._acquiring = None

    async def _acquire_all(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        began_s = self._clock.monotonic_s()
        slots = asyncio.Semaphore(self._policy.acquires_at_once)
        owners = {partition: self._owner(partition) for partition in partitions}
        try:
            async with (
                progress_within(self._policy.acquire_limit_ms, "acquiring partitions") as renew,
                asyncio.TaskGroup() as group,
            ):
                tasks = {
                    key: group.create_task(in_slot(slots, functools.partial(self._acquire, owner, renew)))
                    for key, owner in owners.items()
                }
        except BaseExceptionGroup as error:
            await self._stop(owners.values())
            raise first_of(error) from error
        except BaseException:
            await self._stop(owners.values())
            raise
        found = {key: task.result() for key, task in tasks.items()}
        positions = {key: one for key, one in found.items() if isinstance(one, int)}
        damaged = {key: one for key, one in found.items() if isinstance(one, PartitionError)}
        await self._stop(owners[key] for key in damaged)
        for key, damage in damaged.items():
            self._quarantine.add(owners[key], damage, acquired=False)
        self._ready = {key: owners[key] for key in positions}
        taken_s = self._clock.monotonic_s() - began_s
        _log.info("partitions acquired", extra={"partitions": len(positions), "taken_s": round(taken_s, 3)})
        return positions

    async def _acquire(self, owner: PartitionOwner, renew: Callable[[], None]) -> int | PartitionError:
        """The position of the owner, or what is damaged."""

        def progressed() -> None:
            renew()
            self.progressed()

        owner.progressed = progressed
        try:
            return await owner.acquire()
        except PartitionError as error:
            return error
        finally:
            progressed()

    def _owner(self, partition: TopicPartition) -> PartitionOwner:
        source = self._job.source(*partition)
        step = self._job.steps[partition.topic]
        return self.Owner(
            step, source, self._broker, self._names, self._policy, self._clock, self._counters, self._tracer
        )

    def install(self) -> None:
        """Make what was acquired live. Call right after seeking, with nothing awaited between. Of partitions that are
        due together, those of the topic that the job names first commit first."""
        topics = self._job.topics
        self._live = dict(sorted(self._ready.items(), key=lambda one: topics.index(one[0].topic)))
        self._ready = {}
        self.generation += 1
        self._counters.add("job_rebalances")
        for partition in self._live:
            self._counters.add("job_acquires", topic=partition.topic)
            self._quarantine.recovered(partition)
        self._counters.set("job_partitions", len(self._live))
        self._readiness.release("partitions")
        _log.info("partitions are live", extra={"partitions": len(self._live)})

    async def revoke(self) -> None:
        """Release every partition and stop its producer; the next owner folds again what was not committed."""
        self.generation += 1
        self._readiness.hold("partitions", "partitions revoked; waiting for the next assignment")
        acquiring, self._acquiring = self._acquiring, None
        if acquiring is not None:
            acquiring.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await acquiring
        owners = [*self._live.values(), *self._ready.values()]
        self._live, self._ready = {}, {}
        self._quarantine.clear()
        self._counters.set("job_partitions", 0)
        self.lag.give_back()
        await self._stop(owners)
        if not (self._live or self._acquiring):  # else these are of the next assignment already
            self._counters.forget("partition", but=("job_lag_records", "job_quarantined"))

    async def _stop(self, owners: Iterable[PartitionOwner]) -> None:
        limit_ms = STOP_AFTER_FATAL_MS if self.fatal.done() else self._policy.commit_limit_ms
        try:
            async with progress_within(limit_ms, "stopping producers"):
                await asyncio.gather(*(owner.stop() for owner in owners))
        except UnavailableError as error:
            self.fail(error)

    # feeding

    async def feed(self, topic: str, partition: int, generation: int, records: Sequence[Record]) -> None:
        """Fold the records of a fetch, in slices between which other tasks run. Records of a stale fetch or of a
        partition not owned are dropped: the partition's owner fetches them again."""
        for some in slices(records, self._policy.fold_bytes_max):
            owner = self._live.get(TopicPartition(topic, partition))
            if generation != self.generation or owner is None:
                return
            await self._feed(owner, some)
            await asyncio.sleep(0)

    async def _feed(self, owner: PartitionOwner, records: Sequence[Record]) -> None:
        try:
            async with progress_within(self._policy.live_limit_ms, f"fold of {owner.source}") as owner.progressed:
                await owner.feed(records)
        except RevokedError:
            return
        except PartitionError as error:
            await self._set_apart(owner, error)
            return
        except BaseException as error:
            self.fail(error)
            raise
        if owner.source.gapless:  # written by edges, with the brokers' time
            self._clock.seen(records[-1].timestamp_ms)
        self._counters.add("job_records", len(records), topic=owner.source.topic)
        if owner.wants_commit():
            self._wake.set()

    async def _set_apart(self, owner: PartitionOwner, error: PartitionError) -> None:
        """Quarantine a partition that was live; its producer stops, so that a reset fences nobody."""
        partition = TopicPartition(owner.source.topic, owner.source.partition)
        if self._live.get(partition) is not owner:
            return
        del self._live[partition]
        self._counters.set("job_partitions", len(self._live))
        self._quarantine.add(owner, error, acquired=True)
        await self._stop([owner])

    def _look(self) -> None:
        for partition in self._quarantine.due():
            task = asyncio.create_task(self._look_at(TopicPartition(*partition)))
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

    async def _look_at(self, partition: TopicPartition) -> None:
        generation = self.generation
        mended = await self._quarantine.may_return(partition, self._owner(partition))
        if mended and generation == self.generation and not self.fatal.done():
            self.again()

    # committing

    def start(self) -> None:
        """Begin to commit what is due."""
        self._ticker = asyncio.create_task(self._tick_for_ever(), name="runner-ticker")

    async def _tick_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._policy.tick_ms / 1_000):
                    await self._wake.wait()
            self._wake.clear()
            self._look()
            for partition, owner in list(self._live.items()):
                if partition in self._commits:
                    continue
                if owner.wants_commit():
                    self._begin_commit(partition, owner, owner.commit)
                elif owner.seems_idle() and self.lag.waits(*partition):
                    self._report_lag(partition, owner)  # nothing is committed until it ends, and who appends goes on
                elif owner.seems_idle():
                    self._begin_commit(partition, owner, owner.commit_idle)

    def _begin_commit(self, partition: TopicPartition, owner: PartitionOwner, commit: Commit) -> None:
        task = asyncio.create_task(self._commit(partition, owner, commit))
        self._commits[partition] = task
        task.add_done_callback(lambda done: self._commits.pop(partition, None))

    async def _commit(self, partition: TopicPartition, owner: PartitionOwner, commit: Commit) -> None:
        try:
            async with self._commit_slots, progress_within(self._policy.commit_limit_ms, f"commit of {owner.source}"):
                began_s, waited_ms = self._clock.monotonic_s(), self._slow.waited_ms()
                number, size = owner.number, owner.output_bytes
                if not await commit():
                    self._report_lag(partition, owner)  # markers may have been found behind what is committed
                    return
        except RevokedError:
            return
        except BaseException as error:
            if (damage := await self._quarantine.damage(owner, error)) is None:
                self.fail(error)
            else:
                await self._set_apart(owner, damage)
            return
        topic, ended_s = partition.topic, self._clock.monotonic_s()
        taken_ms = (ended_s - began_s) * 1_000
        self._slow.took(topic, taken_ms, waited_ms, ended_s)
        self._counters.add("job_commits", topic=topic)
        self._counters.add("job_commit_ms", taken_ms, topic=topic)
        self._counters.add("job_output_records", owner.number - number, topic=topic)
        self._counters.add("job_output_bytes", owner.output_bytes - size, topic=topic)
        self._report_lag(partition, owner)

    def _report_lag(self, partition: TopicPartition, owner: PartitionOwner) -> None:
        if partition in self._live:
            self.lag.report(*partition, owner.done_to)

    async def shut_down(self) -> None:
        """Commit what was folded, then release every partition. Feed nothing more."""
        if self._ticker is not None:
            self._ticker.cancel()
        for look in self._looks:
            look.cancel()
        await asyncio.gather(*self._commits.values(), return_exceptions=True)
        if not self.fatal.done():
            changed = [(p, o) for p, o in self._live.items() if o.position > o.committed]
            await asyncio.gather(*(self._commit(key, owner, owner.commit) for key, owner in changed))
        await self.revoke()


def slices(records: Sequence[Record], bytes_max: int) -> Iterator[Sequence[Record]]:
    """The records in order, in pieces whose values have at most ``bytes_max`` bytes, or of one record."""
    start = held = 0
    for number, record in enumerate(records):
        size = len(record.value or b"")
        if number > start and held + size > bytes_max:
            yield records[start:number]
            start, held = number, 0
        held += size
    if records:
        yield records[start:]
