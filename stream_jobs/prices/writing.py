"""Price maps as text: only what was read, with every price as an exact decimal. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from stream_jobs.prices.list_fields import TIER_TABLE
from stream_jobs.prices.list_map import PUSD, Model, PriceMap

PICO_DIGITS = 12


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
    digits = f"{part:0{PICO_DIGITS}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
