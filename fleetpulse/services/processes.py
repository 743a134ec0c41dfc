"""The pipeline's processes on one machine: start, watch, kill and stop them by their own ids.

``demo``, ``chaos`` and ``bench`` run the same commands that production runs (``fleetpulse jobs windows`` and so on),
as children of this process. A child that dies is restarted after ``restart_after_s`` unless set otherwise; children
end with their parent. A terminal's Ctrl-C reaches the parent alone, which ends them in order: a second one would end a
child at once. Who nobody waits for steps back on a machine that has too little for all (``BACK``).
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from runtime import priority

_log = logging.getLogger(__name__)

BACK = {
    ("sink",): priority.BULK,
    ("simulate",): priority.BULK,
    ("jobs", "windows"): priority.BEHIND,
    ("jobs", "costs"): priority.BEHIND,
}
"""Niceness by the words that a child's arguments begin with; all others have their parent's. Finals and alerts are
what somebody waits for."""
RESTART_AFTER_S = 2.0
STOP_WITHIN_S = 40.0
"""Longer than a sink waits for ClickHouse (``SinkSettings.drain_s``)."""
_PR_SET_PDEATHSIG = 1
_CHILD_OF = "FLEETPULSE_CHILD_OF"


@dataclass(frozen=True, slots=True)
class Command:
    """A child to run: ``python -m fleetpulse ARGUMENTS`` with extra environment."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    restart: bool = True

    @property
    def nice(self) -> int:
        """How far it steps back, 0: not at all."""
        return next((nice for words, nice in BACK.items() if self.arguments[: len(words)] == words), 0)


@dataclass(slots=True)
class _Child:
    command: Command
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    started_s: float
    cpu_s: float = 0.0
    restarts: int = 0


def end_with_parent() -> None:
    """In a child: ask the kernel (Linux) for SIGTERM when the parent dies, even by SIGKILL. Else does nothing."""
    if os.environ.pop(_CHILD_OF, None) != str(os.getppid()):
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Processes:
    """A set of named children with one log file each in ``log_dir``. Use as a context manager."""

    def __init__(self, log_dir: Path, *, python: str = sys.executable) -> None:
        self._log_dir = log_dir
        self._python = python
        self._children: dict[str, _Child] = {}
        self._stopping = False
        self._ended: dict[str, int] = {}
        log_dir.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, command: Command) -> int:
        """Start a child (again) and return its process id."""
        log = (self._log_dir / f"{command.name}.log").open("ab")
        process = subprocess.Popen(
            [self._python, "-m", "fleetpulse", *command.arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, _CHILD_OF: str(os.getpid()), **command.environment},
        )
        priority.step_back(process.pid, command.nice)
        before = self._children.get(command.name)
        child = _Child(command, process, log, time.monotonic())
        if before is not None:
            child.restarts, child.cpu_s = before.restarts + 1, before.cpu_s
        self._children[command.name] = child
        return process.pid

    def command(self, name: str) -> Command:
        """What a child was started as."""
        return self._children[name].command

    def names(self) -> tuple[str, ...]:
        """Names of all children, running or not."""
        return tuple(self._children)

    def pid(self, name: str) -> int | None:
        """Process id of a running child; None when it is down."""
        child = self._children.get(name)
        return None if child is None or child.process.poll() is not None else child.process.pid

    def restarts(self, name: str) -> int:
        """How often a child was started again."""
        return self._children[name].restarts

    def signal(self, name: str, number: signal.Signals) -> bool:
        """Send a signal to a child; False when it is not running."""
        pid = self.pid(name)
        if pid is None:
            return False
        os.kill(pid, number)
        return True

    def strike_off(self, name: str) -> bool:
        """SIGKILL a child for good: it is not started again. False when it was down just then."""
        hit = self.signal(name, signal.SIGKILL)
        child = self._children.pop(name)
        child.process.wait()
        child.log.close()
        return hit

    def exit_code(self, name: str) -> int | None:
        """Exit code of a child that has ended or was stopped by name, else None."""
        child = self._children.get(name)
        return self._ended[name] if child is None else child.process.poll()

    def tend(self) -> list[str]:
        """Restart children that died and may be restarted; return the names of those started now."""
        started = []
        for name, child in list(self._children.items()):
            down = child.process.poll() is not None
            if down and child.command.restart and not self._stopping:
                if time.monotonic() - child.started_s < RESTART_AFTER_S:
                    continue
                child.log.close()
                self.start(child.command)
                started.append(name)
        return started

    def stop(self, *names: str, within_s: float = STOP_WITHIN_S) -> dict[str, float]:
        """SIGTERM the named children (all by default), SIGKILL what is left; seconds each took to end."""
        wanted = names or tuple(self._children)
        self._stopping = self._stopping or not names
        begun_s = time.monotonic()
        taken: dict[str, float] = {}
        for name in wanted:
            self.signal(name, signal.SIGCONT)
            self.signal(name, signal.SIGTERM)
        for name in wanted:
            child = self._children[name]
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, begun_s + within_s - time.monotonic()))
            if child.process.poll() is None:
                _log.warning("process did not end in time and is killed", extra={"process_name": name})
                child.process.kill()
                child.process.wait()
            taken[name] = time.monotonic() - begun_s
            child.log.close()
        if names:
            for name in names:
                self._ended[name] = self._children.pop(name).process.wait()
        return taken

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines of a child's log."""
        path = self._log_dir / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
