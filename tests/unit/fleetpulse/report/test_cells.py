"""Cells of any answer as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.report.cells import head, readable, rounded


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("cost_nusd", 12_340_000_000, "$12.34"),
        ("cost_of_30_days_nusd", 3_822_172_142_400, "$3,822.17"),
        ("energy_mj", 3_600_000_000, "1.00 kWh"),
        ("at_ms", 1_795_809_500_000, "2026-11-27 19:58"),
        ("at_ms", 10**18, 10**18),
        ("gpu_time_ms", 40 * 30 * 24 * 3_600_000, "28,800.0 h"),
        ("unpriced_ms", 200_000_000_000, "55,555.6 h"),
        ("kv_token_ms", 5_000_000_000_000, 5_000_000_000_000),
        ("used_ms", 500_000_000_000, 500_000_000_000),
        ("before_ms", 270.78539242499727, 270.78539242499727),
        ("requests", 5, 5),
        ("cost_nusd", "text", "text"),
        ("cost_nusd", True, True),
        ("cost_nusd", None, None),
        ("share", float("nan"), None),
        ("share", float("inf"), None),
    ],
)
def test_a_number_is_read_by_the_unit_of_its_column(column: str, value: Any, expected: Any) -> None:
    """What has none stays as it is; what is no number is none."""
    assert readable(column, value) == expected


def test_a_moment_is_said_as_who_shows_it_wants() -> None:
    """Durations and amounts are not."""
    found = [readable(name, value, str) for name, value in (("at_ms", 1_795_809_500_000), ("used_ms", 5), ("a_ug", 0))]

    assert found == ["1795809500000", 5, "0 g"]


def test_floats_have_three_digits() -> None:
    """And thousands are separated."""
    assert [rounded(value) for value in (270.785, 12_345.6, 0.012345, -99.99)] == ["271", "12,346", "0.0123", "-100"]


def test_a_heading_names_no_unit_that_its_cells_do_not_have() -> None:
    """Amounts have theirs; a moment and a latency keep it."""
    heads = {
        name: head(name) for name in ("cost_nusd", "meter_mj", "silent_gpu_ms", "billed_ms", "ttft_p99_ms", "at_ms")
    }

    assert list(heads.values()) == ["cost", "meter", "silent_gpu_time", "billed_time", "ttft_p99_ms", "at_ms"]
