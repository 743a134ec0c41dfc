"""Readings of GPUs and hosts, counted one by one: how busy, hot, hungry, throttled. Plain loops, no SQL, no formula of
ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from lab.oracle.groups import grouped
from lab.oracle.value import Key

WINDOW_MS = 10_000
Window = tuple[int, str]
"""Where a window begins and whose it is."""
_THROTTLED = {"throttled_pct": "throttled_us", "throttled_fault_pct": "throttled_fault_us"}
"""By anything, and by anything but the power limit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of ``gpu.samples`` that was accepted."""

    at_ms: int
    gpu_uuid: str
    gpu_model: str
    util_gpu_pct: int | None
    temperature_c: int | None
    power_mw: int | None
    energy_mj: int | None
    engine_id: str | None = None
    cluster: str = ""
    region: str = ""
    interval_ms: int | None = None
    throttled_us: int | None = None
    throttled_fault_us: int | None = None
    clock_sm_mhz: int | None = None
    parent_uuid: str | None = None
    """The GPU of which this is a MIG device."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """One row of ``host.samples`` that was accepted."""

    at_ms: int
    host: str
    cpu_busy_ppm: int | None = None
    cpu_core_busy_max_ppm: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    network_tx_bytes: int | None = None
    network_rx_bytes: int | None = None
    network_errors: int | None = None
    interval_ms: int | None = None
    tcp_retransmits: int | None = None
    tcp_segments_out: int | None = None


def readings(samples: Sequence[Sample]) -> dict[Key, float]:
    """By type, by GPU and of all. What nobody knows is not there."""
    windows = by_window(samples)
    timed = {metric: _by_name(throttle_known(windows, us)) for metric, us in _THROTTLED.items()}
    found: dict[Key, float] = {}
    for name, group in _by_name(samples).items():
        found["gpus", name] = len({one.parent_uuid or one.gpu_uuid for one in group})
        if (busy := mean(one.util_gpu_pct for one in group)) is not None:
            found["util_pct", name] = busy
        if hot := [one.temperature_c for one in group if one.temperature_c is not None]:
            found["hottest_c", name] = max(hot)
        if (power := mean(one.power_mw for one in group)) is not None:
            found["power_mw", name] = power
        found["gpu_energy_mj", name] = sum(one.energy_mj or 0 for one in group)
        for metric, us in _THROTTLED.items():
            if (throttled := throttled_pct(timed[metric].get(name, []), us)) is not None:
                found[metric, name] = throttled
        if clocks := [one.clock_sm_mhz for one in group if one.clock_sm_mhz is not None]:
            found["slowest_clock_mhz", name] = min(clocks)
    return found | _peers(samples)


def _by_name(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    return grouped(
        (name, one) for one in samples for name in ("all", f"gpu_model={one.gpu_model}", f"gpu={one.gpu_uuid}")
    )


def hosts(samples: Sequence[HostSample]) -> dict[Key, float]:
    """By host: shares of its processors and memory, bytes a second of the time that readings cover, errors."""
    found: dict[Key, float] = {}
    for of, group in grouped((f"host={one.host}", one) for one in samples).items():
        if (busy := mean(one.cpu_busy_ppm for one in group)) is not None:
            found["host_cpu_share", of] = busy / 1e6
        if cores := [one.cpu_core_busy_max_ppm for one in group if one.cpu_core_busy_max_ppm is not None]:
            found["host_core_share", of] = max(cores) / 1e6
        if whole := sum(one.memory_total_bytes or 0 for one in group):
            found["host_memory_share", of] = sum(one.memory_used_bytes or 0 for one in group) / whole
        if read_ms := sum(one.interval_ms or 0 for one in group):
            found["host_tx_per_s", of] = 1_000 * sum(one.network_tx_bytes or 0 for one in group) / read_ms
            found["host_rx_per_s", of] = 1_000 * sum(one.network_rx_bytes or 0 for one in group) / read_ms
        if sent := sum(one.tcp_segments_out or 0 for one in group):
            found["host_sent_again", of] = sum(one.tcp_retransmits or 0 for one in group) / sent
        found["host_network_errors", of] = sum(one.network_errors or 0 for one in group)
    return found


def mean(values: Iterable[int | None]) -> float | None:
    """Of what is known."""
    known = [one for one in values if one is not None]
    return sum(known) / len(known) if known else None


def throttle_known(windows: Mapping[Window, Sequence[Sample]], us: str = "throttled_us") -> list[Sample]:
    """All readings of windows in which throttled time is known: it may be read but once in each."""
    return [one for own in windows.values() if any(_held(one, us) is not None for one in own) for one in own]


def throttled_pct(known: Sequence[Sample], us: str = "throttled_us") -> float | None:
    """Of the time that these readings cover."""
    read_ms = sum(one.interval_ms or 0 for one in known)
    return 100 * sum(_held(one, us) or 0 for one in known) / 1e3 / read_ms if read_ms else None


def _held(one: Sample, us: str) -> int | None:
    found: int | None = getattr(one, us)
    return found


def by_window(samples: Iterable[Sample]) -> dict[Window, list[Sample]]:
    """Readings of each GPU and window."""
    return grouped(((one.at_ms // WINDOW_MS * WINDOW_MS, one.gpu_uuid), one) for one in samples)


def _peers(samples: Sequence[Sample]) -> dict[Key, float]:
    """The clock of each GPU beside the median of its engine's, window by window."""
    clocks: dict[tuple[int, str], dict[str, float]] = {}
    for (window_ms, gpu), group in by_window(one for one in samples if one.engine_id is not None).items():
        clock = mean(one.clock_sm_mhz for one in group)
        if clock is not None:
            clocks.setdefault((window_ms, str(group[0].engine_id)), {})[gpu] = clock
    pairs: dict[str, list[tuple[float, float]]] = {}
    for (_, engine), each in clocks.items():
        for gpu, clock in each.items():
            pairs.setdefault(f"peer={engine} {gpu}", []).append((clock, median(each.values())))
    found: dict[Key, float] = {}
    for of, both in pairs.items():
        own, others = (sum(values) / len(both) for values in zip(*both, strict=True))
        found |= {("clock_mhz", of): own, ("group_clock_mhz", of): others}
        found["behind_pct", of] = 100 * (own / others - 1)
    return found


def most_throttled(windows: dict[Window, list[Sample]]) -> str | None:
    """The GPU of the window that was throttled the longest; of several of one length the last by its name."""
    held = {key: sum(one.throttled_us or 0 for one in group) for key, group in windows.items()
            if any(one.throttled_us is not None for one in group)}  # fmt: skip
    return max(((us, gpu) for (_, gpu), us in held.items()), default=(0, None))[1]
