"""Amounts, exchange: exact, one rounding."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.prices.amounts import half_even, scaled
from stream_jobs.prices.load import parse_prices
from stream_jobs.yaml_files.errors import FileError

AMOUNTS = st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("text", "digits", "expected"),
    [
        ("0", 9, 0),
        ("2.49", 9, 2_490_000_000),
        ("0.000000001", 9, 1),
        ("007.5", 6, 7_500_000),
        ("999999.999999999", 9, 999_999_999_999_999),
        ("+1", 0, 1),
    ],
)
def test_digits_of_the_text_become_digits_of_the_number(text: str, digits: int, expected: int) -> None:
    """No float stands between."""
    assert scaled(text, digits) == expected


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("-0.01", "is negative"),
        ("1.0000000000", "has more than 9 digits behind the point"),
        ("1000000", "has more than 6 digits before the point"),
        ("1e3", "is no number"),
        ("1,5", "is no number"),
        (".5", "is no number"),
        ("1.", "is no number"),
        ("nan", "is no number"),
        ("٣", "is no number"),
        ("1_0", "is no number"),
    ],
)
def test_what_is_no_amount_is_refused(text: str, wrong: str) -> None:
    """With what to change, also where Python itself would read a number."""
    with pytest.raises(ValueError, match=wrong):
        scaled(text, 9)


@given(st.integers(0, 10**15 - 1))
def test_every_nano_dollar_can_be_written(nano: int) -> None:
    """Text and back."""
    assert scaled(format(Decimal(nano).scaleb(-9), "f"), 9) == nano


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("2.49", "'2.49' must be like `2.49 USD/GPU-hour`"),
        ("2.49 USD", "'2.49 USD' must be like"),
        ("2.49 USD/GPU-day", "unit 'GPU-day' is not known here; write GPU-hour"),
        ("2.49 EUR/GPU-hour", "currency 'EUR' has no exchange rate in this file"),
        ("2.49 usd/GPU-hour", "currency 'usd' is not known"),
        ("-2 USD/GPU-hour", "'-2' is negative"),
    ],
)
def test_money_needs_currency_and_unit(text: str, wrong: str) -> None:
    """Nothing is assumed."""
    with pytest.raises(FileError) as caught:
        parse_prices(f"gpu_hour:\n- gpu: a\n  periods: [{{from: 2026-01-01, value: {text}}}]".encode(), "p.yaml")

    assert caught.value.problems[0].startswith(f"p.yaml:3: gpu_hour.periods.value: {wrong}")


@given(st.integers(-(10**20), 10**20), st.integers(1, 10**6))
def test_half_goes_to_even(numerator: int, denominator: int) -> None:
    """As ``round`` does with fractions."""
    assert half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(
    ("amount", "rate", "nano"), [("0.000000003", "0.5", 2), ("0.000000005", "0.5", 2), ("3.1", "1.04", 3_224_000_000)]
)
def test_exchange_rounds_once_to_the_nano_dollar(amount: str, rate: str, nano: int) -> None:
    """1.5 and 2.5 nano-dollars are both 2."""
    found = parse_prices(
        f"exchange_rates: [{{currency: EUR, periods: [{{from: 2026-01-01, usd: {rate}}}]}}]\n"
        f"energy: [{{periods: [{{from: 2026-01-01, value: {amount} EUR/kWh}}]}}]".encode(),
        "p.yaml",
    )

    assert [period.value for period in found.entries[0].periods] == [nano]
