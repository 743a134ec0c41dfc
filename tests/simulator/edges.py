"""Edges with a spool: every record is written down with its identity and partition, and sent until acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from schemas.record import Headers, Output
from tests.simulator.counting import POISON, encode
from tests.simulator.server import Server

IN_FLIGHT_MAX = 4

Encode = Callable[[str, int, str, int, int, tuple[int, int]], tuple[bytes, Headers]]


@dataclass(slots=True)
class Spooled:
    boot: int
    seq: int
    partition: int
    key: str
    amount: int


@dataclass
class Edge:
    """One spool on one machine; a kill of its process loses nothing that was spooled."""

    name: str
    topic: str
    partitions: int
    server: Server
    draw: random.Random
    fault_rate: float
    poison_rate: float
    encode: Encode = encode
    boot: int = 0
    seq: int = 0
    waiting: dict[tuple[int, int], Spooled] = field(default_factory=dict)
    truth: Counter[str] = field(default_factory=Counter)
    spooled: int = 0
    poisoned: int = 0
    in_flight: set[tuple[int, int]] = field(default_factory=set)
    tasks: dict[asyncio.Task[None], None] = field(default_factory=dict)

    def restart(self) -> None:
        """As after kill -9: what was in flight may or may not have landed, and is sent again."""
        for task in self.tasks:
            task.cancel()
        self.tasks.clear()
        self.in_flight.clear()
        self.boot += 1
        self.seq = 0

    def spool(self) -> None:
        """Write one more record down; from here on it counts as produced."""
        poisoned = self.draw.random() < self.poison_rate
        amount = 0 if poisoned else self.draw.randrange(1, 10)
        key = f"k{self.draw.randrange(3)}"
        record = Spooled(self.boot, self.seq, self._partition(key), key, amount)
        self.waiting[(record.boot, record.seq)] = record
        self.seq += 1
        self.spooled += 1
        if poisoned:
            self.poisoned += 1
        else:
            self.truth[key] += amount

    def _partition(self, key: str) -> int:
        return self.draw.randrange(self.partitions)

    def send_some(self) -> None:
        """Hand waiting records to the sender, oldest first, a few at a time."""
        for identity in sorted(self.waiting):
            if len(self.in_flight) >= IN_FLIGHT_MAX:
                return
            if identity not in self.in_flight:
                self.in_flight.add(identity)
                task = asyncio.get_running_loop().create_task(self._send(self.waiting[identity]))
                self.tasks[task] = None
                task.add_done_callback(lambda done: self.tasks.pop(done, None))

    async def _send(self, record: Spooled) -> None:
        identity = (record.boot, record.seq)
        low = min(self.waiting)
        value, headers = self.encode(record.key, record.amount, self.name, record.boot, record.seq, low)
        output = Output(self.topic, self._where(record), None, value if record.amount else POISON, headers)
        await asyncio.sleep(self.draw.uniform(0.0, 0.3))
        fails = self.draw.random() < self.fault_rate
        if not (fails and self.draw.random() < 0.5):
            self.server.append((self.topic, output.partition), output)
        await asyncio.sleep(self.draw.uniform(0.0, 0.1))
        self.in_flight.discard(identity)
        if not fails:
            self.waiting.pop(identity, None)

    def _where(self, record: Spooled) -> int:
        return record.partition
