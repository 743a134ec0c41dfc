"""Unit costs from sums of money and tokens. Pure; see ``gather`` for what full cost means. None where not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleetpulse.report.amounts import KG_UG, MILLION, USD_NUSD, per_million, ratio
from schemas.limits import HOUR_MS
from stream_jobs.costs.apportion import apportion_one
from stream_jobs.prices.amounts import KWH_MJ

Row = dict[str, Any]
_UNBILLED: Row = {
    **dict.fromkeys(("gpu_ms", "unpriced_gpu_ms", "priced_gpu_ms", "requests", "prompt_tokens", "decode_tokens"), 0),
    **dict.fromkeys(("priced_tokens", "metered_tokens", "counted_tokens"), 0),
    **dict.fromkeys(("total_nusd", "priced_nusd", "idle_nusd", "energy_mj", "meter_mj", "carbon_ug")),
}
"""A type of GPU that gave no reading."""


def product(one: float | None, other: float | None) -> float | None:
    """None where one is."""
    return None if one is None or other is None else one * other


def total(*parts: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def unit_costs(row: Mapping[str, Any]) -> Row:
    """A row of ``cost_by`` with its prompt tokens added up, and what a request cost and emitted: of those whose bill
    has a cost, and CO2e."""
    return {
        **row,
        "prompt_tokens": total(row["uncached_tokens"], row["cached_tokens"]),
        "usd_per_request": ratio(row["cost_nusd"], row["priced_requests"] * USD_NUSD),
        "g_per_request": ratio(row["carbon_ug"], row["counted_requests"] * KG_UG / 1_000),
    }


def model_costs(row: Mapping[str, Any], full_nusd: int | None) -> Row:
    """A model's row with its full cost."""
    per_request = ratio(full_nusd, row["priced_requests"] * USD_NUSD)
    return {**unit_costs(row), "full_nusd": full_nusd, "full_usd_per_request": per_request}


def full_costs(engines: Sequence[Mapping[str, Any]], served: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Each model's share of the bills of the engines that served it; see ``gather``. Engines without a model stay
    with nobody."""
    found: dict[str, int] = defaultdict(int)
    models = _by_engine(served)
    for engine in engines:
        mine = [row for row in models.get(engine["engine_id"], ()) if row["cost_nusd"]]
        if engine["total_nusd"] is None or not mine:
            continue
        parts = apportion_one(engine["total_nusd"], [row["cost_nusd"] for row in mine])
        for row, part in zip(mine, parts, strict=True):
            found[row["model"]] += part
    return dict(found)


def busy_by_model(measured: Sequence[Mapping[str, Any]], served: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How busy the GPUs of a model's engines were, weighed by GPUs and by the model's share of each engine's cost. Of
    engines whose GPUs say so: one that is cut into MIG instances does not."""
    busy: dict[str, float] = defaultdict(float)
    weight: dict[str, float] = defaultdict(float)
    models = _by_engine(served)
    for one in measured:
        if one["busy"] is None:
            continue
        mine = models.get(one["owner"], ())
        whole = sum(row["cost_nusd"] or 0 for row in mine)
        for row in mine:
            gpus = one["gpus"] * (row["cost_nusd"] or 0) / whole if whole else 0.0
            busy[row["model"]] += one["busy"] * gpus
            weight[row["model"]] += gpus
    return {name: busy[name] / gpus for name, gpus in weight.items() if gpus}


def by_engine(engines: Sequence[Row], of: Callable[..., list[Row]]) -> Iterator[tuple[Row, Sequence[Row]]]:
    """Every engine with the models it served."""
    models = _by_engine(of("cost_engine_models"))
    for engine in engines:
        yield engine, models.get(engine["engine_id"], ())


def engine_costs(row: Mapping[str, Any], served: Sequence[Mapping[str, Any]]) -> Row:
    """An engine's row with its models, tokens, and what a million tokens of it cost in full, of bills with a cost."""
    tokens = sum(one["prompt_tokens"] + one["decode_tokens"] for one in served)
    return {
        **row,
        "models": [one["model"] for one in served],
        "requests": sum(one["requests"] for one in served),
        "tokens": tokens,
        "usd_per_million_tokens": per_million(row["total_nusd"], sum(one["priced_tokens"] for one in served)),
        "used": ratio(row["request_nusd"], row["total_nusd"]),
    }


def with_silence(rows: Sequence[Row], coverage: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of GPU types, each with what its silent GPUs cost beside the bill; types of which there is no bill behind
    them."""
    silent: dict[str, int | None] = {}
    for one in (each for each in coverage if each["silent_gpu_ms"]):
        silent[one["gpu_model"]] = total(silent.get(one["gpu_model"]), one["unobserved_nusd"])
    unbilled = silent.keys() - {row["gpu_model"] for row in rows}
    listed = [*rows, *(_UNBILLED | {"gpu_model": name} for name in sorted(unbilled))]
    return [{**row, "unobserved_nusd": silent.get(row["gpu_model"], 0)} for row in listed]


def gpu_costs(row: Mapping[str, Any]) -> Row:
    """A GPU type's row with what an hour of it came to (of bills that lack no price of a GPU or host), and what a
    million tokens on it cost, took and emitted, of bills that say so."""
    return {
        **row,
        "usd_per_gpu_hour": ratio(row["priced_nusd"], row["priced_gpu_ms"] * USD_NUSD / HOUR_MS),
        "usd_per_million_tokens": per_million(row["total_nusd"], row["priced_tokens"]),
        "kwh_per_million_tokens": ratio(row["meter_mj"], row["metered_tokens"] * KWH_MJ / MILLION),
        "g_per_million_tokens": ratio(row["carbon_ug"], row["counted_tokens"] * KG_UG / 1_000 / MILLION),
    }


def _by_engine(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["engine_id"]].append(dict(row))
    return found
