"""Who is behind a rise, in a sentence; or that nobody stands out."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.queries.verdict import behind, said_of
from schemas.limits import DAY_MS


def rows(model: str = "m", was: float | None = 100, now: float | None = 200, requests: int = 1_000,
         **explains: tuple[float | None, int]) -> list[dict[str, Any]]:  # fmt: skip
    of_model = {"model": model, "model_before_ms": was, "model_now_ms": now, "model_requests_before": requests}
    of_model["model_requests_now"] = sum(count for _, count in explains.values())
    return [
        {**of_model, "tenant": tenant, "explains_pct": pct, "requests_now": count}
        for tenant, (pct, count) in explains.items()
    ]


RISE = "of the rise of p99 of TTFT of m (from 100 to 200 ms)"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rows(acme=(83, 400), globex=(10, 600)), f"acme explains 83 % {RISE} with 40 % of its requests"),
        (rows(acme=(50, 333), globex=(10, 667)), f"acme explains 50 % {RISE} with 33 % of its requests"),
        (rows(acme=(49, 100), globex=(40, 900)), f"no tenant stands out; most, acme, explains 49 % {RISE} with 10 %"),
        (rows(acme=(74, 500), globex=(10, 500)), f"no tenant stands out; most, acme, explains 74 % {RISE} with 50 %"),
        (rows(acme=(75, 500), globex=(10, 500)), f"acme explains 75 % {RISE} with 50 % of its requests"),
        (rows(now=109, acme=(None, 1_000)), "p99 of TTFT of m did not rise by a tenth or more, from 100 to 109 ms"),
        (rows(now=50, acme=(100, 1_000)), "p99 of TTFT of m did not rise by a tenth or more, from 100 to 50 ms"),
        (rows(requests=99, acme=(100, 1_000)), "too few requests before to say what changed: p99 of TTFT needs 100"),
        (rows(requests=0, was=None, acme=(None, 99)), "too few requests before and now to say what changed"),
        ([], ""),
    ],
)  # fmt: skip
def test_a_tenant_is_behind_a_rise_that_it_explains_beyond_its_share(
    found: list[dict[str, Any]], expected: str
) -> None:
    """At least half of it, and half as much again as its requests are of all."""
    assert behind(found, "p99 of TTFT", 0.99).startswith(expected)
    assert bool(behind(found, "p99 of TTFT", 0.99)) == bool(expected)


@pytest.mark.parametrize("quantile", [1.0, 1.5])
def test_nothing_is_said_of_a_percentile_that_no_requests_are_enough_for(quantile: float) -> None:
    """Nor does it fail."""
    assert behind(rows(acme=(83, 400)), "p100 of TTFT", quantile) == ""


def test_of_several_models_the_one_that_rose_most_is_meant() -> None:
    """It comes first; where that did not rise, none did."""
    two = [*rows(acme=(90, 200)), *rows("other", 100, 90, acme=(100, 200))]
    none = [*rows(now=100, acme=(None, 200)), *rows("other", 100, 90, acme=(100, 200))]

    assert behind(two, "p99", 0.99).startswith("no tenant stands out; most, acme, explains 90 %")
    assert behind(none, "p99", 0.99).endswith("from 100 to 100 ms, that of no other model more: nothing to explain")


def test_other_models_that_rose_are_named_beside_the_first() -> None:
    """Once each, where they have requests enough; of what nobody waits for nothing rose."""
    others = [
        *rows("b", 100, 150, acme=(90, 200), globex=(1, 100)),
        *rows("few", 100, 180, requests=99, acme=(90, 200)),
        *rows("still", 100, 109, acme=(None, 200)),
        *rows("zero", 0, 0, acme=(None, 200)),
    ]

    said = behind([*rows(acme=(83, 400), globex=(10, 600)), *others], "p99 of TTFT", 0.99)

    assert said == (
        f"acme explains 83 % {RISE} with 40 % of its requests"
        "; others that rose, which may have another behind them: b (ask with the name)"
    )


def test_what_idle_gpus_cost_a_month_is_said_with_the_time_that_it_is_told_from() -> None:
    """Of all in bills, and what of these may still change; nothing where no minute was billed."""
    all_ = {"why": "all in bills", "cost_of_30_days_nusd": 5_855_280_000_000, "billed_ms": 240_000}
    all_ |= {"provisional_bills": 0, "estimated_gpu_ms": 0}
    month = all_ | {"billed_ms": 30 * DAY_MS}

    assert said_of("idle_gpus", {}, [all_]) == (
        "GPUs that compute nothing cost $5,855.28 in 30 days at the rate of 4.0 min with bills, extrapolated"
    )
    assert said_of("idle_gpus", {}, [month]).endswith(" in 30 days at the rate of 720.0 h with bills")
    assert said_of("idle_gpus", {}, [month | {"provisional_bills": 1_200, "estimated_gpu_ms": 90_000}]).endswith(
        " with bills; 1,200 of the bills are provisional: still changing"
        "; 1.5 min of GPU time in them are estimated: billed for gaps between readings"
    )
    assert said_of("idle_gpus", {}, [all_ | {"cost_of_30_days_nusd": None}]) == ""
    assert said_of("idle_gpus", {}, []) == ""


def test_a_range_before_of_which_nothing_is_known_is_said() -> None:
    """A zero is known."""
    compared = {"before_from_ms": "0"}
    row: dict[str, Any] = {"name": "m", "input_tokens_before": None, "input_tokens_now": 5}
    row["output_tokens_before"] = None

    assert said_of("tokens_changed", compared, [row]) == "nothing is known of the range before: it has no data"
    assert said_of("tokens_changed", compared, [row, row | {"input_tokens_before": 0}]) == ""
    assert said_of("tokens_changed", {}, [row]) == ""
    assert said_of("SELECT 1", compared, [{"before": 1}]) == ""
