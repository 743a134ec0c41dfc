"""Leaks are told long before memory is full; steps, saws, filling caches and load are none."""

from __future__ import annotations

import numpy as np
import pytest

from stream_jobs.insight.detectors.trend import Trend
from tests.unit.stream_jobs.insight.detectors.cases import (
    beyond_count,
    day,
    first_beyond,
    frame,
    judged,
    noise,
    resumed,
    rule,
    same,
)

WINDOW_MS = 120_000
HOUR = 30
SHIPPED = rule("trend", "limit", "load", window_ms=WINDOW_MS, min_r2=0.5)
NO_LOAD = rule("trend", "limit", window_ms=WINDOW_MS, min_r2=0.5)
LIMIT = 80e9


def memory(seed: int, windows: int, series: int) -> np.ndarray:
    return 60e9 * np.exp(noise(seed, windows, series, 0.002, 0.3))


def limited(values: np.ndarray, **more: np.ndarray) -> dict[str, np.ndarray]:
    return {"value": values, "limit": np.full(values.shape, LIMIT), **more}


def test_a_leak_is_told_before_a_tenth_is_used() -> None:
    """Full in 10 to 40 h: told before 10 % of the headroom is gone; in 5 h: after 40 min at the latest."""
    onset, windows = 3 * HOUR, 7 * HOUR
    hours = np.repeat([5, 10, 20, 40], 10)
    leak = 20e9 * np.clip(np.arange(windows) - onset, 0, None)[:, None] / (hours * HOUR)

    values = limited(memory(1, windows, 40) + leak)
    found = np.array(first_beyond(Trend(NO_LOAD), values, window_ms=WINDOW_MS), np.float64)

    share = (found + 1 - onset) / HOUR / hours
    assert (share > 0).all()
    assert (share.reshape(4, 10).max(axis=1) < [0.13, 0.1, 0.1, 0.1]).all()


def test_a_leak_is_told_beside_the_load_of_a_day() -> None:
    """Load rises and falls over the day; after ten hours it is known not to matter."""
    onset, windows = 10 * HOUR, 13 * HOUR
    leak = 20e9 * np.clip(np.arange(windows) - onset, 0, None)[:, None] / (20 * HOUR)
    load = 100 * day(windows, WINDOW_MS) * np.exp(noise(2, windows, 15, 0.07, 0.3))

    values = limited(memory(3, windows, 15) + leak, load=load)
    found = np.array(first_beyond(Trend(SHIPPED), values, window_ms=WINDOW_MS), np.float64)

    took_h = (found + 1 - onset) / HOUR
    assert (took_h > 0).all()
    assert (took_h < 2).all()


@pytest.mark.parametrize("minutes", [4, 20, 35])
def test_a_pulse_before_it_hides_no_leak(minutes: int) -> None:
    """Memory that filled up at once and was given back at once, for up to a third of the horizon, delays no leak."""
    onset, windows = 4 * HOUR, 6 * HOUR
    at = np.arange(windows)[:, None]
    leak = 20e9 * np.clip(at - onset, 0, None) / (5 * HOUR)
    pulse = 19e9 * ((at >= onset - 10 - minutes // 2) & (at < onset - 10))

    plain = first_beyond(Trend(NO_LOAD), limited(memory(1, windows, 5) + leak), window_ms=WINDOW_MS)
    found = first_beyond(Trend(NO_LOAD), limited(memory(1, windows, 5) + leak + pulse), window_ms=WINDOW_MS)

    later = np.array(found, np.float64) - np.array(plain, np.float64)
    assert (later <= 4).all()


def no_leak(name: str, windows: int, series: int) -> np.ndarray:
    random = np.random.default_rng(4)
    at = np.arange(windows)[:, None]
    if name == "noise":
        return memory(5, windows, series)
    if name == "a step":
        return memory(6, windows, series) + 5e9 * (at > random.integers(30, windows, series))
    if name == "a saw":
        period = random.integers(5, 25, series)
        return 55e9 + 10e9 * ((at + random.integers(0, 25, series)) % period) / period
    if name == "a cache that fills":
        return 40e9 + 30e9 * (1 - np.exp(-at / random.integers(1, 10, series))) + noise(7, windows, series, 3e8, 0.3)
    return np.full((windows, series), 60e9)


HEALTHY = ("noise", "a step", "a saw", "a cache that fills", "constant")


def test_these_are_no_leaks() -> None:
    """Four hours of each on twenty machines: nothing."""
    values = np.hstack([no_leak(name, 4 * HOUR, 20) for name in HEALTHY])

    found = first_beyond(Trend(NO_LOAD), limited(values), window_ms=WINDOW_MS)

    assert [HEALTHY[slot // 20] for slot, at in enumerate(found) if at is not None] == []


def test_what_follows_load_is_no_leak() -> None:
    """Memory that goes with the load as the day begins."""
    load = 100 * day(6 * HOUR, WINDOW_MS) * np.exp(noise(8, 6 * HOUR, 20, 0.07, 0.3))

    assert beyond_count(Trend(SHIPPED), limited(50e9 + 1e8 * load, load=load), window_ms=WINDOW_MS) == 0


def test_it_ends() -> None:
    """With the next windows when memory is free again, within two hours when it merely grows no more."""
    leak = np.repeat(60e9 + 20e9 * np.clip(np.arange(6 * HOUR) - 3 * HOUR, 0, None)[:, None] / (20 * HOUR), 2, axis=1)
    leak *= np.exp(noise(9, 6 * HOUR, 1, 0.0005, 0.3))
    calm = np.tile([60e9, leak[-1, 0]], (3 * HOUR, 1)) * np.exp(noise(10, 3 * HOUR, 1, 0.0005, 0.3))
    detector = Trend(NO_LOAD)

    during = [said for _, said in judged(detector, limited(leak), window_ms=WINDOW_MS)]
    behind = [said for _, said in judged(detector, limited(calm), window_ms=WINDOW_MS, first=6 * HOUR)]

    assert during[-1].beyond.tolist() == [True, True]
    assert during[-1].note is not None
    assert [during[-1].notes[code] for code in during[-1].note] == ["full in about 18 h"] * 2
    for slot, ends_h in enumerate((0.1, 2.0)):
        assert [one.within[slot] for one in behind].index(True) <= ends_h * HOUR + 3
        assert not any(one.beyond[slot] for one in behind[int(ends_h * HOUR) + 3 :])


def test_a_host_that_comes_back_empty_leaks_no_more() -> None:
    """Away for hours with a leak that was told: back with little in use it is none, back as full as it was it is."""
    leaks, away = 6 * 120, 3 * 120
    leak = 20e9 * np.clip(np.arange(leaks) - 3 * 120, 0, None)[:, None] / (5 * 120)
    detector = Trend(rule("trend", "limit", window_ms=30_000, min_r2=0.5))
    *_, (_, told) = judged(detector, limited(memory(1, leaks, 2) + leak), window_ms=30_000)
    for number in range(leaks, leaks + away):
        detector.detect(frame(number, {"value": [], "limit": []}, window_ms=30_000))

    back = limited(np.tile([4e9, 72e9], (4, 1)))
    found = [said for _, said in judged(detector, back, window_ms=30_000, first=leaks + away)]

    assert told.beyond.tolist() == [True, True]
    assert [one.beyond.tolist() for one in found] == [[False, True]] * 4
    assert found[0].within.tolist() == [True, False]


def test_without_a_limit_slopes_are_in_the_values_unit() -> None:
    """A resident set that grows by 1 GB an hour, where half of that is allowed."""
    shipped = rule("trend", window_ms=WINDOW_MS, min_slope_per_hour=5e8, min_r2=0.5)
    values = 8e9 + 1e9 * np.arange(6 * HOUR)[:, None] / HOUR + noise(11, 6 * HOUR, 1, 2e7)

    *_, (_, said) = judged(Trend(shipped), {"value": values}, window_ms=WINDOW_MS)

    assert said.beyond.tolist() == [True]
    assert said.note is not None
    assert said.notes[said.note[0]] == "rises steadily"


def test_odd_input_is_no_alarm() -> None:
    """Every third window odd, or all of them: no warning, no alarm."""
    odd = (np.nan, -np.inf, 1e300, 0.0)
    values = np.full((70, 2 * len(odd)), 5.0)
    values[::3, ::2] = values[:, 1::2] = odd

    found = first_beyond(Trend(SHIPPED), {"value": values, "limit": values * 0.5, "load": values}, window_ms=WINDOW_MS)

    assert [odd[slot // 2] for slot, at in enumerate(found) if at is not None] == []


def test_gaps_are_no_alarm() -> None:
    """An hour and a week of silence between healthy stretches."""
    detector, first, found = Trend(NO_LOAD), 0, 0
    for gap in (30, 5_040):
        found += sum(
            int(said.beyond.sum()) for _, said in judged(detector, limited(memory(gap, 80, 5)), None, WINDOW_MS, first)
        )
        first += 80 + gap

    assert found == 0


@pytest.mark.parametrize("cut", [60, 95])
def test_a_restart_changes_nothing(cut: int) -> None:
    """Dumped and loaded at any point it says the same as the one that went on."""
    values = limited(memory(cut, 110, 3) + 2e8 * np.arange(110)[:, None], load=np.exp(noise(cut, 110, 3, 0.1)))
    whole = Trend(SHIPPED)
    list(judged(whole, {name: one[:cut] for name, one in values.items()}, window_ms=WINDOW_MS))
    again = resumed(whole, Trend(SHIPPED))
    rest = {name: one[cut:] for name, one in values.items()}

    left = [said for _, said in judged(whole, rest, None, WINDOW_MS, cut)]
    right = [said for _, said in judged(again, rest, None, WINDOW_MS, cut)]

    assert all(same(one, other) for one, other in zip(left, right, strict=True))
    assert whole.bytes_per_slot() <= 1_024
