"""A curve of live traffic from rows of the query."""

from __future__ import annotations

import pytest

from fleetpulse.baseline.curve import Setup
from fleetpulse.plan.windows import curve_of_windows
from schemas.errors import FleetpulseError

SETUP = Setup("m", origin="windows")
ROW = {
    "at_once": 4,
    "requests": 40,
    "failed_requests": 10,
    "ok_requests": 30,
    "requests_per_s": 2.0,
    "input_tokens_per_s": 1_000.0,
    "output_tokens_per_s": 0.0,
    "ttft_us": [1.4, 2.0, 3.0],
    "itl_us": [],
    "e2e_us": [5.0, 6.0, 7.0],
}


def test_rates_of_a_point_are_of_good_requests() -> None:
    """40 in 20 s of which 30 were good; what was not measured is null."""
    (point,) = curve_of_windows([ROW], SETUP).points

    assert (point.concurrency, point.requests, point.failed, point.seconds) == (4, 40, 10, 20.0)
    assert (point.requests_per_s, point.input_tokens_per_s, point.output_tokens_per_s) == (1.5, 1_000.0, None)
    assert point.ttft_us == {"p50": 1, "p95": 2, "p99": 3}
    assert point.itl_us == {"p50": None, "p95": None, "p99": None}


def test_client_faults_and_aborted_requests_carry_nothing() -> None:
    """400 in 200 s, 350 of them the client's fault and 10 aborted: an engine carried the 30 good ones. So many faults
    do not make a concurrency count either."""
    (point,) = curve_of_windows([ROW | {"requests": 400}], SETUP).points

    assert (point.requests, point.failed, point.seconds, point.requests_per_s) == (40, 10, 200.0, 0.15)
    with pytest.raises(FleetpulseError, match="longer --last"):
        curve_of_windows([ROW | {"requests": 400, "ok_requests": 19}], SETUP)


def test_a_concurrency_of_few_requests_is_left_out() -> None:
    """Where none has enough, the error says what to do."""
    few = ROW | {"requests": 29, "ok_requests": 19}

    assert [one.concurrency for one in curve_of_windows([few | {"at_once": 1}, ROW], SETUP).points] == [4]
    with pytest.raises(FleetpulseError, match="longer --last"):
        curve_of_windows([few], SETUP)
