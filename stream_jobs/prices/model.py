"""Effective-dated prices, and which of them holds. Pure.

Which entry counts, by rule: of the entries that fit, the one that names the GPU by more words, then the one that names
the region instead of ``*``. An entry names a GPU by words: ``H100`` fits ``NVIDIA H100 80GB HBM3``, ``A100 40GB`` only
a model with both. The first entry with a period at that moment decides; a period that says ``null`` decides too. Where
two entries fit equally well nothing is guessed: the price is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby

from stream_jobs.prices.amounts import half_even
from stream_jobs.prices.list_map import PriceMap
from stream_jobs.prices.periods import MINUTE_MS, Period, in_force
from stream_jobs.prices.tariff import Band, band_at

ANY = "*"
DEFAULT_COMMITMENT = "on_demand"
_WORD = re.compile(r"[a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class Price:
    """An amount that holds in [from_ms, until_ms), with the line and the text it was read from.

    ``amount`` is in ``unit``; ``until_ms`` None is without end. With hours of the day it holds for that minute only.
    """

    amount: int
    unit: str
    from_ms: int
    until_ms: int | None
    at: str
    said: str
    source: str | None = None
    gpus: int | None = None
    """Of a host: how many GPUs share it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a section: what it is for, and its periods in order."""

    section: str
    periods: tuple[Period, ...]
    at: str
    gpu: str = ANY
    region: str = ANY
    commitment: str = ANY
    timezone: str = "UTC"
    source: str | None = None
    gpus: int | None = None

    @property
    def words(self) -> frozenset[str]:
        """The words that a model's name must have; none for ``*``."""
        return words_of(self.gpu)

    @property
    def key(self) -> tuple[str, frozenset[str], str, str]:
        """What may be in a file once."""
        return self.section, self.words, self.region, self.commitment

    def fits(self, words: frozenset[str], region: str | None, commitment: str) -> bool:
        """True where it is for that GPU, region and commitment. An unknown region fits ``*`` only."""
        return self.words <= words and self.region in (ANY, region or ANY) and self.commitment in (ANY, commitment)

    @property
    def closeness(self) -> tuple[int, bool]:
        """Greater is closer."""
        return len(self.words), self.region != ANY


UNITS = {
    "gpu_hour": "nUSD/GPU-hour",
    "host_hour": "nUSD/host-hour",
    "energy": "nUSD/kWh",
    "pue": "millionths",
    "grid": "ugCO2e/kWh",
}
"""The tiny unit of each section's amounts."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Everything a price file says. ``warnings``: what stays unpriced, and what looks like a mistake.

    ``version`` names the bytes of the file and of its map: what a bill was rated with. A price holds until its
    ``until_ms``, so whoever asks often (a lookup takes tens of microseconds) remembers it by what was asked.
    """

    entries: tuple[Entry, ...] = ()
    warnings: tuple[str, ...] = ()
    default_commitment: str = DEFAULT_COMMITMENT
    list_map: PriceMap | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    def gpu_nusd_per_hour(self, gpu_model: str, region: str | None, commitment: str | None, at_ms: int) -> Price | None:
        """Nano-dollars of a GPU-hour; ``commitment`` None is the file's default one. None: unpriced."""
        return self._price("gpu_hour", gpu_model, region, commitment or self.default_commitment, at_ms)

    def host_nusd_per_hour(self, gpu_model: str | None, region: str | None, at_ms: int) -> Price | None:
        """Nano-dollars of an hour of a host beside its GPUs (``gpu_model``: which it carries). None: unpriced."""
        return self._price("host_hour", gpu_model or "", region, ANY, at_ms)

    def host_nusd_per_gpu_hour(self, gpu_model: str | None, region: str | None, at_ms: int) -> Price | None:
        """What each GPU of a host pays of its hour, half to even. None: unpriced, or nobody says how many share it."""
        price = self.host_nusd_per_hour(gpu_model, region, at_ms)
        if price is None or (price.gpus is None and price.amount):
            return None
        return replace(price, amount=half_even(price.amount, price.gpus or 1), unit=UNITS["gpu_hour"])

    def energy_nusd_per_kwh(self, region: str | None, at_ms: int) -> Price | None:
        """Nano-dollars of a kilowatt-hour in that minute. None: unpriced."""
        return self._price("energy", "", region, ANY, at_ms)

    def pue_micro(self, region: str | None, at_ms: int) -> Price | None:
        """Millionths: energy at the meter over energy of the machines. None: unknown."""
        return self._price("pue", "", region, ANY, at_ms)

    def grid_ugco2e_per_kwh(self, region: str | None, at_ms: int) -> Price | None:
        """Micrograms of CO2e of a kilowatt-hour. None: unknown."""
        return self._price("grid", "", region, ANY, at_ms)

    def in_section(self, section: str) -> tuple[Entry, ...]:
        """Entries of a section in the file's order."""
        return tuple(one for one in self.entries if one.section == section)

    def _price(self, section: str, gpu: str, region: str | None, commitment: str, at_ms: int) -> Price | None:
        words = words_of(gpu)
        fitting = [one for one in self.in_section(section) if one.fits(words, region, commitment)]
        fitting.sort(key=lambda one: one.closeness, reverse=True)
        for _, group in groupby(fitting, key=lambda one: one.closeness):
            found = [(one, period) for one in group if (period := in_force(one.periods, at_ms))]
            if found:
                return price_of(*found[0], at_ms) if len(found) == 1 else None
        return None


def price_of(entry: Entry, period: Period, at_ms: int) -> Price | None:
    """What a period says for that minute; None where it says unknown."""
    if period.value is None:
        return None
    unit = UNITS[entry.section]
    if not period.bands:
        ends = period.from_ms, period.until_ms
        return Price(period.value, unit, *ends, period.at, period.said, entry.source, entry.gpus)
    holding: Band | Period = band_at(period.bands, entry.timezone, at_ms) or period
    minute = at_ms - at_ms % MINUTE_MS
    value = holding.value
    assert value is not None
    return Price(value, unit, minute, minute + MINUTE_MS, holding.at, holding.said, entry.source)


@lru_cache(maxsize=4_096)
def words_of(name: str) -> frozenset[str]:
    """The words of a GPU's name, small, without blanks, hyphens and ``*``."""
    return frozenset(_WORD.findall(name.lower()))
