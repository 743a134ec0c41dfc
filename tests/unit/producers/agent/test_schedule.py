from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.agent.schedule import Pace, PaceRule, next_tick_ms, paced

RULE = PaceRule(share_max_ppm=20_000, calm_readings=3, interval_ms_max=8_000)


@pytest.mark.parametrize(
    ("now_ms", "period_ms", "tick_ms"),
    [(0, 1_000, 1_000), (999, 1_000, 1_000), (1_000, 1_000, 2_000), (1_001, 1_000, 2_000), (1_001, 250, 1_250)],
)
def test_ticks_lie_on_the_grid_of_the_wall_clock(now_ms: int, period_ms: int, tick_ms: int) -> None:
    """A moment on the grid is past: the next one counts."""
    assert next_tick_ms(now_ms, period_ms) == tick_ms


@pytest.mark.parametrize(
    ("cost_us", "interval_ms"),
    [(0, 1_000), (20_000, 1_000), (20_001, 2_000), (40_000, 2_000), (40_001, 4_000), (160_001, 8_000), (10**9, 8_000)],
)
def test_a_dear_reading_lengthens_the_interval_until_it_bears_it(cost_us: int, interval_ms: int) -> None:
    """Two per cent of the interval, on the bound, one above; never beyond the longest."""
    assert paced(RULE, Pace(1_000), cost_us).interval_ms == interval_ms


def test_it_comes_back_after_calm_readings_in_a_row() -> None:
    """At most 1 % of the shorter interval; one dearer reading restarts the count."""
    pace, seen = Pace(1_000, doublings=2), []

    for cost_us in (20_000, 20_000, 20_001, 20_000, 20_000, 20_000, 10_000, 10_000, 10_000):
        pace = paced(RULE, pace, cost_us)
        seen.append((pace.interval_ms, pace.calm))

    assert seen == [
        (4_000, 1),
        (4_000, 2),
        (4_000, 0),
        (4_000, 1),
        (4_000, 2),
        (2_000, 0),
        (2_000, 1),
        (2_000, 2),
        (1_000, 0),
    ]


@given(st.lists(st.integers(0, 300_000), max_size=60))
def test_the_interval_stays_within_its_bounds(costs: list[int]) -> None:
    """Whatever readings cost; and it bears the last one, or is the longest."""
    pace = Pace(1_000)

    for cost_us in costs:
        pace = paced(RULE, pace, cost_us)

        assert 1_000 <= pace.interval_ms <= RULE.interval_ms_max
        assert cost_us * 50 <= pace.interval_ms * 1_000 or pace.interval_ms == RULE.interval_ms_max


@given(st.integers(10_001, 20_000), st.integers(1, 50))
def test_a_cost_between_the_bounds_changes_nothing(cost_us: int, times: int) -> None:
    """Neither longer nor shorter: the interval does not waver."""
    pace = Pace(1_000, doublings=1)

    for _ in range(times):
        pace = paced(RULE, pace, cost_us)

    assert pace == Pace(1_000, doublings=1 if cost_us > 10_000 else 0)
