"""Numbers with units: read into the column's unit, written back as the same number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.rules.units import FAMILIES, duration_text, level, level_text, seconds


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("250ms", "us", 250_000.0),
        ("1.5 s", "us", 1_500_000.0),
        ("2h", "ms", 7_200_000.0),
        ("90%", "ppm", 900_000.0),
        ("500ppm", "ppm", 500.0),
        ("29%", "share", 0.29),
        ("0.29", "share", 0.29),
        ("85C", "C", 85.0),
        ("-5C", "C", -5.0),
        ("10GiB", "bytes", 10 * 2.0**30),
        ("400W", "mW", 400_000.0),
        ("1kWh", "mJ", 3.6e9),
        ("1.98GHz", "MHz", 1_980.0),
        ("8", "1/1000", 8_000.0),
        ("3", "", 3.0),
        ("3 requests", "requests", 3.0),
        ("1000/s", "tokens/s", 1_000.0),
        ("1000tokens/s", "tokens/s", 1_000.0),
        ("0.2/s", "1/s", 0.2),
        ("20GB/s", "bytes/s", 2e10),
        ("3", "mJ/tokens", 3.0),
        (".5", "", 0.5),
        ("1e3", "", 1_000.0),
    ],
)
def test_a_level_comes_in_its_columns_unit(text: str, unit: str, value: float) -> None:
    """Any unit of the family."""
    assert level(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0.9", "ppm"),
        ("90", "%"),
        ("250", "us"),
        ("5", "bytes"),
        ("5GiB", "us"),
        ("85", "C"),
        ("5 ms/s", "us"),
        ("10GiB", "bytes/s"),
        ("", ""),
        ("nan", ""),
        ("inf", ""),
        ("1e999", ""),
        ("1e9999", ""),
        ("0x10", ""),
        ("1_000", ""),
        ("٣", ""),
        ("--1", ""),
    ],
)
def test_what_could_mean_two_things_or_nothing_is_no_level(text: str, unit: str) -> None:
    """A bare number of a column with several units, a foreign unit, no number."""
    assert level(text, unit) is None


@given(st.floats(-1e15, 1e15), st.sampled_from(sorted(FAMILIES)))
def test_a_level_is_written_as_what_is_read(value: float, unit: str) -> None:
    """Whatever the number, no digit is lost."""
    assert level(level_text(value, unit), unit) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (900_000.0, "ppm", "90%"),
        (0.8, "share", "80%"),
        (0.05, "share", "5%"),
        (1.0, "share", "1"),
        (2.0, "share", "200%"),
        (2e6, "us", "2s"),
        (84.0, "C", "84C"),
    ],
)
def test_a_level_is_written_as_people_write_it(value: float, unit: str, text: str) -> None:
    """The shortest writing, shares in per cent."""
    assert level_text(value, unit) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30.0), ("5m", 300.0), ("2h", 7_200.0), ("1d", 86_400.0), ("90", 90.0), ("1.5h", 5_400.0)],
)
def test_durations(text: str, value: float) -> None:
    """Seconds, and units up to days."""
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "h", "1w", "5 minutes", "nan"])
def test_no_durations(text: str) -> None:
    """Other units are refused, a month has no length."""
    assert seconds(text) is None


@given(st.integers(1, 10**7))
def test_a_duration_is_written_as_what_is_read(value: int) -> None:
    """In the largest unit that divides it."""
    assert seconds(duration_text(float(value))) == value
