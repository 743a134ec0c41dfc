"""Processes on each GPU, at a slow interval: rows of ``gpu.processes``.

NVML reports process ids of the host's namespace: where the agent runs in a namespace of its own it needs the host's
(``hostPID`` in Kubernetes) to find names and containers; without, they are null. Memory is null where the driver does
not report it. ``sm_util_pct`` is the mean of the driver's samples since the reading before; MIG instances have none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from producers.gpu import inventory
from producers.gpu.cgroup import Container, container_of
from producers.gpu.device import Found
from producers.gpu.library import GpuLostError, answered, open_library, raise_if_gone

_log = logging.getLogger(__name__)

Row = dict[str, Any]
PROC = Path("/proc")
PROCESSES_MAX = 1_024
"""Of one device; more are left out, and that is logged."""
NAME_CHARS_MAX = 64
CGROUP_BYTES_MAX = 64 * 1024
_LISTS = (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3)
"""Processes of their own, and those that share the GPU through MPS."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device, as NVML reports it."""

    pid: int
    memory_bytes: int | None
    sm_util_pct: int | None


class ProcessReader:
    """Reads all devices. ``GpuLostError`` of one leaves out that one; ``DriverGoneError`` ends it."""

    def __init__(self, proc: Path = PROC) -> None:
        open_library()
        self._proc = proc
        self._newest_us: dict[str, int] = {}

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
        devices = inventory.found()
        # A GPU with instances lists the processes of all of them; they stand with their instance.
        divided = {device.parent_uuid for device in devices}
        for device in devices:
            if device.uuid in divided:
                continue
            place = placement.get(device.uuid) or placement.get(device.parent_uuid or "") or {}
            about = {"origin": "measured", **labels, **place, "gpu_uuid": device.uuid}
            try:
                processes = self._processes(device)
            except GpuLostError:
                continue
            for each in processes:
                engine = engine_of(each.pid)
                of_its_own = {"engine_id": engine} if engine is not None else {}
                row = self._row(each)
                rows.append({"at_ms": at_ms, **row, **pod_of(row["pod_uid"]), **about, **of_its_own})
        return rows

    def _processes(self, device: Found) -> list[Process]:
        listed = [each for call in _LISTS for each in answered(call, device.handle) or []]
        if len(listed) > PROCESSES_MAX:
            facts = {"gpu": device.uuid, "processes": len(listed), "kept": PROCESSES_MAX}
            _log.warning("too many processes on a GPU; the rest is not reported", extra=facts)
        busy = self._busy(device) if listed else {}
        known = {each.pid: each.usedGpuMemory for each in listed[:PROCESSES_MAX]}
        return [Process(pid, used, busy.get(pid)) for pid, used in known.items()]

    def _busy(self, device: Found) -> dict[int, int]:
        """The mean share of SM time by process since the last look, per cent."""
        if device.parent_uuid is not None:
            return {}
        since_us = self._newest_us.get(device.uuid, 0)
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(device.handle, since_us)
        except pynvml.NVMLError as error:
            # Here "not found" says that there were no samples, not that there is no GPU.
            if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                raise_if_gone(error.value)
            return {}
        self._newest_us[device.uuid] = max([since_us, *(sample.timeStamp for sample in samples)])
        return mean_by_pid([(sample.pid, sample.smUtil) for sample in samples])

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


def mean_by_pid(samples: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The rounded mean of per cents by process; shares above 100 (nonsense of the driver) are left out."""
    by_pid: dict[int, list[int]] = {}
    for pid, percent in samples:
        if 0 <= percent <= 100:
            by_pid.setdefault(pid, []).append(percent)
    return {pid: round(sum(shares) / len(shares)) for pid, shares in by_pid.items()}
