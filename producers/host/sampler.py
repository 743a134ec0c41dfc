"""Host sampler: processors, memory, disks and network once a second, from ``/proc`` on Linux, elsewhere by psutil.

Gauges are emitted as they are; counters and shares of time as differences to the reading before, so the first sample
has none. What the system does not report is null: pressure, for one, on kernels before 4.20 or without PSI.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import psutil

from producers.differences import INTERVAL_MS_MAX, bounds, share_ppm, since, summed, within
from producers.host.files import (
    ERROR_COUNTERS,
    LOOPBACK,
    STALLED,
    CpuTimes,
    DiskCounters,
    HostFiles,
    Memory,
    NetworkCounters,
    Swapped,
    TcpCounters,
)
from producers.host.rdma import Port
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import HOST_SAMPLES

_log = logging.getLogger(__name__)

_BOUNDS = bounds(HOST_SAMPLES)

Value = TypeVar("Value")


class System(Protocol):
    """What an operating system reports. Each method may raise where it does not."""

    def cpu(self) -> CpuTimes: ...

    def processors(self) -> int | None: ...

    def memory(self) -> Memory: ...

    def swapped(self) -> Swapped: ...

    def network(self) -> NetworkCounters: ...

    def tcp(self) -> TcpCounters | None: ...

    def rdma(self) -> Mapping[str, Port]: ...

    def disks(self) -> DiskCounters: ...

    def stalled_us(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class HostReading:
    """Raw values of one moment; ``moment_ms`` is monotonic. None: could not be read."""

    moment_ms: int
    cpu: CpuTimes | None = None
    load_1m: float | None = None
    processors: int | None = None
    memory: Memory | None = None
    swapped: Swapped | None = None
    stalled_us: Mapping[str, int] = field(default_factory=dict)
    """By field, since start of the machine."""
    network: NetworkCounters | None = None
    tcp: TcpCounters | None = None
    rdma: Mapping[str, Port] | None = None
    """None too where it was not its turn."""
    disks: DiskCounters | None = None


def host_row(before: HostReading | None, now: HostReading) -> dict[str, int | None]:
    """The fields of a host sample (labels and time apart). Pure."""
    interval_ms = now.moment_ms - before.moment_ms if before is not None else None
    if before is None or interval_ms is None or not 0 < interval_ms <= INTERVAL_MS_MAX:
        return _levels(now)
    return _levels(now) | {"interval_ms": interval_ms} | _growth(before, now, interval_ms)


def _levels(now: HostReading) -> dict[str, int | None]:
    return {
        "load_1m_milli": None if now.load_1m is None else round(now.load_1m * 1_000),
        "processors": now.processors,
        "memory_used_bytes": now.memory.used_bytes if now.memory else None,
        "memory_total_bytes": now.memory.total_bytes if now.memory else None,
        "swap_used_bytes": now.memory.swap_used_bytes if now.memory else None,
    }


def _growth(before: HostReading, now: HostReading, interval_ms: int) -> dict[str, int | None]:
    row = dict[str, int | None]()
    if before.swapped and now.swapped:
        row["swap_in_bytes"] = since(before.swapped.in_bytes, now.swapped.in_bytes)
        row["swap_out_bytes"] = since(before.swapped.out_bytes, now.swapped.out_bytes)
    for name in STALLED:
        stalled_us = since(before.stalled_us.get(name), now.stalled_us.get(name))
        row[name] = None if stalled_us is None else share_ppm(stalled_us, interval_ms * 1_000)
    if before.cpu and now.cpu:
        total_s = now.cpu.total_s - before.cpu.total_s
        row["cpu_busy_ppm"] = share_ppm(now.cpu.busy_s - before.cpu.busy_s, total_s)
        row["cpu_iowait_ppm"] = share_ppm(now.cpu.iowait_s - before.cpu.iowait_s, total_s)
        row["cpu_core_busy_max_ppm"] = _busiest_ppm(before.cpu.idle_s, now.cpu.idle_s, interval_ms / 1_000)
    if before.network and now.network:
        row["network_tx_bytes"] = summed(before.network.tx_bytes, now.network.tx_bytes)
        row["network_rx_bytes"] = summed(before.network.rx_bytes, now.network.rx_bytes)
        row["network_errors"] = summed(before.network.errors, now.network.errors)
    if before.tcp and now.tcp:
        row["tcp_retransmits"] = since(before.tcp.retransmits, now.tcp.retransmits)
        row["tcp_segments_out"] = since(before.tcp.segments_out, now.tcp.segments_out)
    if before.rdma and now.rdma:
        row["rdma_tx_bytes"] = _over_ports(before.rdma, now.rdma, lambda port: port.tx_bytes)
        row["rdma_rx_bytes"] = _over_ports(before.rdma, now.rdma, lambda port: port.rx_bytes)
        row["rdma_errors"] = summed(_errors(before.rdma), _errors(now.rdma))
    if before.disks and now.disks:
        row["disk_read_bytes"] = summed(before.disks.read_bytes, now.disks.read_bytes)
        row["disk_write_bytes"] = summed(before.disks.write_bytes, now.disks.write_bytes)
        row["disk_busy_ms"] = summed(before.disks.busy_ms, now.disks.busy_ms)
        waited_ms = summed(before.disks.waited_ms, now.disks.waited_ms)
        # Little's law: time spent in requests per time passed is the mean number in flight.
        row["disk_queue_milli"] = None if waited_ms is None else round(waited_ms * 1_000 / interval_ms)
    return row


def _busiest_ppm(before: Mapping[bytes, float], now: Mapping[bytes, float], interval_s: float) -> int | None:
    """Of the logical processors in both readings; the kernel counts in hundredths of a second."""
    idle_s = [now[name] - before[name] for name in now if name in before]
    return share_ppm(interval_s - min(idle_s), interval_s) if idle_s else None


def _over_ports(before: Mapping[str, Port], now: Mapping[str, Port], count: Callable[[Port], int | None]) -> int | None:
    was, is_now = ({name: n for name, port in some.items() if (n := count(port)) is not None} for some in (before, now))
    return summed(was, is_now)


def _errors(ports: Mapping[str, Port]) -> dict[str, int]:
    """By port and file."""
    return {f"{name}/{file}": count for name, port in ports.items() for file, count in port.errors.items()}


RDMA_MS = 10_000
"""Between two readings of RDMA ports, each of which may ask an adapter's firmware: one in every window. What grew since
the reading before stands in one sample."""


class HostSampler:
    """Reads and remembers the last reading. ``labels`` go into every row: host, cluster, region."""

    def __init__(
        self,
        labels: Mapping[str, str | None],
        *,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        system: System | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._labels = {"origin": "measured", **labels}
        self._counters = counters
        self._system = system or (HostFiles() if sys.platform == "linux" else ByPsutil())
        self._before: HostReading | None = None
        self._rdma_slot: int | None = None
        self._logged: set[str] = set()

    def sample(self, at_ms: int) -> dict[str, Any]:
        """One row of ``host.samples``; takes a fifth of a millisecond."""
        now = self._read(at_ms)
        row, wrong = within(_BOUNDS, host_row(self._before, now))
        kept = now.rdma if now.rdma is not None or self._before is None else self._before.rdma
        self._before = replace(now, rdma=kept)
        for name in wrong:
            self._note(name, "it lies outside its bounds")
        return {"at_ms": at_ms, **self._labels, **row}

    def _read(self, at_ms: int) -> HostReading:
        system = self._system
        of_slot, self._rdma_slot = self._rdma_slot, at_ms // RDMA_MS
        load = self._try("load_1m_milli", os.getloadavg)
        return HostReading(
            moment_ms=round(self._clock.monotonic_s() * 1_000),
            cpu=self._try("cpu", system.cpu),
            load_1m=load[0] if load else None,
            processors=self._try("processors", system.processors),
            memory=self._try("memory", system.memory),
            swapped=self._try("swap", system.swapped),
            stalled_us=self._try("pressure", system.stalled_us) or {},
            network=self._try("network", system.network),
            tcp=self._try("tcp", system.tcp),
            rdma=self._try("rdma", system.rdma) if of_slot != self._rdma_slot else None,
            disks=self._try("disks", system.disks),
        )

    def _try(self, name: str, read: Callable[[], Value]) -> Value | None:
        try:
            return read()
        except _REFUSALS as error:
            self._note(name, f"{type(error).__name__}: {error}")
            return None

    def _note(self, name: str, why: str) -> None:
        self._counters.add("sampler_errors", sampler="host", field=name)
        if name not in self._logged:
            self._logged.add(name)
            _log.warning("host field unreadable, reported as null", extra={"field": name, "why": why})


_REFUSALS = (
    OSError,
    ValueError,
    LookupError,
    RuntimeError,
    RuntimeWarning,
    NotImplementedError,
    AttributeError,
    psutil.Error,
)


class ByPsutil:
    """Systems other than Linux."""

    def cpu(self) -> CpuTimes:
        """Time of all processors."""
        times = psutil.cpu_times()._asdict()
        total_s, iowait_s = sum(times.values()), times.get("iowait", 0.0)
        idle_s = {
            b"%d" % number: each.idle + getattr(each, "iowait", 0.0)
            for number, each in enumerate(psutil.cpu_times(percpu=True))
        }
        return CpuTimes(total_s - times["idle"] - iowait_s, iowait_s, total_s, idle_s)

    def processors(self) -> int | None:
        """Logical ones; None where the system does not report it."""
        return os.cpu_count()

    def memory(self) -> Memory:
        """Memory and swap in use."""
        found = psutil.virtual_memory()
        return Memory(found.total - found.available, found.total, psutil.swap_memory().used)

    def swapped(self) -> Swapped:
        """What went to and came from the swap."""
        found = psutil.swap_memory()
        return Swapped(found.sin, found.sout)

    def network(self) -> NetworkCounters:
        """Traffic by interface."""
        found = psutil.net_io_counters(pernic=True, nowrap=False)
        interfaces = {name: each for name, each in found.items() if name not in LOOPBACK}
        return NetworkCounters(
            {name: each.bytes_sent for name, each in interfaces.items()},
            {name: each.bytes_recv for name, each in interfaces.items()},
            {f"{name}/{it}": getattr(each, it) for name, each in interfaces.items() for it in ERROR_COUNTERS},
        )

    def tcp(self) -> TcpCounters | None:
        """Not by psutil."""
        return None

    def rdma(self) -> Mapping[str, Port]:
        """None: they are Linux' own."""
        return {}

    def disks(self) -> DiskCounters:
        """Traffic by disk."""
        found = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        return DiskCounters(
            {name: each.read_bytes for name, each in found.items()},
            {name: each.write_bytes for name, each in found.items()},
            {name: each.busy_time for name, each in found.items() if hasattr(each, "busy_time")},
            {
                f"{name}/{way}": ms
                for name, each in found.items()
                for way, ms in (("read", each.read_time), ("write", each.write_time))
            },
        )

    def stalled_us(self) -> dict[str, int]:
        """Nothing: pressure is Linux' own."""
        return {}
