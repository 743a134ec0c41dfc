"""The heat map of the fleet as a few short texts, and what it says of a GPU. Pure.

A cell is a letter for its colour and one for its state: ten thousand are 60 KB before they are compressed, where a
record for each with its name, link and style was two megabytes that a browser took seconds to take in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.fleet_health import verdict_text
from fleetpulse.dashboard.gpu_metrics import GpuMetric
from fleetpulse.dashboard.theme import Palette
from fleetpulse.dashboard.tiles import tiles
from fleetpulse.dashboard.values import clean, percent, short, watts

SHADES = 64
UNKNOWN_LEVEL = " "
_FIRST = ord("0")
_STATES = {"missing": "m", "throttled": "w", "hot": "w", "fine": "."}


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
    return [
        f"{clean(gpu['host'])} · {clean(gpu['gpu_uuid'])[:16]}",
        f"{verdict_text(gpu['verdict'])} · {value}",
        f"engine {clean(gpu['engine'])}",
    ]


def in_words(value: float, unit: str) -> str:
    """A value of a metric as text."""
    return percent(value) if unit == "share" else watts(value) if unit == "W" else f"{short(value)} {unit}".strip()
