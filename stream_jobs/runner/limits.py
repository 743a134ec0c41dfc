"""Limits on the time without progress, and on how much runs at once: aiokafka itself retries some errors for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from runtime.health import Readiness
from runtime.runbook import Cause
from schemas.errors import UnavailableError

_log = logging.getLogger(__name__)
T = TypeVar("T")
SLOW_MS = 1_500
"""A commit that takes longer is said. On two shared cores it took 20 ms in the median and 250 ms at most where brokers
were well; 2 s in the median and 4 s at most where the broker stood still for 1.9 of 2 s; where it stood still for 3 s,
none came to its end in 20 s."""
NOTED_S = 60.0
"""A slow broker also answers some commits quickly: so long after the last slow one it is still called slow."""
STARVED_PERCENT = 60.0
"""Of the last 10 s: so long some task waited for a processor, where they are short."""
_PRESSURES = (Path("/proc/pressure/cpu"), Path("/sys/fs/cgroup/cpu.pressure"))
_OWN_TIMES = Path("/proc/thread-self/schedstat")


def cpu_pressure(files: Sequence[Path] = _PRESSURES) -> float:
    """How much of the last 10 s some task of this machine, or of this container, waited for a processor, in percent; 0
    where the kernel does not count it (PSI, https://docs.kernel.org/accounting/psi.html)."""
    found = [0.0]
    for file in files:
        with contextlib.suppress(OSError):
            found.append(float(file.read_text().split()[1].removeprefix("avg10=")))
    return max(found)


def waited_ms(file: Path = _OWN_TIMES) -> float | None:
    """How long the calling thread has waited for a processor since it began; None where the kernel does not count it
    (https://docs.kernel.org/scheduler/sched-stats.html)."""
    with contextlib.suppress(OSError):
        ran_ns, waited_ns, _ = map(int, file.read_text().split())
        return waited_ns / 1e6 if ran_ns else None  # zeros without CONFIG_SCHED_INFO
    return None


@contextlib.asynccontextmanager
async def progress_within(limit_ms: int, doing: str) -> AsyncIterator[Callable[[], None]]:
    """Limits the time without progress: calling what it yields restarts it. Raises ``UnavailableError``."""
    try:
        async with asyncio.timeout(limit_ms / 1_000) as limit:
            over = False

            def progressed() -> None:
                if not (over or limit.expired()):
                    limit.reschedule(asyncio.get_running_loop().time() + limit_ms / 1_000)

            try:
                yield progressed
            finally:
                over = True
    except TimeoutError as error:
        raise UnavailableError(f"{doing} made no progress for {limit_ms} ms") from error


async def in_slot(slots: asyncio.Semaphore, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What ``work`` returns, once there is a slot for it."""
    async with slots:
        return await work()


class SlowCommits:
    """Notes brokers that answer a commit, and late, until all have been quick for ``NOTED_S``: nothing is lost, and
    every window comes late.

    Where processors are short everything is slow. A broker of the same machine then waits for one as this thread does:
    what this thread waited during the commit, and as much again for the broker, is the machine's. Where more than
    ``SLOW_MS`` is left, brokers are slow, whatever the reason, and however busy the machine is with others' work that
    steps back; where not, nobody knows whether they are, and no cause is named. Where the kernel does not count what a
    thread waits, the pressure of the whole machine decides, which niced work raises, too.
    """

    def __init__(
        self,
        readiness: Readiness,
        waited_ms: Callable[[], float | None] = waited_ms,
        pressure: Callable[[], float] = cpu_pressure,
    ) -> None:
        self._readiness = readiness
        self.waited_ms = waited_ms
        self._pressure = pressure
        self._until_s = -math.inf

    def took(self, topic: str, taken_ms: float, before_ms: float | None, now_s: float) -> None:
        """A commit that has just been answered; ``before_ms``: ``waited_ms()`` when it began, in the same thread."""
        if taken_ms <= SLOW_MS:
            if now_s >= self._until_s:
                self._readiness.note("commit", None)
            return
        self._until_s = now_s + NOTED_S
        now_ms = self.waited_ms()
        waited = None if before_ms is None or now_ms is None else now_ms - before_ms
        percent, says = self._pressure(), f"a commit took {taken_ms / 1_000:.1f} s"
        facts: dict[str, Any] = {"topic": topic, "taken_ms": round(taken_ms), "cpu_pressure_percent": percent}
        if waited is not None:
            facts["cpu_wait_ms"] = round(waited)
        if percent < STARVED_PERCENT if waited is None else taken_ms - 2 * waited > SLOW_MS:
            facts["cause"] = Cause.SLOW
            self._readiness.note("commit", f"{Cause.SLOW}: {says}", Cause.SLOW)
        elif waited is None:
            self._readiness.note("commit", f"{says}; tasks waited for a processor {percent:.0f} % of the time")
        else:
            self._readiness.note("commit", f"{says}; this job waited for a processor {waited / 1_000:.1f} s of it")
        _log.warning("commit took long", extra=facts)


def first_of(error: BaseException) -> BaseException:
    """The first error of a group, so that its cause can be read."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
