"""``bench lifecycle``: how long a job takes to begin, to end, and to be replaced, while a fleet sends.

- *start*: from the process's birth to the first record folded, compiled code cached, in a group without members;
- *stop*: from SIGTERM to its exit;
- *again*: as *start*, for a worker that takes its own place in the group right after it was stopped (an upgrade);
- *failover*: from kill -9 to the first offset committed by the same worker started again, or by one that stood by.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleetpulse.commands.progress import Progress
from fleetpulse.services.processes import Command, Processes
from lab.bench import live
from lab.bench.stand import Stand, free_port, fresh_stand, metric, page, until
from schemas.errors import FleetpulseError

MEASURED = {
    "start_s": "start to first record",
    "stop_s": "SIGTERM to exit",
    "again_s": "start to first record, right after SIGTERM",
    "restart_s": "kill -9 to commit of the restarted worker",
    "standby_s": "kill -9 to commit of a standing-by worker",
}
HOSTS = 40
_WITHIN_S = 90.0
_LOAD_S = 3_600


def measure(data_dir: Path | None, times: int, shell: str, seed: int, progress: Progress) -> dict[str, Any]:
    """Seconds of every try."""
    with fresh_stand(data_dir, progress.say) as stand, Processes(stand.log_dir) as processes:
        with progress.task("compiling once, so that later starts find it cached"):
            _first(stand, processes, shell)
        processes.start(live.fleet(stand, HOSTS, _LOAD_S, seed))
        found: dict[str, list[float]] = {name: [] for name in MEASURED}
        for turn in range(times):
            with progress.task(f"try {turn + 1} of {times}"):
                _try(stand, processes, shell, found)
        processes.stop("simulate")
    return {"shell": shell, "tries": times, **found, "max": {name: max(taken) for name, taken in found.items()}}


def _job(stand: Stand, shell: str, name: str, port: int) -> Command:
    arguments = ("jobs", "windows", "--shell", shell, "--name", name, "--health-port", str(port))
    return Command(name, arguments, stand.environment)


def _first(stand: Stand, processes: Processes, shell: str) -> None:
    port = free_port()
    processes.start(_job(stand, shell, "worker-0", port))
    _until(lambda: _metric(port, "job_partitions") > 0, processes, "worker-0")
    processes.stop("worker-0")


def _try(stand: Stand, processes: Processes, shell: str, found: dict[str, list[float]]) -> None:
    _until_members(stand, 0)
    found["start_s"].append(_started(stand, processes, shell))
    _until_committing(stand, processes)
    found["stop_s"].append(processes.stop("worker-0")["worker-0"])
    found["again_s"].append(_started(stand, processes, shell))
    _until_committing(stand, processes)
    found["restart_s"].append(_killed(stand, processes, "worker-0"))
    processes.start(_job(stand, shell, "worker-1", free_port()))
    _until_members(stand, 2)
    _until_committing(stand, processes)
    found["standby_s"].append(_killed(stand, processes, "worker-0", tend=False))
    found["stop_s"].append(processes.stop("worker-1")["worker-1"])
    processes.stop("worker-0")


def _started(stand: Stand, processes: Processes, shell: str) -> float:
    """Seconds from the birth of a worker to its first record."""
    port = free_port()
    begun_s = time.monotonic()
    processes.start(_job(stand, shell, "worker-0", port))
    _until(lambda: _metric(port, "job_records") > 0, processes, "worker-0")
    return time.monotonic() - begun_s


def _killed(stand: Stand, processes: Processes, name: str, *, tend: bool = True) -> float:
    """Seconds from kill -9 until every partition with load has been committed by a successor."""
    before = _committed(stand)
    pid = processes.pid(name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    begun_s = time.monotonic()
    before = {place: max(offset, before.get(place, 0)) for place, offset in _committed(stand).items()}
    loaded = {place for place in before if place[0] in ("llm.requests", "gpu.samples")}

    def taken_over() -> bool:
        if tend:
            processes.tend()
        now = _committed(stand)
        return all(now[place] > before[place] for place in loaded)

    until(taken_over, _WITHIN_S, lambda: f"no failover within {_WITHIN_S:.0f} s", every_s=0.05)
    return time.monotonic() - begun_s


def _until_committing(stand: Stand, processes: Processes) -> None:
    before = sum(_committed(stand).values())
    _until(lambda: sum(_committed(stand).values()) > before, processes, "worker-0")


def _until_members(stand: Stand, wanted: int) -> None:
    """Wait until the group has settled with so many members; with 0: until it is empty."""

    async def members() -> int | None:
        async with live.Watcher(stand.config) as watcher:
            return await watcher.members("windows")

    failure = f"the group did not come to {wanted} members in {_WITHIN_S:.0f} s"
    until(lambda: asyncio.run(members()) == wanted, _WITHIN_S, lambda: failure)


def _committed(stand: Stand) -> dict[tuple[str, int], int]:
    async def committed() -> dict[tuple[str, int], int]:
        async with live.Watcher(stand.config) as watcher:
            return await watcher.committed("windows")

    return asyncio.run(committed())


def _until(holds: Callable[[], bool], processes: Processes, name: str) -> None:
    def ready() -> bool:
        if processes.exit_code(name) is not None:
            raise FleetpulseError(f"{name} ended:\n{processes.tail(name)}")
        return holds()

    failure = f"{name} did not get ready in {_WITHIN_S:.0f} s"
    until(ready, _WITHIN_S, lambda: f"{failure}:\n{processes.tail(name)}", every_s=0.02)


def _metric(port: int, name: str) -> float:
    """One metric of a process; 0 while it does not answer."""
    with suppress(OSError):
        return metric(page(port, "metrics", 1.0), name)
    return 0.0
