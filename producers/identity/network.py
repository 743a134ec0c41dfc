"""Network namespaces: whether a loopback address means to a process what it means here.

Processes of one namespace have the same ``/proc/PID/ns/net``, which the kernel shows of other users' processes to
``CAP_SYS_PTRACE`` alone, and the same ``/proc/PID/net/dev``: a file of which each namespace has its own, and which is
shown of every process that is seen.
"""

from __future__ import annotations

from pathlib import Path

OURS = 0
"""The network namespace of this process."""


def network_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The network namespace of a process: ``OURS``, or a number that all in another one share; None where the process
    is gone or not seen."""
    for name in ("ns/net", "net/dev"):
        inode = _inode(proc / str(pid) / name)
        if inode is not None and inode == _inode(proc / "self" / name):
            return OURS
    return _inode(proc / str(pid) / "net/dev")


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
