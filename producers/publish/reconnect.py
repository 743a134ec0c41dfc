"""When a publisher connects to Kafka again: how long it pauses between attempts, and whether anything listens there.

An attempt makes a whole producer; while nobody listens at the addresses, trying to connect finds that out for a tenth
of the cost. Pauses grow with the failures, later with the length of the outage: a source that comes back late makes
windows incomplete, so it waits at most an eighth of that time, and less than the 30 s for which a window waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from aiokafka.conn import collect_hosts

from runtime.backoff import Backoff
from runtime.config import KafkaConfig
from runtime.runbook import Cause

_log = logging.getLogger(__name__)

RECONNECT = Backoff(0.5, 3.5)
LANE_BACKOFF = Backoff(1.0, 60.0)
"""For a lane whose batches the broker rejects; other lanes go on."""
ALONE_RECORDS = 1_000
"""Sent one at a time after a batch that was too large; where the broker takes no batch of this size, the next try costs
one producer."""
OUTAGE_SHARE = 1 / 8
OUTAGE_PAUSE_S_MAX = 25.0
LOG_EVERY_FAILURES = 20
"""Log the first of consecutive failures of one kind, then one of so many."""
CONNECT_WITHIN_S = 5.0
"""For each address."""


class Outage:
    """Consecutive failures, and since when. Pure: times are monotonic, ``chance`` is in [0, 1) (jitter)."""

    def __init__(self) -> None:
        self.failures = 0
        self.should_log = False
        """Whether to log the last failure."""
        self._since_s = 0.0
        self._kind: type[Exception] | None = None

    def failed(self, error: Exception, now_s: float) -> None:
        """Another attempt failed."""
        if not self.failures:
            self._since_s = now_s
        self.failures += 1
        self.should_log = type(error) is not self._kind or self.failures % LOG_EVERY_FAILURES == 1
        self._kind = type(error)

    def log(self, facts: Mapping[str, object]) -> None:
        """Log the last failure, where ``should_log``."""
        _log.warning("Kafka unavailable, retrying; records stay in the spool", extra={**facts, "cause": Cause.KAFKA})

    def answered(self) -> None:
        """Kafka acknowledged something: reset."""
        self.failures = 0

    def pause_s(self, now_s: float, chance: float) -> float:
        """Until the next attempt; 0 when the last one did not fail."""
        longest_s = min(OUTAGE_PAUSE_S_MAX, (now_s - self._since_s) * OUTAGE_SHARE)
        return replace(RECONNECT, max_s=max(RECONNECT.max_s, longest_s)).pause_s(self.failures, chance)


class Lanes:
    """Partitions whose batches the broker rejects pause, each for itself. ``alone`` send one record at a time, because
    a batch of theirs was too large, until that record is ``set_apart`` or ``ALONE_RECORDS`` are taken. Pure, as
    ``Outage``."""

    def __init__(self) -> None:
        self.alone: set[tuple[str, int]] = set()
        self._taken_alone: Counter[tuple[str, int]] = Counter()
        self._paused: dict[tuple[str, int], tuple[float, int]] = {}  # until when, and after how many failures

    def rejected(self, lane: tuple[str, int], now_s: float, chance: float) -> None:
        """A batch of this one was."""
        failures = self._paused.get(lane, (0.0, 0))[1] + 1
        self._paused[lane] = (now_s + LANE_BACKOFF.pause_s(failures, chance), failures)

    def delivered(self, lane: tuple[str, int]) -> None:
        """One was taken."""
        self._paused.pop(lane, None)
        if lane in self.alone:
            self._taken_alone[lane] += 1
            if self._taken_alone[lane] >= ALONE_RECORDS:
                self.set_apart(lane)

    def set_apart(self, lane: tuple[str, int]) -> None:
        """The record that made its batches too large is out of the way: it sends batches again."""
        self.alone.discard(lane)
        del self._taken_alone[lane]

    def backing_off(self, now_s: float) -> frozenset[tuple[str, int]]:
        """Those that pause now."""
        return frozenset(lane for lane, (until_s, _) in self._paused.items() if until_s > now_s)


def is_configured(kafka: KafkaConfig) -> bool:
    """Whether there is a Kafka to publish to; where there is none, a warning names what to set."""
    if kafka.unset is not None:
        why = f"kafka.bootstrap {kafka.unset}"
        _log.warning("no Kafka is configured; events stay in the spool", extra={"why": why})
    return kafka.unset is None


async def demand_listener(bootstrap: str) -> None:
    """Return when one of these addresses takes a connection; OSError (TimeoutError is one) where none does."""
    refused: OSError | None = None
    for host, port, _family in collect_hosts(bootstrap):
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
        except OSError as error:
            refused = error
        else:
            transport.abort()
            return
    raise refused or OSError(f"no address in {bootstrap!r}")


BEAT_MS = 100
"""Behind the full second, by the wall clock: at the latest; who knows that all is done may do it earlier."""


def until_beat_s(now_ms: int, pause_s: float) -> float:
    """Seconds until the beat that is nearest to ``pause_s`` from now; a pause of less than a second stays as it is."""
    if pause_s < 1.0:
        return pause_s
    wanted_ms = now_ms + round(pause_s * 1_000) - BEAT_MS
    beat_ms = (wanted_ms + 500) // 1_000 * 1_000 + BEAT_MS
    return (beat_ms - now_ms) / 1_000


async def until_made(made: Callable[[], object], within_s: float) -> None:
    """Until a client that says so to nobody is there, or the time is over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not made():  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def comes(event: asyncio.Event, within_s: float) -> bool:
    """Whether it is set by then."""
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def finish(blocking: Callable[[], object]) -> None:
    """Run it in a thread; when cancelled, wait for its end first: its files may not be closed under it."""
    running = asyncio.ensure_future(asyncio.to_thread(blocking))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
