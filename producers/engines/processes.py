"""Process table from psutil and NVML: listening ports, parents, and the processes that compute on each GPU.

Both see processes by the pids of the namespace the agent runs in; give it the host's. Which process holds a socket of
another user is in ``/proc/PID/fd``: the kernel shows that folder to ``CAP_DAC_READ_SEARCH`` and its links to
``CAP_SYS_PTRACE``, and to one without the other nothing (tried on Linux 6.18; ``CAP_NET_ADMIN`` adds nothing). Without
them engines of other users are matched by configuration alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from producers.gpu.cgroup import container_of
from producers.gpu.watchdog import LIMIT_S, Hung, Watchdog, value_of
from producers.identity.network import network_of

if TYPE_CHECKING:
    from producers.gpu.device import Found

COMMAND_CHARS_MAX = 4_096
RIGHTS = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
"""What shows the processes behind other users' sockets."""
HOST_PID = "the host's PID namespace (hostPID in Kubernetes, --pid=host with Docker)"
_PTRACE, _READ = 1 << 19, 1 << 1 | 1 << 2
"""Bits of capabilities(7): SYS_PTRACE; DAC_OVERRIDE or DAC_READ_SEARCH."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Pids by the port they listen on, parent by pid, and by GPU UUID the processes that compute on it.

    ``gpu_of`` is the GPU of each MIG device, by UUID. A divided GPU has no processes of its own. ``hidden_sockets``
    listen too, but whose they are is not shown to this process, for want of rights.
    """

    listeners: dict[int, set[int]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    gpus: dict[str, dict[int, str]] = field(default_factory=dict)
    gpu_of: dict[str, str] = field(default_factory=dict)
    hidden_sockets: int = 0
    containers: dict[str, int] = field(default_factory=dict)
    """The first process of each container, by its id."""
    networks: dict[int, int] = field(default_factory=dict)
    """Network namespace of each of those, and of each process that computes on a GPU (``network_of``)."""


def read_processes(
    has_engines: bool = False, in_containers: bool = False, watchdog: Watchdog[Any] | None = None
) -> ProcessTable:
    """The table of this moment; what the system or the driver hides is missing. Milliseconds to a second.

    ``has_engines``: their processes are looked for even where none computes on a GPU; ``in_containers``: some are known
    by their container alone. ``watchdog``: as for ``read_gpu_processes``.
    """
    gpus, gpu_of = read_gpu_processes(watchdog)
    if not has_engines and not any(gpus.values()):
        return ProcessTable(gpus=gpus, gpu_of=gpu_of)  # nothing to match
    listeners, hidden_sockets = read_listeners()
    parents = read_parents()
    containers = first_processes(parents) if in_containers else {}
    networks = read_networks({*containers.values()}.union(*gpus.values()))
    return ProcessTable(listeners, parents, gpus, gpu_of, hidden_sockets, containers, networks)


def read_listeners() -> tuple[dict[int, set[int]], int]:
    """Pids by TCP port, and how many sockets listen whose pid is hidden for want of rights."""
    found: dict[int, set[int]] = {}
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return found, 0
    unknown = 0
    for each in connections:
        if each.status == psutil.CONN_LISTEN and each.laddr:
            if each.pid is None:
                unknown += 1
            else:
                found.setdefault(each.laddr.port, set()).add(each.pid)
    # With the rights, sockets of the kernel and of other pid namespaces are left: nothing could be granted for those.
    return found, 0 if unknown and sees_all() else unknown


def sees_all() -> bool:
    """Whether this process has ``RIGHTS``, or is root with all of root's."""
    return _sees_all(_status())


def _status() -> str:
    try:
        return _STATUS.read_text(encoding="utf-8")
    except OSError:
        return ""


def _sees_all(status: str) -> bool:
    """Whether the effective capabilities in a ``/proc/PID/status`` are those of ``RIGHTS``."""
    words = (line.split() for line in status.splitlines() if line.startswith("CapEff:"))
    effective = int(next(words, ("", "0"))[1], 16)
    return bool(effective & _PTRACE) and bool(effective & _READ)


def read_parents() -> dict[int, int]:
    """Parent pid by pid."""
    try:
        return {process.pid: process.info["ppid"] or 0 for process in psutil.process_iter(["ppid"])}
    except (psutil.Error, OSError):
        return {}


def read_networks(pids: Iterable[int]) -> dict[int, int]:
    """Network namespace by pid, of those that are there."""
    return {pid: network for pid in pids if (network := network_of(pid)) is not None}


def first_processes(parents: Mapping[int, int], proc: Path = Path("/proc")) -> dict[str, int]:
    """By container id the process whose parent is not in it; of several the one that was started first, since ids
    begin again from low ones."""
    of = {pid: id for pid in sorted(parents) if (id := _container_id(proc / str(pid) / "cgroup")) is not None}
    outermost: dict[str, list[int]] = {}
    for pid, id in of.items():
        if of.get(parents[pid]) != id:
            outermost.setdefault(id, []).append(pid)
    return {
        id: pids[0] if len(pids) == 1 else min(pids, key=lambda pid: _started_ticks(proc / str(pid) / "stat"))
        for id, pids in outermost.items()
    }


def _started_ticks(stat: Path) -> float:
    """When the process was started, in clock ticks since the machine was; infinity where it ended meanwhile."""
    try:
        return int(stat.read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return math.inf


def _container_id(cgroup: Path) -> str | None:
    try:
        return container_of(cgroup.read_text(errors="replace")).container_id
    except OSError:
        return None


HOST_PIDS = 0xEFFF_FFFC
"""Inode of the PID namespace that every other one descends from (Linux, include/linux/proc_ns.h)."""


def sees_host_pids(namespace: Path = Path("/proc/self/ns/pid")) -> bool:
    """False in a container without the host's PID namespace: ids of processes on GPUs mean nothing here."""
    try:
        return namespace.stat().st_ino == HOST_PIDS
    except OSError:
        return True  # no Linux: there are no namespaces


def read_gpu_processes(watchdog: Watchdog[Any] | None = None) -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """By UUID of the GPU or MIG device the compute processes: pid and command line; and the GPU of each MIG device.

    Empty where there is no driver. A GPU that hangs is missing, by the same ``watchdog`` until the call returns.
    """
    import pynvml

    from producers.gpu import inventory
    from producers.gpu.library import DriverGoneError

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}, {}
    watching, hangs = watchdog or Watchdog(LIMIT_S), False
    try:
        outcomes = watching.run({str(index): partial(_on_gpu, index) for index in range(inventory.count())}).values()
        hangs = any(isinstance(each, Hung) for each in outcomes)
        found = [each for outcome in outcomes for each in value_of(outcome) or ()]
    except DriverGoneError:
        return {}, {}
    finally:
        if not hangs:  # a call that hangs must not find the library gone
            pynvml.nvmlShutdown()
        if watchdog is None:
            watching.close()
    gpu_of = {device.uuid: device.parent_uuid for device, _ in found if device.parent_uuid is not None}
    return {device.uuid: {pid: command_of(pid) for pid in pids} for device, pids in found if pids is not None}, gpu_of


def _on_gpu(index: int) -> list[tuple[Found, list[int] | None]]:
    """A step of the watchdog: the devices there and the pids on each. None for one that does not report processes (it
    is not known to be idle), and for a divided GPU: an engine on one MIG device computes on no other."""
    from producers.gpu import inventory

    devices = inventory.at(index)
    divided = {each.parent_uuid for each in devices}
    return [(each, None if each.uuid in divided else _pids(each.handle)) for each in devices]


def _pids(handle: Any) -> list[int] | None:
    from producers.gpu.library import GpuLostError
    from producers.gpu.processes import compute_processes

    try:
        listed = compute_processes(handle)
    except GpuLostError:
        return None
    return None if listed is None else [each.pid for each in listed]


def command_of(pid: int) -> str:
    """The command line of the process, else its name, else nothing."""
    try:
        process = psutil.Process(pid)
        return (" ".join(process.cmdline()) or process.name())[:COMMAND_CHARS_MAX]
    except (psutil.Error, OSError):
        return ""
