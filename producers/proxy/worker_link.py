"""WorkerLink: how the workers of one proxy hand events and counts to their parent, which owns the spool.

Each worker has one stream to it: lines of JSON, a batch's line followed by its bytes. What a worker has begun it writes
into memory that it shares with its parent, and nowhere else: when it dies, what it had begun and the parent does not
have is lost, and declared to the last request.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import orjson

from producers.batch import Batch
from runtime.counters import COUNTERS, Counters
from runtime.metric_catalogue import CATALOGUE

LINE_BYTES_MAX = 4 * 1024 * 1024
"""Far above a report of all counters."""
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Batches that the parent has not read; those beyond are shed."""
_CELL_BYTES = 8

Reading = tuple[str, dict[str, str], float]
"""Name, labels and value of one counter or gauge."""


class Begun:
    """How many requests that get an event a worker has begun: a number in memory that outlives it. ``descriptor``: as
    ``fresh`` gives it."""

    @staticmethod
    def fresh() -> int:
        """The descriptor of new memory that holds 0, to be closed by whoever asked. Raises OSError."""
        descriptor = os.memfd_create("begun")
        os.ftruncate(descriptor, _CELL_BYTES)
        return descriptor

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _CELL_BYTES)
        self._count = 0

    def one_more(self) -> None:
        """Count; for the worker alone."""
        self._count += 1
        self._memory[:] = self._count.to_bytes(_CELL_BYTES, "little")

    def count(self) -> int:
        """What its worker wrote last."""
        return int.from_bytes(self._memory[:], "little")


class WorkerLink:
    """The worker's end, in the place of a publisher."""

    def __init__(self, writer: asyncio.StreamWriter, *, counters: Counters = COUNTERS) -> None:
        self._writer = writer
        self._counters = counters

    def put_at_once(self, batch: Batch) -> bool:
        """Hand over a batch; False when it was shed: the parent does not keep up, or is gone."""
        transport = self._writer.transport
        if transport.is_closing() or transport.get_write_buffer_size() > WAITING_BYTES_MAX:
            self.shed(batch.topic, batch.count)
            return False
        about = {"topic": batch.topic, "schema": batch.schema, "type": batch.content_type, "key": batch.key.hex()}
        self._send({"batch": about, "count": batch.count, "bytes": len(batch.value)})
        self._writer.write(batch.value)
        return True

    def shed(self, topic: str, events: int) -> None:
        """Have events declared that are lost."""
        self._send({"shed": topic, "count": events})

    def tell_others(self, message: Mapping[str, Any]) -> None:
        """Say it to all other workers, if the parent keeps up."""
        if self._writer.transport.get_write_buffer_size() <= WAITING_BYTES_MAX:
            self._send({"others": message})

    def report(self, *, dead: str | None, unready: str | None, up: bool) -> None:
        """Say how the worker is, and everything it counts. ``up``: it has begun to listen."""
        self._send({"report": self._counters.readings(), "dead": dead, "unready": unready, "up": up})

    def _send(self, item: Mapping[str, Any]) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(orjson.dumps(item) + b"\n")


async def items_of(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """What a worker sends, to its end; a batch under ``batch`` as a ``Batch``. A line cut by a death is left out."""
    while True:
        try:
            item = orjson.loads(await reader.readuntil(b"\n"))
            if (about := item.get("batch")) is not None:
                value = await reader.readexactly(item["bytes"])
                key = bytes.fromhex(about["key"])
                item["batch"] = Batch(about["topic"], about["schema"], about["type"], key, item["count"], value)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        yield item


class MergedCounts:
    """What all workers count, as one process: counters and numbers of things add up, and stay when a worker ends; of
    marks on an upstream the worst counts. What says which process a worker is stays out: Prometheus takes all that one
    address gives for one process."""

    def __init__(self, counters: Counters = COUNTERS) -> None:
        self._counters = counters
        self._last: dict[int, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = defaultdict(dict)

    def take(self, worker: int, readings: Iterable[Reading]) -> None:
        """A worker's report: everything that it counts."""
        last, changed = self._last[worker], []
        for name, labels, value in readings:
            if "process" in CATALOGUE[name].labels:
                continue
            key = (name, tuple(sorted(labels.items())))
            before = last.get(key)
            if value == before:
                continue
            last[key] = value
            if CATALOGUE[name].kind == "counter":
                self._counters.add(name, value - (before or 0.0), **labels)
            else:
                changed.append(key)
        self._set(changed)

    def forget(self, worker: int) -> None:
        """It has ended: what it had open is gone; what it counted stays."""
        self._set([key for key in self._last.pop(worker, {}) if CATALOGUE[key[0]].kind == "gauge"])

    def _set(self, keys: Iterable[tuple[str, tuple[tuple[str, str], ...]]]) -> None:
        for name, labels in keys:
            values = [last[name, labels] for last in self._last.values() if (name, labels) in last]
            worst = "upstream" in CATALOGUE[name].labels
            self._counters.set(name, max(values, default=0.0) if worst else sum(values), **dict(labels))
