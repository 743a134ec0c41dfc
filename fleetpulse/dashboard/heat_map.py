"""The heat map of the fleet as a few short texts, and what it says of a GPU. Pure.

A cell is a letter for its colour and one for its state: ten thousand are 60 KB before they are compressed, where a
record for each with its name, link and style was two megabytes that a browser took seconds to take in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fleetpulse.dashboard.fleet_health import verdict_text
from fleetpulse.dashboard.theme import Palette
from fleetpulse.dashboard.values import clean, percent, short, watts

SHADES = 64
UNKNOWN_LEVEL = " "
_FIRST = ord("0")
COLUMNS = (64, 128)
"""Hosts side by side; more of them begin another row. The second where the first would be taller than the map."""
CELL_MAX_PX, CELL_MIN_PX = 22, 6
HEIGHT_PX = 640
_LABELLED_MAX = 16
_STATES = {"missing": "m", "throttled": "w", "hot": "w", "fine": "."}


@dataclass(frozen=True, slots=True)
class GpuMetric:
    """What GPUs are coloured by: ``total`` / ``known`` * ``scale``, in ``unit`` (as ``charts.number_js`` names them).
    ``most`` ends the colour scale; None: the greatest value seen."""

    title: str
    total: str
    known: str
    scale: float
    unit: str
    most: float | None


def _gauge(title: str, column: str, scale: float, unit: str, most: float | None = None) -> GpuMetric:
    return GpuMetric(title, f"{column}_sum", f"{column}_count", scale, unit, most)


GPU_METRICS: dict[str, GpuMetric] = {
    "busy": _gauge("Utilization", "util_gpu_pct", 0.01, "share", 1.0),
    "memory": GpuMetric("Memory in use", "memory_used_bytes_sum", "memory_total_bytes_sum", 1.0, "share", 1.0),
    "power": GpuMetric("Power of its limit", "power_mw_sum", "power_limit_mw_sum", 1.0, "share", 1.0),
    "power_w": _gauge("Power", "power_mw", 1e-3, "W"),
    "temperature": _gauge("Temperature", "temperature_c", 1.0, "°C", 95.0),
    "memory_temperature": _gauge("Memory temperature", "temperature_memory_c", 1.0, "°C", 105.0),
    "throttled": GpuMetric("Throttled by heat or power", "throttled_us_sum", "interval_ms_sum", 1e-3, "share", 1.0),
    "clock": _gauge("SM clock", "clock_sm_mhz", 1.0, "MHz"),
    "sm_active": _gauge("SMs active", "sm_active_ppm", 1e-6, "share", 1.0),
    "tensor_active": _gauge("Tensor cores active", "tensor_active_ppm", 1e-6, "share", 1.0),
    "memory_busy": _gauge("Memory utilization", "util_memory_pct", 0.01, "share", 1.0),
}


def heat_map(gpus: Sequence[Mapping[str, Any]], metric: GpuMetric, palette: Palette) -> dict[str, Any]:
    """Properties of ``gpu_map.js``; cells are in the order of ``gpus``, which stand by host."""
    placed = tiles([str(one["host"]) for one in gpus])
    most = metric.most if metric.most is not None else max((one["value"] or 0 for one in gpus), default=1) or 1
    return {
        "columns": placed.columns,
        "rows": placed.rows,
        "height": placed.rows * placed.cell_px,
        "places": " ".join(str(y * placed.columns + x) for x, y in placed.cells),
        "levels": "".join(level(one["value"], most) for one in gpus),
        "states": "".join(_STATES[one["verdict"]] for one in gpus),
        "shades": " ".join(shades(palette.ramp, SHADES)),
        "hosts": [clean(host) for host in placed.hosts] if placed.labelled else [],
        "least": in_words(0, metric.unit),
        "most": in_words(most, metric.unit),
    }


def level(value: float | None, most: float) -> str:
    """The letter of a value: "0" for 0 or less, 63 letters on for ``most`` or more, a space for what is not known."""
    if value is None:
        return UNKNOWN_LEVEL
    return chr(_FIRST + round((SHADES - 1) * min(1.0, max(0.0, value / most))))


def shades(ramp: Sequence[str], count: int) -> list[str]:
    """So many colours, evenly along a ramp of ``#rrggbb``, both ends included."""
    stops = [tuple(bytes.fromhex(colour[1:])) for colour in ramp]
    found = []
    for number in range(count):
        at = number * (len(stops) - 1) / (count - 1)
        low = min(int(at), len(stops) - 2)
        mixed = (a + (b - a) * (at - low) for a, b in zip(stops[low], stops[low + 1], strict=True))
        found.append("#" + "".join(f"{round(part):02x}" for part in mixed))
    return found


def description(gpu: Mapping[str, Any], metric: GpuMetric) -> list[str]:
    """Lines of plain text about a GPU that somebody looks at."""
    value = "not known" if gpu["value"] is None else in_words(gpu["value"], metric.unit)
    whole = [f"MIG device of {clean(gpu['part_of_gpu'])[:16]}"] if gpu["part_of_gpu"] else []
    return [
        f"{clean(gpu['host'])} · {clean(gpu['gpu_uuid'])[:16]}",
        *whole,
        f"{verdict_text(gpu['verdict'])} · {value}",
        f"engine {clean(gpu['engine'])}",
    ]


def in_words(value: float, unit: str) -> str:
    """A value of a metric as text."""
    return percent(value) if unit == "share" else watts(value) if unit == "W" else f"{short(value)} {unit}".strip()


@dataclass(frozen=True, slots=True)
class Tiles:
    """``cells`` are (x, y) of each GPU in the order given; ``hosts`` the names of the first row's columns, when few."""

    cells: tuple[tuple[int, int], ...]
    columns: int
    rows: int
    hosts: tuple[str, ...]

    @property
    def cell_px(self) -> int:
        """Height of a cell: big for few GPUs, never smaller than a finger or an eye needs."""
        return max(CELL_MIN_PX, min(CELL_MAX_PX, HEIGHT_PX // max(1, self.rows)))

    @property
    def labelled(self) -> bool:
        """Whether columns have room for the names of their hosts."""
        return len(self.hosts) <= _LABELLED_MAX


def tiles(hosts: Sequence[str]) -> Tiles:
    """Places for GPUs whose hosts are given, each host's GPUs standing together."""
    groups = [(host, len(list(found))) for host, found in groupby(hosts)]
    tall = max((count for _, count in groups), default=1)
    columns, bands = _bands(len(groups), tall)
    cells = [
        (number % columns, (number // columns) * (tall + 1) + place)
        for number, (_, count) in enumerate(groups)
        for place in range(count)
    ]
    first = tuple(host for host, _ in groups) if bands == 1 else ()
    return Tiles(tuple(cells), columns, bands * (tall + 1) - 1, first)


def _bands(hosts: int, tall: int) -> tuple[int, int]:
    """Columns, and how many rows of hosts there are, each ``tall`` cells and a gap."""
    for most in COLUMNS:
        bands = max(1, -(-hosts // most))
        if (bands * (tall + 1) - 1) * CELL_MIN_PX <= HEIGHT_PX:
            break
    # A few rows more than one look better filled: 70 hosts stand as 2 x 35, not as 64 + 6.
    return max(1, -(-hosts // bands)), bands
