"""Processes that outlive who started them: start, recognise, stop.

A process is recognised by its id and the moment it started (``runtime.live_process``). One whose starter was killed
before it could note the id is found by its command line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from runtime.live_process import Process, alive, started
from schemas.errors import StackError

_LOOK_EVERY_S = 0.03
_INHERITED = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR")


def spawn(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Process:
    """Start ``command`` in a session of its own, its output appended to ``log``, without this process' secrets."""
    passed = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            {**passed, "LANG": "C.UTF-8", **(environment or {})},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise StackError(f"{command[0]} cannot be run: {error}") from error
    finally:
        os.close(output)
    return Process(pid, started(pid) or "unknown")


def find(mark: str, program: str = "") -> Process | None:
    """A running process of this user that has ``mark`` among its arguments, and a file called ``program`` where that is
    given: of a mark that others may have among theirs."""
    for candidate in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = candidate.uids().real == os.getuid() and is_marked(candidate.cmdline(), mark, program)
            if ours and (moment := started(candidate.pid)):
                return Process(candidate.pid, moment)
    return None


def is_marked(arguments: Sequence[str], mark: str, program: str) -> bool:
    """Whether a command line is that of a process which ``find`` looks for."""
    return mark in arguments and (not program or program in {Path(one).name for one in arguments})


def stop(process: Process, within_s: float) -> bool:
    """Ask a process to end (also one that was frozen) and wait; False when it had to be killed."""
    terminate(process)
    if wait_until(lambda: not alive(process), within_s):
        return True
    kill(process)
    return False


def terminate(process: Process) -> None:
    """Ask a process to end, also one that was frozen; does not wait."""
    send(process, signal.SIGTERM)
    send(process, signal.SIGCONT)


def kill(process: Process) -> None:
    """End a process at once, and return when it is gone."""
    send(process, signal.SIGKILL)
    if not wait_until(lambda: not alive(process), 10.0):
        raise StackError(f"process {process.pid} does not end, not even by SIGKILL: the machine's disk may hang")


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal to this very process, or to nobody."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def wait_until(happened: Callable[[], bool], within_s: float) -> bool:
    """Look again and again until ``happened``; False when it did not in time."""
    end_s = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > end_s:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def tail(log: Path, lines: int = 12) -> str:
    """The end of a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
