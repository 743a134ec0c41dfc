"""The forecast: exact on what repeats exactly, better than naive on what does not, honest about its interval."""

from __future__ import annotations

import numpy as np
import pytest

from stream_jobs.budgets.forecast import forecast

WEEK = np.array([1, 1.05, 1.1, 1.05, 0.95, 0.5, 0.45])
HELD = 14


def spend(seed: int, *, trend: float = 0.005, spikes: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    """Eight weeks and two held back: quiet weekends, half a percent more a day, 8 % of noise, rare days 80 % up."""
    chance = np.random.default_rng(seed)
    days = np.arange(56 + HELD)
    values = 1_000 * (1 + trend * days) * WEEK[days % 7] * np.exp(chance.normal(0, 0.08, len(days)))
    values[chance.random(len(days)) < spikes] *= 1.8
    return values[:-HELD], values[-HELD:]


def test_what_repeats_is_continued_exactly() -> None:
    """Four equal weeks; the interval has no width."""
    found = forecast([10.0, 20.0, 30.0, 20.0, 10.0, 0.0, 0.0] * 4, 9)

    assert found is not None
    assert found.steps == pytest.approx((10, 20, 30, 20, 10, 0, 0, 10, 20))
    assert (found.total, found.low, found.high) == pytest.approx((120, 120, 120))


def test_a_straight_line_is_continued() -> None:
    """A dollar more every day, without a season; what is left of the line in the profile is below a percent."""
    found = forecast([100.0 + day for day in range(28)], 7)

    assert found is not None
    assert found.steps == pytest.approx([128 + day for day in range(7)], rel=0.01)


def test_a_strange_week_bends_nothing() -> None:
    """One week ten times as dear; the forecast stays."""
    weeks = [[10.0] * 7] * 6
    weeks[2] = [100.0] * 7

    found = forecast([day for week in weeks for day in week], 7)

    assert found is not None
    assert found.steps == pytest.approx([10.0] * 7)


@pytest.mark.parametrize(
    ("history", "steps"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([1.0, 2.0], None, id="two days"),
        pytest.param([1.0, 2.0, 6.0], (3.0, 3.0), id="three days: their mean"),
        pytest.param([1.0] * 13, (1.0, 1.0), id="a day short of two weeks"),
        pytest.param([0.0] * 14, (0.0, 0.0), id="nothing was spent"),
        pytest.param([7.0 * (3 - week) for week in range(4) for _ in range(7)], (0.0, 0.0), id="never below nothing"),
    ],
)
def test_with_little_to_go_by(history: list[float], steps: tuple[float, ...] | None) -> None:
    """No forecast below three days, the mean below two weeks."""
    found = forecast(history, 2)

    assert (None if found is None else found.steps) == steps


def test_better_than_naive_on_days_held_back() -> None:
    """Sixty tenants: mean error of a day below that of the same day last week, far below that of yesterday's."""
    errors: dict[str, list[float]] = {"ours": [], "last week": [], "yesterday": []}
    for seed in range(60):
        history, truth = spend(seed)
        found = forecast(history.tolist(), HELD)
        assert found is not None
        told = {"ours": found.steps, "last week": np.tile(history[-7:], 2), "yesterday": np.full(HELD, history[-1])}
        for name, values in told.items():
            errors[name].append(float(np.abs(np.array(values) - truth).mean() / truth.mean()))
    mean = {name: float(np.mean(found)) for name, found in errors.items()}

    assert mean["ours"] < 0.85 * mean["last week"]
    assert mean["ours"] < 0.3 * mean["yesterday"]


def test_four_sums_in_five_fall_into_the_interval() -> None:
    """Between 70 and 90 % of two hundred, with and without a trend."""
    hits = []
    for seed in range(200):
        history, truth = spend(seed, trend=0.005 * (seed % 2))
        found = forecast(history.tolist(), HELD)
        assert found is not None
        hits.append(found.low <= truth.sum() <= found.high)

    assert 0.7 <= np.mean(hits) <= 0.9
