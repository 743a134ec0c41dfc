"""Amounts, exchange and emissions: exact, one rounding."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.prices.amounts import half_even, in_usd, money, scaled
from stream_jobs.prices.bill import emitted_ug
from stream_jobs.yaml_files.nodes import Scalar
from stream_jobs.yaml_files.problems import WrongError

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
    ("text", "said"),
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
def test_what_is_no_amount_is_refused(text: str, said: str) -> None:
    """With what to change, also where Python itself would read a number."""
    with pytest.raises(ValueError, match=said):
        scaled(text, 9)


@given(st.integers(0, 10**15 - 1))
def test_every_nano_dollar_can_be_written(nano: int) -> None:
    """Text and back."""
    assert scaled(format(Decimal(nano).scaleb(-9), "f"), 9) == nano


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2.49", "must be like `2.49 USD/GPU-hour`"),
        ("2.49 USD", "must be like"),
        ("2.49 USD/GPU-day", "unit 'GPU-day' is not known here; write GPU-hour"),
        ("2.49 EUR/GPU-hour", "currency 'EUR' has no exchange rate in this file"),
        ("2.49 usd/GPU-hour", "currency 'usd' is not known"),
        ("-2 USD/GPU-hour", "'-2' is negative"),
    ],
)
def test_money_needs_currency_and_unit(text: str, said: str) -> None:
    """Nothing is assumed."""
    with pytest.raises(WrongError, match=r"^value") as told:
        money(Scalar(text, "p.yaml:3"), "value", "GPU-hour", ("USD",))

    assert said in told.value.what
    assert told.value.at == "p.yaml:3"


@given(st.integers(-(10**20), 10**20), st.integers(1, 10**6))
def test_half_goes_to_even(numerator: int, denominator: int) -> None:
    """As ``round`` does with fractions."""
    assert half_even(numerator, denominator) == round(Fraction(numerator, denominator))


def test_exchange_rounds_once_to_the_nano_dollar() -> None:
    """1.5 and 2.5 nano-dollars are both 2."""
    assert [in_usd(3, 500_000_000), in_usd(5, 500_000_000), in_usd(3_100_000_000, 1_040_000_000)] == [
        2,
        2,
        3_224_000_000,
    ]


def test_emissions_by_hand() -> None:
    """1 kWh at 400 g and a PUE of 1.25 is 500 g."""
    assert emitted_ug(400_000_000, 3_600_000_000, 1_250_000) == 500_000_000


@given(AMOUNTS, st.integers(0, 10**15), st.integers(1_000_000, 10**7))
def test_emissions_are_rounded_once(ug_per_kwh: int, energy_mj: int, pue_micro: int) -> None:
    """The exact product, half to even; a PUE of 1 where none is told."""
    exact = Fraction(ug_per_kwh * energy_mj, 3_600_000_000)

    assert emitted_ug(ug_per_kwh, energy_mj, pue_micro) == round(exact * Fraction(pue_micro, 10**6))
    assert emitted_ug(ug_per_kwh, energy_mj) == round(exact)
