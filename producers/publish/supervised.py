"""SupervisedPublisher: a publisher that may fail without ending its process; it is reopened with back-off.

While it is *down* (its disk or a bug ended it), at most ``WAITING_EVENTS_MAX`` events are buffered in memory, with
values of at most ``WAITING_BYTES_MAX`` bytes, those among them that it had taken and not written, and go first when it
is up again. Events beyond, and a batch that it failed on by a bug, are shed: counted at once, declared in the books
when it is up again. A failed publisher is left as a kill would leave it, so that the books count nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Self

from producers.batch import Batch, BatchLimits, parts_of
from producers.publish.publisher import Publisher
from producers.publish.states import States
from producers.publish.writer import WAITING_BYTES_MAX
from runtime.backoff import Backoff
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.codec.block import Block
from schemas.errors import ContractError, RejectedError

_log = logging.getLogger(__name__)

REOPEN = Backoff(0.5, 30.0)
"""Pauses begin at the first again when it was up for longer than the longest of them."""
WAITING_EVENTS_MAX = 10_000
"""Some 5 MB of encoded requests. Events beyond are shed, and those whose values would take more than a writer holds."""
_LOOK_EVERY_S = 0.25


class SupervisedPublisher:
    """``opens`` gives a started publisher of these ``states``.

    Once started, no method raises what a publisher raises.
    """

    def __init__(
        self,
        opens: Callable[[], Awaitable[Publisher]],
        states: States | None = None,
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._why: str | None = None
        self.states = states or States()
        self._opens = opens
        self._clock = clock or SystemClock()
        self._counters = counters
        self._chance = chance
        self._publisher: Publisher | None = None
        self._up = asyncio.Event()  # there is one
        self._ended: Publisher | None = None  # failed, and still to be let go
        self._waiting: deque[Batch] = deque()
        self._waiting_events = self._waiting_bytes = 0
        self._undeclared: Counter[str] = Counter()
        self._failures = 0
        self._opened_s = self._again_s = 0.0
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def why(self) -> str | None:
        """Why the spool is unusable or events are shed, and undeliverable topics; None while all is well."""
        publisher = self._publisher
        return self._why if publisher is None else publisher.why

    async def start(self) -> Self:
        """Open the publisher, and watch it from now on. Where disk or folder do not let it open, that is tried again.

        Raises ConfigError where a setting must be corrected.
        """
        self._counters.set("edge_publisher_down", 0)
        try:
            await self._open()
        except (OSError, ContractError) as error:
            self._fail(error)
        self._task = asyncio.create_task(self._supervise())
        return self

    async def put(self, topic: str, key: bytes, batch: Batch | Block, *, wait: bool = False) -> bool:
        """Spool the batch, or let it wait in memory; False when some of it was shed. ``wait`` for a spool with room."""
        try:
            parts = parts_of(topic, key, batch, BatchLimits.of())
        except RejectedError as error:
            assert isinstance(batch, Block)
            return self._rejected(topic, batch.rows, error)
        return all([await self._put(part, wait=wait) for part in parts])

    async def _put(self, batch: Batch, *, wait: bool) -> bool:
        while True:
            if wait:
                await self._up.wait()
            publisher = self._publisher
            if publisher is None:
                if wait:
                    continue
                return self._wait(batch)
            try:
                return await publisher.put(batch.topic, batch.key, batch, wait=wait)
            except Exception as error:
                if not (wait and isinstance(error, OSError)):
                    return self._not_taken(publisher, batch, error)
                self._failed(publisher, error)  # it is not on disk, and its sender still has it

    def put_at_once(self, batch: Batch) -> bool:
        """Take a batch that is spooled soon, or waits in memory; False when it was shed."""
        publisher = self._publisher
        if publisher is None:
            return self._wait(batch)
        try:
            return publisher.put_at_once(batch)
        except Exception as error:
            return self._not_taken(publisher, batch, error)

    def has_room(self, value_bytes: int, topic: str | None = None) -> bool:
        """Whether a batch of this size would be spooled or wait, as far as is known; of this topic, or of any."""
        publisher = self._publisher
        if publisher is None:
            return self._fits(1, value_bytes)
        return publisher.has_room(value_bytes, topic)

    def _not_taken(self, publisher: Publisher, batch: Batch, error: Exception) -> bool:
        if isinstance(error, RejectedError):
            return self._rejected(batch.topic, batch.count, error)
        self._failed(publisher, error)
        if isinstance(error, OSError):
            return self._wait(batch)
        self.shed(batch.topic, batch.count)  # another publisher might fail on it too
        return False

    def _failed(self, publisher: Publisher, error: Exception) -> None:
        if publisher is self._publisher:
            self._fail(error)

    def _rejected(self, topic: str, events: int, error: RejectedError) -> bool:
        _log.error("batch shed: rejected by the spool", extra={"topic": topic, "error": str(error)})
        self.shed(topic, events)
        return False

    def shed(self, topic: str, events: int) -> None:
        """Count events that are lost, and declare them in the books as soon as there are any."""
        self._counters.add("edge_events_shed", events, topic=topic)
        self._undeclared[topic] += events
        self._declare()

    async def close(self, drain_s: float) -> None:
        """Send what can be sent in ``drain_s``. The log says what waits in the spool, and what is lost."""
        self._closing = True
        if self._task is not None:
            await self._task  # not cancelled: it may be opening a spool
        if self._publisher is None:
            await self._try_to_open()
        drained = await self._close_publisher(drain_s)
        if lost := self._waiting_events + self._undeclared.total():
            _log.error("events lost: the spool was unusable at shutdown", extra={"events": lost})
        elif not drained:
            _log.warning("stopped with unsent records; they stay in the spool")

    async def _close_publisher(self, drain_s: float) -> bool:
        if self._publisher is None:
            return False
        try:
            return await self._publisher.close(drain_s)
        except Exception as error:
            self._fail(error)
            return False

    def _wait(self, batch: Batch) -> bool:
        if not self._fits(batch.count, len(batch.value)):
            self.shed(batch.topic, batch.count)
            return False
        self._waiting.append(batch)
        self._waiting_events += batch.count
        self._waiting_bytes += len(batch.value)
        return True

    def _fits(self, events: int, value_bytes: int) -> bool:
        """Whether as much may wait beside what does."""
        has_bytes = self._waiting_bytes + value_bytes <= WAITING_BYTES_MAX
        return has_bytes and self._waiting_events + events <= WAITING_EVENTS_MAX

    async def _supervise(self) -> None:
        while not self._closing:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        """Note a publisher that has ended; open another when its time has come."""
        if self._publisher is not None and (error := self._publisher.failure) is not None:
            self._fail(error)
        if self._publisher is None and self._clock.monotonic_s() >= self._again_s:
            await self._try_to_open()

    async def _try_to_open(self) -> None:
        try:
            await self._open()
        except Exception as error:
            self._fail(error)

    async def _open(self) -> None:
        if self._ended is not None:
            ended, self._ended = self._ended, None
            with contextlib.suppress(Exception):  # it has failed before
                await ended.abandon()
            batches, shed = ended.left()
            self._undeclared.update(shed)
            for batch in batches:
                self._wait(batch)
        self._publisher = await self._opens()
        self._up.set()
        self._opened_s, self._why = self._clock.monotonic_s(), None
        self._counters.set("edge_publisher_down", 0)
        while self._waiting and self._publisher is not None:
            batch = self._waiting.popleft()
            self._waiting_events -= batch.count
            self._waiting_bytes -= len(batch.value)
            await self.put(batch.topic, batch.key, batch)
        self._declare()

    def _declare(self) -> None:
        while self._undeclared and self._publisher is not None:
            self._publisher.declare(*self._undeclared.popitem())

    def _fail(self, error: BaseException) -> None:
        """Mark the publisher down and schedule the next attempt."""
        now_s = self._clock.monotonic_s()
        was_up = self._publisher is not None
        if was_up:
            self._ended, self._publisher = self._publisher, None
            self._up.clear()
        if was_up and now_s - self._opened_s > REOPEN.max_s:
            self._failures = 0
        self._failures += 1
        pause_s = REOPEN.pause_s(self._failures, self._chance())
        self._again_s = now_s + pause_s
        self._why = f"spool unusable ({type(error).__name__}: {error}): events are buffered in memory, then shed"
        self._counters.set("edge_publisher_down", 1)
        self._counters.add("edge_publisher_failures", error=type(error).__name__)
        facts = {
            "error": f"{type(error).__name__}: {error}",
            "attempt": self._failures,
            "retry_in_s": round(pause_s, 1),
        }
        _log.error("publisher failed, reopening; events are buffered in memory", extra=facts)
