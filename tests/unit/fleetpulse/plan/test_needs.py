"""Engines and GPUs for a traffic: by hand on one curve, and what holds on any.

The curve's shape is that of aiperf against vLLM: throughput rises and flattens, latency rises with concurrency.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.baseline.curve import Curve, Point, Setup
from fleetpulse.plan.needs import Expected, Slo, Traffic, capacity_of, expected_at, plan
from schemas.errors import ConfigError

SETUP = Setup("m", gpu="H100", gpus=2)


def _point(concurrency: int, requests_per_s: float, ttft_us: int | None, failed: int = 0) -> Point:
    ttft = {"p95": ttft_us}
    return Point(
        concurrency, 100, failed, 10.0, requests_per_s, 500 * requests_per_s, 100 * requests_per_s, ttft, ttft, ttft
    )


CURVE = Curve(
    SETUP, (_point(1, 1.0, 100_000), _point(2, 1.8, 120_000), _point(4, 3.0, 200_000), _point(8, 4.0, 600_000))
)


def test_the_limit_between_two_points_is_interpolated() -> None:
    """300 ms is a quarter of the way from 200 to 600: 3.25 requests/s at concurrency 5."""
    found = capacity_of(CURVE.points, Slo(ttft_us=300_000))

    assert found is not None
    assert (found.requests_per_s, found.concurrency, found.basis, found.limit) == (3.25, 5.0, "interpolated", "ttft_us")


@pytest.mark.parametrize(
    ("limit_us", "requests_per_s", "limit"),
    [(200_000, 3.0, "ttft_us"), (600_000, 4.0, None), (10_000_000, 4.0, None), (None, 4.0, None)],
    ids=["on a point", "on the last", "above the curve", "no limit"],
)
def test_capacity_at_a_measured_point_is_measured(
    limit_us: int | None, requests_per_s: float, limit: str | None
) -> None:
    """Above the curve no more than its best is assumed."""
    found = capacity_of(CURVE.points, Slo(ttft_us=limit_us))

    assert found is not None
    assert (found.requests_per_s, found.basis, found.limit) == (requests_per_s, "measured", limit)


def test_traffic_is_divided_among_engines_with_headroom() -> None:
    """20 requests/s at 3.25 x 0.8 = 2.6 of each: 7.7, so 8 engines, 16 GPUs, each carrying 2.5."""
    found = plan(CURVE, Traffic(20.0), Slo(ttft_us=300_000))

    assert (found.engines, found.gpus, found.requests_per_s_per_engine) == (8, 16, 2.5)
    assert found.expected is not None
    assert found.expected.concurrency == pytest.approx(2 + 2 * 0.7 / 1.2)
    assert found.expected.ttft_us == {"p95": round(120_000 + 80_000 * 0.7 / 1.2)}
    assert found.notes[0].startswith(
        "interpolated: 3.25 requests/s of one engine at concurrency 5, where p95 of ttft_us"
    )
    assert found.notes[-1] == "8 engines are taken to carry 8 times what one was measured with"


@pytest.mark.parametrize(
    ("percentile", "limits", "said"),
    [
        ("p99", {"ttft_us": 10**7}, "p99 at concurrency 2, 8 is of few requests, below 100: measure longer there"),
        ("p99", {"e2e_us": 10**7}, "p99 at concurrency 2, 8 is of few requests, below 100: measure longer there"),
        ("p99", {"itl_us": 10**7}, None),
        ("p95", {"ttft_us": 10**7}, None),
        ("p99", {}, None),
    ],
)
def test_a_percentile_of_few_requests_is_said_to_be(percentile: str, limits: dict[str, int], said: str | None) -> None:
    """Good ones count; gaps between tokens are many more than requests, and p95 needs twenty."""
    latency = {"p95": 100_000, "p99": 200_000}
    points = tuple(
        replace(point, requests=requests, failed=1, ttft_us=latency, itl_us=latency, e2e_us=latency)
        for point, requests in zip(CURVE.points, (101, 100, 1_000, 21), strict=True)
    )

    notes = plan(Curve(SETUP, points), Traffic(1.0), Slo(**limits, percentile=percentile)).notes

    assert [note for note in notes if "few requests" in note] == ([] if said is None else [said])


def test_exactly_a_whole_number_of_engines_is_not_one_more() -> None:
    """6.4 at 4.0 x 0.8."""
    assert plan(CURVE, Traffic(6.4), Slo()).engines == 2


@pytest.mark.parametrize(
    ("points", "why"),
    [
        (CURVE.points, "concurrency 1, the lowest of the curve: ttft_us"),
        ((_point(1, 1.0, None),), "concurrency 1, the lowest of the curve: ttft_us"),
        ((_point(1, 1.0, 1, failed=2),), "concurrency 1, the lowest of the curve: failed requests"),
    ],
    ids=["too slow", "not measured", "failing"],
)
def test_an_slo_that_does_not_hold_at_the_first_point_has_no_plan(points: tuple[Point, ...], why: str) -> None:
    """No number of engines keeps it, and the reason is said."""
    found = plan(Curve(SETUP, points), Traffic(1.0), Slo(ttft_us=99_999))

    assert (found.engines, found.gpus, found.capacity) == (None, None, None)
    assert why in found.notes[-1]


def test_longer_requests_are_scaled_and_said_to_be() -> None:
    """Answers of 300 tokens where 100 were measured: three times the engines; within 5 % nothing is scaled."""
    once, long = plan(CURVE, Traffic(8.0), Slo()), plan(CURVE, Traffic(8.0, output_tokens=300), Slo())

    assert (once.engines, long.engines) == (3, 8)
    assert any(note.startswith("scaled by 3.00: output 300 tokens a request, the curve has 100") for note in long.notes)
    assert not any("scaled" in note for note in plan(CURVE, Traffic(8.0, output_tokens=104), Slo()).notes)


def test_a_length_that_is_not_given_is_the_curves() -> None:
    """Shorter prompts alone take nothing from the work of answers that stay as long; nor do both: capacity is
    never above what was measured."""
    usual, short, shorter = (
        plan(CURVE, Traffic(8.0, **lengths), Slo())
        for lengths in ({}, {"input_tokens": 1}, {"input_tokens": 1, "output_tokens": 1})
    )

    assert short.engines == usual.engines == 3
    assert shorter.engines == 3
    assert shorter.expected == usual.expected
    assert any(
        note.startswith("not scaled: input 1 tokens a request, the curve has 500; output 1 tokens")
        for note in shorter.notes
    )


@pytest.mark.parametrize(
    ("lengths", "limit", "option"),
    [
        ({"output_tokens": 1_000}, "e2e_us", "--e2e-ms"),
        ({"input_tokens": 1_000}, "e2e_us", "--e2e-ms"),
        ({"input_tokens": 1_000}, "ttft_us", "--ttft-ms"),
        ({"input_tokens": 1_000, "output_tokens": 1}, "ttft_us", "--ttft-ms"),
    ],
)
def test_a_limit_that_longer_requests_move_is_refused(lengths: dict[str, int], limit: str, option: str) -> None:
    """Ten times the answer takes ten times as long, however many engines there are: the curve does not tell it."""
    with pytest.raises(ConfigError, match=f"{option} = 3000.0: .* the curve has"):
        plan(CURVE, Traffic(8.0, **lengths), Slo(**{limit: 3_000_000}, percentile="p95"))


@pytest.mark.parametrize(
    ("lengths", "limit", "unknown"),
    [
        ({"output_tokens": 1_000}, "ttft_us", {"e2e_us"}),
        ({"output_tokens": 1_000}, "itl_us", {"e2e_us"}),
        ({"input_tokens": 1_000}, "itl_us", {"ttft_us", "e2e_us"}),
        ({"input_tokens": 10, "output_tokens": 10}, "e2e_us", set()),
        ({"input_tokens": 510, "output_tokens": 104}, "e2e_us", set()),
    ],
)
def test_of_longer_requests_only_what_the_curve_tells_is_expected(
    lengths: dict[str, int], limit: str, unknown: set[str]
) -> None:
    """Limits for the rest stand; of shorter ones the curve's latencies are the most there is."""
    found = plan(CURVE, Traffic(8.0, **lengths), Slo(**{limit: 300_000}, percentile="p95"))

    assert found.engines is not None
    assert found.expected is not None
    none = {name for name in ("ttft_us", "itl_us", "e2e_us") if getattr(found.expected, name)["p95"] is None}
    assert none == unknown


def test_lengths_cannot_be_compared_with_a_curve_that_has_none() -> None:
    """No plan rather than a guess."""
    blind = Curve(SETUP, (replace(CURVE.points[0], input_tokens_per_s=None),))

    found = plan(blind, Traffic(1.0, input_tokens=10), Slo())

    assert found.engines is None
    assert "did not measure input tokens" in found.notes[0]


def test_gpus_of_an_engine_nobody_named_are_unknown() -> None:
    """Engines are counted, GPUs are null, and a note says what to give."""
    found = plan(replace(CURVE, setup=Setup("m")), Traffic(1.0), Slo())

    assert (found.engines, found.gpus) == (1, None)
    assert "--gpus-per-engine" in found.notes[-1]
    assert plan(replace(CURVE, setup=Setup("m")), Traffic(1.0), Slo(), 4).gpus == 4


def test_a_load_below_the_curve_is_said_to_be() -> None:
    """The lowest point's latency is the most that is known of it."""
    said = "its load is below the lowest measured point; latencies are those of that point"
    first = Expected(1, {"p95": 100_000}, {"p95": 100_000}, {"p95": 100_000})

    assert expected_at(CURVE.points, 0.5) == (first, [said])
    assert expected_at(CURVE.points, 1.0) == (first, [])
    assert expected_at(CURVE.points, 4.1) == (None, ["no measured point carries this load"])


@pytest.mark.parametrize("traffic", [0.0, -1.0, float("nan"), float("inf")])
def test_a_traffic_of_nothing_is_refused(traffic: float) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match="--traffic"):
        Traffic(traffic)


curves = st.lists(
    st.tuples(st.integers(1, 4_096), st.floats(0.01, 1e4), st.integers(1, 10_000_000)),
    min_size=1, max_size=12, unique_by=lambda each: each[0],
).map(lambda found: Curve(SETUP, tuple(_point(*each) for each in sorted(found))))  # fmt: skip
limits = st.none() | st.integers(1, 20_000_000)
rates = st.floats(0.01, 400)  # of the slowest curve with the least headroom, below what a plan has engines for


@given(curves, limits, rates, rates)
def test_more_traffic_never_needs_fewer_engines(curve: Curve, limit: int | None, one: float, other: float) -> None:
    """Whatever the curve."""
    low, high = (plan(curve, Traffic(each), Slo(ttft_us=limit)).engines for each in sorted((one, other)))

    assert (low is None) == (high is None)
    assert low is None or high is None or low <= high


@given(curves, st.integers(1, 20_000_000), st.integers(1, 20_000_000), rates)
def test_a_stricter_slo_never_needs_fewer_engines(curve: Curve, one: int, other: int, traffic: float) -> None:
    """Whatever the curve; where the lax one cannot be kept, neither can the strict one."""
    strict, lax = (plan(curve, Traffic(traffic), Slo(ttft_us=each)).engines for each in sorted((one, other)))

    assert strict is None or (lax is not None and lax <= strict)


@given(curves, limits, rates, st.floats(0, 0.95))
def test_a_plan_carries_its_traffic_with_the_headroom_and_no_engine_less_would(
    curve: Curve, limit: int | None, traffic: float, headroom: float
) -> None:
    """Capacity is never above what was measured, so nothing is extrapolated."""
    found = plan(curve, Traffic(traffic, headroom=headroom), Slo(ttft_us=limit))
    if found.engines is None or found.capacity is None:
        return
    each = found.capacity.requests_per_s * (1 - headroom)

    assert found.capacity.requests_per_s <= max(point.requests_per_s for point in curve.points)
    assert found.engines == max(1, ceil(traffic / each * (1 - 1e-12)))
    assert found.gpus == 2 * found.engines
    assert found.expected is not None
