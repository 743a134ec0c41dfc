"""Edges with a spool: every record is written down with its identity and partition, and sent until acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from schemas.contract.record import Headers, Output
from tests.simulator.counting import POISON, encode
from tests.simulator.server import Server

IN_FLIGHT_MAX = 4


@dataclass(slots=True)
class Spooled:
    """A record as it was written down; ``amount`` of 0: poison. ``value`` where a subclass makes the bytes itself."""

    boot: int
    seq: int
    partition: int
    key: str = ""
    amount: int = 0
    value: bytes = b""


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
        record = Spooled(self.boot, self.seq, self.draw.randrange(self.partitions))
        self._fill(record, poisoned=poisoned)
        self.waiting[(record.boot, record.seq)] = record
        self.seq += 1
        self.spooled += 1
        self.poisoned += poisoned

    def _fill(self, record: Spooled, *, poisoned: bool) -> None:
        """Make up what is in the record, and add it to the truth."""
        record.key = f"k{self.draw.randrange(3)}"
        if not poisoned:
            record.amount = self.draw.randrange(1, 10)
            self.truth[record.key] += record.amount

    def _encoded(self, record: Spooled, low: tuple[int, int]) -> tuple[bytes, Headers]:
        value, headers = encode(record.key, record.amount, self.name, record.boot, record.seq, low)
        return value if record.amount else POISON, headers

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
        value, headers = self._encoded(record, low)
        output = Output(self.topic, self._where(record), None, value, headers)
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
