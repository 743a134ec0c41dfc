"""Error budgets: pages at the pace of the SRE workbook, never for a single error or in the first minutes."""

from __future__ import annotations

import numpy as np
import pytest

from stream_jobs.insight.detectors.burn_rate import BurnRate
from tests.unit.stream_jobs.insight.detectors.cases import (
    beyond_count,
    first_beyond,
    frame,
    judged,
    resumed,
    rule,
    same,
)


def shares(*parts: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full((windows, 1), share) for windows, share in parts])


@pytest.mark.parametrize("history_min", [0, 420], ids=["from the start", "with history"])
def test_fires_when_its_part_of_the_budget_is_gone(history_min: int) -> None:
    """14.4 times over an hour is 2 % of the budget: it fires when that is gone, with full history and without."""
    share = np.array([1.0, 0.1, 0.02, 0.008])
    after_s = np.array([52, 518, 2_592, 6 * 3_600 * 6 / 8])
    values = np.concatenate([np.zeros((history_min, 4)), np.broadcast_to(share, (300, 4))])

    found = first_beyond(BurnRate(rule("burn_rate", window_ms=60_000)), {"value": values}, window_ms=60_000)

    took_s = (np.array(found, np.float64) + 1 - history_min) * 60
    assert (after_s <= took_s + 60).all()
    assert (took_s <= after_s * 1.03 + 60).all()


def test_a_single_error_pages_nobody() -> None:
    """One error among sixty requests in the first hour is 16 times the budget and means nothing."""
    values = shares((1, 1.0), (359, 0.0))
    counts = np.ones((360, 1), np.int64)

    assert first_beyond(BurnRate(rule("burn_rate", min_events=1)), {"value": values}, counts) == [None]


@pytest.mark.parametrize(
    ("bad", "again"),
    [
        pytest.param(1, False, id="two errors among fifty, of a service that may have one in 200"),
        pytest.param(4, True, id="it fails again"),
    ],
)
def test_what_failed_hours_ago_makes_no_page_of_an_error(bad: int, again: bool) -> None:
    """The six hours still hold a fault that is over; the half hour now must be more than chance by itself."""
    options = {"objective": 0.995, "pairs": ((3_600, 300, 14.4), (21_600, 1_800, 6)), "min_events": 50}
    detector = BurnRate(rule("burn_rate", window_ms=60_000, **options))
    values = shares((60, 0.0), (10, 1.0), (170, 0.0), (1, bad / 11), (8, 0.0), (1, bad / 11), (30, 0.0))
    counts = np.select([values == 1.0, values > 0.0], [30, 11], 1)

    said = [one for _, one in judged(detector, {"value": values}, counts, window_ms=60_000)]

    assert said[69].beyond.tolist() == [True]
    assert any(one.beyond.any() for one in said[200:]) is again


def test_burning_half_of_the_budget_is_healthy() -> None:
    """Three hundred services that fail half as often as they may, for a day: nothing."""
    random = np.random.default_rng(1)
    total = np.maximum(random.poisson(10, 300) * 14, 1)
    counts = np.broadcast_to(total, (720, 300))
    values = random.binomial(counts, 0.0005) / counts

    assert beyond_count(BurnRate(rule("burn_rate", window_ms=120_000)), {"value": values}, counts, 120_000) == 0


@pytest.mark.parametrize("after", [0.0, np.nan], ids=["all is well again", "no requests any more"])
def test_ends_soon_after_it_is_over(after: float) -> None:
    """Ten minutes of failing are beyond for five more, not for the half hour and the six hours of slower pairs."""
    detector = BurnRate(rule("burn_rate", window_ms=60_000))
    values = shares((60, 0.0), (10, 1.0), (60, after))

    said = [said for _, said in judged(detector, {"value": values}, window_ms=60_000)]

    assert said[69].beyond.tolist() == [True]
    assert [one.within.tolist() for one in said[70:]].index([True]) == 5
    assert not any(one.beyond.any() for one in said[75:])


def test_the_fast_pairs_end_within_five_minutes() -> None:
    """Without the slow pair an alert ends with the five minutes of the fastest."""
    detector = BurnRate(rule("burn_rate", window_ms=60_000, pairs=((3_600, 300, 14.4), (21_600, 1_800, 6))))

    said = [said for _, said in judged(detector, {"value": shares((60, 0.0), (10, 1.0), (9, 0.0))}, window_ms=60_000)]

    assert [one.within.tolist() for one in said[70:]].index([True]) == 4


FAST = {"objective": 0.995, "pairs": ((3_600, 300, 14.4), (21_600, 1_800, 6)), "min_events": 50}
SLOW = {"objective": 0.995, "pairs": ((21_600, 1_800, 6), (259_200, 21_600, 1)), "min_events": 50}
"""As ``slo_errors`` and ``slo_errors_slow`` are shipped."""


def a_day(seed: int, series: int, *parts: tuple[int, int, float], minutes: int = 720) -> tuple[np.ndarray, np.ndarray]:
    """Shares and counts by the minute of services with 17 requests in it of which one in a thousand fails; in each part
    (first minute, last, share) so many do."""
    random = np.random.default_rng(seed)
    chance = np.full((minutes, 1), 0.001)
    for first, last, share in parts:
        chance[first:last] = share
    counts = random.poisson(17, (minutes, series))
    bad = random.binomial(counts, chance)
    return np.where(counts > 0, bad / np.maximum(counts, 1), np.nan), counts


@pytest.mark.parametrize("options", [FAST, SLOW], ids=["slo_errors", "slo_errors_slow"])
def test_incidents_that_are_over_burn_no_more(options: dict[str, object]) -> None:
    """Two in a morning, a quarter of an hour each: beyond in each, over within three quarters of an hour, and for the
    rest of the day an error in a thousand makes no alert of them, though six hours and three days still hold them."""
    values, counts = a_day(7, 40, (174, 189, 0.95), (474, 489, 1.0))
    detector = BurnRate(rule("burn_rate", window_ms=60_000, **options))

    said = [one for _, one in judged(detector, {"value": values}, counts, window_ms=60_000)]
    beyond = np.array([np.isin(np.arange(40), one.slots[one.beyond]) for one in said])

    assert beyond[174:194].any(axis=0).all()
    assert beyond[474:494].any(axis=0).all()
    assert not beyond[:174].any()
    assert not beyond[234:474].any()
    assert not beyond[534:].any()


@pytest.mark.parametrize(
    ("options", "least", "most"), [(FAST, 4, 6), (SLOW, 5, 36)], ids=["slo_errors", "slo_errors_slow"]
)
def test_an_incident_is_over_soon_after_it(options: dict[str, object], least: int, most: int) -> None:
    """A quarter of an hour of failing on a day that was healthy: in minutes, the ranges of half an hour included."""
    values, counts = a_day(10, 40, (474, 489, 1.0))
    detector = BurnRate(rule("burn_rate", window_ms=60_000, **options))

    said = [one for _, one in judged(detector, {"value": values}, counts, window_ms=60_000)]
    last = [max(at for at, one in enumerate(said) if slot in one.slots[one.beyond]) for slot in range(40)]

    assert all(least <= at - 488 <= most for at in last)
    assert np.median(last) - 488 <= 12


def test_a_slow_burn_after_an_incident_is_found_all_the_same() -> None:
    """Twice the budget for two days, long after an incident; found when its own part of three days is gone."""
    values, counts = a_day(8, 10, (174, 189, 0.95), (300, 2_900, 0.01), minutes=2_900)
    detector = BurnRate(rule("burn_rate", window_ms=60_000, **SLOW))

    said = [one for _, one in judged(detector, {"value": values}, counts, window_ms=60_000)]
    beyond = np.array([np.isin(np.arange(10), one.slots[one.beyond]) for one in said])

    assert not beyond[220:300].any()
    assert beyond[300:].any(axis=0).all()


def test_an_incident_that_comes_back_is_beyond_again() -> None:
    """Its errors of before count for nothing more, its new ones do."""
    values, counts = a_day(9, 40, (180, 195, 0.6), (240, 255, 0.6))
    detector = BurnRate(rule("burn_rate", window_ms=60_000, **FAST))

    said = [one for _, one in judged(detector, {"value": values}, counts, window_ms=60_000)]
    beyond = np.array([np.isin(np.arange(40), one.slots[one.beyond]) for one in said])

    assert beyond[240:247].any(axis=0).all()


def test_says_which_pair_and_when_the_budget_is_gone() -> None:
    """The note names both ranges and a span; value, baseline and level are shares of bad."""
    detector = BurnRate(rule("burn_rate"))

    *_, (_, said) = judged(detector, {"value": shares((360, 0.05))})

    assert said.note is not None
    assert said.notes[said.note[0]] == "more than 14.4 times over 1 h and 5 min: error budget of 30 days gone in 12 h"
    assert (said.value.tolist(), said.high.tolist()) == ([0.05], [pytest.approx(0.001)])


@pytest.mark.parametrize(
    ("share", "count"),
    [(np.nan, 1_000), (0.5, 0), (np.inf, 1_000), (1e300, 1_000), (-1.0, 1_000), (0.0, 2**62)],
    ids=["unknown", "no events", "infinite", "enormous", "below zero", "many events"],
)
def test_odd_input_is_no_alarm_in_the_first_window(share: float, count: int) -> None:
    """Whatever comes: no page after one window, no warning."""
    detector = BurnRate(rule("burn_rate"))
    detector.grow(1)

    said = detector.detect(frame(0, {"value": [share]}, count))

    assert not said.beyond.any()


def test_a_restart_changes_nothing() -> None:
    """Dumped and loaded half-way it says the same as the one that went on, gaps included."""
    random = np.random.default_rng(2)
    values = np.where(random.random((800, 5)) < 0.3, np.nan, random.random((800, 5)) ** 8)
    whole = BurnRate(rule("burn_rate"))
    before = [said for _, said in judged(whole, {"value": values[:400]})]
    halves = resumed(whole, BurnRate(rule("burn_rate")))

    after = [said for _, said in judged(whole, {"value": values[400:]}, first=1_000)]
    again = [said for _, said in judged(halves, {"value": values[400:]}, first=1_000)]

    assert len(before) == 400
    assert all(same(left, right) for left, right in zip(after, again, strict=True))


def test_a_forgotten_slot_knows_nothing() -> None:
    """A new series in an old slot starts without history."""
    detector = BurnRate(rule("burn_rate"))
    list(judged(detector, {"value": shares((400, 1.0))}))

    detector.forget(np.array([0]))

    assert detector.detect(frame(500, {"value": [np.nan]})).slots.tolist() == []


def test_three_days_fit_into_two_kibibytes() -> None:
    """Memory per series."""
    assert BurnRate(rule("burn_rate")).bytes_per_slot() <= 2_048
