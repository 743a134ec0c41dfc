"""Effective-dated prices, and which of them holds. Pure.

Which entry counts, by rule: of the entries that fit, the one that names the GPU by more words, then the one that names
the region instead of ``*``. An entry names a GPU by words: ``H100`` fits ``NVIDIA H100 80GB HBM3``, ``A100 40GB`` only
a model with both. The first entry with a period at that moment decides; a period that is null decides too. Where two
entries fit equally well nothing is guessed: the price is unknown.

A period is [from, until), in whole minutes, so that a bill of one minute has one price.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import groupby
from zoneinfo import ZoneInfo

from stream_jobs.prices.amounts import half_even
from stream_jobs.prices.list_map import PriceMap

ANY = "*"
DEFAULT_COMMITMENT = "on_demand"
EXAMPLE = "example-"
"""What the version of example prices begins with, and so `prices_version` of every bill rated by them."""
MINUTE_MS = 60_000
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UNITS = {
    "gpu_hour": "nUSD/GPU-hour",
    "host_hour": "nUSD/host-hour",
    "energy": "nUSD/kWh",
    "pue": "millionths",
    "grid": "ugCO2e/kWh",
}
"""The tiny unit of each section's amounts."""
_WORD = re.compile(r"[a-z0-9.]+")


def is_example(version: str) -> bool:
    """Whether these are the shipped example prices, which nobody charges: of a price file, or of a bill rated by it."""
    return version.startswith(EXAMPLE)


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
    text: str
    source: str | None = None
    gpus: int | None = None
    """Of a host: how many GPUs share it."""


@dataclass(frozen=True, slots=True)
class Band:
    """``value`` from minute ``start`` to before minute ``end`` of the ``days`` (0 is Monday)."""

    days: frozenset[int]
    start: int
    end: int
    value: int
    at: str
    text: str


@dataclass(frozen=True, slots=True)
class Period:
    """``value`` in the section's tiny unit, None where it is unknown; ``text`` is what it was read from."""

    from_ms: int
    until_ms: int | None
    value: int | None
    at: str
    text: str = "null"
    bands: tuple[Band, ...] = ()

    def holds(self, at_ms: int) -> bool:
        """True within [from, until)."""
        return self.from_ms <= at_ms and (self.until_ms is None or at_ms < self.until_ms)


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
    def name(self) -> str:
        """Its section and what it is for."""
        named = " / ".join(part for part in (self.gpu, self.region, self.commitment) if part != ANY)
        return f"{self.section} {named or ANY}"

    @property
    def words(self) -> frozenset[str]:
        """The words that a model's name must have; none for ``*``."""
        return words_of(self.gpu)

    def fits(self, words: frozenset[str], region: str | None, commitment: str) -> bool:
        """True where it is for that GPU, region and commitment. An unknown region fits ``*`` only."""
        return self.words <= words and self.region in (ANY, region or ANY) and self.commitment in (ANY, commitment)

    @property
    def closeness(self) -> tuple[int, bool]:
        """Greater is closer."""
        return len(self.words), self.region != ANY


@dataclass(frozen=True, slots=True)
class Prices:
    """Everything in a price file. ``warnings``: what stays unpriced, and what looks like a mistake.

    ``version`` names the bytes of the file and of its map: what a bill was rated with. A price holds until its
    ``until_ms``; a lookup takes tens of microseconds, so callers with many lookups remember its result.
    """

    entries: tuple[Entry, ...] = ()
    warnings: tuple[str, ...] = ()
    default_commitment: str = DEFAULT_COMMITMENT
    list_map: PriceMap | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    version: str = ""

    @property
    def example(self) -> bool:
        """Whether the file says that nobody charges these prices."""
        return is_example(self.version)

    def gpu_nusd_per_hour(self, gpu_model: str, region: str | None, commitment: str | None, at_ms: int) -> Price | None:
        """Nano-dollars of a GPU-hour; ``commitment`` None is the file's default one. None: unpriced."""
        return self._price("gpu_hour", gpu_model, region, commitment or self.default_commitment, at_ms)

    def host_nusd_per_hour(self, gpu_model: str | None, region: str | None, at_ms: int) -> Price | None:
        """Nano-dollars of an hour of a host beside its GPUs (``gpu_model``: which it carries). None: unpriced."""
        return self._price("host_hour", gpu_model or "", region, ANY, at_ms)

    def host_nusd_per_gpu_hour(self, gpu_model: str | None, region: str | None, at_ms: int) -> Price | None:
        """What each GPU of a host pays of its hour, half to even. None: unpriced, or the file has no ``gpus``."""
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

    def _price(self, section: str, gpu: str, region: str | None, commitment: str, at_ms: int) -> Price | None:
        words = words_of(gpu)
        fitting = [one for one in self.entries if one.section == section and one.fits(words, region, commitment)]
        fitting.sort(key=lambda one: one.closeness, reverse=True)
        closer: list[Period] = []
        for _, group in groupby(fitting, key=lambda one: one.closeness):
            entries = [*group]
            closer += [period for one in entries for period in one.periods]
            found = [(one, period) for one in entries if (period := in_force(one.periods, at_ms))]
            if found:
                price = price_of(*found[0], at_ms) if len(found) == 1 else None
                return None if price is None else _between(closer, price, at_ms)
        return None


def _between(others: Sequence[Period], price: Price, at_ms: int) -> Price:
    """The price, said to hold no longer than none of these periods does, which would go before it or beside it."""
    ended = [one.until_ms for one in others if one.until_ms is not None and one.until_ms <= at_ms]
    begin = [one.from_ms for one in others if one.from_ms > at_ms]
    until = [end for end in (price.until_ms, min(begin, default=None)) if end is not None]
    return replace(price, from_ms=max([price.from_ms, *ended]), until_ms=min(until, default=None))


def in_force(periods: Sequence[Period], at_ms: int) -> Period | None:
    """The period that holds; None before the first and behind the last."""
    return next((one for one in periods if one.holds(at_ms)), None)


def price_of(entry: Entry, period: Period, at_ms: int) -> Price | None:
    """The price in a period at that minute; None where it is unknown."""
    if period.value is None:
        return None
    unit = UNITS[entry.section]
    if not period.bands:
        ends = period.from_ms, period.until_ms
        return Price(period.value, unit, *ends, period.at, period.text, entry.source, entry.gpus)
    band = band_at(period.bands, entry.timezone, at_ms)
    value, at, text = (band.value, band.at, band.text) if band else (period.value, period.at, period.text)
    minute = at_ms - at_ms % MINUTE_MS
    return Price(value, unit, minute, minute + MINUTE_MS, at, text, entry.source)


def band_at(bands: Sequence[Band], zone: str, at_ms: int) -> Band | None:
    """The band that holds then in that time zone. ``at_ms`` within the calendar."""
    if not bands:
        return None
    local = datetime.fromtimestamp(at_ms // 1_000, zone_of(zone))
    minute = local.hour * 60 + local.minute
    return next((b for b in bands if local.weekday() in b.days and b.start <= minute < b.end), None)


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """A time zone. Raises ``ValueError``, ``OSError`` or ``KeyError`` for an unknown one."""
    return ZoneInfo(name)


@lru_cache(maxsize=4_096)
def words_of(name: str) -> frozenset[str]:
    """The words of a GPU's name, in small letters, without blanks, hyphens and ``*``."""
    return frozenset(_WORD.findall(name.lower()))


def instant_of(text: str) -> int:
    """Milliseconds since 1970 of ``2026-01-01`` (midnight UTC) or ``2026-01-01T06:00:00Z``, a whole minute.

    Raises ``ValueError`` or ``OverflowError``.
    """
    if len(text) == len("2026-01-31"):
        day = date.fromisoformat(text)
        found = datetime(day.year, day.month, day.day, tzinfo=UTC)
    else:
        found = datetime.fromisoformat(text)
    seconds = found.timestamp()
    if found.tzinfo is None or seconds < 0 or seconds % 60:
        raise ValueError(text)
    return int(seconds) * 1_000


def instant_text(at_ms: int) -> str:
    """The shortest of both ways to write it; beyond the calendar the number itself."""
    try:
        text = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return text.removesuffix("T00:00:00Z")
