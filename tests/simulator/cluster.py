"""Worker processes of the simulation: the real ``Partitions``, the real owner, and one of two shells.

``bare`` runs the real loop and listener of ``runner.bare_runner``. ``threaded`` is shaped like Faust: between the
fetch and the fold stands another thread, so a batch can be overtaken by a seek; the rules for it (stamps, install
before seek) are those of ``faust_runner``.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stream_jobs.runner import bare_runner
from stream_jobs.runner.job import Job
from stream_jobs.runner.kafka_ports import record_of
from stream_jobs.runner.partitions import Partitions, TopicPartition
from stream_jobs.runner.policy import CommitPolicy
from tests.simulator.client import Faults, SimBroker, SimConsumer, Wire
from tests.simulator.loop import CURRENT, TROUBLE, Process
from tests.simulator.server import Server

DEPLOYMENT = "sim"


class SimClock:
    """Virtual time, in the server's and in the loop's terms."""

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class NoCounters:
    """Counts nothing, but notes which partitions are quarantined."""

    def __init__(self) -> None:
        self.quarantined: dict[TopicPartition, str] = {}

    def add(self, name: str, by: float = 1, **labels: object) -> None: ...

    def set(self, name: str, value: float, **labels: Any) -> None:
        if name == "job_quarantined":
            place = TopicPartition(labels["topic"], labels["partition"])
            if value:
                self.quarantined[place] = labels["cause"]
            else:
                self.quarantined.pop(place, None)

    def record(self, name: str, value: float, **labels: object) -> None: ...

    def forget(self, label: str, but: object) -> None: ...


class NoWatchdog:
    def expect(self) -> None: ...

    def progressed(self) -> None: ...

    def met(self) -> None: ...


class ThreadedListener:
    """What Faust's hooks do on assignment."""

    def __init__(self, consumer: SimConsumer, partitions: Partitions, wire: Wire) -> None:
        self._consumer = consumer
        self._partitions = partitions
        self._wire = wire
        self.seeks = 0
        self.seeks_due = 0
        self._assigned: tuple[Any, ...] = ()
        self._one_turn = asyncio.Lock()
        partitions.again = self._again

    def _again(self) -> None:
        asyncio.get_running_loop().create_task(self._acquire())

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._partitions.revoke()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._assigned = tuple(assigned)
        await self._acquire()

    async def _acquire(self) -> None:
        async with self._one_turn:
            await self._acquire_and_seek(self._assigned)

    async def _acquire_and_seek(self, assigned: Any) -> None:
        positions = await self._partitions.assign(assigned)
        if positions is None:
            return
        self.seeks_due = self.seeks + 1
        self._partitions.install()
        await self._wire.delay()  # to the thread
        self.seeks += 1
        for place, position in positions.items():
            self._consumer.seek(place, position)

    def fresh(self, seeks: int) -> bool:
        return seeks == self.seeks_due


async def threaded_read(
    consumer: SimConsumer, partitions: Partitions, listener: ThreadedListener, wire: Wire, stop: asyncio.Event
) -> None:
    while not stop.is_set():
        fetched = await consumer.getmany(timeout_ms=200)
        seeks = listener.seeks
        await wire.delay()  # from the thread
        if not listener.fresh(seeks):
            continue
        generation = partitions.generation
        for place, messages in fetched.items():
            await wire.delay()  # in the agent's queue
            await partitions.feed(*place, generation, [record_of(message) for message in messages])


@dataclass
class Parts:
    """What a mutation may replace; the defaults are the real thing."""

    partitions: Callable[..., Partitions] = Partitions
    broker: Callable[[Wire], SimBroker] = SimBroker
    bare_listener: Callable[..., Any] = bare_runner._Listener
    threaded_listener: Callable[..., Any] = ThreadedListener


@dataclass
class Worker:
    """A supervised process: started again two seconds after it ended, whatever ended it."""

    name: str
    job: Job
    server: Server
    policy: CommitPolicy
    draw: random.Random
    faults: Faults
    shell: str
    parts: Parts
    process: Process = field(init=False)
    stop: asyncio.Event = field(init=False)
    listener: Any = None
    consumer: Any = None
    ended_by: list[BaseException] = field(default_factory=list)
    incarnation: int = 0
    counters: NoCounters = field(default_factory=NoCounters)

    @property
    def quarantined(self) -> dict[TopicPartition, str]:
        """Causes by partition, while the process runs."""
        return self.counters.quarantined if self.up else {}

    def start(self) -> None:
        self.incarnation += 1
        self.process = Process(f"{self.name}.{self.incarnation}")
        self.stop = asyncio.Event()
        self.listener = None
        context = contextvars.copy_context()
        context.run(CURRENT.set, self.process)
        asyncio.get_running_loop().create_task(self._run(self.process), context=context)

    def kill(self) -> None:
        self.process.dead = True
        self.listener = None

    @property
    def up(self) -> bool:
        return not self.process.dead

    async def _run(self, process: Process) -> None:
        try:
            await self._serve(process)
        except BaseException as error:
            self.ended_by.append(error)
            if not isinstance(error, TROUBLE):
                raise
        finally:
            if not process.dead:
                self.kill()

    async def _serve(self, process: Process) -> None:
        wire = Wire(self.server, self.draw, self.faults, process)
        self.counters = NoCounters()
        broker, names = self.parts.broker(wire), self.job.names(DEPLOYMENT)
        partitions = self.parts.partitions(self.job, broker, names, self.policy, SimClock(), self.counters)
        consumer = SimConsumer(wire, names.group)
        if self.shell == "bare":
            listener = self.parts.bare_listener(consumer, partitions, NoWatchdog())
            reading = bare_runner._read(consumer, partitions, self.policy, self.stop)
        else:
            listener = self.parts.threaded_listener(consumer, partitions, wire)
            reading = threaded_read(consumer, partitions, listener, wire, self.stop)
        self.consumer, self.listener = consumer, listener
        partitions.start()
        try:
            await bare_runner._until(reading, partitions.fatal)
        finally:
            await partitions.shut_down()


class Group:
    """Gives partitions to workers. A worker that is frozen or unreachable is not asked: it goes on as a zombie."""

    def __init__(self, places: list[TopicPartition], draw: random.Random) -> None:
        self._places = places
        self._draw = draw

    def rebalance(self, workers: list[Worker]) -> None:
        """A new generation among those who answer."""
        able = [worker for worker in workers if worker.up and not worker.process.frozen and worker.listener is not None]
        if not able:
            return
        shares: dict[str, list[TopicPartition]] = {worker.name: [] for worker in able}
        for place in self._places:
            shares[self._draw.choice(able).name].append(place)
        for worker in able:
            self._tell(worker, shares[worker.name])

    def _tell(self, worker: Worker, share: list[TopicPartition]) -> None:
        context = contextvars.copy_context()
        context.run(CURRENT.set, worker.process)
        listener, consumer = worker.listener, worker.consumer

        async def told() -> None:
            async with _turn(worker):
                await listener.on_partitions_revoked(())
                consumer.assigned(share)
                await listener.on_partitions_assigned(share)

        asyncio.get_running_loop().create_task(told(), context=context)


def _turn(worker: Worker) -> asyncio.Lock:
    """Rebalances of one process come one after the other."""
    process: Any = worker.process
    if not hasattr(process, "turn"):
        process.turn = asyncio.Lock()
    return process.turn
