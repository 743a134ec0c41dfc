"""Counting single requests: windows, ends, percentiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.oracle.recount import Raw, Recount, Request, covered_ms, outcome, verdict
from lab.oracle.value import Key, Value

ONE = Request(20_000, "m", "t", "ok", "", 10, 4, 7, 1_000)


def recount(raw: Raw, from_ms: int, to_ms: int) -> dict[Key, Value]:
    return Recount(raw).over(from_ms, to_ms)


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


def test_who_was_fast_is_known_but_for_those_within_a_bin_of_the_bound() -> None:
    """Half a second; the sketch may take one near it for slower, or faster."""
    found = recount(Raw([replace(ONE, ttft_us=value) for value in (488_000, 495_000, 505_000, 512_000)]), 0, 60_000)

    assert found["fast_share", "model=m"] == Value(0.25, 0.75)


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


def test_ranges_that_hold_the_same_rows_have_the_same_counts_and_rates_of_their_own() -> None:
    """What is counted once does not leak from one range into another."""
    counted = Recount(Raw([ONE, replace(ONE, at_ms=40_000, output_tokens=1)], windows=[20_000, 40_000]))

    first, same, other = (counted.over(*ends) for ends in ((0, 30_000), (20_000, 25_000), (0, 60_000)))
    assert first == same
    assert (other["output_tokens", "all"], first["output_tokens", "all"]) == (Value(8, 8), Value(7, 7))
    assert (other["output_tokens_per_s", "all"], first["output_tokens_per_s", "all"]) == (
        Value(8 / 30, 8 / 30),
        Value(0.7, 0.7),
    )


def test_the_sliding_percentile_is_of_six_windows_with_requests() -> None:
    """However far apart."""
    waits = [replace(ONE, at_ms=100_000 * number, ttft_us=1_000 * (10 - number)) for number in range(8)]
    found = recount(Raw(waits), 0, 900_000)

    assert found["sliding_ttft_us_p99", "window=500000"].holds(10_000)
    assert found["sliding_ttft_us_p99", "window=700000"].holds(8_000)
    assert not found["sliding_ttft_us_p99", "window=700000"].holds(10_000)


def test_gaps_between_tokens_are_of_the_sketch_that_each_request_carries() -> None:
    """And the whole time has its percentiles by model, and by tenant."""
    found = recount(Raw([replace(ONE, itl_bins={32: 3}, e2e_us=500), replace(ONE, itl_bins={64: 1})]), 0, 60_000)

    assert found["gaps", "model=m"] == Value(4, 4)
    assert found["itl_us_p50", "model=m"].holds(2)
    assert found["e2e_us_p99.9", "model=m"].holds(500)
    assert found["e2e_us_p99", "tenant=t"].holds(500)
