"""Supervisor: runs every collector in a thread of its own and checks all of them once a second.

That check is the beat of the process: other periodic work is done with it. Services (the receiver, OTLP) are
coroutines; one that ends is restarted after a back-off.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from producers.agent.runner import Report, Runner
from producers.agent.schedule import RESTART
from producers.publish.reconnect import comes, until_beat_s
from runtime.clock import Clock
from runtime.counters import COUNTERS, Counters

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
JOIN_WITHIN_S = 2.0
STUCK_AFTER_S = 15.0
"""The loop has not looked at its collectors for so long: the process is not alive."""
LONG_LIFE_S = 60.0
"""A service that ran for so long has its earlier failures forgiven."""


@dataclass(frozen=True, slots=True)
class Service:
    """A coroutine to keep running until the agent ends; when the event is set it has two seconds to finish."""

    name: str
    serve: Callable[[asyncio.Event], Awaitable[None]]


class Supervisor:
    """Tends runners and services. ``why_dead`` and ``why_not_ready`` are thread-safe."""

    def __init__(
        self,
        runners: Sequence[Runner],
        services: Sequence[Service],
        clock: Clock,
        *,
        chance: Callable[[], float] = random.random,
        counters: Counters = COUNTERS,
        on_beat: Callable[[float], None] = lambda _next_s: None,
    ) -> None:
        """``on_beat`` is called at each check, with the seconds until the next."""
        self._runners = runners
        self._services = services
        self._clock = clock
        self._chance = chance
        self._counters = counters
        self._on_beat = on_beat
        self._down: dict[str, str] = {}
        self._look_soon: Callable[[], None] = lambda: None
        self._looked_s = clock.monotonic_s()
        self._ending = False

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop``; then every collector may finish what it is doing, for a bounded time."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._keep_going(service, stop)) for service in self._services]
            await self._look_until(stop)
            self._ending = True
            await self._wind_up()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=JOIN_WITHIN_S)
                for task in late:
                    task.cancel()

    def look_now(self) -> None:
        """Instead of a moment later; on the loop."""
        self._look_soon()

    def add(self, runners: Sequence[Runner]) -> None:
        """Tend these too. The others go on as they are; who asks from another thread sees all or none of them."""
        self._runners = (*self._runners, *runners)

    def reports(self) -> list[Report]:
        """State of each collector."""
        return [runner.report() for runner in self._runners]

    def why_dead(self) -> str | None:
        """None while the loop looks after its collectors, and once it is to do so no more: what is spooled is sent."""
        if self._ending:
            return None
        ago_s = self._clock.monotonic_s() - self._looked_s
        return None if ago_s < STUCK_AFTER_S else f"the event loop has stood still for {ago_s:.0f} s"

    def why_not_ready(self) -> str | None:
        """None when every chosen collector and service runs or is starting."""
        failed = ("off", "resting")
        wrong = [f"{each.name} is {each.state}: {each.why}" for each in self.reports() if each.state in failed]
        wrong += [f"{name} is down: {why}" for name, why in self._down.items()]
        return "; ".join(wrong) or None

    async def _look_until(self, stop: asyncio.Event) -> None:
        """A callback of the loop looks, not this coroutine: each second it would wake with cold caches."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        timer: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal timer
            if timer is not None:
                timer.cancel()
            try:
                self._look()
                next_s = until_beat_s(self._clock.now_ms(), LOOK_EVERY_S)
                self._on_beat(next_s)
                timer = loop.call_later(next_s, look)
            except Exception as error:
                failed.set_exception(error)

        self._look_soon = look
        look()
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((stopping, failed), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            stopping.cancel()
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        self._looked_s = self._clock.monotonic_s()
        for runner in self._runners:
            runner.tend(self._looked_s)

    async def _wind_up(self) -> None:
        for runner in self._runners:
            runner.stop()
        until_s = self._clock.monotonic_s() + JOIN_WITHIN_S
        for runner in self._runners:
            left_s = max(0.0, until_s - self._clock.monotonic_s())
            if not await asyncio.to_thread(runner.join, left_s):
                _log.warning(
                    "collector did not stop in time; exiting without it", extra={"collector": runner.report().name}
                )

    async def _keep_going(self, service: Service, stop: asyncio.Event) -> None:
        failures = 0
        while not stop.is_set():
            begun_s = self._clock.monotonic_s()
            why, error = "it ended by itself", "ended"
            try:
                self._down.pop(service.name, None)
                await service.serve(stop)
            except Exception as failure:  # a service of the agent never takes the others with it
                why, error = f"{type(failure).__name__}: {failure}", type(failure).__name__
                _log.warning("service failed, restarting after back-off", extra={"service": service.name, "why": why})
            if stop.is_set():
                return
            failures = 1 if self._clock.monotonic_s() - begun_s > LONG_LIFE_S else failures + 1
            self._down[service.name] = why
            self._counters.add("errors", where=f"service-{service.name}", error=error)
            await comes(stop, RESTART.pause_s(failures, self._chance()))
