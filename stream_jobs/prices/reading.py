"""A price file's sections as entries: every mistake told with its line, nothing guessed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stream_jobs.prices.amounts import MICRO_DIGITS, Money, in_usd, measured, money, number
from stream_jobs.prices.amounts import USD as DOLLARS
from stream_jobs.prices.bill import PUE_ONE
from stream_jobs.prices.model import ANY, Entry, words_of
from stream_jobs.prices.periods import Period, bounds, in_a_row
from stream_jobs.prices.tariff import Band, apart, band_keys, days_of, minutes_of, required, zone_of
from stream_jobs.yaml_files.nodes import Listing, Node, Scalar, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, quoted
from stream_jobs.yaml_files.scalars import known_keys, sentence, table, word

ENTRIES_MAX = 10_000
PUE_MAX = 10
GPUS_MAX = 1_024
"""GPUs of one host; a rack of 72 counts as one where it is priced as one."""

Rates = Mapping[str, tuple[Period, ...]]
"""Nano-dollars of one unit of each other currency, by period."""


@dataclass(frozen=True, slots=True)
class Section:
    """What a section of the file is made of. ``unit``: behind the amount, or None for a bare number."""

    selectors: tuple[str, ...]
    unit: str | None
    money: bool = True
    hours: bool = False
    shared: bool = False
    """Whether it has ``gpus``: how many share it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of an entry."""
        return (
            *self.selectors,
            *(("gpus",) if self.shared else ()),
            *(("timezone",) if self.hours else ()),
            "periods",
            "source",
        )


SECTIONS = {
    "gpu_hour": Section(("gpu", "region", "commitment"), "GPU-hour"),
    "host_hour": Section(("gpu", "region"), "host-hour", shared=True),
    "energy": Section(("region",), "kWh", hours=True),
    "pue": Section(("region",), None, money=False),
    "grid": Section(("region",), "gCO2e/kWh", money=False),
}


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads sections with what stands at the top of the file."""

    rates: Rates
    default_commitment: str
    told: Problems

    def entries(self, name: str, node: Node | None) -> list[Entry]:
        """The valid entries of a section."""
        found = [self._entry(name, one) for one in listed(node, name, self.told)]
        return [one for one in found if one]

    def _entry(self, name: str, node: Node) -> Entry | None:
        section = SECTIONS[name]
        with self.told.collected():
            entry = table(node, f"an entry of {name}")
            for wrong in known_keys(entry, f"an entry of {name}", section.keys):
                self.told.add(wrong.at, wrong.what)
            periods = self._periods(section, required(entry, "periods"))
            return replace(self._selected(name, entry), periods=periods)
        return None

    def _selected(self, name: str, entry: Table) -> Entry:
        def text(key: str, missing: str) -> str:
            node = entry.get(key)
            return missing if node is None else " ".join(word(node, key).split())

        section = SECTIONS[name]
        source = entry.get("source")
        zone = entry.get("timezone") if section.hours else None
        if name == "gpu_hour":
            required(entry, "gpu")
        gpu = text("gpu", ANY) if "gpu" in section.selectors else ANY
        if gpu != ANY and not words_of(gpu):
            raise WrongError(entry.at, f"gpu {quoted(gpu)} has no word in it; write it like H100, or * for any")
        return Entry(
            section=name,
            periods=(),
            at=entry.at,
            gpu=gpu,
            region=text("region", ANY),
            commitment=text("commitment", self.default_commitment) if "commitment" in section.selectors else ANY,
            timezone=zone_of(zone) if zone else "UTC",
            source=None if source is None else sentence(source, "source"),
            gpus=_gpus(entry.get("gpus")) if section.shared else None,
        )

    def _periods(self, section: Section, node: Node) -> tuple[Period, ...]:
        if not isinstance(node, Listing) or not node.items:
            raise WrongError(node.at, "periods must be a list of `{from: 2026-01-01, value: ...}` with one or more")
        found = []
        for one in node.items:
            with self.told.collected():
                found.append(self._period(section, table(one, "a period")))
        complete = len(found) == len(node.items)
        ordered = in_a_row(found, self.told, "value: null" if complete else "")
        return tuple(piece for one in ordered for piece in exchanged(one, self.rates))

    def _period(self, section: Section, node: Table) -> Period:
        keys = ("from", "until", "value", *(("hours",) if section.hours else ()))
        for wrong in known_keys(node, "a period", keys):
            self.told.add(wrong.at, wrong.what)
        from_ms, until_ms = bounds(node)
        value = required(node, "value")
        bands = self._bands(section, node.get("hours")) if section.hours else ()
        if isinstance(value, Scalar) and value.null:
            if bands:
                raise WrongError(value.at, "value is null but has hours; give the price outside them")
            return Period(from_ms, until_ms, None, value.at)
        amount, currency, said = self._value(section, value)
        return Period(from_ms, until_ms, amount, value.at, said, currency, bands)

    def _value(self, section: Section, node: Node) -> tuple[int, str | None, str]:
        if section.money and section.unit:
            found = self._money(section.unit, node)
            return found.nano, found.currency, found.said
        said = word(node, "value")
        if section.unit:
            return measured(node, "value", section.unit, MICRO_DIGITS), None, said
        micro = number(node, "value", MICRO_DIGITS)
        if not PUE_ONE <= micro <= PUE_MAX * PUE_ONE:
            raise WrongError(node.at, f"a PUE of {said} cannot be; it is total over machine energy, 1 to {PUE_MAX}")
        return micro, None, said

    def _money(self, unit: str, node: Node) -> Money:
        return money(node, "value", unit, (DOLLARS, *self.rates))

    def _bands(self, section: Section, node: Node | None) -> tuple[Band, ...]:
        found: list[Band] = []
        for one in listed(node, "hours", self.told):
            with self.told.collected():
                band = table(one, "hours")
                for wrong in known_keys(band, "hours", band_keys()):
                    self.told.add(wrong.at, wrong.what)
                paid = self._money(section.unit or "", required(band, "value"))
                days, (start, end) = days_of(band.get("days")), minutes_of(required(band, "hours"))
                found.append(Band(days, start, end, paid.nano, paid.at, paid.said, paid.currency))
        apart(found, self.told)
        return tuple(found)


def _gpus(node: Node | None) -> int | None:
    if node is None:
        return None
    gpus = number(node, "gpus", 0)
    if not 1 <= gpus <= GPUS_MAX:
        raise WrongError(node.at, f"gpus must be 1 to {GPUS_MAX}: how many GPUs share such a host")
    return gpus


def listed(node: Node | None, what: str, told: Problems) -> Sequence[Node]:
    """The items of a list; nothing is an empty one."""
    if node is None or (isinstance(node, Scalar) and node.null):
        return ()
    if not isinstance(node, Listing):
        told.add(node.at, f"{what} must be a list")
        return ()
    if len(node.items) > ENTRIES_MAX:
        told.add(node.at, f"{what} has more than {ENTRIES_MAX} entries; split the file")
        return ()
    return node.items


def exchanged(one: Period, rates: Rates) -> list[Period]:
    """The period in dollars, cut where an exchange rate changes; None where there is no rate."""
    currencies = {c for c in (one.currency, *(band.currency for band in one.bands)) if c not in (None, DOLLARS)}
    if one.value is None or not currencies:
        return [one]
    marks = {at for name in currencies if name for rate in rates[name] for at in (rate.from_ms, rate.until_ms)}
    inside = sorted(at for at in marks if at is not None and at != one.from_ms and one.holds(at))
    starts = [one.from_ms, *inside]
    ends = [*inside, one.until_ms]
    return [_in_usd(replace(one, from_ms=a, until_ms=b), rates) for a, b in zip(starts, ends, strict=True)]


def _in_usd(one: Period, rates: Rates) -> Period:
    """A piece within which every rate is the same."""
    used = {name: rate_at(rates, name, one.from_ms) for name in (one.currency, *(b.currency for b in one.bands))}
    if any(rate is None for rate in used.values()):
        return replace(one, value=None, bands=())
    bands = tuple(replace(b, value=in_usd(b.value, used[b.currency] or 0)) for b in one.bands)
    return replace(one, value=in_usd(one.value or 0, used[one.currency] or 0), bands=bands)


def rate_at(rates: Rates, name: str | None, at_ms: int) -> int | None:
    """Nano-dollars of one unit of a currency; None where no rate holds."""
    if name is None or name == DOLLARS:
        return 10**9
    return next((rate.value for rate in rates[name] if rate.holds(at_ms)), None)
