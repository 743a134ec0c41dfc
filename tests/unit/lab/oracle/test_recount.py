"""Counting single requests: windows, ends, percentiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.oracle.recount import Part, Raw, Request, Shown, Value, covered_ms, outcome, recount, verdict

ONE = Request(20_000, "m", "t", "ok", "", 10, 4, 7, 1_000)


def test_a_request_counts_where_its_window_begins_in_the_range() -> None:
    """Whatever its own moment is; the slowest of single ones is of those that ended in it."""
    late = replace(ONE, at_ms=29_999, ttft_us=7)

    assert recount(Raw([ONE, late]), 20_000, 30_000)["requests", "all"] == Value(2, 2)
    assert recount(Raw([ONE, late]), 20_001, 30_000) == {("ttft_us_max", "all"): Value(7, 7)}
    assert recount(Raw([ONE, late]), 10_000, 20_000) == {}


def test_a_request_ended_in_one_of_four_ways() -> None:
    """A client's fault and a client that left are not ours."""
    ours = [("error", "oom"), ("timeout", "timeout"), ("rejected", "overload")]
    ends = {("ok", ""): "ok", ("aborted", ""): "aborted", ("error", "client"): "client_fault"}
    ends |= dict.fromkeys(ours, "failed")

    assert {(s, k): outcome(replace(ONE, status=s, error_kind=k)) for s, k in ends} == ends


def test_metrics_are_by_model_by_tenant_and_of_all() -> None:
    """Shares are of requests that were no client fault."""
    fault = replace(ONE, tenant="u", status="error", error_kind="client", input_tokens=0)
    failed = replace(ONE, tenant="u", status="error", error_kind="server", ttft_us=None)
    found = recount(Raw([ONE, failed, replace(fault, ttft_us=None)]), 0, 60_000)

    assert found["failed_share", "model=m"] == Value(0.5, 0.5)
    assert found["failed_share", "tenant=t"] == Value(0, 0)
    assert found["input_tokens", "all"] == Value(20, 20)
    assert ("ttft_us_p95", "tenant=u") not in found


def test_a_percentile_lies_between_its_two_ranks() -> None:
    """Of three values the 95th is between the second and the third, give or take the sketch's error."""
    found = recount(Raw([replace(ONE, ttft_us=value) for value in (100, 200, 300)]), 0, 60_000)["ttft_us_p95", "all"]

    assert (found.least, found.most) == (200 * (1 - 0.0109), 300 * (1 + 0.0109))
    assert [found.holds(value) for value in (250, 150, float("nan"))] == [True, False, False]


def test_who_was_fast_is_known_but_for_those_within_a_bin_of_the_bound() -> None:
    """Half a second; the sketch may take one near it for slower, or faster."""
    found = recount(Raw([replace(ONE, ttft_us=value) for value in (488_000, 495_000, 505_000, 512_000)]), 0, 60_000)

    assert found["fast_share", "model=m"] == Value(0.25, 0.75)


def test_money_is_of_minutes_that_begin_in_the_range_and_nobody_in_particular_counts() -> None:
    """A part without a price adds nothing; idle and waiting GPUs apart."""
    parts = [
        Part(60_000, "request", "m", "t", "ok", 7, 3),
        Part(60_000, "__idle__", "None", "None", None, 5, 2),
        Part(120_000, "__wasted__", "m", "None", None, None, 1),
        Part(180_000, "request", "m", "t", "ok", 99, 99),
    ]
    found = recount(Raw([], parts, [(60_000, 6), (180_000, 8)]), 60_000, 180_000)

    assert {key: value.least for key, value in found.items() if key[0] == "cost_nusd"} == {
        ("cost_nusd", "all"): 12, ("cost_nusd", "model=m"): 7, ("cost_nusd", "model=None"): 5,
        ("cost_nusd", "tenant=t"): 7, ("cost_nusd", "tenant=None"): 5,
        ("cost_nusd", "part=request"): 7, ("cost_nusd", "part=__idle__"): 5, ("cost_nusd", "part=__wasted__"): 0,
    }  # fmt: skip
    assert found["idle_nusd", "all"] == Value(5, 5)
    assert found["billed_minutes", "all"] == Value(2, 2)
    assert found["meter_mj", "all"] == Value(6, 6)
    listed = {of: value.least for (metric, of), value in found.items() if metric == "listed_cost_nusd"}
    assert listed == {
        **{"model=m": 7, "model=__idle__": 5, "model=__wasted__": 0},
        **{"tenant=t": 7, "tenant=__idle__": 5, "tenant=__wasted__": 0},
    }


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("windows", "to_ms", "covered"),
    [
        ([], HOUR, 0),
        ([0], HOUR, 10_000),
        ([0, 300_000], HOUR, 310_000),
        ([0, 310_000], HOUR, 20_000),
        ([0, 310_000], 2 * HOUR, 360_000),
        ([0, 600_000], 2 * HOUR, 120_000),
        ([0, HOUR, 2 * HOUR, 8 * HOUR], 9 * HOUR, 60_000 + HOUR + 120_000),
        ([0, HOUR, 2 * HOUR], 6 * HOUR, 180_000),
    ],
)
def test_covered_time_is_that_of_windows_minutes_and_hours_with_data(
    windows: list[int], to_ms: int, covered: int
) -> None:
    """Gaps of five minutes count; of a long range an hour between two with data counts whole."""
    assert covered_ms(windows, 0, to_ms) == covered


@pytest.mark.parametrize(
    ("shown", "held"),
    [(15.2, True), (15.3, True), (15.1, False), (15.4, False), (None, False), (float("nan"), False)],
)
def test_what_is_shown_to_a_tenth_may_differ_by_half_of_it_and_no_more(shown: float | None, held: bool) -> None:
    """Of 15.25 both neighbours are right; null is 0."""
    assert Value(15.25, 15.25).holds(Shown(shown, 0.05)) is held


def test_a_request_is_judged_by_the_objectives_of_its_class() -> None:
    """Whoever left before a miss, made the mistake, or is of no class is not; what is not known is not missed."""
    of = {"fast": (500, None, 9_000)}
    asked = replace(ONE, slo_class="fast", ttft_us=500, e2e_us=None)
    gone = replace(asked, status="aborted")

    assert [verdict(one, of) for one in (asked, replace(asked, e2e_us=9_001), replace(asked, ttft_us=501))] == [
        *("good", "missed", "missed")
    ]
    assert [verdict(one, of) for one in (gone, replace(gone, e2e_us=9_001), replace(asked, status="timeout"))] == [
        *(None, "missed", "failed")
    ]
    assert [verdict(one, of) for one in (ONE, replace(asked, status="error", error_kind="client"))] == [None, None]


def test_unit_costs_are_of_requests_and_a_price_is_of_tokens_that_have_one() -> None:
    """The cache is paid with generated tokens; where there are none, with those of the prompt."""
    paid = Part(0, "request", "m", "t", "ok", 6, 3, "prefill", 2, 36, 9)
    parts = [
        paid,
        replace(paid, cost_nusd=None, amount=5),
        replace(paid, kind="kv", cost_nusd=4),
        Part(0, "__idle__", "None", "None", None, 99, 9, "held"),
    ]
    found = recount(Raw([], parts), 0, 60_000)
    both = recount(Raw([], [*parts, replace(paid, kind="decode", amount=1)]), 0, 60_000)

    assert (found["uncached_nusd", "model=m"], found["priced_uncached_tokens", "model=m"]) == (
        Value(10, 10),
        Value(2, 2),
    )
    assert ("output_nusd", "model=m") not in found
    assert (both["uncached_nusd", "model=m"], both["output_nusd", "tenant=t"]) == (Value(6, 6), Value(10, 10))
