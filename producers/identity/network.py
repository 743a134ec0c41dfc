"""Network namespaces: whether a loopback address means to a process what it means here.

Processes of one namespace have the same ``/proc/PID/ns/net``, which the kernel shows of other users' processes to
``CAP_SYS_PTRACE`` alone, and the same ``/proc/PID/net/dev``: a file of which each namespace has its own, and which is
shown of every process that is seen.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

OURS = 0
"""The network namespace of this process."""


def network_of(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The network namespace of a process: ``OURS``, or a number that all in another one share; None where the process
    is gone or not seen."""
    inode = None
    for name, ours in _ours(proc):
        inode = _inode(proc / str(pid) / name)
        if inode is not None and inode == ours:
            return OURS
    return inode


@lru_cache(maxsize=8)
def _ours(proc: Path) -> tuple[tuple[str, int | None], ...]:
    """What shows our own namespace, which we never leave: read once, since each sender is compared with it."""
    return tuple((name, _inode(proc / "self" / name)) for name in ("ns/net", "net/dev"))


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
