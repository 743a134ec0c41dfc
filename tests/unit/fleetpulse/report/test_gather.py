"""The report from answers of queries: what is compared with what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.report.gather import gather, report_query
from schemas.limits import DAY_MS, DEFAULT_LIMITS, MINUTE_MS
from stream_jobs.prices.list_map import read_map

PRICES = Path(__file__).parents[4] / "fleetpulse" / "data" / "prices" / "example.yaml"
MAP = b'{"m": {"mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06}}'
NOW_MS = 20_000 * DAY_MS + 30_000
MODEL = {
    "name": "m", "nobody": 0, "requests": 4, "priced_requests": 4, "counted_requests": 4, "priced_answered": 4,
    "uncached_tokens": 4_000_000, "cached_tokens": 0, "output_tokens": 0,
    "cost_nusd": 8 * 10**9, "energy_mj": None, "carbon_ug": None, "gpu_ms": 1,
}  # fmt: skip
ENGINE = {"engine_id": "e", "total_nusd": 8 * 10**9, "request_nusd": 8 * 10**9}
SERVED = {"engine_id": "e", "model": "m", "cost_nusd": 8 * 10**9, "prompt_tokens": 0, "decode_tokens": 0,
          "priced_tokens": 0, "requests": 4}  # fmt: skip
TOKENS = {"model": "m", "above": 0, "requests": 4, "unreported": 0, "input_tokens": 1_000_000, "cached_tokens": 0,
          "output_tokens": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("from_ms", "first_ms", "compared"),
    [
        (NOW_MS - 30 * DAY_MS, NOW_MS - 30 * DAY_MS, False),
        (NOW_MS - 30 * DAY_MS, NOW_MS - 2 * DAY_MS, True),
        ((NOW_MS - 7 * DAY_MS) // MINUTE_MS * MINUTE_MS, NOW_MS - 7 * DAY_MS, True),
    ],
    ids=["a month", "a month of which two days have bills", "a week"],
)
def test_only_requests_of_the_whole_range_are_compared_with_its_cost(
    from_ms: int, first_ms: int, compared: bool
) -> None:
    """Bills live for two years, single requests for seven days."""

    asked = []

    def ask(name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        asked.append(name)
        if name == "cost_by":
            return [MODEL] if parameters["dimension"] == "model" else []
        bill = {"total_nusd": 1, "prices_versions": [], "first_ms": first_ms}
        answers: dict[str, list[dict[str, Any]]] = {
            "cost_bill": [bill], "cost_by_engine": [ENGINE], "cost_engine_models": [SERVED],
            "cost_list_tokens": [TOKENS],
        }  # fmt: skip
        return answers.get(name, [])

    query = report_query((from_ms, NOW_MS), NOW_MS, PRICES, limits=DEFAULT_LIMITS)
    priced = replace(query, prices=replace(query.prices, list_map=read_map(MAP, "map.json")))

    (model,) = gather(ask, priced)["models"]

    assert (model["list_nusd"], model["break_even_traffic"]) == ((10**9, 8.0) if compared else (None, None))
    assert ("kept for 7 days" in model["list_note"]) is not compared
    assert ("cost_list_tokens" in asked) is compared, "all requests are read for an answer that nobody takes"
    assert not {"cost_goodput", "cost_goodput_windows"} & {*asked}, "no class, no verdict"


@pytest.mark.parametrize(
    ("answered", "requests", "times"),
    [(4, 4, 8.0), (4, 8, 16.0), (2, 4, 16.0), (0, 4, None)],
    ids=["all have a bill", "half have none", "half of the billed failed", "all of the billed failed"],
)
def test_a_hosted_model_is_compared_by_answered_requests(answered: int, requests: int, times: float | None) -> None:
    """A bill of four is not set against the list price of eight, of which four ran beside GPUs that nobody reads."""

    def ask(name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        bill = {"total_nusd": 1, "prices_versions": [], "first_ms": NOW_MS - DAY_MS}
        answers: dict[str, list[dict[str, Any]]] = {
            "cost_bill": [bill], "cost_by_engine": [ENGINE], "cost_engine_models": [SERVED],
            "cost_list_tokens": [TOKENS | {"requests": requests}],
            "cost_by": [MODEL | {"priced_answered": answered}] if parameters.get("dimension") == "model" else [],
        }  # fmt: skip
        return answers.get(name, [])

    query = report_query((NOW_MS - DAY_MS, NOW_MS), NOW_MS, PRICES, limits=DEFAULT_LIMITS)
    priced = replace(query, prices=replace(query.prices, list_map=read_map(MAP, "map.json")))

    (model,) = gather(ask, priced)["models"]

    assert (model["full_nusd"], model["list_nusd"], model["break_even_traffic"]) == (8 * 10**9, 10**9, times)
