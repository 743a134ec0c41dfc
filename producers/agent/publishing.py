"""From rows to batches, in the thread that measured; from batches to the spool, on the loop that owns it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from producers.agent.few_rows import batches_of_few
from producers.batch import Batch, BatchBuilder
from producers.collector import Collected, Row
from producers.publish.puts import Puts, have_room
from schemas.fields import Event


@dataclass(frozen=True, slots=True)
class Parcel:
    """Encoded batches of one reading, and (topic, events) that no batch could hold."""

    batches: Sequence[Batch]
    unfit: Sequence[tuple[str, int]]

    def events(self) -> list[tuple[str, int]]:
        """(topic, events) of everything in it, what fits no batch included."""
        return [(batch.topic, batch.count) for batch in self.batches] + list(self.unfit)


def packed(collected: Iterable[Collected]) -> Parcel:
    """The rows as batches, one record per key and topic."""
    batches: list[Batch] = []
    unfit: list[tuple[str, int]] = []
    for part in collected:
        if (few := batches_of_few(part.event, part.rows)) is not None:
            batches += few
            continue
        builder = BatchBuilder(part.event)
        batches += [batch for row in part.rows for batch in builder.add(row, 0.0)]
        batches += builder.flush()
        if builder.oversized_events:
            unfit.append((part.event.topic, builder.oversized_events))
    return Parcel(batches, unfit)


def publish_parcel(publisher: Puts, parcel: Parcel) -> None:
    """Spool a parcel now; declare what no batch could hold."""
    for batch in parcel.batches:
        publisher.put_at_once(batch)
    for topic, events in parcel.unfit:
        publisher.shed(topic, events)


async def publish_rows(publisher: Puts, event: Event, rows: list[Row]) -> None:
    """Spool rows of one event now, one record per key."""
    publish_parcel(publisher, packed([Collected(event, rows)]))
    await asyncio.sleep(0)  # a caller that never waits must not starve the sending


BEAT_SOON_S = 0.15
"""A parcel waits for the beat that is so near, instead of waking the loop."""


class Handover:
    """Parcels on their way from the collectors' threads to the publisher, at most ``parcels_max`` of them.

    When the loop stands still for so long that it is full, newer parcels are dropped, and declared as shed when the
    loop moves again. ``beat_now`` is called on the loop, instead of waiting for the beat, when as many parcels have
    come as between the two beats before.
    """

    def __init__(self, publisher: Puts, parcels_max: int = 256) -> None:
        self._publisher = publisher
        self._parcels_max = parcels_max
        self._waiting: deque[Parcel] = deque()
        self._shed: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._beat_s = 0.0  # when the loop looks next without being woken, monotonic
        self._given = self._usual = 0  # parcels since the last beat, and between the two before
        self.beat_now: Callable[[], None] = self._publish

    def give(self, parcel: Parcel) -> None:
        """Take a parcel, from any thread."""
        if not self.offer(parcel):
            with self._lock:
                for topic, events in parcel.events():
                    self._shed[topic] += events
            self._wake(is_last=False)

    def offer(self, parcel: Parcel) -> bool:
        """Take a parcel, from any thread; False when there is no room: whoever sent it may send it again."""
        with self._lock:
            if len(self._waiting) >= self._parcels_max:
                return False
            self._waiting.append(parcel)
            self._given += 1
            is_last = self._given == self._usual
        self._wake(is_last=is_last)
        return True

    def offer_fit(self, parcel: Parcel) -> bool:
        """As ``offer``; False too when it would be shed, as far as is known."""
        return have_room(self._publisher, parcel.batches) and self.offer(parcel)

    def beat(self, next_s: float) -> None:
        """Called on the loop, which looks by itself; it will again in ``next_s`` seconds."""
        self._beat_s = time.monotonic() + next_s
        with self._lock:
            self._usual, self._given = self._given, 0
        self._publish()

    def _wake(self, *, is_last: bool) -> None:
        # What was put there before the time of the beat was read is seen by that beat, or the time is already the next.
        call = self._publish
        if 0 < self._beat_s - time.monotonic() <= BEAT_SOON_S and not self._ended.done():
            if not is_last:
                return
            call = self.beat_now
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has ended: what comes now was measured after the last round
            return

    def finish(self) -> None:
        """Let ``run`` end when what waits is published."""
        self._publish()
        if not self._ended.done():
            self._ended.set_result(None)

    async def run(self) -> None:
        """Until ``finish``; raises what kept a parcel from being published."""
        await self._ended

    def _publish(self) -> None:
        """A callback of the loop, not a task: what wakes finds its caches cold, and a task is much to wake."""
        try:
            if not self._ended.done():
                self.drain()
        except Exception as error:
            self._ended.set_exception(error)

    def drain(self) -> None:
        """Publish what waits."""
        while self._waiting:
            publish_parcel(self._publisher, self._waiting.popleft())
        if not self._shed:
            return
        with self._lock:
            shed, self._shed = self._shed, defaultdict(int)
        for topic, events in shed.items():
            self._publisher.shed(topic, events)
