"""Latency adjusted for load: surges never alarm, a slower engine does, at any load it knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.detectors.load_adjusted import LoadAdjusted
from stream_jobs.insight.firing import SILENT, SILENT_MS
from tests.unit.stream_jobs.insight.detectors.cases import (
    WINDOW_MS,
    beyond_count,
    day,
    ended,
    first_beyond,
    frame,
    judged,
    noise,
    resumed,
    rule,
    same,
)

KIND = "load_adjusted"


def latency(load: np.ndarray, seed: int, sigma: float = 0.04) -> np.ndarray:
    """Bends up near a capacity of 64."""
    used = np.minimum(load / 64, 0.97)
    return 200_000 * (1 + 0.5 * used / (1 - used)) * np.exp(noise(seed, len(load), load.shape[1], sigma))


def healthy(seed: int, windows: int, series: int, window_ms: int = 10_000) -> dict[str, np.ndarray]:
    load = 20 * day(windows, window_ms) * np.exp(noise(seed, windows, series, 0.1))
    return {"load": load, "value": latency(load, seed + 1)}


def test_a_day_with_surges_is_no_alarm() -> None:
    """Season, noise, and surges to three times the load, above all that was seen before: nothing."""
    windows, series = 720, 120
    load = 20 * day(windows, 120_000, 0.5) * np.exp(noise(5, windows, series, 0.1))
    for number in range(series):
        at = 100 + 17 * number % 600
        load[at : at + 20, number] *= np.linspace(1, 3, 20)
    values = {"load": load, "value": latency(load, 6)}

    assert beyond_count(LoadAdjusted(rule(KIND, "load", window_ms=120_000)), values, window_ms=120_000) == 0


def test_half_slower_is_found_at_once_at_any_load() -> None:
    """50 % slower at the load of any hour: within three windows."""
    values = healthy(7, 750, 40, 120_000)
    onset = 550 + np.arange(40) * 4
    slow = np.arange(750)[:, None] >= onset
    values["value"] = np.where(slow, values["value"] * 1.5, values["value"])

    found = first_beyond(LoadAdjusted(rule(KIND, "load", window_ms=120_000)), values, window_ms=120_000)

    assert [one - at for one, at in zip(found, onset, strict=True) if one is None or not 0 <= one - at < 3] == []


def test_the_busiest_load_excuses_no_more_than_its_spread() -> None:
    """Where no busier load is known, windows somewhat above the usual one are judged by the slope seen around it: 50 %
    slower is beyond in nine of ten of them."""
    windows, onset = 320, 300
    load = 40 * np.exp(noise(21, windows, 40, 0.12))
    slower = np.where(np.arange(windows)[:, None] >= onset, 1.5, 1.0)
    values = {"load": load, "value": 10_000 * np.exp(noise(22, windows, 40, 0.015)) * slower}
    options = {"half_life_s": 43_200, "enter_sigmas": 5, "floor_relative": 0.025}

    said = [one.beyond for _, one in judged(LoadAdjusted(rule(KIND, "load", window_ms=30_000, **options)), values)]

    assert not np.array(said[:onset]).any()
    assert np.array(said[onset:]).mean() > 0.9


def test_a_slow_drift_does_not_make_itself_usual() -> None:
    """60 % slower over two and a half hours, after two steady ones: found before three fifths of it."""
    windows, begin = 540, 240
    load = np.full((windows, 20), 20.0) * np.exp(noise(9, windows, 20, 0.1))
    drift = 0.6 * np.clip((np.arange(windows) - begin) / 300, 0, 1)[:, None]
    values = {"load": load, "value": latency(load, 10, 0.02) * (1 + drift)}
    options = {"half_life_s": 43_200, "enter_sigmas": 5, "floor_relative": 0.025}

    found = first_beyond(LoadAdjusted(rule(KIND, "load", window_ms=30_000, **options)), values, window_ms=30_000)

    assert [one for one in found if one is None or not begin + 20 < one < begin + 180] == []


@pytest.mark.parametrize(("direction", "found"), [("below", True), ("both", True), ("above", False)])
def test_nothing_at_a_load_is_less_than_anything(direction: str, found: bool) -> None:
    """An engine that stands still with twenty requests is beyond however long it does, and is judged as before from its
    first token on; upwards zero is unknown."""
    detector = LoadAdjusted(rule(KIND, "load", direction=direction, relearn_after_s=600))
    load = np.full((300, 1), 20.0)
    value = np.where((np.arange(300) >= 100) & (np.arange(300) < 250), 0.0, 1e4)[:, None]

    said = [one for _, one in judged(detector, {"load": load, "value": value})]

    assert [one.beyond[0] for one in said] == [False] * 100 + [found] * 150 + [False] * 50
    assert [one.value[0] == 0 for one in said[100:250]] == [found] * 150
    assert said[-1].baseline[0] == pytest.approx(1e4)


@pytest.mark.parametrize("window_ms", [300_000, 3_600_000])
def test_it_judges_however_few_windows_a_half_life_holds(window_ms: int) -> None:
    """Twelve windows of five minutes, or one of an hour: a half octave is known after as many as in any other rule."""
    values = {"load": np.full((60, 1), 10.0), "value": np.where(np.arange(60) < 58, 1e5, 3e5)[:, None]}

    found = first_beyond(LoadAdjusted(rule(KIND, "load", window_ms=window_ms)), values, window_ms=window_ms)

    assert found == [58]


def test_says_what_was_expected() -> None:
    """Value, expected and its upper bound belong to the load of the window."""
    load = np.where(np.arange(400) % 2, 8.0, 32.0)[:, None]
    values = {"load": load, "value": load * 1_000}

    *_, (_, calm), (_, busy) = judged(LoadAdjusted(rule(KIND, "load")), values)

    assert (calm.baseline[0], busy.baseline[0]) == (pytest.approx(32_000), pytest.approx(8_000))
    assert busy.high[0] == pytest.approx(8_000 * 1.05**4)


@pytest.mark.parametrize("log", [True, False], ids=["log", "plain"])
def test_the_deviation_is_at_least_the_absolute_floor(log: bool) -> None:
    """From 2 to 3 ms is half as much again, and nothing where less than 50 ms is no deviation; 500 ms is beyond four of
    them on either scale."""
    value = np.where(np.arange(180) < 150, 2.0, 3.0)
    values = {"load": np.full((180, 1), 10.0), "value": np.where(np.arange(180) < 179, value, 1e9)[:, None]}

    plain, floored = (
        [one.beyond[0] for _, one in judged(LoadAdjusted(rule(KIND, "load", log=log, **floor)), values)]
        for floor in ({}, {"floor_absolute": 50.0})
    )

    assert plain == [False] * 150 + [True] * 30
    assert floored == [False] * 179 + [True]


def test_a_load_beyond_all_seen_is_learned_and_not_judged() -> None:
    """Four times the load and ten times the latency: nothing is said, no bound is claimed."""
    load = np.full((120, 1), 10.0)
    load[100:] = 40.0
    values = {"load": load, "value": np.where(load > 10, 1e6, 1e5)}

    said = [said for _, said in judged(LoadAdjusted(rule(KIND, "load")), values)]

    assert not any(one.beyond.any() for one in said)
    assert np.isnan(said[105].high[0])


def test_a_series_without_any_load_is_judged() -> None:
    """Nothing but zeros places no half octave; a value twice as high is beyond all the same."""
    values = {"load": np.zeros((60, 1)), "value": np.where(np.arange(60) < 58, 1e5, 2e5)[:, None]}

    assert first_beyond(LoadAdjusted(rule(KIND, "load")), values) == [58]


def after_a_canary(seed: int, windows: int, quiet: int = 1) -> dict[str, np.ndarray]:
    """Nearly no load for the first windows, then a hundred times as much, as where an engine starts within a window."""
    load = np.where(np.arange(windows)[:, None] < quiet, 0.2, 20 * np.exp(noise(seed, windows, 20, 0.1)))
    return {"load": load, "value": latency(load, seed + 1)}


@pytest.mark.parametrize("quiet", [1, 40], ids=["one window", "while it warms up"])
def test_a_surge_never_alarms_however_small_the_first_load_was(quiet: int) -> None:
    """Three times the load and what latency that costs, above all that was seen: nothing."""
    values = after_a_canary(31, 400, quiet)
    values["load"][200:220] *= np.linspace(1, 3, 20)[:, None]
    values["value"] = latency(values["load"], 32)

    assert beyond_count(LoadAdjusted(rule(KIND, "load")), values) == 0


@pytest.mark.parametrize("quiet", [1, 40], ids=["one window", "while it warms up"])
def test_half_slower_is_found_however_small_the_first_load_was(quiet: int) -> None:
    """At once, as in any other series."""
    values = after_a_canary(33, 420, quiet)
    values["value"][400:] *= 1.5

    found = first_beyond(LoadAdjusted(rule(KIND, "load")), values)

    assert [one for one in found if one is None or not 400 <= one < 403] == []


def test_half_octaves_move_up_with_what_they_know() -> None:
    """Load that grows beyond all of them: those that stay are judged as before, the new ones once they are known."""
    detector = LoadAdjusted(rule(KIND, "load"))
    load = np.repeat([1.0, 2.0, 8.0, 128.0], [60, 60, 60, 120])[:, None]
    list(judged(detector, {"load": load, "value": load * 1_000}))
    slower = np.tile([[1_000.0], [1_500.0]], (2, 1))

    back = np.repeat([8.0, 128.0], 2)[:, None]
    said = [one for _, one in judged(detector, {"load": back, "value": back * slower}, first=300)]

    assert [one.beyond[0] for one in said] == [False, True] * 2
    assert [one.baseline[0] for one in said] == pytest.approx([8_000] * 2 + [128_000] * 2)


def test_half_slower_is_found_however_large_the_first_load_was() -> None:
    """At each of two loads far below it, which cost different latencies and so are not one."""
    load = np.where(np.arange(300) < 10, 2_000.0, np.where(np.arange(300) % 2, 8.0, 32.0))
    slower = np.where(np.arange(300) < 296, 1.0, 1.5)
    values = {"load": load[:, None], "value": (load * 1_000 * slower)[:, None]}

    said = [one.beyond[0] for _, one in judged(LoadAdjusted(rule(KIND, "load")), values)]

    assert said == [False] * 296 + [True] * 4


def test_half_octaves_move_down_as_long_as_none_that_is_known_leaves() -> None:
    """To the night, and not to what is far below it: by day all is judged as before."""
    detector = LoadAdjusted(rule(KIND, "load"))
    load = np.repeat([512.0, 64.0, 4.0], [60, 60, 60])[:, None]
    list(judged(detector, {"load": load, "value": load * 1_000}))
    back = np.repeat([64.0, 512.0], 2)[:, None]
    slower = np.tile([[1.0], [1.5]], (2, 1))

    said = [one for _, one in judged(detector, {"load": back, "value": back * 1_000 * slower}, first=180)]

    assert [one.beyond[0] for one in said] == [False, True] * 2
    assert [one.baseline[0] for one in said] == pytest.approx([64_000] * 2 + [512_000] * 2)


def test_no_load_before_the_first_one_is_the_lowest_half_octave() -> None:
    """Not the load of one that its logarithm would be: it moves no half octaves."""
    detector = LoadAdjusted(rule(KIND, "load"))
    load = np.repeat([0.0, 2_000.0, 0.0], [40, 10, 1])[:, None]
    list(judged(detector, {"load": load, "value": np.full((51, 1), 1e5)}))

    assert detector.dump()["first"].tolist() == [2 * 10 + 1 - 5]


def test_rare_peaks_move_no_half_octaves() -> None:
    """A load a hundred times the usual in one window of five: it is learned and not judged, the usual one is."""
    often = np.arange(600) % 5 < 4
    load = np.where(often, 10.0, 1_000.0)[:, None]
    slow = np.where(np.arange(600) < 590, 1.0, 2.0)[:, None]
    values = {"load": load, "value": load * 1_000 * slow}

    said = [one.beyond[0] for _, one in judged(LoadAdjusted(rule(KIND, "load")), values)]

    assert said == [False] * 590 + often[590:].tolist()


def test_without_a_load_it_is_not_judged_and_clears() -> None:
    """The value is known, the load is not."""
    detector = LoadAdjusted(rule(KIND, "load"))
    list(judged(detector, healthy(3, 100, 1)))
    unknown = [frame(number, {"value": [9e6], "load": [np.nan]}) for number in range(100, 140)]

    assert ended(detector, unknown) == (SILENT_MS // WINDOW_MS, SILENT)


def test_a_new_normal_is_accepted() -> None:
    """What stays beyond is learned anew after the configured time."""
    values = {"load": np.full((500, 1), 10.0), "value": np.where(np.arange(500) < 100, 1e5, 2e5)[:, None]}

    said = [said for _, said in judged(LoadAdjusted(rule(KIND, "load", relearn_after_s=600)), values)]

    assert [number for number, one in enumerate(said) if one.beyond[0]] == list(range(100, 161))
    assert said[-1].within.tolist() == [True]


def test_nothing_is_normal_before_its_rule_could_fire() -> None:
    """4 of 5 hours, and two hours to learn: all five are seen to be beyond."""
    shipped = replace(rule(KIND, "load", window_ms=3_600_000, relearn_after_s=7_200), m=4, n=5)
    values = {"load": np.full((70, 1), 10.0), "value": np.where(np.arange(70) < 60, 1e5, 2e5)[:, None]}

    said = [one.beyond[0] for _, one in judged(LoadAdjusted(shipped), values, window_ms=3_600_000)]

    assert said[60:66] == [True] * 6


def test_a_gap_is_no_time_in_which_it_stayed_beyond() -> None:
    """Drained after twenty minutes and back hours later, still slower: it fires on, and is learned only once it was
    seen so for half of the time."""
    detector = LoadAdjusted(rule(KIND, "load", relearn_after_s=600))
    list(judged(detector, {"load": np.full((100, 1), 10.0), "value": np.full((100, 1), 1e5)}))
    slow = {"load": np.full((20, 1), 10.0), "value": np.full((20, 1), 2e5)}

    first = [said.beyond[0] for _, said in judged(detector, slow, first=100)]
    later = [said.beyond[0] for _, said in judged(detector, slow, first=1_000)]

    assert first == [True] * 20
    assert later == [True] * 10 + [False] * 10


def test_a_snapshot_without_the_count_of_windows_beyond_is_read() -> None:
    """It counts from then on."""
    values = {"load": np.full((130, 1), 10.0), "value": np.where(np.arange(130) < 100, 1e5, 2e5)[:, None]}
    before, after = (LoadAdjusted(rule(KIND, "load", relearn_after_s=600)) for _ in range(2))
    list(judged(before, values))

    after.load({name: array for name, array in before.dump().items() if name != "off"})
    slow = {name: one[100:] for name, one in values.items()}
    said = [
        said.beyond[0] for _, said in judged(after, {n: np.tile(one, (2, 1)) for n, one in slow.items()}, first=130)
    ]

    assert said == [True] * 31 + [False] * 29


ODD = (np.nan, np.inf, -5.0, 0.0, 1e300)


@pytest.mark.parametrize("log", [True, False], ids=["log", "plain"])
def test_odd_input_teaches_no_nonsense(log: bool) -> None:
    """One odd value or load in a hundred raises no warning and no alarm on the windows after it."""
    series = [(which, odd) for which in ("value", "load") for odd in ODD for _ in range(3)]
    values = healthy(9, 300, len(series))
    for number, (which, odd) in enumerate(series):
        values[which][::100, number] = odd

    said = [said for _, said in judged(LoadAdjusted(rule(KIND, "load", log=log)), values)]

    behind = np.array([one.beyond for number, one in enumerate(said) if number % 100])
    assert [series[number] for number in np.flatnonzero(behind.any(axis=0))] == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=2, max_size=60))
def test_a_restart_changes_nothing(pairs: list[tuple[float, float]]) -> None:
    """Dumped and loaded at any point it says the same as the one that went on."""
    values = {"value": np.array(pairs)[:, :1], "load": np.array(pairs)[:, 1:]}
    shipped = rule(KIND, "load", warm_up_windows=2)
    half = len(pairs) // 2
    whole = LoadAdjusted(shipped)
    list(judged(whole, {name: one[:half] for name, one in values.items()}))
    again = resumed(whole, LoadAdjusted(shipped))
    rest = {name: one[half:] for name, one in values.items()}

    left = [said for _, said in judged(whole, rest, first=half)]
    right = [said for _, said in judged(again, rest, first=half)]

    assert all(same(one, other) for one, other in zip(left, right, strict=True))
    assert whole.bytes_per_slot() <= 512
