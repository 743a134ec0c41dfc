"""Processes that are measured: CPU-seconds (user and system, all threads, ended ones included), memory, cores."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, in steps of a clock tick (10 ms). ``ProcessLookupError`` when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def memory_bytes(pid: int) -> dict[str, int]:
    """Resident memory now and at its peak."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = dict(line.split(":", 1) for line in lines if ":" in line)
    return {"resident_bytes": _kib(pairs["VmRSS"]), "resident_peak_bytes": _kib(pairs["VmHWM"])}


def forget_peak(pid: int) -> None:
    """From now on the peak is counted anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def stop(process: subprocess.Popen[Any], within_s: float = 15.0) -> None:
    """SIGTERM, and SIGKILL after a while."""
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kib(text: str) -> int:
    return int(text.split()[0]) * 1_024


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def job_core() -> int:
    """The core for the side that is measured: the last one; all others stay for the broker."""
    return cores()[-1]


def pin(pid: int, wanted: set[int]) -> None:
    """Bind all threads of a process to these cores; threads started later inherit it."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), wanted)


@contextlib.contextmanager
def pinned(pid: int, core: int) -> Iterator[None]:
    """Bind a process to one core for a while, then to all that we may use."""
    pin(pid, {core})
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            pin(pid, set(cores()))
