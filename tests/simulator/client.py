"""The runner's ports on the in-memory cluster: every call takes time, and may fail before or after it took effect."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from schemas.contract.record import Headers, Output
from schemas.errors import UnavailableError
from stream_jobs.runner.ports import Batch, Committed
from tests.simulator.loop import Process
from tests.simulator.server import OFFSETS, BusyError, Server

T = TypeVar("T")
RECORDS_AT_ONCE = 8


@dataclass(slots=True)
class Faults:
    """How bad the network is; ``rate`` is the share of calls that fail."""

    rate: float = 0.0
    slow_rate: float = 0.02


class Wire:
    """Calls of one process to the cluster."""

    def __init__(self, server: Server, draw: random.Random, faults: Faults, process: Process) -> None:
        self.server = server
        self._draw = draw
        self._faults = faults
        self._process = process

    async def call(self, effect: Callable[[], T], *, may_fail: bool = True) -> T:
        await self.delay()
        fails = may_fail and self._draw.random() < self._faults.rate
        if fails and self._draw.random() < 0.5:
            raise UnavailableError("the request was lost")
        result = await self._until_free(effect)
        await self.delay()
        if fails:
            raise UnavailableError("the answer was lost")
        return result

    async def _until_free(self, effect: Callable[[], T]) -> T:
        while True:
            try:
                return effect()
            except BusyError:
                await asyncio.sleep(0.02)

    async def delay(self) -> None:
        if self._process.dead:  # being thrown away: nothing may happen any more
            raise UnavailableError("dead")
        slow = self._draw.random() < self._faults.slow_rate
        await asyncio.sleep(self._draw.uniform(0.05, 3.0) if slow else self._draw.uniform(0.0, 0.01))


class SimProducer:
    def __init__(self, wire: Wire, transactional_id: str) -> None:
        self._wire = wire
        self._id = transactional_id
        self._epoch = 0
        self._added: set[tuple[str, int]] = set()

    async def start(self) -> None:
        self._epoch = await self._wire.call(lambda: self._wire.server.init(self._id))

    async def begin(self) -> None:
        self._added.clear()

    async def send(self, outputs: Sequence[Output]) -> list[int]:
        offsets = []
        for output in outputs:
            place = (output.topic, output.partition)
            await self._add(place)
            offsets.append(await self._produce(place, output))
        return offsets

    async def _produce(self, place: tuple[str, int], output: Output) -> int:
        return await self._wire.call(lambda: self._wire.server.produce(self._id, self._epoch, place, output))

    async def _add(self, place: tuple[str, int]) -> None:
        if place not in self._added:
            await self._wire.call(lambda: self._wire.server.add_place(self._id, self._epoch, place))
            self._added.add(place)

    async def add_offset(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        await self._add(OFFSETS)
        place = (topic, partition)
        await self._wire.call(lambda: self._wire.server.add_offset(self._id, self._epoch, group, place, committed))

    async def commit(self) -> None:
        await self._wire.call(lambda: self._wire.server.end(self._id, self._epoch))

    async def stop(self) -> None: ...


class SimReader:
    def __init__(self, wire: Wire, place: tuple[str, int], offset: int, *, committed: bool = True) -> None:
        self._wire = wire
        self._place = place
        self._position = offset
        self._committed = committed

    async def poll(self) -> Batch:
        log = self._wire.server.log(self._place)
        batch = await self._wire.call(lambda: log.read(self._position, RECORDS_AT_ONCE, committed=self._committed))
        self._position = batch.position
        return batch

    async def close(self) -> None: ...


class SimBroker:
    """The ``Broker`` port of one process."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def producer(self, transactional_id: str) -> SimProducer:
        return SimProducer(self.wire, transactional_id)

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        server = self.wire.server
        while True:
            loading, found = await self.wire.call(
                lambda: (server.loading, server.group_offsets.get((group, (topic, partition))))
            )
            if not loading:
                return found
            absent = self._absent()
            if absent:
                return None
            await self.pause()

    def _absent(self) -> bool:
        """Whether an answer without an offset is taken for the answer "none"."""
        return False

    async def has_partition(self, topic: str, partition: int) -> bool:
        return True

    async def has_leader(self, topic: str, partition: int) -> bool:
        return True

    async def topic_id(self, topic: str) -> str | None:
        return f"id-of-{topic}"

    async def begin_offset(self, topic: str, partition: int) -> int:
        return await self.wire.call(lambda: self.wire.server.log((topic, partition)).begin)

    async def end_offset(self, topic: str, partition: int) -> int:
        return await self.wire.call(lambda: self.wire.server.log((topic, partition)).stable_end())

    async def reader(self, topic: str, partition: int, offset: int) -> SimReader:
        return SimReader(self.wire, (topic, partition), offset)

    async def pause(self) -> None:
        await asyncio.sleep(0.01)


class Message(NamedTuple):
    """A consumed message with the attributes of aiokafka's."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class SimConsumer:
    """As aiokafka's: after an assignment it fetches by itself from the committed offset, until it is told to seek. A
    fetch that a seek or a new assignment has overtaken is dropped."""

    def __init__(self, wire: Wire, group: str) -> None:
        self._wire = wire
        self._group = group
        self._positions: dict[tuple[str, int], int | None] = {}

    @property
    def busy(self) -> bool:
        return bool(self._positions)

    def assigned(self, places: Sequence[tuple[str, int]]) -> None:
        self._positions = dict.fromkeys(places)

    def seek(self, place: Any, position: int) -> None:
        if tuple(place) in self._positions:
            self._positions[tuple(place)] = position

    async def getmany(self, *, timeout_ms: int) -> Mapping[Any, list[Message]]:
        places, found = self._positions, {}
        if not places:
            await asyncio.sleep(timeout_ms / 1_000)
        for place in sorted(places):
            if places[place] is None:
                committed = self._wire.server.group_offsets.get((self._group, place))
                places[place] = committed.offset if committed else 0
        asked = dict(places)
        await self._wire.delay()
        if self._positions is not places:
            return {}
        for place, start in asked.items():
            if start is None or places[place] != start:
                continue
            batch = self._wire.server.log(place).read(start, RECORDS_AT_ONCE)
            places[place] = batch.position
            if batch.records:
                found[_Place(*place)] = [Message(*record) for record in batch.records]
        if not found:
            await asyncio.sleep(timeout_ms / 1_000)
        return found


class _Place(NamedTuple):
    topic: str
    partition: int
