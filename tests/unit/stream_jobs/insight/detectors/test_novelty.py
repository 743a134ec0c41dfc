"""What a series has not done before: faults of many shapes are found, what recurs and what seasons bring is no news.

Values every quarter of an hour, ten series of each kind.

Covers stream_jobs.insight.detectors.hours, stream_jobs.insight.detectors.novelty_kernels and
stream_jobs.insight.detectors.scales as well.
"""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import lab
from stream_jobs.insight.detectors import hours, scales
from stream_jobs.insight.detectors.novelty import ACCEPTED, NOTES, Novelty
from stream_jobs.insight.slotted import Column, Slotted
from tests.unit.stream_jobs.insight.detectors.cases import frame, judged, noise, resumed, rule, same

Values = npt.NDArray[np.float64]
TRACES = Path(lab.__file__).parent / "data" / "azure_llm_2023"
"""By Microsoft Azure, CC BY 4.0: see the folder."""
STEP_MS, DAY, SERIES = 900_000, 96, 10
DAYS = 12
AT = 10 * DAY + 30
"""The window in which faults begin."""


def detector(**options: Any) -> Novelty:
    return Novelty(rule("novelty", window_ms=STEP_MS, **options))


def latencies(seed: int = 1, days: int = DAYS) -> Values:
    return np.exp(noise(seed, days * DAY, SERIES, 0.15))


def poisson(rate: float, seed: int = 2, days: int = DAYS) -> Values:
    return np.random.default_rng(seed).poisson(rate, (days * DAY, SERIES)).astype(float)


def wrong(values: Values, length: int, change: Any, at: int = AT) -> Values:
    out = values.copy()
    out[at : at + length] = change(out[at : at + length])
    return out


def beyond_of(found: Novelty, values: Values) -> npt.NDArray[np.bool_]:
    """Windows x series."""
    return np.array([said.beyond.copy() for _, said in judged(found, {"value": values}, window_ms=STEP_MS)])


FAULTS = {
    "a burst of errors where there are hardly any": wrong(poisson(0.1), 3, lambda v: v + 20),
    "three times as many of a count": wrong(poisson(20), 3, lambda v: v * 3),
    "a count at a third": wrong(poisson(100), 4, lambda v: np.floor(v / 3)),
    "a sixth of the usual": wrong(latencies(), 4, lambda v: v / 6),
    "six times the usual": wrong(latencies(), 4, lambda v: v * 6),
    "nothing at all": wrong(latencies(), 4, lambda v: v * 0),
    "slowly more": wrong(latencies(), DAY, lambda v: v * np.exp(np.linspace(0, 1, len(v)))[:, None]),
    "below zero, as temperatures are": wrong(latencies() - 1, 4, lambda v: v - 5),
    "a spread four times as wide": wrong(5 + np.log(latencies()), DAY, lambda v: 5 + (v - 5) * 4),
}


@pytest.mark.parametrize("values", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_in_every_series_and_nothing_before_it(values: Values) -> None:
    """Steps at once, slow ones before they are over."""
    found = beyond_of(detector(), values)

    assert found[AT : AT + DAY].any(axis=0).mean() >= 0.95
    assert found[:AT].sum() <= 1


def test_what_recurs_is_no_news_and_more_of_it_is() -> None:
    """Spikes of a job that runs every few hours, since the first day; then one four times as high."""
    values = latencies()
    values[np.arange(len(values)) % 25 == 0] *= 5
    quiet, found = beyond_of(detector(), values), beyond_of(detector(), wrong(values, 2, lambda v: v * 20))

    assert not quiet.any()
    assert found[AT : AT + 2].any(axis=0).all()


def test_a_burst_is_no_news_to_a_series_that_idles_between_them() -> None:
    """As the duty cycle of a GPU does: mostly zero, bursts of any length and height up to 100 %."""
    random, values = np.random.default_rng(3), np.zeros((DAYS * DAY, SERIES))
    for series in range(SERIES):
        at = 0
        while at < len(values):
            at += int(random.exponential(12)) + 1
            length = int(random.exponential(4)) + 1
            values[at : at + length, series] = random.uniform(20, 100)
            at += length

    assert beyond_of(detector(), values).sum() <= 2


def seasonal(days: int, depth: float = 0.6) -> Values:
    at = np.arange(days * DAY) / DAY
    return 100 * (1 + depth * np.sin(2 * np.pi * at))[:, None] * np.exp(noise(4, days * DAY, SERIES, 0.05))


def test_a_season_excuses_and_accuses() -> None:
    """The day's own course is expected; at night what is usual at noon is not."""
    days = 16
    night, noon = 14 * DAY + 3 * DAY // 4, 14 * DAY + DAY // 4
    values = seasonal(days)
    wrong_hour = wrong(values, 4, lambda v: v * 0 + 140, at=night)
    right_hour = wrong(values, 4, lambda v: v * 0 + 150, at=noon)

    assert beyond_of(detector(), wrong_hour)[night : night + 4].any(axis=0).all()
    assert not beyond_of(detector(), right_hour).any()


def test_weekends_are_expected_once_there_was_one() -> None:
    """Half the traffic on two of seven days, for a month; a working day like a weekend is not expected."""
    days = 28
    values = seasonal(days, 0.3)
    values[(np.arange(days * DAY) // DAY % 7 >= 5)] *= 0.5
    at = 23 * DAY + DAY // 4
    found = beyond_of(detector(), wrong(values, 8, lambda v: v * 0.3, at=at))

    assert found[at : at + 8].any(axis=0).all()
    assert found[:at].sum() <= 1


def test_the_level_is_no_longer_that_of_the_weekend_once_hours_of_the_week_explain_it() -> None:
    """The second weekend is no surprise that limits must make room for: a third less at noon is seen after three
    weeks, and nothing before."""
    days = 28
    values = seasonal(days, 0.3)
    values[(np.arange(days * DAY) // DAY % 7 >= 5)] *= 0.5
    at = 22 * DAY + DAY // 4
    found = beyond_of(detector(), wrong(values, 6, lambda v: v * 0.65, at=at))

    assert found[at : at + 6].any(axis=0).mean() >= 0.9
    assert not found[:at].any()


def test_hours_are_straightened_to_those_of_a_level_that_stood_still() -> None:
    """Two levels, of working days and of weekends, followed with a half-life of a day; the table holds what was left
    over, the middle of the true hours is the level afterwards."""
    true = np.where(np.arange(hours.HOURS) // 24 < 5, 1.0, 0.0)
    kept, level, follows = Slotted((Column("level", "f8"), *hours.COLUMNS)), 0.7, np.log(2) / 24
    kept.grow(1)
    for hour in range(hours.HOURS):
        kept.state["week"][0, hour] = true[hour] - level
        level += follows * (true[hour] - level)
    kept.state["level"][0] = level

    hours.straighten(kept.state, np.arange(1), hours.HOURS - 1, np.zeros(1, np.bool_), follows)

    assert kept.state["level"][0] == pytest.approx(5 / 7, abs=0.02)
    assert kept.state["level"][0] + kept.state["week"][0] == pytest.approx(true, abs=0.05)


def test_nothing_is_judged_in_the_time_of_warming_up() -> None:
    """A day, if nothing else is said; after it what lies far outside all that was."""
    values = wrong(latencies(days=4), 4, lambda v: v * 50, at=DAY // 2)
    later = wrong(latencies(days=4), 4, lambda v: v * 50, at=3 * DAY)

    assert not beyond_of(detector(), values)[: DAY - 1].any()
    assert not beyond_of(detector(warm_up_s=4 * 86_400), later).any()
    assert beyond_of(detector(), later)[3 * DAY].all()


@pytest.mark.parametrize(("direction", "up", "down"), [("above", 1, 0), ("below", 0, 1), ("both", 1, 1)])
def test_one_side_may_be_nobodys_business(direction: str, up: int, down: int) -> None:
    """What goes the other way is learned all the same."""
    values = np.concatenate([FAULTS["six times the usual"], FAULTS["a sixth of the usual"]], axis=1)
    found = beyond_of(detector(direction=direction), values)[AT]

    assert (found[:SERIES].all(), found[SERIES:].all()) == (bool(up), bool(down))
    assert found.sum() == SERIES * (up + down)


def test_what_lasts_is_the_new_normal() -> None:
    """After ``relearn_after_s`` beyond, of which noise may cost a few windows."""
    values = wrong(latencies(), DAY, lambda v: v * 6)
    said = [one for _, one in judged(detector(relearn_after_s=6 * 3_600), {"value": values}, window_ms=STEP_MS)]
    notes = np.array([one.note for one in said])
    accepted = np.argmax(notes == ACCEPTED, axis=0)

    assert NOTES[ACCEPTED] == "new normal accepted"
    assert (accepted >= AT + 24).all()
    assert (accepted <= AT + 40).all()
    assert said[AT].beyond.all()
    assert not said[AT + 60].beyond.any()


def test_a_series_that_never_moved_moves() -> None:
    """After a day of one value any other that differs by more than ``min_relative`` is news; less is not."""
    values = np.full((3 * DAY, 3), 50.0)
    values[2 * DAY] = [50.5, 60.0, 0.0]

    assert beyond_of(detector(), values)[2 * DAY].tolist() == [False, True, True]


def captured(trace: str) -> Values:
    """An hour of real traffic, a column each of requests, prompt tokens and generated tokens; each second of it stands
    for a window."""
    with (TRACES / f"AzureLLMInferenceTrace_{trace}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    at_s = np.array([datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows])
    second = (at_s - at_s[0]).astype(int)
    seconds = int(second[-1])
    tokens = ([float(row[name]) for row in rows] for name in ("ContextTokens", "GeneratedTokens"))
    columns = (np.bincount(second), *(np.bincount(second, weights) for weights in tokens))
    return np.stack([column[:seconds] for column in columns], axis=1).astype(float)


@pytest.mark.parametrize("trace", ["code", "conv"])
def test_real_traffic_is_no_news_and_a_burst_behind_it_is(trace: str) -> None:
    """Bursts, zeros and drifts as they come, in windows of five minutes; then one of twenty times the greatest."""
    values, five_minutes = captured(trace), 300_000
    found = Novelty(rule("novelty", window_ms=five_minutes))
    said = [one.beyond for _, one in judged(found, {"value": values}, window_ms=five_minutes)]
    burst = frame(len(values), {"value": 20 * values.max(axis=0)}, window_ms=five_minutes)

    assert len(values) > 3_400
    assert not np.array(said).any()
    assert found.detect(burst).beyond.all()


def test_the_score_is_one_at_the_entering_level_and_keeps_its_order() -> None:
    """However far out; unknown while nothing is judged."""
    found, values = detector(), latencies(days=8)
    said = [one for _, one in judged(found, {"value": values}, window_ms=STEP_MS)]
    far = [found_at(found, values, times) for times in (10.0, 1e3, 1e6, 1e12)]

    assert said[0].score is not None
    assert np.isnan(said[0].score).all()
    ordinary = np.array([one.score for one in said[3 * DAY :]])
    assert ordinary.max() < 1.0
    assert (np.diff(np.array(far), axis=0) > 0).all()
    assert min(far[0]) > 1.0


def found_at(found: Novelty, values: Values, times: float) -> list[float]:
    """Scores of one more window, so many times the last."""
    again = resumed(found, detector())
    said = again.detect(frame(len(values), {"value": values[-1] * times}, window_ms=STEP_MS))
    assert said.score is not None
    return [float(one) for one in said.score]


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        pytest.param(latencies(days=1), scales.LOG, id="positive"),
        pytest.param(poisson(0.3, days=1), scales.ROOT, id="with zeros"),
        pytest.param(poisson(8, days=1) + 1, scales.ROOT, id="counts"),
        pytest.param(latencies(days=1) - 1, scales.LINEAR, id="with negatives"),
        pytest.param(latencies(days=1) * 1e12, scales.LOG, id="bytes"),
    ],
)
def test_a_series_has_the_scale_of_its_values(values: Values, scale: int) -> None:
    """And every value its place there and back."""
    found = detector()
    beyond_of(found, values)
    slots = np.arange(SERIES)

    assert (found.state["scale"] == scale).all()
    placed = scales.of(found.state, slots, values[-1])
    assert scales.back(found.state, slots, placed) == pytest.approx(values[-1], rel=1e-9, abs=1e-9)


def test_zeros_that_stay_move_a_series_to_another_scale() -> None:
    """The first one is a fall; once they are one in a hundred nothing of before is worth anything."""
    values = latencies(days=6)
    values[4 * DAY] = 0
    values[4 * DAY + 5 :: 10] = 0
    found = detector()
    beyond = beyond_of(found, values)

    assert beyond[4 * DAY].all()
    assert (found.state["scale"] == scales.ROOT).all()


def test_gaps_and_steps_back_in_time_are_lived_through() -> None:
    """Unknown values are neither beyond nor within; after hours without any the short averages begin anew."""
    values = latencies()
    values[5 * DAY : 5 * DAY + 60] = np.nan
    found = detector()
    said = [one for _, one in judged(found, {"value": values}, window_ms=STEP_MS)]
    back = found.detect(frame(len(values) - 10, {"value": values[-1]}, window_ms=STEP_MS))

    assert not any(one.beyond.any() for one in said)
    assert not said[5 * DAY].within.any()
    assert not back.beyond.any()


@pytest.mark.parametrize("cut", [10, 3 * DAY, AT + 1])
def test_a_detector_that_was_kept_and_loaded_goes_on_as_if_nothing_had_been(cut: int) -> None:
    """Wherever it is cut, its verdicts are the same, and so is its state."""
    values = FAULTS["six times the usual"]
    whole = detector()
    expected = [one for _, one in judged(whole, {"value": values}, window_ms=STEP_MS)]
    first = detector()
    firing = np.zeros(SERIES, np.bool_)
    for _, said in judged(first, {"value": values[:cut]}, window_ms=STEP_MS):
        firing = (firing | said.beyond) & ~said.within
    second = resumed(first, detector())
    for number in range(cut, len(values)):
        said = second.detect(frame(number, {"value": values[number]}, firing=firing, window_ms=STEP_MS))
        firing = (firing | said.beyond) & ~said.within
        assert same(said, expected[number])

    ends = (whole.dump(), second.dump())
    assert {name: one.tobytes() for name, one in ends[0].items()} == {n: one.tobytes() for n, one in ends[1].items()}


def test_a_slot_that_is_given_away_knows_nothing() -> None:
    """Nor does what it holds cost more than a kibibyte."""
    found, fresh = detector(), detector()
    beyond_of(found, latencies(days=3))
    fresh.grow(SERIES)
    found.forget(np.arange(SERIES))

    assert {name: one.tobytes() for name, one in found.dump().items()} == {
        name: one.tobytes() for name, one in fresh.dump().items()
    }
    assert found.bytes_per_slot() <= 1_024
