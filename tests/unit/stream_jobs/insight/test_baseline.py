"""``stream_jobs.insight.baseline``, ``scale`` and ``season``: what a series is usually like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.baseline import GAP_SHARE, LEAST, Baseline, Expected, Scale, Seen, Terms
from stream_jobs.insight.season import HOURS, Pool, Rows

LENGTH_MS = 10_000
START_MS = 500_000 * HOUR_MS
ONE = np.zeros(1, np.int64)


def terms(**given: Any) -> Terms:
    return Terms(**{"half_life_ms": HOUR_MS, "warm_up_windows": 5, "relearn_after_ms": 600_000, **given})


LINEAR = Scale()


class Series:
    """A single series; ``beyond`` when further than ``limit`` from the expected level."""

    def __init__(self, given: Terms, scale: Scale = LINEAR, limit: float = math.inf) -> None:
        self.baseline = Baseline(given, scale)
        self.baseline.grow(1)
        self.limit = limit
        self.verdicts: list[str] = []

    def see(self, at_ms: int, value: float, length_ms: int = LENGTH_MS, firing: bool = False) -> Expected:
        values = np.array([value])
        expected = self.baseline.expected(ONE, values, at_ms)
        away = abs(value - expected.level[0])
        beyond, within = expected.warm & (away > self.limit), expected.warm & (away <= self.limit)
        limit = np.array([self.limit])
        seen = Seen(ONE, values, beyond, within, np.array([firing]), expected, limit, at_ms, length_ms)
        accepted = self.baseline.learn(seen)
        self.verdicts.append("n" if accepted[0] else "x" if beyond[0] else "o" if within[0] else ".")
        return expected

    def run(self, values: Sequence[float], start_ms: int = START_MS) -> None:
        for number, value in enumerate(values):
            self.see(start_ms + number * LENGTH_MS, value)

    def at(self, name: str) -> float:
        return float(self.baseline.state[name][0])


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_first_windows_count_equally(values: list[float]) -> None:
    """Mean and variance are the plain ones while there are few windows in a long half-life."""
    series = Series(terms(half_life_ms=1_000 * HOUR_MS))

    series.run(values)

    assert series.at("level") == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
    assert series.at("variance") == pytest.approx(np.var(values), rel=1e-9, abs=1e-3)


def test_after_a_half_life_half_of_the_weight_is_older() -> None:
    """A step counts half after a half-life, three quarters after two, once there is enough history."""
    series = Series(terms(half_life_ms=100 * LENGTH_MS))
    series.run([0.0] * 1_000)

    series.run([1.0] * 100, START_MS + 1_000 * LENGTH_MS)
    half = series.at("level")
    series.run([1.0] * 100, START_MS + 1_100 * LENGTH_MS)

    assert (half, series.at("level")) == (pytest.approx(0.5), pytest.approx(0.75))


def test_a_gap_counts_as_a_small_share_of_a_half_life() -> None:
    """A series that comes back after a week is not thrown over by its first window."""
    series = Series(terms())
    series.run([0.0] * 1_000)

    series.see(START_MS + 7 * DAY_MS, 1.0)

    assert series.at("level") == pytest.approx(1 - 2**-GAP_SHARE)


def test_windows_longer_than_the_half_life_are_weighed_by_their_length() -> None:
    """An hour with a half-life of an hour is half."""
    series = Series(terms())
    series.run([0.0] * 1_000)

    series.see(START_MS + DAY_MS, 1.0, HOUR_MS)

    assert series.at("level") == pytest.approx(0.5)


def test_one_window_is_no_history() -> None:
    """The value is the mean, the variance none; it is judged when it is warm."""
    series = Series(terms(warm_up_windows=2), limit=1.0)

    series.run([7.0])

    assert (series.at("level"), series.at("variance"), series.at("samples")) == (7.0, 0.0, 1.0)
    series.run([9.0, 8.0, 10.0], START_MS + LENGTH_MS)
    assert series.verdicts == [".", ".", "o", "x"]


def test_what_is_beyond_does_not_train_nor_does_what_fires() -> None:
    """The baseline is frozen."""
    series = Series(terms(), limit=1.0)
    series.run([0.0] * 10)

    series.see(START_MS + 10 * LENGTH_MS, 50.0)
    series.see(START_MS + 11 * LENGTH_MS, 0.5, firing=True)

    assert (series.at("level"), series.at("variance"), series.at("samples")) == (0.0, 0.0, 10.0)


def test_a_change_that_lasts_is_accepted() -> None:
    """After ``relearn_after_ms``, with the level it had in that time; a window well in between changes nothing."""
    series = Series(terms(relearn_after_ms=200_000, well_windows=2), limit=1.0)
    series.run([0.0] * 10)

    series.run([5.0, 5.0, 0.0, *[5.0] * 17, 5.0, 5.5, 3.0], START_MS + 10 * LENGTH_MS)

    assert "".join(series.verdicts[10:]) == "xxo" + "x" * 16 + "noox"
    assert series.at("level") == pytest.approx(5.0, abs=0.2)


def test_what_comes_back_in_time_is_forgotten() -> None:
    """After ``well_windows`` windows within the time runs anew."""
    series = Series(terms(relearn_after_ms=100_000, well_windows=2), limit=1.0)
    series.run([0.0] * 10)

    series.run([*[5.0] * 8, 0.0, 0.0, *[5.0] * 9], START_MS + 10 * LENGTH_MS)

    assert "".join(series.verdicts[10:]) == "xxxxxxxxoo" + "x" * 9
    assert series.at("off_since_ms") == START_MS + 20 * LENGTH_MS


def test_silence_proves_no_new_level() -> None:
    """Half of the time must have been seen."""
    series = Series(terms(relearn_after_ms=200_000), limit=1.0)
    series.run([0.0] * 10)

    series.see(START_MS + 10 * LENGTH_MS, 5.0)
    series.see(START_MS + DAY_MS, 5.0)

    assert series.verdicts[10:] == ["x", "x"]


@pytest.mark.parametrize(
    ("value", "place"),
    [(math.e, 1.0), (0.0, math.log(0.5)), (0.2, math.log(0.5)), (-1.0, None), (math.nan, None), (math.inf, None)],
)
def test_places_on_a_log_scale(value: float, place: float | None) -> None:
    """Zero and what is below the absolute floor stand at the floor; what is negative or no number has no place."""
    found = Scale(log=True, floor_absolute=0.5).of(np.array([value]))[0]

    assert (None if np.isnan(found) else found) == (None if place is None else pytest.approx(place))


def test_zero_on_a_log_scale_without_a_floor_is_very_little() -> None:
    """A rate that breaks off is far below any other."""
    assert Scale(log=True).of(np.array([0.0])).tolist() == [math.log(LEAST)]


@pytest.mark.parametrize(
    ("scale", "level", "sigma"),
    [
        (Scale(False, 0.1, 0.0), -20.0, 2.0),
        (Scale(False, 0.1, 3.0), 20.0, 3.0),
        (Scale(True, 0.1, 0.0), 5.0, math.log1p(0.1)),
        (Scale(True, 0.1, 30.0), math.log(100.0), math.log1p(0.3)),
        (Scale(True, 0.1, 30.0), -800.0, math.inf),
    ],
)
def test_a_deviation_is_at_least_its_floors(scale: Scale, level: float, sigma: float) -> None:
    """Relative and absolute, on either scale."""
    assert scale.sigma(np.array([level]), np.array([-1e-18])).tolist() == [pytest.approx(sigma)]


def test_shares_up_and_down() -> None:
    """20 % less is further on a log scale than 20 % more; linear they are the same."""
    level = np.array([-10.0])

    assert Scale(log=True).step(level, 0.2, True).tolist() == [pytest.approx(math.log(1.2))]
    assert Scale(log=True).step(level, 0.2, False).tolist() == [pytest.approx(-math.log(0.8))]
    assert Scale().step(level, 0.2, False).tolist() == [2.0]
    assert np.isfinite(Scale(log=True).step(level, 5.0, False)).all()


@cache
def three_weeks() -> Series:
    """A window every half hour: 5 higher from the ninth to the seventeenth hour of five days of seven."""
    series = Series(terms(season_weeks_min=2, relearn_after_ms=2 * HOUR_MS), Scale(False, 0.05), limit=1.0)
    for number in range(2 * (2 * HOURS + 33)):
        hour = number // 2
        working = 9 <= hour % 24 < 17 and (hour // 24) % 7 < 5
        series.see(START_MS + number * HOUR_MS // 2, 15.0 if working else 10.0, HOUR_MS // 2)
    return series


def test_what_comes_every_week_is_expected_after_two() -> None:
    """The jump at nine o'clock is beyond in the first two weeks and expected in the third, as is the fall at five."""
    verdicts = three_weeks().verdicts

    jumps = [verdicts[2 * (week * HOURS + hour)] for week in range(3) for hour in (9, 17)]
    assert jumps == ["x", "x", "x", "x", "o", "o"]
    assert set(verdicts[2 * (2 * HOURS + 4) :]) == {"o"}


def test_a_fault_on_top_of_the_season_is_seen() -> None:
    """Far from what the hour expects and far from the level before it."""
    series = deepcopy(three_weeks())

    expected = series.see(START_MS + (2 * HOURS + 33) * HOUR_MS, 30.0, HOUR_MS // 2)

    assert series.verdicts[-1] == "x"
    assert expected.level.tolist() == [pytest.approx(15.0, abs=0.5)]


def test_a_season_costs_a_series_nothing_before_its_first_hour_is_over() -> None:
    """Then it gets a row of the pool, the lowest free one; a forgotten series gives it back empty."""
    baseline = Baseline(terms(season_weeks_min=2), Scale())
    baseline.grow(3)
    for number, slots in enumerate(([0, 1], [0, 1, 2], [1, 2])):
        values = np.full(len(slots), 4.0)
        at_ms, which = START_MS + number * HOUR_MS, np.array(slots)
        expected = baseline.expected(which, values, at_ms)
        no = np.zeros(len(slots), bool)
        baseline.learn(Seen(which, values, no, no, no, expected, values, at_ms, LENGTH_MS))
        if number == 0:
            assert len(baseline.pool.places) == 0
        if number == 1:
            assert baseline.state["season_row"].tolist() == [0, 1, -1]
            baseline.forget(np.array([0]))

    assert baseline.state["season_row"].tolist() == [-1, 1, 0]
    assert (baseline.pool.places[0] == np.iinfo(np.int16).min).sum() == HOURS - 1


def test_a_season_keeps_levels_to_a_step() -> None:
    """Means of hours over the weeks, cut off far away from the middle, on a line between the middles of hours."""
    pool = Pool()
    row = Rows(pool.take(1, np.empty(0, np.int64)), np.array([0]), np.array([100.0]), np.array([100.0 / 4096]))
    for hour, mean in ((5, 110.0), (5 + HOURS, 120.0), (6, 150.0), (7, 1e9)):
        pool.enter(row, np.array([hour]), np.array([mean]))

    at = {share: pool.band(row, round((5 + 2 * HOURS + share) * HOUR_MS), 2) for share in (0.5, 0.75)}
    far = pool.band(row, (7 + 2 * HOURS) * HOUR_MS + HOUR_MS // 2, 2)
    young = pool.band(row, 5 * HOUR_MS, 2)
    never = pool.band(row, (50 + 2 * HOURS) * HOUR_MS, 2)

    assert [one[0] for one in at[0.5]] == [pytest.approx(115.0, abs=0.05)] * 2
    assert [one[0] for one in at[0.75]] == [pytest.approx(115.0, abs=0.05), pytest.approx(123.75, abs=0.05)]
    assert far[0].tolist() == [pytest.approx(900.0, abs=0.1)]
    assert np.isnan([*young, *never]).all()
