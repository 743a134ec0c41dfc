"""Who steps back does so by itself, with its session where it leads one, and never forward."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import priority

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture(params=[False, True], ids=["of our session", "of its own"])
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP, start_new_session=request.param) as process:
        yield process
        process.kill()


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def session_of(pid: int) -> str:
    """What Linux says of the session's weight; nothing where it has none."""
    path = Path(f"/proc/{pid}/autogroup")
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def test_a_process_steps_back_and_we_do_not(child: subprocess.Popen[bytes]) -> None:
    """Its niceness and that of its own session change, ours and that of our session stay."""
    mine, ours = niceness(0), session_of(os.getpid())

    priority.step_back(child.pid, priority.BULK)

    assert niceness(child.pid) == max(mine, priority.BULK)
    assert (niceness(0), session_of(os.getpid())) == (mine, ours)
    if os.getsid(child.pid) == child.pid and (session := session_of(child.pid)):
        assert session.endswith(f"nice {priority.BULK}")


def test_nobody_steps_forward(child: subprocess.Popen[bytes]) -> None:
    """Less than it has changes nothing, 0 neither."""
    priority.step_back(child.pid, 15)
    priority.step_back(child.pid, priority.BEHIND)
    priority.step_back(child.pid, 0)

    assert niceness(child.pid) == max(niceness(0), 15)


def test_threads_step_back_too() -> None:
    """Those that there are, where each has a niceness of its own."""
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        priority.step_back(process.pid, priority.BULK)
        found = [niceness(thread) for thread in priority._threads(process.pid)]
        process.kill()

    expected = 2 if Path("/proc/self/task").exists() else 1
    assert found == [max(niceness(0), priority.BULK)] * expected


def test_who_is_gone_is_passed_over() -> None:
    """A child may end before it is looked at; nobody else steps back for it."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    mine, ours = niceness(0), session_of(os.getpid())

    priority.step_back(process.pid, priority.BULK)

    assert (niceness(0), session_of(os.getpid())) == (mine, ours)
