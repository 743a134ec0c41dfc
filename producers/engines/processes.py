"""Process table from psutil and NVML: listening ports, parents, and the processes that compute on each GPU.

Both see processes by the pids of the namespace the agent runs in; give it the host's. Without privilege the system
hides other users' sockets, and engines are then matched by configuration alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psutil

COMMAND_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Pids by the port they listen on, parent by pid, and by GPU UUID the processes that compute on it.

    ``gpu_of`` is the GPU of each MIG device, by UUID. A divided GPU has no processes of its own.
    """

    listeners: dict[int, set[int]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    gpus: dict[str, dict[int, str]] = field(default_factory=dict)
    gpu_of: dict[str, str] = field(default_factory=dict)


def read_processes() -> ProcessTable:
    """The table of this moment; what the system or the driver hides is missing. Milliseconds to a second."""
    gpus, gpu_of = read_gpu_processes()
    if not any(gpus.values()):
        return ProcessTable(gpus=gpus, gpu_of=gpu_of)  # nothing to match
    return ProcessTable(read_listeners(), read_parents(), gpus, gpu_of)


def read_listeners() -> dict[int, set[int]]:
    """Pids by TCP port."""
    found: dict[int, set[int]] = {}
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return found
    for each in connections:
        if each.status == psutil.CONN_LISTEN and each.pid is not None and each.laddr:
            found.setdefault(each.laddr.port, set()).add(each.pid)
    return found


def read_parents() -> dict[int, int]:
    """Parent pid by pid."""
    try:
        return {process.pid: process.info["ppid"] or 0 for process in psutil.process_iter(["ppid"])}
    except (psutil.Error, OSError):
        return {}


def read_gpu_processes() -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """By UUID of the GPU or MIG device the compute processes: pid and command line; and the GPU of each MIG device.

    Empty where there is no driver.
    """
    import pynvml

    from producers.gpu import inventory
    from producers.gpu.library import DriverGoneError

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}, {}
    try:
        found = inventory.found()
    except DriverGoneError:
        return {}, {}
    else:
        gpu_of = {each.uuid: each.parent_uuid for each in found if each.parent_uuid is not None}
        # An engine on one MIG device computes on no other.
        whole = [each for each in found if each.uuid not in gpu_of.values()]
        return {each.uuid: on for each in whole if (on := _on_gpu(each.handle)) is not None}, gpu_of
    finally:
        pynvml.nvmlShutdown()


def _on_gpu(handle: Any) -> dict[int, str] | None:
    """None for a GPU that does not report processes: it is not known to be idle."""
    import pynvml

    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return {each.pid: command_of(each.pid) for each in processes}
    except pynvml.NVMLError:
        return None


def command_of(pid: int) -> str:
    """The command line of the process, else its name, else nothing."""
    try:
        process = psutil.Process(pid)
        return (" ".join(process.cmdline()) or process.name())[:COMMAND_CHARS_MAX]
    except (psutil.Error, OSError):
        return ""
