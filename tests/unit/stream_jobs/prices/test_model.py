"""Which price holds: by GPU, region, commitment, day and hour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.prices.load import parse_prices
from stream_jobs.prices.model import Band, Price, Prices, band_at, in_force, instant_of, instant_text, words_of

H100 = "NVIDIA H100 80GB HBM3"
FILE = """\
exchange_rates:
- {currency: EUR, periods: [{from: 2026-01-01, usd: 1.10}, {from: 2026-07-01, usd: 1.20}]}
gpu_hour:
- gpu: H100
  source: contract 12
  periods:
  - {from: 2026-01-01, until: 2026-03-01, value: 3 USD/GPU-hour}
  - {from: 2026-03-01, until: 2026-04-01, value: null}
  - {from: 2026-04-01, value: 2 USD/GPU-hour}
- {gpu: H100, region: eu, periods: [{from: 2026-06-01, value: 2.5 EUR/GPU-hour}]}
- {gpu: H100 80GB, region: us, periods: [{from: 2026-05-01, value: 1.5 USD/GPU-hour}]}
- {gpu: H100, commitment: spot, periods: [{from: 2026-01-01, value: 1 USD/GPU-hour}]}
- {gpu: "*", periods: [{from: 2026-01-01, value: 9 USD/GPU-hour}]}
- {gpu: L40S 48GB, periods: [{from: 2026-01-01, value: 5 USD/GPU-hour}]}
- {gpu: L40S, region: eu, periods: [{from: 2026-01-01, value: 6 USD/GPU-hour}]}
- {gpu: A100 SXM4, periods: [{from: 2026-01-01, value: 1 USD/GPU-hour}]}
- {gpu: A100 40GB, periods: [{from: 2026-01-01, value: 1 USD/GPU-hour}]}
host_hour:
- {periods: [{from: 2026-01-01, value: 1 USD/host-hour}]}
- {gpu: H100, periods: [{from: 2026-01-01, value: 4 USD/host-hour}]}
energy:
- region: eu
  timezone: Europe/Berlin
  periods:
  - from: 2026-01-01
    value: 0.10 USD/kWh
    hours:
    - {days: "mon-fri", hours: 07:00-21:00, value: 0.20 USD/kWh}
    - {days: "sat,sun", hours: 00:00-24:00, value: 0.05 EUR/kWh}
pue: [{periods: [{from: 2026-01-01, value: 1.25}]}, {region: ideal, periods: [{from: 2026-01-01, value: 1}]}]
grid:
- region: eu
  timezone: Europe/Berlin
  periods:
  - {from: 2026-01-01, until: 2026-06-01, value: 380.5 gCO2e/kWh}
  - from: 2026-06-01
    value: 350 gCO2e/kWh
    hours: [{hours: 10:00-16:00, value: 140.25 gCO2e/kWh}, {days: "sat,sun", hours: 16:00-18:00, value: 90 gCO2e/kWh}]
"""


@pytest.fixture(scope="module")
def prices() -> Prices:
    return parse_prices(FILE.encode(), "p.yaml")


@pytest.mark.parametrize(
    ("model", "region", "commitment", "at", "dollars"),
    [
        pytest.param(H100, None, None, "2025-12-31T23:59:00Z", None, id="before any"),
        pytest.param(H100, None, None, "2026-01-01", 3, id="first minute of a period"),
        pytest.param(H100, None, None, "2026-02-28T23:59:00Z", 3, id="last minute of a period"),
        pytest.param(H100, None, None, "2026-03-01", None, id="null: the entry for any GPU does not count"),
        pytest.param(H100, None, None, "2026-04-01", 2, id="next period"),
        pytest.param(H100, "eu", None, "2026-05-31T23:59:00Z", 2, id="before the region's own price begins"),
        pytest.param(H100, "eu", None, "2026-06-01", 2.75, id="the region's price at the first rate"),
        pytest.param(H100, "eu", None, "2026-07-01", 3, id="the region's price at the second rate"),
        pytest.param(H100, "us", None, "2026-05-01", 1.5, id="more words are closer"),
        pytest.param("L40S 48GB", "eu", None, "2026-05-01", 5, id="more words are closer than the region's own"),
        pytest.param("L40S", "eu", None, "2026-05-01", 6, id="the region's own where the words are not all there"),
        pytest.param("H100 PCIe", "us", None, "2026-05-01", 2, id="a word is missing in the name"),
        pytest.param("NVIDIA GH100", None, None, "2026-05-01", 9, id="part of a word is no word"),
        pytest.param(H100, None, "spot", "2026-05-01", 1, id="another commitment"),
        pytest.param(H100, None, "1_year", "2026-05-01", None, id="unknown commitment"),
        pytest.param("NVIDIA A100-SXM4-40GB", None, None, "2026-05-01", None, id="two entries fit equally"),
        pytest.param("NVIDIA A100-SXM4-80GB", None, None, "2026-05-01", 1, id="one of them fits"),
    ],
)
def test_the_closest_price_holds(
    prices: Prices, model: str, region: str | None, commitment: str | None, at: str, dollars: float | None
) -> None:
    """And none where nothing is known for sure."""
    found = prices.gpu_nusd_per_hour(model, region, commitment, instant_of(at))

    assert (found and found.amount) == (None if dollars is None else round(dollars * 10**9))


def test_a_price_says_where_it_comes_from(prices: Prices) -> None:
    """Line, text, source, and how long it holds."""
    first, second = instant_of("2026-01-01"), instant_of("2026-03-01")

    assert prices.gpu_nusd_per_hour(H100, None, None, first) == Price(
        3_000_000_000, "nUSD/GPU-hour", first, second, "p.yaml:7", "3 USD/GPU-hour", "contract 12"
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-06-01T04:59:00Z", 100_000_000),
        ("2026-06-01T05:00:00Z", 200_000_000),
        ("2026-06-01T18:59:00Z", 200_000_000),
        ("2026-06-01T19:00:00Z", 100_000_000),
        ("2026-06-05T21:59:00Z", 100_000_000),
        ("2026-06-05T22:00:00Z", 55_000_000),
        ("2026-07-05T12:00:00Z", 60_000_000),
        ("2026-01-05T05:59:00Z", 100_000_000),
        ("2026-01-05T06:00:00Z", 200_000_000),
    ],
)
def test_energy_has_the_hours_of_its_place(prices: Prices, at: str, expected: int) -> None:
    """Summer and winter time, week-ends, and the exchange rate of the day."""
    found = prices.energy_nusd_per_kwh("eu", instant_of(at))

    assert found is not None
    assert found.amount == expected
    assert (found.from_ms, found.until_ms) == (instant_of(at), instant_of(at) + 60_000)


@pytest.mark.parametrize(
    ("at", "grams"),
    [
        pytest.param("2026-05-31T08:00:00Z", 380.5, id="the period before"),
        pytest.param("2026-06-01T07:59:00Z", 350, id="before the hours begin in local time"),
        pytest.param("2026-06-01T08:00:00Z", 140.25, id="in the hours"),
        pytest.param("2026-06-01T14:00:00Z", 350, id="behind them on a working day"),
        pytest.param("2026-06-06T14:00:00Z", 90, id="and at the week-end"),
    ],
)
def test_the_grid_has_hours_of_the_day(prices: Prices, at: str, grams: float) -> None:
    """Intensity by region, date and hour of its place, as a tariff has them."""
    found = prices.grid_ugco2e_per_kwh("eu", instant_of(at))

    assert found is not None
    assert found.amount == grams * 1_000_000


def test_the_other_sections(prices: Prices) -> None:
    """Hosts by what they carry, PUE, grid; an unknown region has none of a region's own."""
    at = instant_of("2026-05-01")
    found = [
        prices.host_nusd_per_hour(None, "eu", at),
        prices.host_nusd_per_hour(H100, "eu", at),
        prices.pue_micro(None, at),
        prices.pue_micro("ideal", at),
        prices.grid_ugco2e_per_kwh("eu", at),
        prices.grid_ugco2e_per_kwh(None, at),
        prices.energy_nusd_per_kwh("us", at),
    ]

    assert [one and (one.amount, one.unit) for one in found] == [
        (1_000_000_000, "nUSD/host-hour"),
        (4_000_000_000, "nUSD/host-hour"),
        (1_250_000, "millionths"),
        (1_000_000, "millionths"),
        (380_500_000, "ugCO2e/kWh"),
        None,
        None,
    ]


def test_words_of_a_name() -> None:
    """Small, without signs between."""
    assert words_of("NVIDIA A100-SXM4-40GB MIG 1g.5gb") == {"nvidia", "a100", "sxm4", "40gb", "mig", "1g.5gb"}


@given(st.lists(st.integers(0, 30), unique=True, min_size=1), st.integers(0, 31))
def test_every_moment_has_the_period_that_began_last(starts: list[int], at: int) -> None:
    """Whatever the order in the file; none before the first."""
    periods = ", ".join(f"{{from: {instant_text(one * 60_000)}, value: 1}}" for one in starts)
    prices = parse_prices(f"pue: [{{periods: [{periods}]}}]".encode(), "p.yaml")
    found = in_force(prices.entries[0].periods, at * 60_000)

    assert (found and found.from_ms) == max((one * 60_000 for one in starts if one <= at), default=None)


def test_without_hours_there_is_no_band() -> None:
    """And outside of them neither."""
    night = Band(frozenset({0}), 0, 60, 1, "p", "text")

    assert band_at((), "UTC", 0) is None
    assert band_at((night,), "UTC", instant_of("2026-06-01T01:00:00Z")) is None
    assert band_at((night,), "UTC", instant_of("2026-06-01T00:59:00Z")) == night
