"""Energy and what was emitted for it, by place. Pure; exact whole micrograms until they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stream_jobs.prices.amounts import PUE_ONE, emitted_ug, half_even
from stream_jobs.prices.model import Prices


def emissions(places: Sequence[Mapping[str, Any]], prices: Prices) -> list[dict[str, Any]]:
    """By region: energy of the GPUs, at the meter (times PUE), and CO2e by the grid's intensity of each hour.

    ``meter_mj`` and ``co2e_ug`` are None where some of the region's energy has no PUE or no intensity.
    """
    found: dict[str | None, dict[str, Any]] = {}
    for row in places:
        place = found.setdefault(
            row["region"],
            {"region": row["region"], "gpu_ms": 0, "energy_mj": None, "meter_mj": 0, "co2e_ug": 0},
        )
        place["gpu_ms"] += row["gpu_ms"]
        if row["energy_mj"] is not None:
            _add(place, row["energy_mj"], row["region"], row["hour_ms"], prices)
    for place in found.values():
        if place["energy_mj"] is None:
            place["meter_mj"] = place["co2e_ug"] = None
    return sorted(found.values(), key=lambda place: place["region"] or "")


def _add(place: dict[str, Any], energy_mj: int, region: str | None, hour_ms: int, prices: Prices) -> None:
    place["energy_mj"] = (place["energy_mj"] or 0) + energy_mj
    pue, grid = prices.pue_micro(region, hour_ms), prices.grid_ugco2e_per_kwh(region, hour_ms)
    if pue is None or place["meter_mj"] is None:
        place["meter_mj"] = place["co2e_ug"] = None
        return
    place["meter_mj"] += half_even(energy_mj * pue.amount, PUE_ONE)
    if grid is None or place["co2e_ug"] is None:
        place["co2e_ug"] = None
        return
    place["co2e_ug"] += emitted_ug(grid.amount, energy_mj, pue.amount)
