"""An asyncio event loop on virtual time whose processes can be killed and frozen.

The real code runs on it unchanged: tasks, time-outs, semaphores. Whatever belongs to a *process* carries it in its
context, so the loop knows whose turn each callback is: those of a killed process never run again, those of a frozen
one wait until it is thawed. Time stands still while anything can run, then jumps to the next timer; so a minute of
trouble takes milliseconds, and the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import random
from collections import deque
from typing import Any

from schemas.errors import ContractError, FencedError, UnavailableError
from stream_jobs.runner.exactly_once import RevokedError

TROUBLE = (UnavailableError, FencedError, ContractError, RevokedError)
"""What a kill, a fence, a fault of the brokers or damage may raise. Any other error is a defect of the code that runs,
though a supervisor would start it again."""


class Process:
    """What can be killed and frozen as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.parked: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return f"<{self.name}{' dead' if self.dead else ''}{' frozen' if self.frozen else ''}>"


CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class StuckError(Exception):
    """Nothing can run any more, or too much has run."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs one callback at a time; now and then not in their order, as threads of several machines would."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int

    def __init__(self, draw: random.Random, steps_max: int) -> None:
        super().__init__()
        self._draw = draw
        self._now_s = 1_800_000_000.0
        self._steps_left = steps_max
        self._clock_resolution = 1e-9
        self._kept: list[asyncio.Task[Any]] = []
        self._kept_most = 1_000
        self._defects: list[str] = []

    def defects(self) -> list[str]:
        """Errors that are no ``TROUBLE``, of tasks that ended, awaited or not, and of callbacks."""
        for task in self._kept:
            if task.done() and not task.cancelled():
                self._note(task.exception())
        self._kept = [one for one in self._kept if not one.done()]
        return self._defects

    def _note(self, error: BaseException | None) -> None:
        if isinstance(error, BaseExceptionGroup):
            error = error.split(TROUBLE)[1]
        if error is not None and not isinstance(error, TROUBLE):
            self._defects.append(f"{type(error).__name__}: {error}")

    def create_task(self, coro: Any, **how: Any) -> asyncio.Task[Any]:
        """Tasks of killed processes are kept too: the garbage collector, whose moments no seed gives, would throw them
        away in the midst of a run, and their ``finally`` would take it for an end."""
        task = super().create_task(coro, **how)
        self._kept.append(task)
        if len(self._kept) >= self._kept_most:  # not by a callback, which would be a step of the schedule
            self.defects()
            self._kept_most = 2 * len(self._kept) + 1_000
        return task

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        self._fire_timers()
        if not self._ready:
            return
        if len(self._ready) > 1 and self._draw.random() < 0.2:
            self._ready.rotate(-self._draw.randrange(len(self._ready)))
        handle = self._ready.popleft()
        if handle._cancelled:  # type: ignore[attr-defined]
            return
        process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
        if process is not None:
            if process.dead:
                return
            if process.frozen:
                process.parked.append(handle)
                return
        self._steps_left -= 1
        if self._steps_left < 0:
            raise StuckError("too many steps")
        handle._run()

    def _fire_timers(self) -> None:
        timers = self._scheduled
        if self._timer_cancelled_count > 64:  # time-outs that were never reached
            timers[:] = [timer for timer in timers if not timer._cancelled]  # type: ignore[attr-defined]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not self._ready:
            if not timers:
                raise StuckError("nothing is left to run")
            self._now_s = max(self._now_s, timers[0].when())
        while timers and timers[0].when() <= self._now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)

    def thaw(self, process: Process) -> None:
        process.frozen = False
        self._ready.extend(process.parked)
        process.parked.clear()

    def dispose(self) -> None:
        """Throw away what never finished, and what that begins while it is thrown away, and close."""
        closed: set[asyncio.Task[Any]] = set()
        asyncio._set_running_loop(self)
        while left := asyncio.all_tasks(self) - closed:
            for task in left:
                coroutine = task.get_coro()
                assert coroutine is not None
                with contextlib.suppress(BaseException):  # their ``finally`` finds no process alive
                    coroutine.close()
            closed |= left
        asyncio._set_running_loop(None)
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of killed processes are thrown away unfinished; that is their fate, and comes with no error."""
        self._note(context.get("exception"))

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...
