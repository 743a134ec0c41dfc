"""Processes on each GPU, at a slow interval: rows of ``gpu.processes``.

NVML reports process ids of the host's namespace: where the agent runs in a namespace of its own it needs the host's
(``hostPID`` in Kubernetes) to find names and containers; without, they are null. Memory is null where the driver does
not report it. ``sm_util_pct`` is the mean of the driver's samples since the reading before; MIG instances have none.

A GPU that hangs is left out until the call returns (``producers.gpu.watchdog``); the others are read.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pynvml

from producers.gpu import inventory
from producers.gpu.cgroup import Container, container_of
from producers.gpu.device import Found
from producers.gpu.library import GpuLostError, answered, open_library, raise_if_gone
from producers.gpu.watchdog import LIMIT_S, Watchdog, value_of

_log = logging.getLogger(__name__)

Row = dict[str, Any]
PROC = Path("/proc")
PROCESSES_MAX = 1_024
"""Of one device; more are left out, and that is logged."""
NAME_CHARS_MAX = 64
CGROUP_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class OnDevice:
    """What was read of a device. ``newest_us``: of its newest sample of utilization; None: none were read."""

    device: Found
    processes: list[Process]
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device, as NVML reports it."""

    pid: int
    memory_bytes: int | None
    sm_util_pct: int | None


class ProcessReader:
    """Reads all devices. One that is lost or hangs is left out; ``DriverGoneError`` ends it."""

    def __init__(self, proc: Path = PROC, limit_s: float = LIMIT_S) -> None:
        """``limit_s``: the longest one GPU may take."""
        open_library()
        self._proc = proc
        self._newest_us: dict[str, int] = {}
        self._watchdog: Watchdog[list[OnDevice]] = Watchdog(limit_s, "gpu-processes")

    def rows(
        self,
        at_ms: int,
        labels: Mapping[str, str | None],
        placement: Mapping[str, Any],
        engine_of: Callable[[int], str | None] = lambda _pid: None,
        pod_of: Callable[[str | None], Row] = lambda _uid: {},
    ) -> list[Row]:
        """A row for each process on each device, under its own engine where that is known, else the device's."""
        rows = []
        steps = {str(index): partial(self._on_gpu, index, dict(self._newest_us)) for index in range(inventory.count())}
        for on in (each for outcome in self._watchdog.run(steps).values() for each in value_of(outcome) or ()):
            device = on.device
            if on.newest_us is not None:
                self._newest_us[device.uuid] = on.newest_us
            place = placement.get(device.uuid) or placement.get(device.parent_uuid or "") or {}
            about = {"origin": "measured", **labels, **place, "gpu_uuid": device.uuid}
            for each in on.processes:
                engine = engine_of(each.pid)
                of_its_own = {"engine_id": engine} if engine is not None else {}
                row = self._row(each)
                rows.append({"at_ms": at_ms, **row, **pod_of(row["pod_uid"]), **about, **of_its_own})
        return rows

    def close(self) -> None:
        """Let the reading thread end."""
        self._watchdog.close()

    def _on_gpu(self, index: int, newest_us: Mapping[str, int]) -> list[OnDevice]:
        """A step of the watchdog: all driver calls for one GPU. Nothing here writes: it may end late."""
        devices, read = inventory.at(index), []
        # A GPU with instances lists the processes of all of them; they stand with their instance.
        divided = {device.parent_uuid for device in devices}
        for device in devices:
            if device.uuid not in divided:
                with contextlib.suppress(GpuLostError):
                    read.append(self._processes(device, newest_us.get(device.uuid, 0)))
        return read

    def _processes(self, device: Found, since_us: int) -> OnDevice:
        listed = compute_processes(device.handle) or []
        if len(listed) > PROCESSES_MAX:
            facts = {"gpu": device.uuid, "processes": len(listed), "kept": PROCESSES_MAX}
            _log.warning("too many processes on a GPU; the rest is not reported", extra=facts)
        busy, newest_us = self._busy(device, since_us) if listed else ({}, None)
        known = {each.pid: each.usedGpuMemory for each in listed[:PROCESSES_MAX]}
        return OnDevice(device, [Process(pid, used, busy.get(pid)) for pid, used in known.items()], newest_us)

    def _busy(self, device: Found, since_us: int) -> tuple[dict[int, int], int | None]:
        """The mean share of SM time by process since then, per cent; and when the newest sample was taken."""
        if device.parent_uuid is not None:
            return {}, None
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(device.handle, since_us)
        except pynvml.NVMLError as error:
            # Here "not found" says that there were no samples, not that there is no GPU.
            if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                raise_if_gone(error.value)
            return {}, None
        newest_us = max([since_us, *(sample.timeStamp for sample in samples)])
        return mean_by_pid([(sample.pid, sample.smUtil) for sample in samples]), newest_us

    def _row(self, process: Process) -> Row:
        container = self._container(process.pid)
        return {
            "pid": process.pid,
            "memory_bytes": process.memory_bytes,
            "sm_util_pct": process.sm_util_pct,
            "process_name": self._name(process.pid),
            "container_id": container.container_id,
            "pod_uid": container.pod_uid,
        }

    def _name(self, pid: int) -> str | None:
        text = self._read(pid, "comm", NAME_CHARS_MAX)
        return text.strip() or None if text is not None else None

    def _container(self, pid: int) -> Container:
        text = self._read(pid, "cgroup", CGROUP_BYTES_MAX)
        return container_of(text) if text is not None else Container()

    def _read(self, pid: int, name: str, most: int) -> str | None:
        """The file's text; None when the process is gone or another's."""
        try:
            with (self._proc / str(pid) / name).open("rb") as file:
                return file.read(most).decode(errors="replace")
        except OSError:
            return None


def compute_processes(handle: Any) -> list[Any] | None:
    """What computes on the device, as NVML has it (``pid``, ``usedGpuMemory``): those that share it through MPS are in
    a list of their own. None where the device or its driver reports no processes. Raises as ``raise_if_gone``."""
    listed = answered(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    if listed is None:
        return None
    return [*listed, *(answered(pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, handle) or ())]


def mean_by_pid(samples: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The rounded mean of per cents by process; shares above 100 (nonsense of the driver) are left out."""
    by_pid: dict[int, list[int]] = {}
    for pid, percent in samples:
        if 0 <= percent <= 100:
            by_pid.setdefault(pid, []).append(percent)
    return {pid: round(sum(shares) / len(shares)) for pid, shares in by_pid.items()}
