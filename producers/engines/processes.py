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

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}, {}
    try:
        gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        divided = [(gpu, _mig_devices(gpu)) for gpu in gpus]  # handles of the driver cannot be keys
        handles = [handle for gpu, devices in divided for handle in devices or [gpu]]
        gpu_of = {_uuid(each): _uuid(gpu) for gpu, devices in divided for each in devices}
        return dict(found for handle in handles if (found := _on_gpu(handle)) is not None), gpu_of
    except pynvml.NVMLError:
        return {}, {}
    finally:
        pynvml.nvmlShutdown()


def _mig_devices(gpu: Any) -> list[Any]:
    """The MIG devices of a GPU that is divided: an engine on one computes on no other. Empty for a whole GPU."""
    import pynvml

    try:
        if pynvml.nvmlDeviceGetMigMode(gpu)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return []
        slots = range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu))
    except pynvml.NVMLError:
        return []
    return [device for slot in slots if (device := _mig_device(gpu, slot)) is not None]


def _mig_device(gpu: Any, slot: int) -> Any:
    import pynvml

    try:
        return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
    except pynvml.NVMLError:  # an empty slot
        return None


def _uuid(handle: Any) -> str:
    import pynvml

    return str(pynvml.nvmlDeviceGetUUID(handle))


def _on_gpu(handle: Any) -> tuple[str, dict[int, str]] | None:
    """None for a GPU that does not report processes: it is not known to be idle."""
    import pynvml

    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return _uuid(handle), {each.pid: command_of(each.pid) for each in processes}
    except pynvml.NVMLError:
        return None


def command_of(pid: int) -> str:
    """The command line of the process, else its name, else nothing."""
    try:
        process = psutil.Process(pid)
        return (" ".join(process.cmdline()) or process.name())[:COMMAND_CHARS_MAX]
    except (psutil.Error, OSError):
        return ""
