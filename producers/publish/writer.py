"""SpoolWriter: takes records at once, and writes them to the spool in a thread, in order.

A disk that stalls holds up no event loop: what comes meanwhile waits in memory, ``WAITING_BYTES_MAX`` of it; records
beyond are shed. What is shed, here or because the spool is full, is declared by the same thread. Who waits for
room sheds nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from producers.batch import Batch
from producers.publish.reconnect import finish
from producers.spool.frame import Spooled
from producers.spool.spool import Append, Spool, SpoolLimits, demand_sendable
from runtime.counters import Counters
from runtime.runbook import Cause

_log = logging.getLogger(__name__)

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Of values that are not on disk yet. What is not there after a kill was never spooled."""
_TOO_SLOW = "the disk is too slow"
_RECORDS_MAX = 1_024
"""Written in one go: syncs and saves wait for it."""

Outcome = Callable[[Spooled, bool], None]
"""Called for each record that is spooled (True) or shed, on the loop."""


class _Waiting(NamedTuple):
    record: Spooled
    answer: asyncio.Future[bool] | None
    """True when it is on disk, False when it was shed, or not taken; None: nobody asks."""
    kept: bool = False
    """Its sender keeps it until it is on disk: it is never shed."""


class SpoolWriter:
    """``disk`` is held while the spool is written: one write, sync or save at a time."""

    def __init__(self, spool: Spool, disk: asyncio.Lock, outcome: Outcome, counters: Counters) -> None:
        self._spool = spool
        self._disk = disk
        self._outcome = outcome
        self._counters = counters
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._shed: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._full = False
        self._noted: bool | None = None

    @property
    def shedding(self) -> str | None:
        """That nothing new is taken, and why: events are shed, or wait where their sender can. None: it is taken."""
        why = _TOO_SLOW if self._full else self._spool.shedding
        return why and f"{Cause.SPOOL}: new events are shed, or wait where they can: {why}"

    def _note(self) -> None:
        """Set the gauge where it has changed: this is asked for every record."""
        if (sheds := self._full or self._spool.shedding is not None) is not self._noted:
            self._noted = sheds
            self._counters.set("cause", int(sheds), cause=Cause.SPOOL)

    def has_room(self, value_bytes: int, topic: str | None = None) -> bool:
        """Whether a value of this size would be taken, and spooled as far as the spool's own bounds go."""
        coming = self._waiting_bytes + value_bytes
        has_share = topic is None or self._spool.undeliverable.has_share(topic, value_bytes)
        return has_share and coming <= WAITING_BYTES_MAX and self._spool.has_room(coming)

    def offer(self, batch: Batch, partition: int, at_ms: int) -> bool:
        """Take a batch; False when there is no room and it was shed. Raises RejectedError for one that is too large."""
        return self._take(_Waiting(_record_of(batch, partition, at_ms, self._spool.limits), None))

    def put(self, batch: Batch, partition: int, at_ms: int) -> asyncio.Future[bool]:
        """As ``offer``; the future says whether it is on disk, once that is known."""
        return self._asked(batch, partition, at_ms)

    async def put_unshed(
        self, batch: Batch, partition: int, now_ms: Callable[[], int], comes: Callable[[], Awaitable[None]]
    ) -> None:
        """Return when it is on disk, however long there is no room or the disk takes nothing. ``comes``: until there
        may be room. Raises as ``offer``, and what ended the writing: then it is not on disk."""
        while True:
            while not self.has_room(len(batch.value), batch.topic):
                await comes()
            self._demand_going_on()
            answer = self._asked(batch, partition, now_ms(), kept=True)
            try:
                spooled = await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.wait([answer])
                if answer.exception() is None and answer.result():
                    return  # on its way to the disk it could not be taken back
                raise
            if spooled:
                return
            await comes()

    def _asked(self, batch: Batch, partition: int, at_ms: int, *, kept: bool = False) -> asyncio.Future[bool]:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._take(_Waiting(_record_of(batch, partition, at_ms, self._spool.limits), answer, kept))
        return answer

    def _take(self, one: _Waiting) -> bool:
        record = one.record
        if self._waiting and self._waiting_bytes + len(record.value) > WAITING_BYTES_MAX:
            if not self._full:
                self._full = True
                _log.error("shedding new events", extra={"why": _TOO_SLOW, "topic": record.topic, "cause": Cause.SPOOL})
            self._settled(one, spooled=False)
            self.declare(record.topic, record.events)
            self._note()
            return False
        self._full = False
        self._note()
        self._waiting.append(one)
        self._waiting_bytes += len(record.value)
        self._begin()
        return True

    def declare(self, topic: str, events: int) -> None:
        """Declare events as shed, soon."""
        self._shed[topic] += events
        self._begin()

    async def drain(self, within_s: float | None = None) -> None:
        """Until everything is written and declared, or the disk failed, or the time is up."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=within_s)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """That of the last writing, whose error is why there is no more of it."""
        return [] if self._task is None else [self._task]

    def left(self) -> tuple[list[Batch], Counter[str]]:
        """After a failure: batches for whose writing nobody waits, and events to be declared."""
        records = [each.record for each in self._waiting if each.answer is None]
        return [Batch(it.topic, it.schema, it.content_type, it.key, it.events, it.value) for it in records], self._shed

    def _demand_going_on(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _begin(self) -> None:
        task = self._task
        if task is None or (task.done() and not task.cancelled() and task.exception() is None):
            self._task = asyncio.get_running_loop().create_task(self._write())
            self._task.add_done_callback(self._ended)

    async def _write(self) -> None:
        while self._waiting or self._shed:
            async with self._disk:  # what waits for it is still known to ``left``
                now = [self._waiting.popleft() for _ in range(min(len(self._waiting), _RECORDS_MAX))]
                shed, self._shed = self._shed, Counter()
                kept = [place for place, each in enumerate(now) if each.kept]
                append = self._spool.begin_append([each.record for each in now], shed, kept)
                try:
                    await finish(append.run)
                finally:
                    self._settle(now, append)

    def _settle(self, now: list[_Waiting], append: Append) -> None:
        """What is on disk is spooled, what is declared was shed; the rest waits for another writer."""
        self._spool.finish_append(append)
        spooled = set(append.places)
        left = []
        for place, each in enumerate(now):
            if place in spooled or append.declared:
                self._waiting_bytes -= len(each.record.value)
                self._settled(each, spooled=place in spooled)
            else:
                left.append(each)
        self._waiting.extendleft(reversed(left))
        if not append.declared:
            self._shed.update(append.more)
        self._note()

    def _settled(self, one: _Waiting, *, spooled: bool) -> None:
        if spooled or not one.kept:
            self._outcome(one.record, spooled)
        if one.answer is not None and not one.answer.done():
            one.answer.set_result(spooled)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Tell those who wait why nothing more is written; called too when it ended before its first step."""
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        for each in self._waiting:
            if each.answer is not None and not each.answer.done():
                each.answer.set_exception(error if isinstance(error, Exception) else OSError("the spool was closed"))


def _record_of(batch: Batch, partition: int, at_ms: int, limits: SpoolLimits) -> Spooled:
    """Without its identity, which it gets when it is written."""
    names = (batch.topic, partition, batch.schema, batch.content_type)
    record = Spooled(0, 0, at_ms, *names, batch.key, batch.count, batch.value)
    demand_sendable(record, limits)
    return record


async def finished(answer: asyncio.Future[bool]) -> bool:
    """Its result. Who is cancelled meanwhile gets it too: what is on its way to the disk cannot be taken back."""
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await asyncio.wait([answer])
        return answer.result()
