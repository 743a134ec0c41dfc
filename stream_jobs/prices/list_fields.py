"""Price fields of the map of hosted models, as data. Pure. Format: LiteLLM ``model_prices_and_context_window.json``.

A field is a base, then any of ``_above_1hr``, ``_above_128k_tokens`` and one service tier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    """What a field of an entry prices; None where it is none of ours."""
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
