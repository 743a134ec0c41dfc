"""Rows of ``host.devices``: each network interface, disk, NUMA node and RDMA port of this host, at the slow interval.

Amounts are what a device's counters grew by since the reading before; a device that is new, or comes back, has none
until its second reading. One that went has no row. Interfaces without hardware (bridges, containers' pairs) are left
out where the host has any with hardware.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from producers.collector import Collected, FieldErrors, Identity, Row
from producers.differences import INTERVAL_MS_MAX, since, summed
from producers.host.files import ERROR_COUNTERS, hardware_interfaces, hardware_only, is_stacked
from producers.host.rdma import Port, read_ports
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import HOST_DEVICES

DEVICES_MAX = 256
"""Of each kind, by name; more are left out, and counted."""
SECTOR_BYTES = 512
"""Of /sys/block/*/size, whatever the disk's own sectors are."""
SYS = Path("/sys")

_NODE_LINE = re.compile(r"^Node \d+ (\w+):\s+(\d+) kB$", re.MULTILINE)

Key = tuple[str, str]
"""(device_kind, device)."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Device:
    """``counted`` since some start, ``levels`` as they are, both by field of the row. ``parts``: counters that
    add up to a field, each with a start of its own."""

    counted: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DevicesReading:
    """All devices at one moment; ``moment_ms`` is monotonic."""

    moment_ms: int
    devices: Mapping[Key, Device]


def device_rows(before: DevicesReading | None, now: DevicesReading) -> list[Row]:
    """One row a device, in order of kind and name (identity and time apart). Pure."""
    return [
        {"device": name, "device_kind": kind} | dict(device.levels) | _growth(before, now, (kind, name))
        for (kind, name), device in sorted(now.devices.items())
    ]


def _growth(before: DevicesReading | None, now: DevicesReading, key: Key) -> dict[str, int | None]:
    was, device = (before.devices.get(key) if before else None), now.devices[key]
    if before is None or was is None or not (device.counted or device.parts):
        return {}
    interval_ms = now.moment_ms - before.moment_ms
    if not 0 < interval_ms <= INTERVAL_MS_MAX:
        return {}
    grown = {name: since(was.counted.get(name), value) for name, value in device.counted.items()}
    grown |= {name: summed(was.parts.get(name), counters) for name, counters in device.parts.items()}
    busy_ms = grown.get("busy_ms")
    if busy_ms is not None:  # the kernel counts whole requests when they end
        grown["busy_ms"] = min(busy_ms, interval_ms)
    return {"interval_ms": interval_ms, **grown}


def node_levels(meminfo: str) -> dict[str, int]:
    """A NUMA node's memory from its ``meminfo``; what can be reclaimed at once (file cache) does not count as used."""
    read = {name: int(kib) * 1_024 for name, kib in _NODE_LINE.findall(meminfo)}
    if "MemTotal" not in read or "MemFree" not in read:
        return {}
    cache = read.get("FilePages", 0) + read.get("SReclaimable", 0) - read.get("Shmem", 0)
    used = read["MemTotal"] - read["MemFree"] - max(0, cache)
    return {"total_bytes": read["MemTotal"], "used_bytes": max(0, used)}


class HostDevices:
    """The collector."""

    name = "host_devices"

    def __init__(
        self, identity: Identity, period_ms: int, *, clock: Clock | None = None, counters: Counters = COUNTERS
    ) -> None:
        self.period_ms = period_ms
        self._identity = identity
        self._clock = clock or SystemClock()
        self._errors = FieldErrors("host_devices", HOST_DEVICES, counters)
        self._before: DevicesReading | None = None

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """A row for each device."""
        now = DevicesReading(round(self._clock.monotonic_s() * 1_000), dict(self._devices()))
        common = {"at_ms": at_ms, "origin": "measured"} | dict(self._identity.labels)
        rows = [common | self._errors.checked(row) for row in device_rows(self._before, now)]
        self._before = now
        return [Collected(HOST_DEVICES, rows)] if rows else []

    def close(self) -> None:
        """Nothing is held open."""

    def _devices(self) -> Iterator[tuple[Key, Device]]:
        readers = (("interface", read_interfaces), ("disk", read_disks), ("numa_node", read_nodes), ("rdma", read_rdma))
        for kind, read in readers:
            found = self._try(kind, read) or {}
            for name in sorted(found)[:DEVICES_MAX]:
                yield (kind, name), found[name]
            if len(found) > DEVICES_MAX:
                self._errors.count(f"{kind}: too many", len(found) - DEVICES_MAX)

    def _try(self, kind: str, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except (OSError, RuntimeError, RuntimeWarning, NotImplementedError, AttributeError, psutil.Error):
            self._errors.count(kind)
            return None


def read_interfaces(sys: Path = SYS) -> dict[str, Device]:
    """By name."""
    found = psutil.net_io_counters(pernic=True, nowrap=False)
    return {
        name: Device(
            {"tx_bytes": found[name].bytes_sent, "rx_bytes": found[name].bytes_recv},
            parts={"errors": {counter: getattr(found[name], counter) for counter in ERROR_COUNTERS}},
        )
        for name in hardware_only(sorted(found), hardware_interfaces(sys / "class" / "net"))
    }


def read_disks(sys: Path = SYS) -> dict[str, Device]:
    """Whole disks by name; ``used_bytes`` of their file systems that are mounted."""
    found = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    whole = {path.name for path in (sys / "block").glob("*")} or set(found)
    counting = {name for name, each in found.items() if each.read_bytes or each.write_bytes}
    used = _used_by_disk(sys)
    disks = {}
    for name in sorted(whole & set(found)):
        if is_stacked(name, counting):
            continue
        each, levels = found[name], {}
        if name in used:
            levels["used_bytes"] = used[name]
        if (sectors := _number_in(sys / "block" / name / "size")) is not None:
            levels["total_bytes"] = sectors * SECTOR_BYTES
        counted = {"read_bytes": each.read_bytes, "write_bytes": each.write_bytes}
        if hasattr(each, "busy_time"):
            counted["busy_ms"] = each.busy_time
        disks[name] = Device(counted, levels)
    return disks


def read_nodes(sys: Path = SYS) -> dict[str, Device]:
    """NUMA nodes with memory."""
    files = (sys / "devices" / "system" / "node").glob("node[0-9]*/meminfo")
    found = {path.parent.name: node_levels(path.read_text()) for path in files}
    return {name: Device(levels=levels) for name, levels in found.items() if levels}


def read_rdma(sys: Path = SYS) -> dict[str, Device]:
    """Ports of RDMA adapters."""
    ports = read_ports(sys / "class" / "infiniband")
    return {port: _rdma_device(each) for port, each in ports.items()}


def _rdma_device(port: Port) -> Device:
    traffic = {"tx_bytes": port.tx_bytes, "rx_bytes": port.rx_bytes}
    counted = {name: count for name, count in traffic.items() if count is not None}
    return Device(counted, parts={"errors": port.errors} if port.errors else {})


def _used_by_disk(sys: Path) -> dict[str, int]:
    """A file system that spreads over several disks belongs to none of them."""
    used: dict[str, int] = {}
    mounted = {part.device: part.mountpoint for part in psutil.disk_partitions(all=False)}
    for device, folder in mounted.items():
        disk = disk_of(Path(device).resolve().name, sys)
        if disk is None:
            continue
        try:
            used[disk] = used.get(disk, 0) + psutil.disk_usage(folder).used
        except OSError:
            continue
    return used


def disk_of(name: str, sys: Path = SYS) -> str | None:
    """The disk that a block device (a partition, a logical volume) lies on; None where that is not one disk."""
    entry = sys / "class" / "block" / name
    if (entry / "partition").exists():
        return entry.resolve().parent.name
    below = sorted(path.name for path in (entry / "slaves").glob("*"))
    if not below:
        return name if (sys / "block" / name).exists() else None
    return disk_of(below[0], sys) if len(below) == 1 and below[0] != name else None


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
