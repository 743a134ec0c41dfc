"""Host counters from ``/proc``: files are kept open, read every second, and parsed here.

psutil opens every file at every reading and makes objects of all its content; this costs a tenth of that.

Formats: Linux, Documentation/filesystems/proc.rst, admin-guide/iostats.rst, accounting/psi.rst. Parsers are pure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from producers.host.rdma import Port, read_ports

ByDevice = Mapping[str, int]

LOOPBACK = ("lo", "lo0")
ERROR_COUNTERS: Mapping[str, int] = MappingProxyType({"errin": 2, "dropin": 3, "errout": 10, "dropout": 11})
"""Errors and drops of an interface: psutil's name -> column of ``/proc/net/dev``."""
STACKED_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that are not disks, or whose traffic is counted again on the disks below (Linux names)."""
_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")
STALLED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cpu_pressure_ppm": ("cpu", "some"),
        "memory_pressure_ppm": ("memory", "some"),
        "memory_full_pressure_ppm": ("memory", "full"),
        "io_pressure_ppm": ("io", "some"),
    }
)
"""Field -> file of pressure and its line (Linux, Documentation/accounting/psi.rst)."""

_BLOCK_BYTES = 64 * 1024
_WHOLE_BYTES = 2 * 1024
"""A shorter piece is all there is: the kernel ends a piece where the next line does not fit into its page of 4 KiB."""
_KIB, _PAGE, _SECTOR = 1_024, os.sysconf("SC_PAGE_SIZE"), 512
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds since start of the machine, all processors together."""

    busy_s: float
    iowait_s: float
    total_s: float
    idle_s: Mapping[bytes, float] = field(default_factory=dict)
    """By logical processor: with nothing to do, or only waiting for a disk."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of this moment, in bytes."""

    used_bytes: int
    total_bytes: int
    swap_used_bytes: int


@dataclass(frozen=True, slots=True)
class Swapped:
    """Bytes since start of the machine."""

    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class NetworkCounters:
    """By interface, loopback left out."""

    tx_bytes: ByDevice
    rx_bytes: ByDevice
    errors: ByDevice
    """By interface and counter (``eth0/errin``): each may be set back alone."""

    def of(self, interfaces: Collection[str]) -> NetworkCounters:
        """Those alone."""
        tx, rx = ({name: each[name] for name in each if name in interfaces} for each in (self.tx_bytes, self.rx_bytes))
        errors = {name: count for name, count in self.errors.items() if name.rpartition("/")[0] in interfaces}
        return NetworkCounters(tx, rx, errors)


@dataclass(frozen=True, slots=True)
class TcpCounters:
    """Segments since start of the network namespace, loopback included."""

    retransmits: int
    segments_out: int


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """By disk. ``busy_ms`` is empty where the system has none; ``waited_ms`` is the time of all requests, by disk and
    direction (``sda/read``): each is a counter of 32 bits, which begins again alone."""

    read_bytes: ByDevice
    write_bytes: ByDevice
    busy_ms: ByDevice
    waited_ms: ByDevice


def cpu_times(stat: bytes) -> CpuTimes:
    """From the first lines of ``/proc/stat``. ValueError when they are others."""
    name, *ticks = stat[: stat.index(b"\n")].split()
    if name != b"cpu" or len(ticks) < 5:
        raise ValueError("no line of all processors")
    times = [int(tick) for tick in ticks]
    # Linux counts the time of guests (the ninth and tenth number) in user and nice as well.
    total, idle, iowait = sum(times[:8]), times[3], times[4]
    return CpuTimes((total - idle - iowait) / _TICKS_PER_S, iowait / _TICKS_PER_S, total / _TICKS_PER_S, _idle_s(stat))


_PROCESSOR = re.compile(rb"^(cpu\d+) \d+ \d+ \d+ (\d+) (\d+) .*\n", re.MULTILINE)


def _idle_s(stat: bytes) -> dict[bytes, float]:
    """From the lines of single processors: a machine may have hundreds of them. A line that is cut is none."""
    return {name: (int(idle) + int(iowait)) / _TICKS_PER_S for name, idle, iowait in _PROCESSOR.findall(stat)}


def processors(online: bytes) -> int:
    """From ``/sys/devices/system/cpu/online``: "0-3,6". ValueError when it is not such a list."""
    ranges = [(first, last or first) for first, _, last in (part.partition(b"-") for part in online.split(b","))]
    return sum(int(last) - int(first) + 1 for first, last in ranges)


def memory(meminfo: bytes) -> Memory:
    """From ``/proc/meminfo``. ValueError on kernels before 3.14, which do not report what is available."""
    total = _after(meminfo, b"MemTotal:")
    available = _after(meminfo, b"MemAvailable:")
    if available > total:  # in some containers, where the one is the machine's and the other the container's
        available = _after(meminfo, b"MemFree:")
    swap = _after(meminfo, b"SwapTotal:") - _after(meminfo, b"SwapFree:")
    return Memory((total - available) * _KIB, total * _KIB, swap * _KIB)


def has_swap(meminfo: bytes) -> bool:
    """Whether there is any. ValueError without swapping."""
    return _after(meminfo, b"SwapTotal:") > 0


def swapped(vmstat: bytes) -> Swapped:
    """From ``/proc/vmstat``. ValueError without swapping."""
    return Swapped(_after(vmstat, b"pswpin ") * _PAGE, _after(vmstat, b"pswpout ") * _PAGE)


def _after(text: bytes, name: bytes) -> int:
    """The number behind the name. ValueError when there is none."""
    begin = text.index(name) + len(name)
    return int(text[begin : text.index(b"\n", begin)].split()[0])


def network(dev: bytes) -> NetworkCounters:
    """From ``/proc/net/dev``."""
    sent, received, errors = {}, {}, {}
    for line in dev.splitlines()[2:]:
        label, _, numbers = line.rpartition(b":")
        name, columns = label.strip().decode(), numbers.split()
        if name not in LOOPBACK:
            received[name], sent[name] = int(columns[0]), int(columns[8])
            for counter, column in ERROR_COUNTERS.items():
                errors[f"{name}/{counter}"] = int(columns[column])
    return NetworkCounters(sent, received, errors)


def tcp(snmp: bytes) -> TcpCounters:
    """From ``/proc/net/snmp``: a line of names, and one of numbers. ValueError without them."""
    names, numbers = (line.split() for line in snmp.splitlines() if line.startswith(b"Tcp: "))
    counts = dict(zip(names, numbers, strict=True))
    return TcpCounters(int(counts[b"RetransSegs"]), int(counts[b"OutSegs"]))


def disks(diskstats: bytes, wanted: Mapping[bytes, str | None]) -> DiskCounters:
    """From ``/proc/diskstats``: devices to which ``wanted`` gives a name. KeyError for one that it lacks."""
    read, written, busy, waited = {}, {}, {}, {}
    for line in diskstats.splitlines():
        columns = line.split(None, 13)
        name = wanted[columns[2]]
        if name is not None:
            read[name], written[name] = int(columns[5]) * _SECTOR, int(columns[9]) * _SECTOR
            busy[name] = int(columns[12])
            waited[f"{name}/read"], waited[f"{name}/write"] = int(columns[6]), int(columns[10])
    return DiskCounters(read, written, busy, waited)


def disk_names(diskstats: bytes, whole: Iterable[str]) -> dict[bytes, str | None]:
    """Every device of ``/proc/diskstats``, and its name where it is one of the ``whole`` disks and not stacked on one.

    Where the system lists no whole disks, every device counts as one.
    """
    lines, known = [line.split(None, 13) for line in diskstats.splitlines()], set(whole)
    counting = {columns[2].decode() for columns in lines if columns[5] != b"0" or columns[9] != b"0"}
    return {columns[2]: _if_disk(columns[2].decode(), known, counting) for columns in lines}


def _if_disk(name: str, whole: set[str], counting: set[str]) -> str | None:
    return name if (name in whole or not whole) and not is_stacked(name, counting) else None


def is_stacked(name: str, counting: Collection[str]) -> bool:
    """Whether the traffic of a block device is another's: of a disk below it, or, for a path to an NVMe namespace
    (``nvme0c1n2``), of the namespace (``nvme0n2``). ``counting``: devices that have counted any; on older kernels the
    namespace never does, and its paths are the disks."""
    path = _NVME_PATH.fullmatch(name)
    return name.startswith(STACKED_DISKS) or (path is not None and f"{path[1]}{path[2]}" in counting)


def stalled_us(line: str, pressure: bytes) -> int | None:
    """The total of a line of a file of pressure; None when it is not there."""
    begin = pressure.find(line.encode() + b" ")
    if begin < 0:
        return None
    end = pressure.index(b"\n", begin)
    return int(pressure[pressure.index(b"total=", begin, end) + 6 : end])


def hardware_only(interfaces: Iterable[str], with_hardware: Collection[str]) -> list[str]:
    """The interfaces to report: those with hardware, or all but loopback where none has (a container)."""
    found = [name for name in interfaces if name not in LOOPBACK]
    return [name for name in found if name in with_hardware] or found


def hardware_interfaces(net: Path) -> frozenset[str]:
    """The interfaces that stand for hardware, by ``/sys/class/net``: no bonds, bridges, VLANs or pairs of containers,
    whose traffic is counted again on those. Nor the hardware below one that stands for some itself, and counts its
    traffic again: an adapter's virtual function in Azure (below ``hv_netvsc``), or beside virtio."""
    with_device = [path.parent for path in net.glob("*/device")]
    return frozenset(each.name for each in with_device if not (each / "master" / "device").exists())


class KernelFile:
    """A file that the kernel writes at each reading: opened once. OSError while it is not there."""

    def __init__(self, path: Path, *, first_bytes: int | None = None) -> None:
        """``first_bytes``: so many are enough."""
        self._path = path
        self._first_bytes = first_bytes
        self._descriptor: int | None = None

    def read(self) -> bytes:
        """All of it, as it is now."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._first_bytes is not None:
                return os.pread(self._descriptor, self._first_bytes, 0)
            parts = [os.pread(self._descriptor, _BLOCK_BYTES, 0)]
            if len(parts[0]) < _WHOLE_BYTES:
                return parts[0]
            while parts[-1]:  # the kernel hands out lists in pieces of a page, and an empty one at the end
                parts.append(os.pread(self._descriptor, _BLOCK_BYTES, sum(map(len, parts))))
            return b"".join(parts)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of it; the next reading opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class HostFiles:
    """The files of one host. Every method raises OSError or ValueError where the system does not report."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        blocks: Path = Path("/sys/block"),
        online: Path = Path("/sys/devices/system/cpu/online"),
        infiniband: Path = Path("/sys/class/infiniband"),
        net: Path = Path("/sys/class/net"),
    ) -> None:
        self._online = KernelFile(online)
        self._processors: tuple[bytes, int] = (b"", 0)
        self._stat = KernelFile(proc / "stat", first_bytes=_BLOCK_BYTES)
        self._meminfo = KernelFile(proc / "meminfo")
        self._vmstat = KernelFile(proc / "vmstat")
        self._dev = KernelFile(proc / "net" / "dev")
        self._snmp = KernelFile(proc / "net" / "snmp")
        self._diskstats = KernelFile(proc / "diskstats")
        self._infiniband = infiniband
        self._net = net
        self._interfaces: frozenset[str] = frozenset()
        self._counted: frozenset[str] = frozenset()
        resources = dict.fromkeys(resource for resource, _ in STALLED.values())
        self._pressure = {resource: KernelFile(proc / "pressure" / resource) for resource in resources}
        self._blocks = blocks
        self._disks: dict[bytes, str | None] = {}
        self._has_swap = True
        self._swapped: Swapped | None = None

    def cpu(self) -> CpuTimes:
        """Time of all processors."""
        return cpu_times(self._stat.read())

    def processors(self) -> int | None:
        """Logical ones that are on line. ``os.cpu_count`` opens the file at every call; it knows other ways too."""
        try:
            text = self._online.read()
            if text != self._processors[0]:
                self._processors = text, processors(text)
        except (OSError, ValueError):
            return os.cpu_count()
        return self._processors[1]

    def memory(self) -> Memory:
        """Memory and swap in use."""
        text = self._meminfo.read()
        self._has_swap = has_swap(text)
        return memory(text)

    def swapped(self) -> Swapped:
        """What went to and came from the swap; while ``memory`` finds none, what it was when it was found missing."""
        if self._has_swap:
            self._swapped = None
            return swapped(self._vmstat.read())
        if self._swapped is None:
            self._swapped = swapped(self._vmstat.read())
        return self._swapped

    def network(self) -> NetworkCounters:
        """Traffic by interface. Which of them have hardware is looked up when they are others than before."""
        found = network(self._dev.read())
        if found.tx_bytes.keys() != self._interfaces:
            self._interfaces = frozenset(found.tx_bytes)
            self._counted = frozenset(hardware_only(self._interfaces, hardware_interfaces(self._net)))
        return found.of(self._counted)

    def tcp(self) -> TcpCounters:
        """Segments sent, and sent again."""
        return tcp(self._snmp.read())

    def rdma(self) -> dict[str, Port]:
        """Traffic by port."""
        return read_ports(self._infiniband)

    def disks(self) -> DiskCounters:
        """Traffic by disk. Which devices are disks is looked up when there is one more."""
        text = self._diskstats.read()
        try:
            return disks(text, self._disks)
        except KeyError:
            self._disks = disk_names(text, [path.name for path in self._blocks.glob("*")])
            return disks(text, self._disks)

    def stalled_us(self) -> dict[str, int]:
        """Time lost to pressure by field; without those that this kernel does not report."""
        texts = {}
        for resource, file in self._pressure.items():
            try:
                texts[resource] = file.read()
            except OSError:
                continue
        stalled = {name: stalled_us(line, texts.get(resource, b"")) for name, (resource, line) in STALLED.items()}
        return {name: total for name, total in stalled.items() if total is not None}

    def close(self) -> None:
        """Let go of all files."""
        files = (self._online, self._stat, self._meminfo, self._vmstat, self._dev, self._snmp, self._diskstats)
        for file in (*files, *self._pressure.values()):
            file.close()
