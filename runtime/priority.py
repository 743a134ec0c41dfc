"""Process priorities: on an overloaded machine, background work gives way.

The kernel shares a core by weights that follow from niceness: against 0, a process of 5 gets a quarter, one of 10 a
tenth, and all of it while nobody else wants it. Linux may weigh whole sessions instead of processes (*autogroups*);
niceness then counts among the processes of a session, and a session has its own.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

BEHIND = 5
"""Not needed for alerts alone: the windows job, costs; and the database, which serves people's queries."""
BULK = 10
"""Background work: sinks, the simulator."""
_SESSION_TRIES = 5
_SESSION_PAUSE_S = 0.1


def step_back(pid: int, nice: int) -> None:
    """Give a process, its threads and their future children this niceness; also its session, if it leads one.
    A higher niceness is kept, 0 changes nothing; a process that has ended is skipped."""
    if nice <= 0:
        return
    for thread in _threads(pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))
    with contextlib.suppress(ProcessLookupError):
        if os.getsid(pid) == pid:
            _session(pid, nice)


def _threads(pid: int) -> list[int]:
    """Linux has a niceness for each thread; elsewhere the process has it."""
    with contextlib.suppress(OSError):
        return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return [pid]


def _session(pid: int, nice: int) -> None:
    """Linux with autogroups; elsewhere there is no such file, and where it may not be written the processes' own
    niceness has to do. Of who is not root the kernel takes a change every tenth of a second."""
    for _ in range(_SESSION_TRIES):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")
        except BlockingIOError:
            time.sleep(_SESSION_PAUSE_S)
        except OSError:
            return
        else:
            return
