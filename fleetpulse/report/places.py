"""By place: energy and what was emitted for it, and which price was in force, in which line of which file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schemas.limits import HOUR_MS, MINUTE_MS
from stream_jobs.prices.model import Entry, Price, Prices

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
        for row in _held(place, prices):
            key = (row["section"], row["gpu_model"], row["region"], row["at"], row["text"])
            found.setdefault(key, row)
    return sorted(found.values(), key=lambda row: [str(row[name] or "") for name in ("section", "gpu_model", "region")])


def _held(place: Mapping[str, Any], prices: Prices) -> Iterator[Row]:
    region, gpu_model = place["region"], place["gpu_model"]
    sections: dict[str, tuple[str, str | None, Callable[[int], Price | None]]] = {
        "GPU": ("gpu_hour", gpu_model, lambda at_ms: prices.gpu_nusd_per_hour(gpu_model, region, None, at_ms)),
        "host": ("host_hour", gpu_model, lambda at_ms: prices.host_nusd_per_hour(gpu_model, region, at_ms)),
        "energy": ("energy", None, lambda at_ms: prices.energy_nusd_per_kwh(region, at_ms)),
        "PUE": ("pue", None, lambda at_ms: prices.pue_micro(region, at_ms)),
        "grid": ("grid", None, lambda at_ms: prices.grid_ugco2e_per_kwh(region, at_ms)),
    }
    for section, (of, gpu, price_at) in sections.items():
        entries = [entry for entry in prices.entries if entry.section == of]
        for at_ms in _moments(entries, place["first_ms"], place["last_ms"]):
            price = price_at(at_ms)
            fields = {name: getattr(price, name, None) for name in ("text", "amount", "unit", "source", "at")}
            yield {"section": section, "gpu_model": gpu, "region": region, **fields}


def _moments(entries: Sequence[Entry], first_ms: int, last_ms: int) -> list[int]:
    """The first, and each up to the last at which another price may begin to hold: where periods begin and end, and
    where hours of the day do in any time zone, which are quarters of an hour apart."""
    periods = [period for entry in entries for period in entry.periods]
    edges = {edge for period in periods for band in period.bands for edge in (0, band.start, band.end)}
    minutes = {(edge + quarter) % 60 for edge in edges for quarter in range(0, 60, 15)}
    hours = range(first_ms // HOUR_MS * HOUR_MS, last_ms + 1, HOUR_MS)
    moments = {hour_ms + minute * MINUTE_MS for hour_ms in hours for minute in minutes}
    moments |= {end for period in periods for end in (period.from_ms, period.until_ms) if end is not None}
    return [first_ms, *sorted(at_ms for at_ms in moments if first_ms < at_ms <= last_ms)]
