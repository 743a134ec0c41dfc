"""Amounts as people read them."""

from __future__ import annotations

import pytest

from fleetpulse.report import amounts as a


@pytest.mark.parametrize(
    ("nusd", "text"),
    [
        (None, "–"),
        (0, "$0.00"),
        (1, "$0.000000001"),
        (12_345, "$0.00001234"),
        (50_000_000, "$0.05"),
        (123_456_789, "$0.1235"),
        (999_999_999, "$1.00"),
        (1_000_000_000, "$1.00"),
        (1_234_567_890_123, "$1,234.57"),
        (-5_000_000_000, "-$5.00"),
    ],
)
def test_dollars_keep_four_digits_below_one(nusd: int | None, text: str) -> None:
    """What is small is not lost in rounding; what is not known is a dash."""
    assert a.usd(nusd) == text


def test_what_cannot_be_divided_is_not_known() -> None:
    """A cost without tokens has no unit cost: never 0, never infinite."""
    assert [a.ratio(None, 2), a.ratio(1, 0), a.ratio(1, None), a.ratio(0, 2)] == [None, None, None, 0.0]
    assert [a.per_million(5_000_000_000, 2_000_000), a.per_million(1, None)] == [2.5, None]


def test_times_and_energies_change_their_unit_where_they_are_small() -> None:
    """Minutes below an hour, watt-hours below ten of them."""
    assert [a.gpu_hours(ms) for ms in (None, 0, 60_000, 3_600_000, 86_400_000)] == [
        "–", "0.0 h", "1.0 min", "1.0 h", "24.0 h",
    ]  # fmt: skip
    assert [a.energy(mj) for mj in (None, 0, 7_200_000, 36_000_000, 3_600_000_000)] == [
        "–", "0.00 kWh", "2 Wh", "0.01 kWh", "1.00 kWh",
    ]  # fmt: skip


def test_counts_shares_and_moments() -> None:
    """Millions from ten million on; shares with one digit; moments in UTC."""
    assert [a.count(n) for n in (None, 9_999_999, 10_000_000)] == ["–", "9,999,999", "10.0 M"]
    assert [a.share(None), a.share(0.1234)] == ["–", "12.3 %"]
    assert [a.instant(None), a.instant(1_795_305_600_000)] == ["–", "2026-11-22 00:00"]
    assert [a.decimal(None), a.decimal(0.01234, "J"), a.decimal(1234.5)] == ["–", "0.0123 J", "1,234"]
