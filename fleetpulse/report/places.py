"""By place: energy and what was emitted for it, and which price was in force, in which line of which file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schemas.limits import HOUR_MS
from stream_jobs.prices.model import Price, Prices

Row = dict[str, Any]


def emissions(places: Sequence[Mapping[str, Any]]) -> list[Row]:
    """By region: energy of the GPUs, at the meter (with PUE), and CO2e, each as bills have it.

    ``meter_mj`` and ``carbon_ug`` are None where some of the region's energy has no PUE or no intensity.
    """
    found: dict[str | None, Row] = {}
    for row in places:
        region = row["region"]
        place = found.setdefault(region, {"region": region, "gpu_ms": 0, "energy_mj": 0, "meter_mj": 0, "carbon_ug": 0})
        place["gpu_ms"] += row["gpu_ms"]
        if row["energy_mj"] is not None:
            _add(place, row)
    measured = {row["region"] for row in places if row["energy_mj"] is not None}
    for region in found.keys() - measured:
        found[region] |= dict.fromkeys(("energy_mj", "meter_mj", "carbon_ug"))
    return sorted(found.values(), key=lambda place: place["region"] or "")


def _add(place: Row, row: Mapping[str, Any]) -> None:
    """A null of which nothing is lacking is 0: bills without energy."""
    place["energy_mj"] += row["energy_mj"]
    for name, lacking in (("meter_mj", "unmetered_energy_mj"), ("carbon_ug", "uncounted_energy_mj")):
        place[name] = None if row[lacking] or place[name] is None else place[name] + (row[name] or 0)


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
