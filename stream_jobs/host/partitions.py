"""All partitions that this process owns: taking over, feeding by fetch, committing in time, giving up.

Both shells use it in the same way::

    positions = await partitions.assign(assigned)     # acquire all; None: taken back meanwhile
    seek(positions); partitions.install()             # nothing may be awaited between the two
    await partitions.feed(topic, partition, generation, records)
    await partitions.revoke()

A shell that knows where partitions end, without asking, says so by ``partitions.end_known``; then every commit tells
how far behind it is.

``generation`` counts installations. A fetch that was made before the last seek carries an older one and is dropped.
Whatever goes wrong ends up in ``doubt``, which the shell waits for and ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.clock import Clock
from runtime.counters import COUNTERS, Counters
from runtime.health import Readiness
from runtime.tracing import Tracer
from schemas.errors import UnavailableError
from schemas.record import Record
from stream_jobs.host.job import HostedJob
from stream_jobs.host.names import Names
from stream_jobs.host.owner import GivenUpError, PartitionOwner
from stream_jobs.host.policy import CommitPolicy
from stream_jobs.host.ports import Broker

_log = logging.getLogger(__name__)

STOP_IN_DOUBT_MS = 500
"""A process in doubt ends soon, whether or not its producers can be stopped."""

READINESS = Readiness(partitions="the worker has not joined its group yet")
"""Whether this process's partitions are live."""


EndKnown = Callable[[str, int], int | None]
"""The end of a partition (topic, number) as the last fetch told it; None when no fetch has told it yet. Asks nobody."""


def _unknown(topic: str, partition: int) -> None:
    """No fetch tells."""


class Place(NamedTuple):
    """A topic and a partition, as every client's own type compares to it."""

    topic: str
    partition: int


class Partitions:
    """Make it inside a running event loop."""

    Owner = PartitionOwner

    def __init__(
        self,
        job: HostedJob,
        broker: Broker,
        names: Names,
        policy: CommitPolicy,
        clock: Clock,
        counters: Counters = COUNTERS,
        readiness: Readiness = READINESS,
        tracer: Tracer | None = None,
    ) -> None:
        self._job = job
        self._broker = broker
        self._names = names
        self._policy = policy
        self._clock = clock
        self._counters = counters
        self._readiness = readiness
        self._tracer = tracer
        self._live: dict[Place, PartitionOwner] = {}
        self._ready: dict[Place, PartitionOwner] = {}
        self._acquiring: asyncio.Task[dict[Place, int]] | None = None
        self._commits: dict[Place, asyncio.Task[None]] = {}
        self._commit_slots = asyncio.Semaphore(policy.commits_at_once)
        self._wake = asyncio.Event()
        self._ticker: asyncio.Task[None] | None = None
        self._behind: set[Place] = set()
        self.generation = 0
        self.end_known: EndKnown = _unknown
        self.doubt: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def live(self) -> Mapping[Place, PartitionOwner]:
        """Owners that are fed and commit."""
        return self._live

    @property
    def acquiring(self) -> bool:
        """Partitions are being taken over right now."""
        return self._acquiring is not None

    def raise_doubt(self, error: BaseException) -> None:
        """Let the process end because of ``error``."""
        if isinstance(error, asyncio.CancelledError):  # aiokafka lets those of its own tasks slip
            error = UnavailableError("the client was cancelled from within")
        if not self.doubt.done():
            self._readiness.hold("doubt", f"the process ends because of a doubt: {error}")
            self.doubt.set_exception(error)

    # assignment

    async def assign(self, places: Iterable[tuple[str, int]]) -> dict[Place, int] | None:
        """Acquire these partitions instead of what was owned before; the offsets to seek to. None when they were
        taken back meanwhile, or when there is a doubt (which is raised)."""
        await self.revoke()
        wanted = [Place(*place) for place in places]
        self._readiness.hold("partitions", f"{len(wanted)} partitions are being taken over")
        task = self._acquiring = asyncio.create_task(self._acquire_all(wanted))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():  # it is the caller who was cancelled
                await self.revoke()
                raise
            return None
        except BaseException as error:
            self.raise_doubt(error)
            return None
        finally:
            if self._acquiring is task:
                self._acquiring = None

    async def _acquire_all(self, places: Sequence[Place]) -> dict[Place, int]:
        began_s = self._clock.monotonic_s()
        slots = asyncio.Semaphore(self._policy.acquires_at_once)
        owners = {place: self._owner(place) for place in places}
        try:
            async with _limit(self._policy.acquire_limit_ms, "taking over"), asyncio.TaskGroup() as group:
                tasks = {place: group.create_task(_in_slot(slots, owner.acquire)) for place, owner in owners.items()}
        except BaseExceptionGroup as error:
            await self._stop(owners.values())
            raise _first(error) from error
        except BaseException:
            await self._stop(owners.values())
            raise
        self._ready = owners
        taken_s = self._clock.monotonic_s() - began_s
        _log.info("partitions taken over", extra={"partitions": len(places), "taken_s": round(taken_s, 3)})
        return {place: task.result() for place, task in tasks.items()}

    def _owner(self, place: Place) -> PartitionOwner:
        source = self._job.source(*place)
        step = self._job.steps[place.topic]
        return self.Owner(step, source, self._broker, self._names, self._policy, self._clock, self._tracer)

    def install(self) -> None:
        """What was acquired is live. Call right after seeking, with nothing awaited between. Of partitions that are due
        at once those of the topic that the job names first commit first."""
        topics = self._job.topics
        self._live = dict(sorted(self._ready.items(), key=lambda one: topics.index(one[0].topic)))
        self._ready = {}
        self.generation += 1
        for place in self._live:
            self._counters.add("job_acquires", topic=place.topic)
        self._counters.set("job_partitions", len(self._live))
        self._readiness.release("partitions")
        _log.info("partitions are live", extra={"partitions": len(self._live)})

    async def revoke(self) -> None:
        """Forget every partition and stop its producer; what was folded and not committed is for the next owner."""
        self.generation += 1
        self._readiness.hold("partitions", "the partitions were given back; the group hands them out anew")
        acquiring, self._acquiring = self._acquiring, None
        if acquiring is not None:
            acquiring.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await acquiring
        owners = [*self._live.values(), *self._ready.values()]
        self._live, self._ready = {}, {}
        self._counters.set("job_partitions", 0)
        for place in sorted(self._behind):  # whoever owns them now tells
            self._counters.set("job_lag_records", 0, **place._asdict())
        self._behind.clear()
        await self._stop(owners)

    async def _stop(self, owners: Iterable[PartitionOwner]) -> None:
        limit_ms = STOP_IN_DOUBT_MS if self.doubt.done() else self._policy.commit_limit_ms
        try:
            async with _limit(limit_ms, "giving up"):
                await asyncio.gather(*(owner.stop() for owner in owners))
        except UnavailableError as error:
            self.raise_doubt(error)

    # feeding

    async def feed(self, topic: str, partition: int, generation: int, records: Sequence[Record]) -> None:
        """Fold what a fetch brought, in slices between which whatever else is due has its turn. What is stale or
        belongs to a partition not owned is dropped: whoever owns the partition now reads it again."""
        for some in slices(records, self._policy.fold_bytes_max):
            owner = self._live.get(Place(topic, partition))
            if generation != self.generation or owner is None:
                return
            await self._feed(owner, some)
            await asyncio.sleep(0)

    async def _feed(self, owner: PartitionOwner, records: Sequence[Record]) -> None:
        try:
            async with _limit(self._policy.live_limit_ms, f"fold of {owner.source}"):
                await owner.feed(records)
        except GivenUpError:
            return
        except BaseException as error:
            self.raise_doubt(error)
            raise
        self._counters.add("job_records", len(records), topic=owner.source.topic)
        if owner.wants_commit():
            self._wake.set()

    # committing

    def start(self) -> None:
        """Begin to look for what is due."""
        self._ticker = asyncio.create_task(self._tick_for_ever(), name="host-ticker")

    async def _tick_for_ever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._policy.tick_ms / 1_000):
                    await self._wake.wait()
            self._wake.clear()
            for place, owner in self._live.items():
                if place in self._commits:
                    continue
                if owner.wants_commit():
                    self._begin_commit(place, owner, owner.commit)
                elif owner.seems_idle():
                    self._begin_commit(place, owner, owner.commit_idle)

    def _begin_commit(self, place: Place, owner: PartitionOwner, commit: Callable[[], Awaitable[bool]]) -> None:
        task = asyncio.create_task(self._commit(place, owner, commit))
        self._commits[place] = task
        task.add_done_callback(lambda done: self._commits.pop(place, None))

    async def _commit(self, place: Place, owner: PartitionOwner, commit: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with self._commit_slots, _limit(self._policy.commit_limit_ms, f"commit of {owner.source}"):
                began_s, number, size = self._clock.monotonic_s(), owner.number, owner.output_bytes
                if not await commit():
                    return
        except GivenUpError:
            return
        except BaseException as error:
            self.raise_doubt(error)
            return
        topic, taken_ms = place.topic, (self._clock.monotonic_s() - began_s) * 1_000
        self._counters.add("job_commits", topic=topic)
        self._counters.add("job_commit_ms", taken_ms, topic=topic)
        self._counters.add("job_output_records", owner.number - number, topic=topic)
        self._counters.add("job_output_bytes", owner.output_bytes - size, topic=topic)
        self._tell_lag(place, owner)

    def _tell_lag(self, place: Place, owner: PartitionOwner) -> None:
        try:
            end = self.end_known(*place)
        except Exception as error:
            # A figure is no reason for a doubt: the client may be stopping, or know the partition no more.
            self._counters.add("errors", where="lag", error=type(error).__name__)
            return
        if end is not None and place in self._live:
            self._behind.add(place)
            self._counters.set("job_lag_records", max(0, end - owner.committed), **place._asdict())

    async def shut_down(self) -> None:
        """Commit what was folded, then give everything up. Feed nothing more."""
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.gather(*self._commits.values(), return_exceptions=True)
        if not self.doubt.done():
            changed = [(p, o) for p, o in self._live.items() if o.position != o.committed]
            await asyncio.gather(*(self._commit(place, owner, owner.commit) for place, owner in changed))
        await self.revoke()


def slices(records: Sequence[Record], bytes_max: int) -> Iterator[Sequence[Record]]:
    """The records in their order, cut so that the values of each piece have at most ``bytes_max`` bytes, or it is one
    record."""
    start = held = 0
    for number, record in enumerate(records):
        size = len(record.value or b"")
        if number > start and held + size > bytes_max:
            yield records[start:number]
            start, held = number, 0
        held += size
    if records:
        yield records[start:]


async def _in_slot(slots: asyncio.Semaphore, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    async with slots:
        try:
            return await work()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling() == 0:  # not by us: aiokafka let one of its own slip
                raise UnavailableError("the client was cancelled from within") from error
            raise


@contextlib.asynccontextmanager
async def _limit(limit_ms: int, doing: str) -> Any:
    try:
        async with asyncio.timeout(limit_ms / 1_000):
            yield
    except TimeoutError as error:
        raise UnavailableError(f"{doing} took more than {limit_ms} ms") from error


def _first(error: BaseException) -> BaseException:
    """The first error of a group, so that its cause can be read."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
