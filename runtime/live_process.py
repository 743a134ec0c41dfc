"""A process by its id and the moment it started, so that an id given to somebody else later is never taken for it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, distinguishable from a later one with the same id. ``started`` is opaque: compare for equality."""

    pid: int
    started: str


def boot_id() -> str | None:
    """Of this start of the machine; None where the system does not report it."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def started(pid: int) -> str | None:
    """A mark of the moment a process started; None when there is no such process, or only its exit code is left."""
    import psutil  # here, since every command reads this module with its configuration

    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # a dead child of ours would stay a zombie
    try:
        if Path("/proc/self/stat").exists():
            return _started_linux(pid)
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except (OSError, psutil.Error):
        return None


def _started_linux(pid: int) -> str | None:
    # proc(5): after the name in parentheses come state (field 3), number of threads (20) and start in ticks since boot
    # (22). A killed process is a zombie as soon as its first thread is gone; the last one closes its ports.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    gone = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return None if gone else f"{boot_id()}:{fields[19].decode()}"


def alive(process: Process | None) -> bool:
    """Whether this very process still runs."""
    return process is not None and started(process.pid) == process.started
