"""What the same tokens would have cost at the list price of a hosted model, beside what they cost here. Pure.

A prompt longer than a threshold has all its tokens at the price above it, nothing is borrowed from another threshold,
and what has no price makes the cost unknown. A hosted model without any price for cached tokens has no cache: there
the whole prompt is billed as computed, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_jobs.prices.amounts import half_even
from stream_jobs.prices.list_map import PUSD_OF_NUSD, STANDARD, TOKEN_KINDS, Field, Model
from stream_jobs.prices.model import Prices

NO_CACHE = "the hosted model has no cache price: the whole prompt is billed"


@dataclass(frozen=True, slots=True)
class ListSide:
    """A model's list cost, of so many ``requests``. ``cost_nusd`` None: why stands in ``note``. ``key``: the entry in
    the map of list prices."""

    model: str
    key: str | None
    cost_nusd: int | None
    note: str
    requests: int = 0


def entries_of(prices: Prices, models: Iterable[str]) -> dict[str, Model | None]:
    """The map's entry of each model; None where it has none."""
    listed = prices.list_map
    return {name: None if listed is None else listed.find(name, prices.aliases) for name in sorted(set(models))}


def bounds_of(entries: Mapping[str, Model | None]) -> list[int]:
    """Prompt lengths above which some of these models has another price, or none, growing; 0 is always one."""
    listed = [one for one in entries.values() if one]
    ends = {one.input_max for one in listed if one.input_max is not None}
    return sorted({0} | ends | {bound for one in listed for bound in one.thresholds})


def list_sides(
    entries: Mapping[str, Model | None], rows: Sequence[Mapping[str, Any]], lacks: str = ""
) -> list[ListSide]:
    """The list cost of every model, from rows of ``cost_list_tokens`` for ``bounds_of`` these entries. ``lacks``: why
    these rows are not of the whole range, which makes the cost unknown; empty: they are."""
    return [_side(name, entry, [row for row in rows if row["model"] == name], lacks) for name, entry in entries.items()]


def list_side_of_request(prices: Prices, request: Mapping[str, Any]) -> ListSide:
    """The list cost of one request, a row of ``llm_requests``: None where it failed, for which hosts bill nothing."""
    model, tokens = request["model"], request["input_tokens"]
    entry = entries_of(prices, [model])[model]
    if request["status"] not in ("ok", "aborted"):
        return ListSide(model, entry.key if entry else None, None, "hosts bill nothing for a request that failed")
    bounds = [bound for bound in bounds_of({model: entry}) if bound < (tokens or 0)]
    row = {
        "model": model,
        "above": max(bounds, default=-1),
        "requests": 1,
        "unreported": int(tokens is None or request["output_tokens"] is None),
        "input_tokens": tokens or 0,
        "cached_tokens": min(request["cached_tokens"] or 0, tokens or 0),
        "output_tokens": request["output_tokens"] or 0,
    }
    return _side(model, entry, [row])


def _side(name: str, entry: Model | None, rows: Sequence[Mapping[str, Any]], lacks: str = "") -> ListSide:
    if entry is None:
        return ListSide(name, None, None, "no list price; add an alias to the price file")
    if not any(field.kind in TOKEN_KINDS and rate.pusd for field, rate in entry.rates.items()):
        return ListSide(name, entry.key, None, "the hosted model is not priced by the token")
    if lacks:
        return ListSide(name, entry.key, None, lacks)
    if unreported := sum(row["unreported"] for row in rows):
        return ListSide(name, entry.key, None, f"{unreported} requests did not report their tokens")
    cached = any(field.kind == "cache_read" for field in entry.rates)
    total = 0
    for row in rows:
        cost = _row(entry, row, cached=cached)
        if cost is None:
            return ListSide(name, entry.key, None, f"no price for prompts above {row['above']:,} tokens")
        total += cost
    requests = sum(row["requests"] for row in rows)
    return ListSide(name, entry.key, half_even(total, PUSD_OF_NUSD), "" if cached else NO_CACHE, requests)


def _row(entry: Model, row: Mapping[str, Any], *, cached: bool) -> int | None:
    """Pico-dollars; None where a price is missing."""
    step = max(bound for bound in entry.thresholds if bound <= max(0, row["above"]))
    if entry.input_max is not None and row["above"] >= entry.input_max:
        return None
    read = row["cached_tokens"] if cached else 0
    amounts = {"input": row["input_tokens"] - read, "cache_read": read, "output": row["output_tokens"]}
    costs = [_cost(entry, Field(kind, STANDARD, step), amount) for kind, amount in amounts.items() if amount]
    each = entry.rates.get(Field("request", STANDARD, 0))
    if each is not None:
        costs.append(None if each.pusd is None else each.pusd * row["requests"])
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _cost(entry: Model, field: Field, amount: int) -> int | None:
    rate = entry.rates.get(field)
    return None if rate is None or rate.pusd is None else rate.pusd * amount
