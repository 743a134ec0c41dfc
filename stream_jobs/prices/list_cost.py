"""What a request would cost at list price, line by line, in exact pico-dollars. Pure.

Rules: cached, cache-writing and audio tokens are inside ``input_tokens``, reasoning and audio ones inside
``output_tokens``. A prompt longer than a threshold has *all* its tokens at the price above it. Prices of a service
tier and of a threshold are never borrowed from another one: what has no price of its own is missing, and then the cost
of the request is unknown. One exception, as the vendors bill it: a model without any price for reasoning tokens bills
them as output. Prices by the second or character count only for models that have no price by the token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stream_jobs.prices.amounts import half_even
from stream_jobs.prices.list_fields import STANDARD, TOKEN_KINDS, Field
from stream_jobs.prices.list_map import Model, PriceMap, Rate

SECOND_MS = 1_000
PUSD_OF_NUSD = 1_000
ALTERNATIVES = ("second", "input_character", "output_character")
ALWAYS_TOLD = (*TOKEN_KINDS, "request")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request used; None is unknown. Raises ``ValueError`` where parts are more than their total.

    Queries, images and pages that are not told are taken as none where the model has prices by the token.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    cache_write_1h_tokens: int | None = 0
    input_audio_tokens: int | None = 0
    reasoning_tokens: int | None = 0
    output_audio_tokens: int | None = 0
    citation_tokens: int | None = 0
    billed_ms: int | None = None
    requests: int | None = 1
    queries: int | None = None
    input_characters: int | None = None
    output_characters: int | None = None
    input_images: int | None = None
    output_images: int | None = None
    pages: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} is negative")
        for total, parts in ((self.input_tokens, self._inside_input), (self.output_tokens, self._inside_output)):
            if total is not None and sum(part or 0 for part in parts) > total:
                raise ValueError("cached, audio or reasoning tokens are more than the tokens they are part of")

    @property
    def _inside_input(self) -> tuple[int | None, ...]:
        return (self.cache_read_tokens, self.cache_write_tokens, self.cache_write_1h_tokens, self.input_audio_tokens)

    @property
    def _inside_output(self) -> tuple[int | None, ...]:
        return self.reasoning_tokens, self.output_audio_tokens

    def quantities(self) -> dict[str, int | None]:
        """How much of each kind is priced; ``second`` in milliseconds."""
        return {
            "input": _rest(self.input_tokens, self._inside_input),
            "cache_read": self.cache_read_tokens,
            "cache_write": self.cache_write_tokens,
            "cache_write_1h": self.cache_write_1h_tokens,
            "input_audio": self.input_audio_tokens,
            "output": _rest(self.output_tokens, self._inside_output),
            "reasoning": self.reasoning_tokens,
            "output_audio": self.output_audio_tokens,
            "citation": self.citation_tokens,
            "request": self.requests,
            "query": self.queries,
            "second": self.billed_ms,
            "input_character": self.input_characters,
            "output_character": self.output_characters,
            "input_image": self.input_images,
            "output_image": self.output_images,
            "page": self.pages,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a list cost. None: not told, or no such price; ``quantity`` of ``second`` is in milliseconds."""

    kind: str
    quantity: int | None
    each_pusd: int | None
    cost_pusd: int | None
    field: str | None


@dataclass(frozen=True, slots=True)
class ListCost:
    """What a request costs at list price. ``cost_pusd`` is None when any line is; ``missing`` says which and why."""

    model: str
    tier: str
    lines: tuple[Line, ...]
    cost_pusd: int | None
    missing: tuple[str, ...]

    @property
    def cost_nusd(self) -> int | None:
        """The same in nano-dollars, half to even."""
        return None if self.cost_pusd is None else half_even(self.cost_pusd, PUSD_OF_NUSD)


def list_cost(
    prices: PriceMap,
    model: str,
    usage: Usage,
    tier: str = STANDARD,
    provider: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> ListCost | None:
    """Cost of one request at list price; None where the map does not know the model (rules: ``found``).

    For many requests find each model once, then ask ``cost_of``: an unknown name is looked for in the whole map.
    """
    entry = found(prices, model, provider, aliases or {})
    return cost_of(entry, usage, tier) if entry else None


def found(prices: PriceMap, model: str, provider: str | None, aliases: Mapping[str, str]) -> Model | None:
    """The model's entry: alias, the very key, ``provider/model``, the key behind its provider's name; then the same
    without regard to capitals where only one key fits. Never another version, host or region of it.
    """
    asked = aliases.get(model, model)
    names = [asked, *([f"{provider}/{asked}"] if provider else [])]
    for name in names:
        if name in prices.models:
            return prices.models[name]
    first, slash, rest = asked.partition("/")
    behind = prices.models.get(rest) if slash else None
    if behind and behind.provider == first:
        return behind
    wanted = {name.casefold() for name in names}
    close = [one for key, one in prices.models.items() if key.casefold() in wanted]
    return close[0] if len(close) == 1 else None


def cost_of(model: Model, usage: Usage, tier: str = STANDARD) -> ListCost:
    """Cost of one request by the prices of this entry."""
    lines = tuple(_lines(model, usage, tier))
    missing = tuple(_why(model, one, tier) for one in lines if one.cost_pusd is None)
    if not model.rates:
        missing = (f"{model.key} has no price in the map", *missing)
    costs = [one.cost_pusd for one in lines if one.cost_pusd is not None]
    return ListCost(model.key, tier, lines, None if missing else sum(costs), missing)


def _lines(model: Model, usage: Usage, tier: str) -> Iterator[Line]:
    priced = frozenset(one.kind for one in model.rates)
    by_token = priced <= frozenset(TOKEN_KINDS) or any(
        rate.pusd != 0 for one, rate in model.rates.items() if one.kind in TOKEN_KINDS
    )
    step = _step(model, usage.input_tokens)
    for kind, quantity in usage.quantities().items():
        if quantity == 0 or (kind in ALTERNATIVES and by_token) or (kind == "request" and kind not in priced):
            continue
        if quantity is None and not (kind in priced and (kind in ALWAYS_TOLD or not by_token)):
            continue
        if kind in TOKEN_KINDS and not by_token and kind not in priced:
            continue  # priced by the second, page or query: tokens are no part of its bill
        yield _line(kind, quantity, _rate(model, kind, tier, step))


def _line(kind: str, quantity: int | None, rate: Rate | None) -> Line:
    each = rate.pusd if rate else None
    cost = None if each is None or quantity is None else each * quantity
    cost = 0 if each == 0 else cost  # nothing a piece is nothing in all, however many they were
    if kind == "second" and cost is not None:
        cost = half_even(cost, SECOND_MS)
    return Line(kind, quantity, each, cost, rate.field if rate else None)


def _step(model: Model, input_tokens: int | None) -> int | None:
    """The threshold that the prompt is above; None where its length is not told or the map ends before it."""
    thresholds = model.thresholds
    if len(thresholds) == 1 and model.input_max is None:
        return 0
    if input_tokens is None or (model.input_max is not None and input_tokens > model.input_max):
        return None
    return max((one for one in thresholds if input_tokens > one), default=0)


def _rate(model: Model, kind: str, tier: str, step: int | None) -> Rate | None:
    if kind in TOKEN_KINDS:
        named = kind
        if kind == "reasoning" and not any(one.kind == kind for one in model.rates):
            named = "output"
        return None if step is None else model.rates.get(Field(named, tier, step))
    return model.rates.get(Field(kind, tier, step or 0)) or model.rates.get(Field(kind, tier))


def _why(model: Model, line: Line, tier: str) -> str:
    if line.quantity is None:
        return f"{line.kind}: how much was used is not told"
    if line.field is not None:
        return f"{line.kind}: {line.field} of {model.key} cannot be read"
    return f"{line.kind}: {model.key} has no {tier} price for a prompt of this length"


def _rest(total: int | None, parts: tuple[int | None, ...]) -> int | None:
    """The tokens that are none of the parts; None where one of them is not told."""
    if total is None or None in parts:
        return None
    return total - sum(part or 0 for part in parts)
