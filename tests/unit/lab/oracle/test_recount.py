"""Counting single requests: windows, ends, percentiles."""

from __future__ import annotations

from dataclasses import replace

from lab.oracle.recount import Request, Value, outcome, recount

ONE = Request(20_000, "m", "t", "ok", "", 10, 4, 7, 1_000)


def test_a_request_counts_where_its_window_begins_in_the_range() -> None:
    """Whatever its own moment is."""
    late = replace(ONE, at_ms=29_999)

    assert recount([ONE, late], 20_000, 30_000)["requests", "all"] == Value(2, 2)
    assert recount([ONE, late], 20_001, 30_000) == {}
    assert recount([ONE, late], 10_000, 20_000) == {}


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
    found = recount([ONE, failed, replace(fault, ttft_us=None)], 0, 60_000)

    assert found["failed_share", "model=m"] == Value(0.5, 0.5)
    assert found["failed_share", "tenant=t"] == Value(0, 0)
    assert found["input_tokens", "all"] == Value(20, 20)
    assert ("ttft_us_p95", "tenant=u") not in found


def test_a_percentile_lies_between_its_two_ranks() -> None:
    """Of three values the 95th is between the second and the third, give or take the sketch's error."""
    found = recount([replace(ONE, ttft_us=value) for value in (100, 200, 300)], 0, 60_000)["ttft_us_p95", "all"]

    assert (found.least, found.most) == (200 * (1 - 0.0109), 300 * (1 + 0.0109))
    assert [found.holds(value) for value in (250, 150, float("nan"))] == [True, False, False]
