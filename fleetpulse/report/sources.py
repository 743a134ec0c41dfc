"""Which prices were in force in a range, and in which line of which file each stands. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schemas.limits import HOUR_MS
from stream_jobs.prices.model import Price, Prices

Row = dict[str, Any]


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
    asked: dict[str, tuple[str | None, Callable[[], Price | None]]] = {
        "GPU": (gpu_model, lambda: prices.gpu_nusd_per_hour(gpu_model, region, None, at_ms)),
        "host": (gpu_model, lambda: prices.host_nusd_per_hour(gpu_model, region, at_ms)),
        "energy": (None, lambda: prices.energy_nusd_per_kwh(region, at_ms)),
        "PUE": (None, lambda: prices.pue_micro(region, at_ms)),
        "grid": (None, lambda: prices.grid_ugco2e_per_kwh(region, at_ms)),
    }
    for section, (gpu, price_of) in asked.items():
        price = price_of()
        yield {
            "section": section,
            "gpu_model": gpu,
            "region": region,
            "text": None if price is None else price.text,
            "amount": None if price is None else price.amount,
            "unit": None if price is None else price.unit,
            "source": None if price is None else price.source,
            "at": None if price is None else price.at,
        }
