"""How far a query rounds, read from its text."""

from __future__ import annotations

import re

import pytest

from fleetpulse import queries
from fleetpulse.sql.query import percentiles_sql
from lab.oracle.said import Answers, all_rows, decimals, latencies
from lab.oracle.value import Each, Shown


@pytest.mark.parametrize(
    ("name", "column", "digits"),
    [
        ("percentiles_by_model", "p50_ms", 1),
        ("throughput_by_model", "requests_per_s", 1),
        ("throughput_by_model", "output_tokens_per_s", 0),
        ("throughput_by_model", "failed_pct", 2),
        ("throughput_by_model", "requests", None),
        ("slowest_requests", "ttft_ms", 1),
    ],
)
def test_a_rounded_column_says_to_how_many_decimals(name: str, column: str, digits: int | None) -> None:
    """None where it is exact."""
    assert decimals(queries.text(name), column) == digits


def test_percentiles_are_rounded_to_whole_microseconds() -> None:
    """And counts are not."""
    assert [decimals(percentiles_sql("ttft_us", "model"), one) for one in ("p99", "requests")] == [0, None]


def test_how_far_a_query_rounds_is_read_over_line_ends() -> None:
    """Where a long expression is folded, the last bracket stands in a line of its own."""
    assert decimals("SELECT round(\n    100 * sum(a) / sum(b), 2\n) AS share", "share") == 2


def test_with_nothing_left_out_there_are_no_others() -> None:
    """Neither rows behind the first ones, nor a row of what these do not name."""
    cut, summed = all_rows(queries.text("slowest_hosts")), all_rows(queries.text("cost_failed"))

    assert "LIMIT" not in cut
    assert set(re.findall(r"place > (\d+)", summed)) == {str(2**63 - 1)}


def test_what_two_queries_say_of_one_thing_is_kept_of_both() -> None:
    """The later one does not take the place of the earlier."""
    found = Answers({("requests", "all"): 2})
    found.add({("requests", "all"): 3, ("failed", "all"): None})
    found.add({("requests", "all"): 4, ("failed", "all"): 0})

    assert found == {("requests", "all"): Each((2, 3, 4)), ("failed", "all"): Each((None, 0))}


def test_a_row_of_percentiles_says_of_which_latency_it_is() -> None:
    """Of first tokens where it does not; what nobody knows is not said."""
    of = {"model": "m", "requests": 7, "p50_ms": Shown(3, 0.5), "p95_ms": Shown(4, 0.5), "p99_ms": Shown(None, 0.5)}

    assert latencies("model", [of | {"latency": "E2E"}]) == {("e2e_us_p50", "model=m"): Shown(3_000, 500)}
    assert latencies("model", [of]) == {
        ("ttft_counted", "model=m"): 7,
        ("ttft_us_p50", "model=m"): Shown(3_000, 500),
        ("ttft_us_p95", "model=m"): Shown(4_000, 500),
    }
