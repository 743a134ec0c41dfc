"""The map of hosted models' list prices: JSON text to exact integers. Pure. Format: LiteLLM's price map (MIT).

Prices are read from their text, never through a float, and kept in pico-dollars (1e-12 USD): 2.5e-06 a token is
2,500,000. What cannot be read is told and stays unknown; it never becomes 0, and a threshold whose price is unreadable
stays a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import pairwise
from typing import Any

from stream_jobs.prices.list_fields import TIER_TABLE, TOKEN_KINDS, Field, field_of, speaks_of_price
from stream_jobs.prices.list_json import MapTextError, entries_of
from stream_jobs.prices.problems import PricesError
from stream_jobs.yaml_files.problems import quoted

MAP_BYTES_MAX = 16 * 1024 * 1024
PUSD = 10**12
"""Pico-dollars of a dollar."""

PRICE_MAX_PUSD = 1_000_000 * PUSD
DOCUMENTATION = "sample_spec"
"""An entry that explains the format; no model."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Pico-dollars of one token, second, request and so on; None where the map's value cannot be read."""

    pusd: int | None
    field: str


@dataclass(frozen=True, slots=True)
class Model:
    """List prices of one key. ``input_max``: prompts above it have no price (tables of tiers end there)."""

    key: str
    at: str
    provider: str | None = None
    mode: str | None = None
    rates: Mapping[Field, Rate] = field(default_factory=dict)
    input_max: int | None = None

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Prompt lengths above which other token prices hold, growing; 0 is always one."""
        return tuple(sorted({0} | {one.above for one in self.rates if one.kind in TOKEN_KINDS}))

    def kinds(self, tier: str) -> frozenset[str]:
        """What the tier prices."""
        return frozenset(one.kind for one in self.rates if one.tier == tier)


@dataclass(frozen=True, slots=True)
class PriceMap:
    """Models by key. ``unread``: ``file:line: model: what could not be read``; ``version`` names the bytes."""

    path: str
    models: Mapping[str, Model]
    unread: tuple[str, ...] = ()
    version: str = ""


def read_map(data: bytes, path: str) -> PriceMap:
    """The models of a map. Raises ``PricesError`` where the text as a whole is no map; ``unread`` holds the rest."""
    if len(data) > MAP_BYTES_MAX:
        raise PricesError(path, (f"{path}:1: the map is larger than {MAP_BYTES_MAX} bytes; split it",))
    models: dict[str, Model] = {}
    unread: list[str] = []
    try:
        for key, value, line in entries_of(data):
            if key == DOCUMENTATION:
                continue
            at = f"{path}:{line}"
            told: list[str] = []
            if key in models:
                told.append(f"stands already at {models[key].at}; the first one counts")
            else:
                models[key] = _model(key, value, at, told)
            unread += [f"{at}: {quoted(key)}: {said}" for said in told]
    except MapTextError as error:
        raise PricesError(path, (f"{path}:{error.line}: {error}",)) from None
    return PriceMap(path, models, tuple(unread), version_of(data))


def version_of(*data: bytes) -> str:
    """A short name of these bytes: equal bytes have the same, others another one."""
    return sha256(b"".join(sha256(part).digest() for part in data)).hexdigest()[:16]


def _model(key: str, value: Any, at: str, told: list[str]) -> Model:
    if not isinstance(value, dict):
        told.append("is no object of prices; it has none now")
        return Model(key, at)
    rates = _rates(value, told)
    input_max = None
    if TIER_TABLE in value:
        steps, input_max = _steps(value[TIER_TABLE], told)
        rates = {one: rate for one, rate in rates.items() if one.kind not in TOKEN_KINDS} | steps
    if not rates:
        told.append("has no price that can be read")
    return Model(key, at, _text(value.get("litellm_provider")), _text(value.get("mode")), rates, input_max)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _rates(value: Mapping[str, Any], told: list[str]) -> dict[Field, Rate]:
    found: dict[Field, Rate] = {}
    for name, given in value.items():
        what = field_of(name)
        if what is None:
            if speaks_of_price(name) and name != TIER_TABLE and given is not None:
                told.append(f"{name} is not read")
            continue
        rate = Rate(_pusd(given, name, told), name)
        found[what] = _agreed(found[what], rate, what, told) if what in found else rate
    return found


def _agreed(one: Rate, other: Rate, what: Field, told: list[str]) -> Rate:
    """Two fields for one thing: equal ones are one, a second's 0 beside a price is none, others are unknown."""
    if one.pusd == other.pusd or (what.kind == "second" and other.pusd == 0):
        return one
    if what.kind == "second" and one.pusd == 0:
        return other
    told.append(f"{one.field} and {other.field} differ; neither is used")
    return Rate(None, one.field)


def _pusd(given: Any, name: str, told: list[str]) -> int | None:
    if given is None:
        return None
    try:
        return pusd_of(given)
    except ValueError as error:
        told.append(f"{name} = {quoted(str(given))} {error}")
        return None


def pusd_of(given: Any) -> int:
    """Pico-dollars of a number, or of the text of one, in dollars. Raises ``ValueError`` with what is wrong."""
    if isinstance(given, bool) or not isinstance(given, int | Decimal | str):
        raise ValueError("is no number")
    try:
        exact = Decimal(given)
    except InvalidOperation:
        raise ValueError("is no number") from None
    if not exact.is_finite() or (exact and not -40 < exact.adjusted() < 7):
        raise ValueError("is no price: too large, too small or not finite")
    if exact.is_signed() and exact:
        raise ValueError("is negative")
    sign, digits, exponent = exact.as_tuple()
    assert not sign or not exact
    assert isinstance(exponent, int)
    return _shifted(int("".join(map(str, digits))), exponent + 12)


def _shifted(digits: int, exponent: int) -> int:
    if exponent >= 0:
        return digits * 10**exponent
    whole, left = divmod(digits, 10 ** min(-exponent, 4_300))
    if left:
        raise ValueError("has more digits than a pico-dollar (12 behind the point)")
    return whole


def _steps(table: Any, told: list[str]) -> tuple[dict[Field, Rate], int | None]:
    """Rates of ``tiered_pricing`` by the prompt length above which they hold; nothing where its shape is another."""
    try:
        ordered = sorted(_ranges(table), key=lambda one: one[0])
    except ValueError as error:
        told.append(f"{TIER_TABLE} is not read: {error}")
        return {}, None
    if ordered[0][0] != 0 or any(a[1] != b[0] for a, b in pairwise(ordered)):
        told.append(f"{TIER_TABLE} is not read: its ranges overlap, leave a gap or do not begin at 0")
        return {}, None
    found: dict[Field, Rate] = {}
    for low, high, row in ordered:
        for what, rate in _rates({k: v for k, v in row.items() if k != "range"}, told).items():
            found[Field(what.kind, what.tier, low)] = Rate(rate.pusd, f"{TIER_TABLE}[{low}, {high}].{rate.field}")
    return found, ordered[-1][1]


def _ranges(table: Any) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    if not isinstance(table, list) or not table:
        raise ValueError("it is no list")
    for row in table:
        span = row.get("range") if isinstance(row, dict) else None
        if not isinstance(span, list) or len(span) != 2:
            raise ValueError("a row has no `range` of two token counts")
        low, high = (_count(end) for end in span)
        if low >= high:
            raise ValueError("a range does not grow")
        yield low, high, row


def _count(end: Any) -> int:
    if isinstance(end, bool) or not isinstance(end, int | Decimal) or not 0 <= end < 10**12 or end != int(end):
        raise ValueError("a range is no pair of token counts")
    return int(end)
