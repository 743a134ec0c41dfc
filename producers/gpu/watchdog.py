"""Steps that may hang, one after another in a thread of their own, and what is left behind when one does.

The steps of a round run in one worker thread while the caller waits. When a step takes longer than its limit, it is
left behind together with the thread it hangs in, and a fresh thread goes on with the steps behind it: a GPU that hangs
costs the others one limit, once. A step that hangs is not begun again until it comes back; so there is never more than
one lost thread per step (per GPU), and what a late step brings is thrown away. A call that hangs cannot be interrupted
from outside; threads are daemons and end with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Generic, TypeVar

Value = TypeVar("Value")
LIMIT_S = 1.0
"""The longest one GPU may take; some 50 calls of 50 us each, four hundred times over."""


@dataclass(frozen=True, slots=True)
class Done(Generic[Value]):
    """What a step returned."""

    value: Value


@dataclass(frozen=True, slots=True)
class Failed:
    """What a step raised."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Hung:
    """The step passed its limit in this round (``newly``), or still hangs from an earlier one."""

    newly: bool


Outcome = Done[Value] | Failed | Hung


def value_of(outcome: Outcome[Value]) -> Value | None:
    """What the step returned; None where it hangs. Raises what it raised."""
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome.value if isinstance(outcome, Done) else None


@dataclass(slots=True)
class _Round(Generic[Value]):
    """Shared by caller and worker. The caller writes ``abandoned``, the worker the rest."""

    steps: list[tuple[str, Callable[[], Value]]]
    outcomes: dict[str, Outcome[Value]] = field(default_factory=dict)
    current: str | None = None
    begun_s: float = 0.0
    cpu_s: float = 0.0
    abandoned: bool = False
    running: threading.Lock = field(default_factory=threading.Lock)
    """Held until the round has ended. Waiting for a lock costs a thread that wakes much less than for an Event."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.running.acquire()

    def begin(self, name: str) -> bool:
        """Called by the worker before a step; False when it is not to go on."""
        with self.lock:
            if self.abandoned:
                return False
            self.begun_s, self.current = time.monotonic(), name
            return True

    def abandon(self, limit_s: float) -> str | None:
        """Called by the caller; the step that is over its limit, which the worker will not get beyond."""
        with self.lock:
            if self.current is None or time.monotonic() - self.begun_s < limit_s:
                return None
            self.abandoned = True
            return self.current


class Watchdog(Generic[Value]):
    """Runs rounds of named steps. Its methods belong to one thread."""

    def __init__(self, limit_s: float, name: str = "gpu-reader") -> None:
        self._limit_s = limit_s
        self._name = name
        self._work: SimpleQueue[_Round[Value] | None] | None = None
        self._left_behind: dict[str, threading.Lock] = {}
        self._cpu_s = 0.0

    def run(self, steps: Mapping[str, Callable[[], Value]]) -> dict[str, Outcome[Value]]:
        """What became of each step, in their order. Waits no longer than one limit per step."""
        self._left_behind = {name: running for name, running in self._left_behind.items() if running.locked()}
        outcomes: dict[str, Outcome[Value]] = {}
        left = {name: step for name, step in steps.items() if name not in self._left_behind}
        while left:
            done, hung = self._round(list(left.items()))
            outcomes |= done
            if hung is not None:
                outcomes[hung] = Hung(newly=True)
            left = {name: step for name, step in left.items() if name not in outcomes}
        return {name: outcomes.get(name, Hung(newly=False)) for name in steps}

    def cpu_s(self) -> float:
        """Processor time its threads took since the last call."""
        taken_s, self._cpu_s = self._cpu_s, 0.0
        return taken_s

    def close(self) -> None:
        """Let the worker end; a thread that hangs stays."""
        if self._work is not None:
            self._work.put(None)
            self._work = None

    def _round(self, steps: list[tuple[str, Callable[[], Value]]]) -> tuple[dict[str, Outcome[Value]], str | None]:
        """The outcomes so far, and the step that hangs; None when all ended."""
        now = _Round(steps, begun_s=time.monotonic())
        self._worker().put(now)
        while not now.running.acquire(timeout=max(0.001, now.begun_s + self._limit_s - time.monotonic())):
            hung = now.abandon(self._limit_s)
            if hung is not None:
                self._left_behind[hung] = now.running
                self._work = None
                return {name: kept for name, kept in dict(now.outcomes).items() if name != hung}, hung
        self._cpu_s += now.cpu_s
        return now.outcomes, None

    def _worker(self) -> SimpleQueue[_Round[Value] | None]:
        if self._work is None:
            self._work = SimpleQueue()
            threading.Thread(target=_serve, args=(self._work,), name=self._name, daemon=True).start()
        return self._work


def _serve(work: SimpleQueue[_Round[Value] | None]) -> None:
    while (now := work.get()) is not None:
        cpu_s = time.thread_time()
        for name, step in now.steps:
            if not now.begin(name):
                break
            now.outcomes[name] = _outcome(step)
        now.cpu_s = time.thread_time() - cpu_s
        now.running.release()
        if now.abandoned:
            return


def _outcome(step: Callable[[], Value]) -> Outcome[Value]:
    try:
        return Done(step())
    except Exception as error:  # handed to the caller, who knows what it means
        return Failed(error)
