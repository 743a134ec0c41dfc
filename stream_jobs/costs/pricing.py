"""Prices of a GPU, its part of the host, and its energy, as a price file has them."""

from __future__ import annotations

from collections.abc import Callable

from stream_jobs.costs.account import PriceOf
from stream_jobs.costs.account import Prices as Rates
from stream_jobs.prices.model import Price
from stream_jobs.prices.model import Prices as PriceFile

_REMEMBERED_MAX = 100_000
"""Prices that are remembered; more, and all are looked up again."""

_Key = tuple[str, str | None, str | None]
_Lookup = Callable[[str | None, str | None, int], Price | None]


class Pricing:
    """A ``PriceOf`` of a price file: a price that was found is remembered as long as it holds."""

    def __init__(self, prices: PriceFile) -> None:
        self.version = prices.version
        self._found: dict[_Key, Price] = {}
        self._lookups: dict[str, _Lookup] = {
            "gpu": lambda model, region, at_ms: prices.gpu_nusd_per_hour(model or "", region, None, at_ms),
            "host": prices.host_nusd_per_gpu_hour,
            "energy": lambda _, region, at_ms: prices.energy_nusd_per_kwh(region, at_ms),
            "pue": lambda _, region, at_ms: prices.pue_micro(region, at_ms),
        }

    def __call__(self, gpu_model: str | None, region: str | None, minute_ms: int) -> Rates:
        """Prices at the start of the minute."""
        gpu, host, energy, pue = (self._amount(name, gpu_model, region, minute_ms) for name in self._lookups)
        return Rates(gpu, host, energy, pue)

    def _amount(self, name: str, gpu_model: str | None, region: str | None, at_ms: int) -> int | None:
        key = name, gpu_model, region
        price = self._found.get(key)
        if price is None or not price.from_ms <= at_ms or (price.until_ms is not None and at_ms >= price.until_ms):
            price = self._lookups[name](gpu_model, region, at_ms)
            if price is not None:
                if len(self._found) >= _REMEMBERED_MAX:
                    self._found.clear()
                self._found[key] = price
        return None if price is None else price.amount


def price_of(prices: PriceFile) -> PriceOf:
    """How the cost job asks for prices."""
    return Pricing(prices)
