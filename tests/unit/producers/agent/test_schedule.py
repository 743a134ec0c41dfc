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


def after(pace: Pace, *costs_us: int) -> Pace:
    """After readings of these costs."""
    for cost_us in costs_us:
        pace = paced(RULE, pace, cost_us)
    return pace


@pytest.mark.parametrize(
    ("cost_us", "interval_ms"),
    [(0, 1_000), (20_000, 1_000), (20_001, 2_000), (40_000, 2_000), (40_001, 4_000), (160_001, 8_000), (10**9, 8_000)],
)
def test_dear_readings_lengthen_the_interval_until_it_bears_them(cost_us: int, interval_ms: int) -> None:
    """Two per cent of ten seconds, on the bound, one above; never beyond the longest."""
    assert after(Pace(1_000), *[cost_us] * 10).interval_ms == interval_ms


@pytest.mark.parametrize(
    ("costs_us", "interval_ms"),
    [
        ([4_000] * 9 + [164_000], 1_000),
        ([4_000] * 9 + [164_001], 2_000),
        ([164_001] + [4_000] * 9, 2_000),
        ([200_000], 1_000),
        ([200_001], 8_000),
    ],
    ids=["borne by the others", "one above", "in any order", "all of ten seconds", "more than ten seconds may cost"],
)
def test_one_dear_reading_in_ten_seconds_is_judged_with_the_others(costs_us: list[int], interval_ms: int) -> None:
    """Eight GPUs take 46 ms in one second of ten and 5 in the others: that changes nothing. One that alone costs too
    much for ten seconds lengthens the interval at once."""
    assert after(Pace(1_000), *costs_us).interval_ms == interval_ms


def test_it_comes_back_after_calm_readings_in_a_row() -> None:
    """At most 1 % of the shorter interval, three readings or more; one dearer stretch restarts the count."""
    pace, seen = Pace(10_000, doublings=2), []
    rule = PaceRule(share_max_ppm=20_000, calm_readings=3, interval_ms_max=80_000)

    for cost_us in (200_000, 200_000, 200_001, 200_000, 200_000, 200_000, 100_000, 100_000, 100_000):
        pace = paced(rule, pace, cost_us)
        seen.append((pace.interval_ms, pace.calm))

    assert seen == [
        (40_000, 1),
        (40_000, 2),
        (40_000, 0),
        (40_000, 1),
        (40_000, 2),
        (20_000, 0),
        (20_000, 1),
        (20_000, 2),
        (10_000, 0),
    ]


def test_short_intervals_come_back_by_whole_stretches() -> None:
    """Readings of ten seconds count together."""
    slow = Pace(1_000, doublings=1)

    assert after(slow, *[10_000] * 4) == Pace(1_000, doublings=1, readings=4, spent_us=40_000)
    assert after(slow, *[10_000] * 5) == Pace(1_000)
    assert after(slow, *[10_001] * 5) == slow


@given(st.lists(st.integers(0, 300_000), max_size=60))
def test_the_interval_stays_within_its_bounds(costs: list[int]) -> None:
    """Whatever readings cost; and it bears the last stretch, or is the longest."""
    pace, stretch = Pace(1_000), list[int]()

    for cost_us in costs:
        pace, stretch = paced(RULE, pace, cost_us), [*stretch, cost_us]

        assert 1_000 <= pace.interval_ms <= RULE.interval_ms_max
        if not pace.readings:
            mean_us, stretch = sum(stretch) / len(stretch), []
            assert mean_us * 50 <= pace.interval_ms * 1_000 or pace.interval_ms == RULE.interval_ms_max


@given(st.integers(10_001, 20_000), st.integers(1, 50))
def test_a_cost_between_the_bounds_changes_nothing(cost_us: int, times: int) -> None:
    """Neither longer nor shorter: the interval does not waver."""
    assert after(Pace(1_000, doublings=1), *[cost_us] * times).doublings == 1
