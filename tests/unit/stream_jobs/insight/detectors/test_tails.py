"""Limits from the greatest values that were: as rare as they say, whatever the tail, and never raised by what rises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit

from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.insight.detectors.tails import KEPT, Sides, Tails, columns, peak_after
from stream_jobs.insight.slotted import Slotted

SERIES, STEP_MS = 2_000, HOUR_MS // 4
ONE = Sides(np.array([HOUR_MS]), np.array([0.0]), np.array([0.0]))


class Kept(Slotted):
    def __init__(self, series: int = SERIES) -> None:
        super().__init__(columns(1))
        self.grow(series)


@njit
def _see(peak: Any, least: Any, limit: Any, values: Any, judged: Any) -> None:
    for row in range(len(values)):
        peak[row] = peak_after(peak[row], least[row], limit[row], 0.0, values[row], judged[row])


def see(state: dict[str, npt.NDArray[Any]], values: npt.NDArray[np.float64], judged: npt.NDArray[np.bool_]) -> None:
    """A value of every series into its running block."""
    _see(state["peak"][:, 0], state["top"][:, 0, -1], state["limit"][:, 0], values, judged)


def fed(values: npt.NDArray[np.float64], rare_days: float = 100.0) -> dict[str, npt.NDArray[Any]]:
    """The state after these values (windows, series), none of which was judged."""
    windows, series = values.shape
    kept, tails, slots = Kept(series), Tails(ONE, rare_days), np.arange(series)
    never, counts, sigma = np.zeros(series, np.bool_), np.ones((series, 1), np.bool_), np.zeros(series)
    for number in range(windows):
        at_ms = number * STEP_MS
        see(kept.state, values[number], never)
        days = np.full(series, at_ms / DAY_MS)
        tails.end_blocks(kept.state, slots, sigma, counts, days, at_ms, at_ms + STEP_MS)
    return kept.state


DRAWN = {
    "exponential": lambda random, shape: random.exponential(1.0, shape),
    "normal": lambda random, shape: np.abs(random.normal(0, 1, shape)),
    "uniform": lambda random, shape: random.random(shape),
    "always about the same": lambda random, shape: 5 + 0.01 * random.normal(0, 1, shape),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_chance_exceeds_a_limit_no_more_often_than_it_says(draw: Any) -> None:
    """Of 2,000 series, ten days learned and ten looked at: once in a hundred days, or twice where all that is known of
    a long tail are eight values."""
    random, windows = np.random.default_rng(5), 10 * DAY_MS // STEP_MS
    limit = fed(draw(random, (windows, SERIES)))["limit"][:, 0]

    days = 10 * SERIES
    assert (draw(random, (windows, SERIES)) > limit).sum() <= 2 * days / 100


def test_a_limit_is_not_out_of_reach() -> None:
    """Of an exponential tail it lies where it should, 1.2 times what is uncertain of it added."""
    random, windows = np.random.default_rng(6), 10 * DAY_MS // STEP_MS
    limit = float(np.median(fed(random.exponential(1.0, (windows, SERIES)))["limit"]))
    exact = float(np.log(DAY_MS // STEP_MS * 100))

    assert exact < limit < 1.3 * exact


def test_what_rises_does_not_raise_its_limit_before_it_is_above() -> None:
    """A block counts one block late; what happens while a series fires counts when that is over."""
    quiet = np.random.default_rng(7).exponential(1.0, (10 * DAY_MS // STEP_MS, 1))
    state = fed(quiet)
    limit = float(state["limit"][0, 0])
    kept, tails, slots = Kept(1), Tails(ONE, 100.0), np.arange(1)
    for name, array in state.items():
        kept.state[name][:] = array
    firing = np.zeros((1, 1), np.bool_)
    for number in range(12):
        value = np.array([[limit * (0.5 + number * 0.1)]])
        firing |= value > kept.state["limit"]
        see(kept.state, value[0], np.ones(1, np.bool_))
        at_ms = 10 * DAY_MS + number * STEP_MS
        tails.end_blocks(kept.state, slots, np.zeros(1), ~firing, np.array([10.0]), at_ms, at_ms + STEP_MS)

    assert firing.all()
    assert kept.state["limit"][0, 0] < 1.5 * limit


def test_what_was_kept_fades_and_can_be_forgotten() -> None:
    """Half of it is left after some four months; without anything kept there is no limit."""
    state = fed(np.random.default_rng(8).exponential(1.0, (10 * DAY_MS // STEP_MS, 3)))
    tails, slots, before = Tails(ONE, 100.0), np.arange(3), state["top"].copy()
    for _ in range(4 * 116):
        tails.fade(state, slots, np.zeros(3), np.full(3, 10.0))

    assert state["top"].shape == (3, 1, KEPT)
    assert (state["top"] / before).mean() == pytest.approx(0.5, abs=0.01)
    tails.start_over(state, slots[:1])
    assert np.isinf(state["limit"][0, 0])
    assert (state["top"][0] == 0).all()
    assert np.isfinite(state["limit"][1:]).all()
