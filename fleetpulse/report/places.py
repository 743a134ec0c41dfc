"""By place: energy and what was emitted for it, and which price was in force, in which line of which file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schemas.limits import HOUR_MS
from stream_jobs.prices.amounts import PUE_ONE, emitted_ug, half_even
from stream_jobs.prices.model import Price, Prices

Row = dict[str, Any]


def emissions(places: Sequence[Mapping[str, Any]], prices: Prices) -> list[Row]:
    """By region: energy of the GPUs, at the meter (times PUE), and CO2e by the grid's intensity of each hour, exact.

    ``meter_mj`` and ``co2e_ug`` are None where some of the region's energy has no PUE or no intensity.
    """
    found: dict[str | None, Row] = {}
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


def _add(place: Row, energy_mj: int, region: str | None, hour_ms: int, prices: Prices) -> None:
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


def sources(places: Sequence[Mapping[str, Any]], prices: Prices) -> list[Row]:
    """A row for each price that held somewhere in the range, or for what had none there (``text`` None)."""
    found: dict[tuple[Any, ...], Row] = {}
    for place in places:
        for hour_ms in range(place["first_ms"] // HOUR_MS * HOUR_MS, place["last_ms"] + 1, HOUR_MS):
            for row in _held(place["region"], place["gpu_model"], prices, max(hour_ms, place["first_ms"])):
                key = (row["section"], row["gpu_model"], row["region"], row["at"], row["text"])
                found.setdefault(key, row)
    return sorted(found.values(), key=lambda row: [str(row[name] or "") for name in ("section", "gpu_model", "region")])


def _held(region: str | None, gpu_model: str, prices: Prices, at_ms: int) -> Iterator[Row]:
    sections: dict[str, tuple[str | None, Callable[[], Price | None]]] = {
        "GPU": (gpu_model, lambda: prices.gpu_nusd_per_hour(gpu_model, region, None, at_ms)),
        "host": (gpu_model, lambda: prices.host_nusd_per_hour(gpu_model, region, at_ms)),
        "energy": (None, lambda: prices.energy_nusd_per_kwh(region, at_ms)),
        "PUE": (None, lambda: prices.pue_micro(region, at_ms)),
        "grid": (None, lambda: prices.grid_ugco2e_per_kwh(region, at_ms)),
    }
    for section, (gpu, price_of) in sections.items():
        price = price_of()
        fields = {name: getattr(price, name, None) for name in ("text", "amount", "unit", "source", "at")}
        yield {"section": section, "gpu_model": gpu, "region": region, **fields}
