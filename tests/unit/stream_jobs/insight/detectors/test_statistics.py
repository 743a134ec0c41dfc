"""What detectors share: lines, medians, rings, slots and spans, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.durations import WORDS, exact, nearest
from stream_jobs.insight.slotted import NEVER, Column, Slotted, in_order, passed, storable
from stream_jobs.insight.statistics import fit, grouped, slopes, steps_up, t_needed
from tests.unit.stream_jobs.insight.detectors.cases import noise


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.just(np.nan), st.floats(-1e6, 1e6)), min_size=3, max_size=20))
def test_slopes_are_those_of_numpy(values: list[float]) -> None:
    """Least squares over the known points; none from fewer than three."""
    row = np.array(values)
    known = np.flatnonzero(np.isfinite(row))
    expected = np.polyfit(known, row[known], 1)[0] if len(known) >= 3 else 0.0

    assert fit(row[None]).slope[0] == pytest.approx(expected, abs=1e-5)
    assert slopes(row[None])[0] == pytest.approx(expected, abs=1e-5)


def test_chance_rarely_looks_like_a_slope() -> None:
    """t of noise is spread as Student says; neighbours that are alike rarely make a slope."""
    random = np.random.default_rng(1)
    white = fit(random.normal(size=(4_000, 30))).t()
    alike = fit(noise(1, 30, 4_000, 1.0).T).t()

    assert np.mean(np.abs(white) > 2.05) < 0.05
    assert np.mean(np.abs(alike) > t_needed(np.array([28.0]))) < 0.01


def test_a_line_without_noise_is_beyond_doubt_and_a_constant_is_none() -> None:
    """Infinite t for a ramp, 0 for a constant and for nothing known; 1e100 is safe."""
    rows = np.array([np.arange(8.0), np.full(8, 3.0), np.full(8, np.nan), np.arange(8) * 1e100])

    assert fit(rows).t().tolist() == [np.inf, 0.0, 0.0, np.inf]


def test_steps_tell_a_ramp_from_a_step_a_saw_and_a_curve_that_settles() -> None:
    """Differences of the medians of quarters."""
    ramp, step, saw = np.arange(16.0), np.where(np.arange(16) < 8, 0.0, 9.0), np.arange(16.0) % 8

    steps = steps_up(np.stack([ramp, step, saw, np.full(16, np.nan)]), 4)

    assert steps[:3].tolist() == [[4, 4, 4], [0, 9, 0], [4, -4, 4]]
    assert np.isnan(steps[3]).all()


MEASURED = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
"""As readings are: a deviation of 5e-324 is above 0, and half of it is not."""


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), MEASURED), min_size=1, max_size=30))
def test_medians_per_group_are_those_of_numpy(pairs: list[tuple[int, float]]) -> None:
    """Also of groups of one, in any order."""
    groups, values = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])

    _, _, sizes, median, sigma = grouped(groups, values)

    each = [values[groups == one] for one in np.unique(groups)]
    assert sizes.tolist() == [len(one) for one in each]
    assert median == pytest.approx(np.array([np.median(one) for one in each]))
    assert (sigma > 0).tolist() == [np.median(np.abs(one - np.median(one))) > 0 for one in each]


def test_the_robust_deviation_is_right_on_average_for_small_groups() -> None:
    """Of three to twelve values of a normal distribution: the mean is within 5 % of the true deviation."""
    random = np.random.default_rng(2)
    for size in (3, 4, 5, 8, 12):
        *_, sigma = grouped(np.repeat(np.arange(5_000), size), random.normal(size=5_000 * size))

        assert np.mean(sigma) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("newest", "bucket", "columns"),
    [(NEVER, 7, []), (7, 7, []), (7, 6, []), (7, 8, [3]), (7, 10, [3, 4, 0]), (7, 100, [1, 2, 3, 4, 0])],
    ids=["first", "same", "back", "next", "gap", "longer than the ring"],
)
def test_a_ring_empties_what_comes_into_use(newest: int, bucket: int, columns: list[int]) -> None:
    """Five points: bucket b lies in column b mod 5."""
    assert sorted(passed(newest, bucket, 5).tolist()) == sorted(columns)


def test_a_ring_in_order_ends_with_the_newest() -> None:
    """All of it, or the last few."""
    assert in_order(7, 5).tolist() == [3, 4, 0, 1, 2]
    assert in_order(7, 5, 2).tolist() == [1, 2]
    assert np.isnan(storable(np.array([1e39, np.nan, np.inf]))).all()


def test_slots_grow_are_forgotten_and_survive_a_restart() -> None:
    """Growing one by one or at once gives the same bytes; spare rows are never dumped."""
    columns = (Column("a", "f8", np.nan, (2,)), Column("b", "i4", -1))
    slow, fast = Slotted(columns, {"at": 3}), Slotted(columns, {"at": 3})
    for size in range(1, 40):
        slow.grow(size)
        slow.state["b"][size - 1] = size
    fast.grow(39)
    fast.state["b"][:] = np.arange(1, 40)

    assert {k: v.tobytes() for k, v in slow.dump().items()} == {k: v.tobytes() for k, v in fast.dump().items()}
    again = Slotted(columns, {"at": 0})
    again.load(slow.dump())
    again.grow(41)
    again.forget(np.array([0, 5]))
    assert (again.clock, again.state["b"][[0, 1, 5, 40]].tolist()) == ({"at": 3}, [-1, 2, -1, -1])
    assert slow.bytes_per_slot() == 20


def test_spans_are_told_in_steps() -> None:
    """The nearest step; unknown and infinite are the longest."""
    words = [WORDS[one] for one in nearest(np.array([0, 650, 80_000, 1e7, np.inf, np.nan]))]

    assert words == ["10 min", "10 min", "1 day", *["more than 30 days"] * 3]
    assert [exact(one) for one in (259_200, 21_600, 300, 30)] == ["3 d", "6 h", "5 min", "30 s"]
