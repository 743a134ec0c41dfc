"""How far a query rounds, read from its text."""

from __future__ import annotations

import re

import pytest

from fleetpulse import queries
from fleetpulse.sql.query import percentiles_sql
from lab.oracle.said import all_rows, decimals


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


def test_with_nothing_left_out_there_are_no_others() -> None:
    """Neither rows behind the first ones, nor a row of what these do not name."""
    cut, summed = all_rows(queries.text("slowest_hosts")), all_rows(queries.text("cost_failed"))

    assert "LIMIT" not in cut
    assert set(re.findall(r"place > (\d+)", summed)) == {str(2**63 - 1)}
