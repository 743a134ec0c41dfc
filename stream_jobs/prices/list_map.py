"""The map of hosted models' list prices: JSON text to exact integers, and back. Pure. Format: LiteLLM's map (MIT).

Prices are read from their text, never through a float, and kept in pico-dollars (1e-12 USD): 2.5e-06 a token is
2,500,000. What cannot be read is listed and stays unknown; it never becomes 0, and a threshold without a readable price
stays a threshold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, DecimalException, InvalidOperation
from hashlib import sha256
from itertools import pairwise
from typing import Any, NoReturn

from stream_jobs.yaml_files.errors import FileError, decoded, quoted

BASES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "input_cost_per_token_cache_hit": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "input_audio",
    "output_cost_per_audio_token": "output_audio",
    "citation_cost_per_token": "citation",
    "input_cost_per_request": "request",
    "input_cost_per_query": "query",
    "input_cost_per_second": "second",
    "output_cost_per_second": "second",
    "input_cost_per_character": "input_character",
    "output_cost_per_character": "output_character",
    "input_cost_per_image": "input_image",
    "output_cost_per_image": "output_image",
    "ocr_cost_per_page": "page",
}
"""Kind of usage by field. A second counts once, whether the map has it as input, as output, or as both."""

TOKEN_KINDS = ("input", "cache_read", "cache_write", "cache_write_1h", "input_audio",
               "output", "reasoning", "output_audio", "citation")  # fmt: skip
TIERS = {"batches": "batch", "batch_requests": "batch", "batch": "batch", "flex": "flex", "priority": "priority"}
STANDARD = "standard"
SERVICE_TIERS = (STANDARD, "batch", "flex", "priority")
TIER_TABLE = "tiered_pricing"

_SUFFIXES = re.compile(r"(?:_above_(?:(?P<hour>1hr)|(?P<above>\d{1,6})k_tokens))|_(?P<tier>" + "|".join(TIERS) + ")")
_LONGEST_FIRST = sorted(BASES, key=len, reverse=True)
_PRICE = re.compile(r"(^|_)(cost|costs|price|prices|pricing)(_|$)")


@dataclass(frozen=True, slots=True)
class Field:
    """What a field prices: ``kind`` in a service ``tier`` for prompts of more than ``above`` tokens."""

    kind: str
    tier: str = STANDARD
    above: int = 0


def field_of(name: str) -> Field | None:
    """What a field of an entry prices: a base, then any of ``_above_1hr``, ``_above_128k_tokens`` and one service tier.
    None where it is none of ours."""
    base = next((one for one in _LONGEST_FIRST if name.startswith(one)), None)
    if base is None:
        return None
    kind, tier, above, at = BASES[base], STANDARD, 0, len(base)
    while at < len(name):
        found = _SUFFIXES.match(name, at)
        if not found or (found["hour"] and kind != "cache_write"):
            return None
        kind = "cache_write_1h" if found["hour"] else kind
        above = int(found["above"]) * 1_000 if found["above"] else above
        tier = TIERS[found["tier"]] if found["tier"] else tier
        at = found.end()
    return Field(kind, tier, above)


def names_a_price(name: str) -> bool:
    """True where a field that is not read looks like a price, so that leaving it out is listed."""
    return bool(_PRICE.search(name))


MAP_BYTES_MAX = 16 * 1024 * 1024
PICO_DIGITS = 12
DIGITS_MAX = 4_300
PUSD = 10**PICO_DIGITS
"""Pico-dollars of a dollar."""
PUSD_OF_NUSD = 1_000
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


@dataclass(frozen=True, slots=True)
class PriceMap:
    """Models by key. ``unread``: ``file:line: model: what could not be read``; ``version`` names the bytes."""

    path: str
    models: Mapping[str, Model]
    unread: tuple[str, ...] = ()
    version: str = ""

    def find(self, model: str, aliases: Mapping[str, str]) -> Model | None:
        """The model's entry: alias, the very key, the key behind its provider's name; then the same without regard to
        capitals where only one key fits. Never another version, host or region of it."""
        name = aliases.get(model, model)
        provider, _, key = name.partition("/")
        if name in self.models:
            return self.models[name]
        if key in self.models and self.models[key].provider == provider:
            return self.models[key]
        close = [one for key, one in self.models.items() if key.casefold() == name.casefold()]
        return close[0] if len(close) == 1 else None


class _Object(dict[str, Any]):
    """A JSON object that knows all its pairs, also those whose key comes again."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def read_map(data: bytes, path: str) -> PriceMap:
    """The models of a map. Raises ``FileError`` where the text as a whole is no map; ``unread`` holds the rest."""
    text = decoded(data, path, MAP_BYTES_MAX)
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=_constant, object_pairs_hook=_Object)
    except (ValueError, RecursionError, DecimalException) as error:  # the last: an exponent of more than 18 digits
        why = getattr(error, "msg", None) or str(error)
        raise FileError(path, (f"{path}:{getattr(error, 'lineno', 1)}", f"this is no JSON: {why}")) from None
    if not isinstance(found, _Object):
        raise FileError(path, (f"{path}:1", "this is no JSON object of models"))
    models: dict[str, Model] = {}
    unread: list[str] = []
    for (key, value), line in zip(found.pairs, _lines(text, [key for key, _ in found.pairs]), strict=True):
        wrong: list[str] = []
        if key in models:
            wrong.append(f"stands already at {models[key].at}; the first one counts")
        elif key != DOCUMENTATION:
            models[key] = _model(key, value, f"{path}:{line}", wrong)
        unread += [f"{path}:{line}: {quoted(key)}: {what}" for what in wrong]
    return PriceMap(path, models, tuple(unread), version_of(data))


def _lines(text: str, keys: Iterable[str]) -> Iterator[int]:
    """The line of each key, found in their order; of one that is written in an unusual way that of the key before."""
    line, at = 1, 0
    for key in keys:
        here = text.find(f"{json.dumps(key, ensure_ascii=False)}:", at)
        if here >= 0:
            line, at = line + text.count("\n", at, here), here
        yield line


def version_of(*data: bytes) -> str:
    """A short name of these bytes: equal bytes have the same, others another one."""
    return sha256(b"".join(sha256(part).digest() for part in data)).hexdigest()[:16]


def _model(key: str, value: Any, at: str, wrong: list[str]) -> Model:
    if not isinstance(value, dict):
        wrong.append("is no object of prices; it has none now")
        return Model(key, at)
    rates = rates_of(value, wrong)
    input_max = None
    if TIER_TABLE in value:
        steps, input_max = _steps(value[TIER_TABLE], wrong)
        rates = {one: rate for one, rate in rates.items() if one.kind not in TOKEN_KINDS} | steps
    if not rates:
        wrong.append("has no price that can be read")
    return Model(key, at, _text(value.get("litellm_provider")), _text(value.get("mode")), rates, input_max)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def rates_of(value: Mapping[str, Any], wrong: list[str]) -> dict[Field, Rate]:
    """The rates among the fields of an entry; ``wrong`` gets what cannot be read."""
    found: dict[Field, Rate] = {}
    for name, amount in value.items():
        what = field_of(name)
        if what is None:
            if names_a_price(name) and name != TIER_TABLE and amount is not None:
                wrong.append(f"{name} is not read")
            continue
        rate = Rate(_pusd(amount, name, wrong), name)
        found[what] = _agreed(found[what], rate, what, wrong) if what in found else rate
    return found


def _agreed(one: Rate, other: Rate, what: Field, wrong: list[str]) -> Rate:
    """Two fields for one thing: equal ones are one, a second's 0 beside a price is none, others are unknown."""
    if one.pusd == other.pusd or (what.kind == "second" and other.pusd == 0):
        return one
    if what.kind == "second" and one.pusd == 0:
        return other
    wrong.append(f"{one.field} and {other.field} differ; neither is used")
    return Rate(None, one.field)


def _pusd(amount: Any, name: str, wrong: list[str]) -> int | None:
    if amount is None:
        return None
    try:
        return pusd_of(amount)
    except ValueError as error:
        wrong.append(f"{name} = {quoted(str(amount))} {error}")
        return None


def pusd_of(amount: Any) -> int:
    """Pico-dollars of a number, or of the text of one, in dollars. Raises ``ValueError`` with what is wrong."""
    if isinstance(amount, bool) or not isinstance(amount, int | Decimal | str):
        raise ValueError("is no number")
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        raise ValueError("is no number") from None
    if not exact.is_finite() or (exact and not -40 < exact.adjusted() < 7):
        raise ValueError("is no price: too large, too small or not finite")
    if exact < 0:
        raise ValueError("is negative")
    if len(exact.as_tuple().digits) <= DIGITS_MAX:
        top, bottom = exact.as_integer_ratio()
        if top * PUSD % bottom == 0:
            return top * PUSD // bottom
    raise ValueError(f"has more digits than a pico-dollar ({PICO_DIGITS} behind the point)")


def _steps(table: Any, wrong: list[str]) -> tuple[dict[Field, Rate], int | None]:
    """Rates of ``tiered_pricing`` by the prompt length above which they hold; nothing where its shape is another."""
    try:
        ordered = sorted(_ranges(table), key=lambda one: one[0])
        if ordered[0][0] != 0 or any(a[1] != b[0] for a, b in pairwise(ordered)):
            raise ValueError("its ranges overlap, leave a gap or do not begin at 0")
    except ValueError as error:
        wrong.append(f"{TIER_TABLE} is not read: {error}")
        return {}, None
    found: dict[Field, Rate] = {}
    for low, high, row in ordered:
        for what, rate in rates_of({k: v for k, v in row.items() if k != "range"}, wrong).items():
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


def map_text(prices: PriceMap) -> str:
    """The map in the format it was read in, one model a line, in the order of its keys.

    Reading it gives the same rates; prices that could not be read stand as null, which keeps them unknown.
    """
    lines = [f"{json.dumps(key)}: {{{', '.join(_fields(prices.models[key]))}}}" for key in sorted(prices.models)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _fields(model: Model) -> Iterable[str]:
    for name, text in (("litellm_provider", model.provider), ("mode", model.mode)):
        if text is not None:
            yield f"{json.dumps(name)}: {json.dumps(text)}"
    steps: dict[str, list[str]] = {}
    for rate in model.rates.values():
        amount = "null" if rate.pusd is None else dollars(rate.pusd)
        span, dot, name = rate.field.removeprefix(TIER_TABLE).partition("].")
        if dot:
            steps.setdefault(span + "]", []).append(f"{json.dumps(name)}: {amount}")
        else:
            yield f"{json.dumps(rate.field)}: {amount}"
    if steps:
        rows = [f'{{"range": {span}, {", ".join(fields)}}}' for span, fields in steps.items()]
        yield f"{json.dumps(TIER_TABLE)}: [{', '.join(rows)}]"


def dollars(pusd: int) -> str:
    """Pico-dollars as dollars in plain decimal digits, exactly."""
    whole, part = divmod(pusd, PUSD)
    return f"{whole}.{part:0{PICO_DIGITS}d}".rstrip("0").rstrip(".")
