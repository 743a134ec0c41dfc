"""The shape of a price file, as in ``docs/prices.md``: single values, and values beside one another.

Pure but for the table of time zones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo

from stream_jobs.prices.amounts import MICRO_DIGITS, NANO_DIGITS, PUE_ONE, half_even, scaled
from stream_jobs.prices.model import (
    ANY,
    DAYS,
    DEFAULT_COMMITMENT,
    UNITS,
    Band,
    Entry,
    Period,
    instant_of,
    instant_text,
    words_of,
    zone_of,
)
from stream_jobs.yaml_files import fields
from stream_jobs.yaml_files.errors import nearest, quoted
from stream_jobs.yaml_files.sections import Section
from stream_jobs.yaml_files.tree import Word

ENTRIES_MAX = 10_000
PUE_MAX = 10
GPUS_MAX = 1_024
"""GPUs of one host; a rack of 72 counts as one where it is priced as one."""
USD = "USD"
PUE_MUST = f"1 to {PUE_MAX}: energy at the meter over that of the machines"
TWICE = "put all periods into one entry"
DAY_MINUTES = 24 * 60
_MONEY = re.compile(r"(\S+)\s+([^\s/]+)/(\S+)")
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_HOURS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)


Rates = Mapping[str, tuple[Period, ...]]
"""Nano-dollars of one unit of a currency, by period."""


@dataclass(frozen=True, slots=True)
class Amount:
    """``value`` in the section's tiny unit, of a ``currency`` where it is money."""

    value: int
    text: Word
    currency: str = USD


def money(unit: str) -> PlainValidator:
    """Validates an amount like ``2.49 USD/GPU-hour``; other currencies than dollars must be among the context's."""

    def amount(value: Any, info: ValidationInfo) -> Amount:
        text = fields.word(value)
        found = _MONEY.fullmatch(text)
        if not found:
            raise ValueError(f"{quoted(text)} must be like `2.49 {USD}/{unit}`")
        currency, known = found[2], {USD, *(info.context or ())}
        if not _CURRENCY.fullmatch(currency):
            raise ValueError(f"currency {quoted(currency)} is not known; {nearest(currency, known)}")
        if currency not in known:
            raise ValueError(f"currency '{currency}' has no exchange rate in this file; add it under exchange_rates")
        if found[3] != unit:
            raise ValueError(f"unit {quoted(found[3])} is not known here; write {unit}")
        return Amount(scaled(found[1], NANO_DIGITS), text, currency)

    return PlainValidator(amount)


def bare(unit: str, digits: int, low: int, high: float, must: str) -> PlainValidator:
    """Validates a number with ``unit`` behind it, times ten to ``digits`` within bounds."""

    def amount(value: Any) -> Amount:
        text = fields.word(value)
        first, _, rest = text.partition(" ")
        if rest.strip() != unit or not low <= scaled(first, digits) <= high:
            raise ValueError(f"{quoted(text)} must be {must}")
        return Amount(scaled(first, digits), text)

    return PlainValidator(amount)


Emissions = Annotated[Amount, bare("gCO2e/kWh", MICRO_DIGITS, 0, inf, "a number and its unit, like `380 gCO2e/kWh`")]
PueAmount = Annotated[Amount, bare("", MICRO_DIGITS, PUE_ONE, PUE_MAX * PUE_ONE, PUE_MUST)]
Rate = Annotated[Amount, bare("", NANO_DIGITS, 1, inf, "above 0: how many dollars one unit of the currency is")]
Instant = fields.parsed(instant_of, "must be a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)")


def _days(value: Any) -> frozenset[int]:
    """``mon-fri``, ``sat,sun``."""
    found: set[int] = set()
    for part in fields.word(value).lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        for day in (first, last) if dash else (first,):
            if day not in DAYS:
                raise ValueError(f"{quoted(part)} is not known; {nearest(day, DAYS)}")
        start, end = DAYS.index(first), DAYS.index(last if dash else first)
        found |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(found)


def _minutes(text: str) -> tuple[int, int] | None:
    """``07:00-22:00`` as minutes of the day; 24:00 ends it."""
    found = _HOURS.fullmatch(text)
    hour, minute, last_hour, last_minute = map(int, found.groups()) if found else (0, 0, 0, 0)
    start, end = hour * 60 + minute, last_hour * 60 + last_minute
    return (start, end) if start < end <= DAY_MINUTES and minute < 60 and last_minute < 60 else None


def _currency(text: str) -> str | None:
    return text if _CURRENCY.fullmatch(text) and text != USD else None


def _label(value: Any) -> str:
    return " ".join(fields.word(value).split())


Label = Annotated[str, PlainValidator(_label)]


def _gpu(value: Any) -> str:
    text = _label(value)
    if text != ANY and not words_of(text):
        raise ValueError(f"{quoted(text)} has no word in it; write it like H100, or {ANY} for any")
    return text


def _commitment(value: Any) -> str:
    text = _label(value)
    if text == ANY:
        raise ValueError(f"{ANY} is no commitment; leave it out where it is the file's default_commitment")
    return text


def _later(until_ms: int, info: ValidationInfo) -> int:
    if until_ms <= info.data.get("from_ms", -1):
        raise ValueError("must come after from; the end itself no longer belongs to the period")
    return until_ms


A = TypeVar("A", bound=Amount)


class Hours(Section, Generic[A]):
    """Hours of the week with an amount of their own, in the time of the place."""

    days: Annotated[frozenset[int], PlainValidator(_days)] = frozenset(range(7))
    hours: Annotated[
        tuple[int, int],
        fields.parsed(_minutes, "must be like 07:00-22:00, to 24:00 at the latest; write a night as two"),
    ]
    value: A


def _apart(bands: tuple[Hours[Any], ...], info: ValidationInfo) -> tuple[Hours[Any], ...]:
    if bands and info.data.get("value", bands) is None:
        raise ValueError("value is null but has hours; give what holds outside them")
    wrong = [
        (after.place, f"these hours overlap the band at {one.place}; a minute has one amount")
        for one, after in combinations(bands, 2)
        if one.days & after.days and one.hours[0] < after.hours[1] and after.hours[0] < one.hours[1]
    ]
    return fields.none_wrong(bands, wrong)


class Span(Section, Generic[A]):
    """A period: until None holds until the next one begins, the last one without end. ``value`` None is unknown."""

    from_ms: Annotated[int, Instant] = Field(alias="from")
    until_ms: Annotated[int | None, Instant, AfterValidator(_later)] = Field(None, alias="until")
    value: A | None

    @property
    def bands(self) -> tuple[Hours[Any], ...]:
        """Hours with an amount of their own."""
        return getattr(self, "hours", ())

    def amounts(self) -> list[Amount]:
        """Outside of bands first, then of each band; none where it is unknown."""
        return [self.value, *(band.value for band in self.bands)] if self.value else []

    def period(self, from_ms: int, until_ms: int | None, rates: Rates) -> Period:
        """In dollars at the rates of ``from_ms``; unknown where there is no rate."""
        values = [_in_usd(amount, rates, from_ms) for amount in self.amounts()]
        at, text = (self.value.text.at, str(self.value.text)) if self.value else (self.place, "null")
        known = [value for value in values if value is not None]
        if not values or len(known) < len(values):
            return Period(from_ms, until_ms, None, at, text)
        bands = zip(self.bands, known[1:], strict=True)
        made = (Band(one.days, *one.hours, value, one.value.text.at, str(one.value.text)) for one, value in bands)
        return Period(from_ms, until_ms, known[0], at, text, tuple(made))


class HourlySpan(Span[A]):
    """A period within which hours of the week may have an amount of their own."""

    hours: Annotated[tuple[Hours[A], ...], fields.up_to(ENTRIES_MAX), AfterValidator(_apart)] = ()


class RateSpan(Span[Any]):
    """Dollars of one unit of another currency."""

    value: Rate | None = Field(alias="usd")


def _in_usd(amount: Amount, rates: Rates, at_ms: int) -> int | None:
    rate = next((rate.value for rate in rates[amount.currency] if rate.holds(at_ms)), None)
    return None if rate is None else half_even(amount.value * rate, 10**NANO_DIGITS)


S = TypeVar("S", bound=Span[Any])


def _in_a_row(spans: tuple[S, ...]) -> tuple[S, ...]:
    """In order of time. Raises ``WrongError`` for overlaps, and for gaps that are not written as unknown."""
    ordered = tuple(sorted(spans, key=lambda one: one.from_ms))
    wrong = []
    for one, after in pairwise(ordered):
        begins = instant_text(after.from_ms)
        if one.from_ms == after.from_ms or (one.until_ms or 0) > after.from_ms:
            end = f"end that one with `until: {begins}` or remove one"
            wrong.append((after.place, f"begins at {begins} and overlaps the period at {one.place}; {end}"))
        elif one.until_ms is not None and one.until_ms < after.from_ms:
            key = type(one).model_fields["value"].alias or "value"
            gap = f"{{from: {instant_text(one.until_ms)}, until: {begins}, {key}: null}}"
            wrong.append((after.place, f"a gap before it, behind the period at {one.place}; close it or write {gap}"))
    return fields.none_wrong(ordered, wrong)


Spans = Annotated[tuple[S, ...], fields.some("{from: 2026-01-01, value: ...}"), AfterValidator(_in_a_row)]


def timeline(spans: Sequence[Span[Any]], rates: Rates) -> Iterator[Period]:
    """Periods in dollars, cut where an exchange rate changes. One without an end ends where the next begins."""
    for number, one in enumerate(spans, 1):
        until_ms = one.until_ms or (spans[number].from_ms if number < len(spans) else None)
        currencies = {amount.currency for amount in one.amounts()}
        changes = {at for name in currencies for rate in rates[name] for at in (rate.from_ms, rate.until_ms)}
        inside = sorted(at for at in changes if at and one.from_ms < at and (until_ms is None or at < until_ms))
        starts = [one.from_ms, *inside]
        yield from (one.period(start, end, rates) for start, end in zip(starts, [*inside, until_ms], strict=True))


class PriceEntry(Section):
    """What every entry has. Fields of the others are named as those of ``Entry``."""

    region: Label = ANY
    source: Annotated[str | None, PlainValidator(fields.sentence)] = None
    periods: tuple[Span[Any], ...]

    def key(self, commitment: str) -> tuple[frozenset[str], str, str]:
        """What may be in a section once; ``commitment``: the file's default one."""
        given = dict(self)
        return words_of(given.get("gpu", ANY)), self.region, given.get("commitment") or commitment

    def entry(self, section: str, rates: Rates, commitment: str) -> Entry:
        """In dollars; ``commitment``: the file's default one."""
        given = dict(self) | {"periods": tuple(timeline(self.periods, rates))}
        if "commitment" in given:
            given["commitment"] = given["commitment"] or commitment
        return Entry(section=section, at=self.place, **given)


class GpuHour(PriceEntry):
    """A price of GPUs."""

    gpu: Annotated[str, PlainValidator(_gpu)]
    commitment: Annotated[str | None, PlainValidator(_commitment)] = None
    periods: Spans[Span[Annotated[Amount, money("GPU-hour")]]]


class HostHour(PriceEntry):
    """A price of a host beside its GPUs, which ``gpus`` share."""

    gpu: Annotated[str, PlainValidator(_gpu)] = ANY
    gpus: Annotated[int | None, fields.whole(1, GPUS_MAX)] = None
    periods: Spans[Span[Annotated[Amount, money("host-hour")]]]


Zone = Annotated[str, fields.parsed(lambda text: zone_of(text).key, "is not known; write it like Europe/Berlin or UTC")]


class Energy(PriceEntry):
    """A tariff."""

    timezone: Zone = "UTC"
    periods: Spans[HourlySpan[Annotated[Amount, money("kWh")]]]


class Pue(PriceEntry):
    """Energy at the meter over energy of the machines."""

    periods: Spans[Span[PueAmount]]


class Grid(PriceEntry):
    """Emissions of a kilowatt-hour."""

    timezone: Zone = "UTC"
    periods: Spans[HourlySpan[Emissions]]


class ExchangeRate(Section):
    """What other currencies are worth."""

    currency: Annotated[str, fields.parsed(_currency, f"must be three capital letters like EUR, other than {USD}")]
    periods: Spans[RateSpan]
    source: Annotated[str | None, PlainValidator(fields.sentence)] = None


class ListPrices(Section):
    """A map of hosted models beside the file, and names that they have here."""

    map: fields.Text
    aliases: Mapping[str, fields.Text] = Field({})


E = TypeVar("E", bound=PriceEntry)


SectionOf = Annotated[
    tuple[E, ...],
    fields.up_to(ENTRIES_MAX),
    fields.once(lambda one, info: one.key(info.data.get("default_commitment", "")), TWICE),
]


class PriceFile(Section):
    """The whole file. Sections of prices are named as in ``Entry``."""

    example: fields.Flag = False
    """Whether these are prices that nobody charges: what is rated by them says so."""
    exchange_rates: Annotated[
        tuple[ExchangeRate, ...], fields.up_to(ENTRIES_MAX), fields.once(lambda one, _: one.currency, TWICE)
    ] = ()
    default_commitment: Annotated[str, PlainValidator(_commitment)] = DEFAULT_COMMITMENT
    gpu_hour: SectionOf[GpuHour] = ()
    host_hour: SectionOf[HostHour] = ()
    energy: SectionOf[Energy] = ()
    pue: SectionOf[Pue] = ()
    grid: SectionOf[Grid] = ()
    list_prices: ListPrices | None = None

    def entries(self) -> tuple[Entry, ...]:
        """All entries in dollars, section by section."""
        rates: dict[str, tuple[Period, ...]] = {USD: (Period(0, None, 10**NANO_DIGITS, ""),)}
        for one in self.exchange_rates:
            rates[one.currency] = tuple(timeline(one.periods, rates))
        return tuple(one.entry(name, rates, self.default_commitment) for name in UNITS for one in getattr(self, name))
