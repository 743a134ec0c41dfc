"""``stream_jobs.insight.detectors``: threshold, deviation, moving_average, rate_of_change, no_data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from schemas.limits import HOUR_MS
from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.insight.detectors.against_baseline import ACCEPTED, AgainstBaseline, Deviation, MovingAverage
from stream_jobs.insight.detectors.no_data import GONE, NoData
from stream_jobs.insight.detectors.rate_of_change import RateOfChange
from stream_jobs.insight.detectors.threshold import Threshold
from stream_jobs.insight.frame import Detection, Detector, Frame
from tests.unit.stream_jobs.insight.cases import BASE_MS, GRAIN_MS, a_rule

NAN = math.nan
OURS = {
    "threshold": Threshold,
    "deviation": Deviation,
    "moving_average": MovingAverage,
    "rate_of_change": RateOfChange,
    "no_data": NoData,
}


def a_detector(kind: str, slots: int = 1, **options: Any) -> Detector:
    rule = a_rule(kind, options=options)
    detector = DETECTORS[kind](rule)
    detector.grow(slots)
    return detector


def detect(detector: Detector, number: int, values: Sequence[float], firing: bool = False) -> Detection:
    """A window in which slots 0, 1, ... have these values."""
    slots = np.arange(len(values))
    measures = {"value": np.array(values, np.float64)}
    frame = Frame(
        BASE_MS + number * GRAIN_MS,
        GRAIN_MS,
        slots,
        measures,
        np.ones(len(values), np.int64),
        np.full(len(values), firing),
    )
    return detector.detect(frame)


def shown(detection: Detection, slot: int = 0) -> str:
    """``x`` beyond, ``o`` within, ``-`` neither, ``.`` not judged."""
    rows = np.flatnonzero(detection.slots == slot)
    if not len(rows) or np.isnan(detection.value[rows[0]]):
        return "."
    return "x" if detection.beyond[rows[0]] else "o" if detection.within[rows[0]] else "-"


def run(detector: Detector, values: Sequence[float], start: int = 0) -> str:
    return "".join(shown(detect(detector, start + number, [value])) for number, value in enumerate(values))


def test_ours_are_registered() -> None:
    """By kind."""
    assert {kind: DETECTORS[kind] for kind in OURS} == OURS


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({"above": 10.0, "leave": 8.0}, [10.0, 10.1, 9.0, 8.0, 8.1, NAN, -math.inf, math.inf], "-x-o-.ox"),
        ({"below": 10.0, "leave": 12.0}, [10.0, 9.9, 11.0, 12.0, NAN], "-x-o."),
        ({"above": 0.0}, [0.0, 1e-300, -1.0], "oxo"),
    ],
)
def test_a_level_is_passed_not_reached(options: dict[str, float], values: list[float], expected: str) -> None:
    """On the level is not beyond it; on the leaving level is within."""
    assert run(a_detector("threshold", **options), values) == expected


def test_a_threshold_tells_its_level_as_the_end_of_the_range() -> None:
    """On the side where it lies."""
    above, below = (detect(a_detector("threshold", **{side: 10.0}), 0, [1.0]) for side in ("above", "below"))

    assert ([*above.low, *above.high][1:], [*below.low, *below.high][:1]) == ([10.0], [10.0])
    assert np.isnan([above.low[0], below.high[0]]).all()


WARM = {"warm_up_windows": 5}


@pytest.mark.parametrize("kind", ["deviation", "moving_average"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100.0], "-"),
        ([100.0] * 8, "-----ooo"),
        ([NAN] * 8, "........"),
        ([100.0] * 5 + [NAN, math.inf, 100.0], "-----..o"),
        ([100.0] * 5 + [130.0, 100.0], "-----xo"),
        ([0.0] * 8, "-----ooo"),
    ],
    ids=["one sample", "a constant series", "all unknown", "no numbers", "a step", "always zero"],
)
def test_baselines_at_the_edges(kind: str, values: list[float], expected: str) -> None:
    """Nothing is judged before it is known, what never varies is no alarm, what is no number is not judged."""
    assert run(a_detector(kind, **WARM), values) == expected


def test_negative_latencies_are_unknown_and_a_level_may_be_negative() -> None:
    """On a log scale there is no place for them; on a linear one there is."""
    assert run(a_detector("deviation", **WARM), [-5.0] * 6) == "......"
    assert run(a_detector("deviation", log=False, **WARM), [-5.0] * 6 + [-3.0, -5.0]) == "-----oxo"


@pytest.mark.parametrize(("direction", "expected"), [("above", "oxo"), ("below", "oox"), ("both", "oxx")], ids=str)
def test_a_direction_is_the_side_that_counts(direction: str, expected: str) -> None:
    """The other side is well."""
    detector = a_detector("deviation", direction=direction, **WARM)
    run(detector, [100.0] * 20)

    assert run(detector, [100.0, 150.0, 50.0], 20) == expected


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({"min_relative": 0.15, "floor_relative": 0.0}, 114.0, "-"),
        ({"min_relative": 0.15, "floor_relative": 0.0}, 116.0, "x"),
        ({"min_relative": 0.15, "floor_relative": 0.0}, 107.0, "o"),
        ({"min_relative": 0.15, "floor_relative": 0.05}, 121.0, "-"),
        ({"min_relative": 0.15, "floor_relative": 0.05}, 123.0, "x"),
        ({"min_relative": 0.0, "floor_relative": 0.0, "floor_absolute": 10.0}, 145.0, "-"),
        ({"min_relative": 0.0, "floor_relative": 0.0, "floor_absolute": 10.0}, 147.0, "x"),
        ({"min_relative": 0.0, "floor_relative": 0.0, "log": False}, 100.1, "x"),
    ],
)
def test_sigmas_floors_and_shares_all_must_be_passed(options: dict[str, Any], value: float, expected: str) -> None:
    """A series that hardly varied is no alarm for a little more."""
    detector = a_detector("deviation", **options, **WARM)
    run(detector, [100.0] * 20)

    assert run(detector, [value], 20) == expected


def test_what_is_told_as_the_range_is_what_is_judged_by() -> None:
    """Just inside is not beyond, just outside is."""
    rng = np.random.default_rng(1)
    values = rng.lognormal(5.0, 0.1, 60).tolist()
    for sign in (-1, 1):
        detector = a_detector("deviation", direction="both", **WARM)
        run(detector, values)
        found = detect(detector, 60, [1e9])
        edge = (found.low if sign < 0 else found.high)[0]

        assert run(detector, [edge * (1 - sign * 1e-6)], 61) == "-"
        detector = a_detector("deviation", direction="both", **WARM)
        run(detector, values)
        assert run(detector, [edge * (1 + sign * 1e-6)], 60) == "x"


def test_a_slow_drift_is_followed() -> None:
    """Twice as much in a few half-lives is no alarm for a deviation: it is for a trend."""
    detector = a_detector("deviation", half_life_s=300.0, **WARM)

    assert "x" not in run(detector, [100.0 * 2 ** (number / 300) for number in range(300)])


def test_bursts_do_not_teach_the_baseline() -> None:
    """Ten windows of ten times as much, again and again: each is seen, and the level stays."""
    detector = a_detector("deviation", **WARM)
    run(detector, [100.0] * 30)

    seen = run(detector, ([1_000.0] * 10 + [100.0] * 10) * 5, 30)

    assert seen == ("x" * 10 + "o" * 10) * 5
    assert detect(detector, 130, [100.0]).baseline.tolist() == [pytest.approx(100.0)]


def test_a_far_value_on_the_side_that_is_not_judged_trains_as_if_at_the_limit() -> None:
    """A pause does not widen what is expected afterwards."""
    detector = a_detector("deviation", direction="above", floor_relative=0.01, min_relative=0.0, **WARM)
    run(detector, [100.0] * 100 + [0.001])

    found = detect(detector, 101, [100.0])

    assert 100.0 < found.high[0] < 106.0


@pytest.mark.parametrize("kind", ["deviation", "moving_average"])
def test_a_new_normal_is_accepted_and_says_so(kind: str) -> None:
    """After ``relearn_after_s`` the new level is the baseline."""
    detector = a_detector(kind, relearn_after_s=200.0, **WARM)
    run(detector, [100.0] * 20)
    found = [detect(detector, number, [200.0], firing=number > 20) for number in range(20, 42)]

    assert "".join(map(shown, found)) == "x" * 19 + "ooo"
    notes = [one.notes[int(one.note[0])] for one in found if one.note is not None]
    assert notes == [*[""] * 19, ACCEPTED, "", ""]
    assert found[-1].baseline.tolist() == [pytest.approx(200.0)]


@pytest.mark.parametrize("kind", ["deviation", "moving_average"])
def test_nothing_is_normal_before_its_rule_could_fire(kind: str) -> None:
    """Hours, 3 of 4 of them: two would have been enough to be taken as normal, and none ever fired."""
    rule = a_rule(kind, window_ms=HOUR_MS, m=3, n=4, options={"relearn_after_s": 7_200.0, **WARM})
    detector = DETECTORS[kind](rule)
    detector.grow(1)
    one = np.ones(1, np.int64)
    found = [
        detector.detect(Frame(hour * HOUR_MS, HOUR_MS, one - 1, {"value": np.array([value])}, one, one == 0))
        for hour, value in enumerate([100.0] * 20 + [200.0] * 6, 500_000)
    ]

    assert "".join(map(shown, found[20:])) == "xxxxoo"


def test_a_moving_average_is_left_below_its_leaving_percent() -> None:
    """15 % to enter, 7.5 % to leave."""
    detector = a_detector("moving_average", direction="both", half_life_s=1e6, **WARM)
    run(detector, [100.0] * 100)

    assert run(detector, [115.5, 100.0, 107.4, 92.6, 92.4, 114.0, 84.0], 100) == "xooo--x"


def test_a_moving_average_may_be_judged_only_above_a_level_and_is_trained_below_it_too() -> None:
    """Memory that grows by a tenth is nothing at half of the GPU, and pressure at nine tenths."""
    low = a_detector("moving_average", half_life_s=1e6, only_above=130.0, **WARM)
    high = a_detector("moving_average", half_life_s=1e6, only_above=90.0, **WARM)

    assert run(low, [100.0] * 20 + [120.0, 131.0])[-2:] == "-x"
    assert run(high, [100.0] * 20 + [120.0, 131.0])[-2:] == "xx"


def test_what_fires_only_above_a_level_is_well_far_below_it() -> None:
    """An average of 50, fired above 90: a value that trembles around 54 is no nearer to it than one around 50."""
    detector = a_detector("moving_average", half_life_s=1e6, only_above=90.0, **WARM)
    run(detector, [50.0] * 100)

    assert run(detector, [95.0, 71.0, 69.0, 54.0], 100) == "x-oo"


def with_load(detector: Detector, windows: Sequence[tuple[float, float]], start: int = 0) -> str:
    """Pairs of value and load, by five minutes."""
    said = []
    for number, (value, load) in enumerate(windows, start):
        measures = {"value": np.array([value]), "load": np.array([load])}
        at_ms, one = BASE_MS + number * 300_000, np.ones(1, np.int64)
        seen = detector.detect(Frame(at_ms, 300_000, np.arange(1), measures, one, np.zeros(1, np.bool_)))
        said.append(shown(seen))
    return "".join(said)


def a_load_detector(kind: str, **options: Any) -> Detector:
    """As ``itl_moving_average`` is shipped, or a deviation with about its bounds."""
    load = replace(a_rule().measures[0], name="load")
    bounds = {"enter_sigmas": 3.0, "leave_sigmas": 1.5} if kind == "deviation" else {}
    options = {"half_life_s": 7_200.0, "load_percent": 50.0, "warm_up_windows": 30, **bounds, **options}
    rule = a_rule(kind, measures=(a_rule().measures[0], load), window_ms=300_000, options=options)
    detector = DETECTORS[kind](rule)
    detector.grow(1)
    return detector


QUIET = [(20.0, 400.0)] * 36
SLOWER = 20.0 * 1.2


LOAD_KINDS = pytest.mark.parametrize("kind", ["moving_average", "deviation"])


@LOAD_KINDS
@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([(SLOWER, 800.0)] * 4 + [(20.0, 400.0)], "----o"),
        ([(SLOWER, 400.0)] * 4, "xxxx"),
        ([(SLOWER, 590.0)] * 4, "xxxx"),
        ([(SLOWER, 300.0)] * 2, "xx"),
        ([(SLOWER, NAN)] * 2, "xx"),
        ([(20.0, 800.0), (SLOWER, 800.0), (SLOWER, 400.0), (SLOWER, 400.0)], "o-xx"),
    ],
    ids=[
        "twice the load, as in a surge",
        "a regression at equal load",
        "and at the load of a rising day",
        "one that keeps clients waiting: they ask for less",
        "load is not known",
        "a regression that a surge hid is seen after it",
    ],
)
def test_what_takes_longer_at_twice_the_load_is_no_regression(
    windows: list[tuple[float, float]], expected: str, kind: str
) -> None:
    """A fifth above the average: it counts where load is about what it was in those hours."""
    detector = a_load_detector(kind)
    with_load(detector, QUIET)

    assert with_load(detector, windows, 36) == expected


@LOAD_KINDS
def test_load_that_stays_is_the_new_usual_and_so_is_what_it_brings(kind: str) -> None:
    """Traffic that doubled for good and takes 20 % longer never fires; a regression on top of it does."""
    detector = a_load_detector(kind)
    with_load(detector, QUIET)

    assert "x" not in with_load(detector, [(SLOWER, 800.0)] * 288, 36)
    assert with_load(detector, [(SLOWER * 1.2, 800.0)] * 2, 324) == "xx"


@LOAD_KINDS
def test_a_day_s_swing_of_load_hides_no_regression(kind: str) -> None:
    """2.3 times as much in the afternoon as at night: at its steepest it is below one and a half times its average."""
    detector = a_load_detector(kind)
    hours = np.arange(288 * 2) / 12
    load = 400.0 * (1 + 0.4 * np.sin(2 * np.pi * hours / 24))
    said = with_load(detector, [(20.0, float(each)) for each in load])

    assert said.strip("-") == "o" * len(said.strip("-"))
    steepest = 288 + int(np.argmax(np.diff(load[:288]) / load[:287]))
    again = a_load_detector(kind)
    with_load(again, [(20.0, float(each)) for each in load[:steepest]])
    assert with_load(again, [(SLOWER, float(load[steepest]))] * 2, steepest) == "xx"


def test_a_baseline_of_half_a_day_has_load_of_two_hours() -> None:
    """The day's rise is 59 % above its average of half a day: a regression in it is seen all the same."""
    detector = a_load_detector("deviation", half_life_s=43_200.0)
    hours = np.arange(288) / 12
    load = 400.0 * (1 - 0.5 * np.cos(2 * np.pi * hours / 24))
    with_load(detector, [(20.0, float(each)) for each in load[:120]])

    assert with_load(detector, [(SLOWER, float(each)) for each in load[120:122]], 120) == "xx"


@pytest.mark.parametrize(
    ("options", "slope", "expected"),
    [
        ({"above": 60.0, "per": "minute"}, 11.0, "x"),
        ({"above": 60.0, "per": "minute"}, 9.0, "o"),
        ({"above": 60.0, "per": "minute", "leave": 50.0}, 9.0, "-"),
        ({"above": 3_600.0, "per": "hour"}, 11.0, "x"),
        ({"below": -60.0, "per": "minute"}, -11.0, "x"),
        ({"below": -60.0, "per": "minute", "leave": 0.0}, 0.0, "o"),
    ],
)
@pytest.mark.parametrize("over_s", [20.0, 60.0, 600.0])
def test_a_slope_is_told_per_hour_or_minute(
    options: dict[str, Any], slope: float, expected: str, over_s: float
) -> None:
    """``slope`` is per window of ten seconds; ranges that are shorter or longer than the points give the same."""
    detector = a_detector("rate_of_change", over_s=over_s, **options)
    values = [1_000.0 + slope * number for number in range(100)]

    found = detect(detector, 100, [values[-1] + slope]) if run(detector, values) else None

    assert found is not None
    assert shown(found) == expected
    assert found.value[0] == pytest.approx(slope * (360 if options["per"] == "hour" else 6), rel=0.02, abs=1e-6)


def test_a_rate_needs_three_in_four_points() -> None:
    """One sample has no slope, and neither has one after a long gap."""
    detector = a_detector("rate_of_change", above=1.0, over_s=40.0)

    assert run(detector, [1.0, 2.0, 3.0, NAN, 5.0]) == "....x"
    assert shown(detect(detector, 1_000, [9.0])) == "."


def test_silence_is_judged_although_nothing_is_there() -> None:
    """Of series seen before, in windows that were told; the gap before the third window is not held against any."""
    detector = a_detector("no_data", 3, after_s=30.0)
    found = [detect(detector, number, values) for number, values in ((0, [1.0, NAN]), (1, [1.0]), (500, [1.0]))]
    found += [detect(detector, 501, []), detect(detector, 502, [1.0])]

    assert ["".join(shown(one, slot) for slot in range(3)) for one in found] == ["oo.", "o-.", "o-.", "-x.", "ox."]
    assert [one.value.tolist() for one in found[2:]] == [[0.0, 20.0], [10.0, 30.0], [0.0, 40.0]]
    assert found[-1].high.tolist() == [30.0, 30.0]


def test_what_is_silent_for_long_was_taken_away() -> None:
    """After ``forget_after_s`` it counts as well again, with a note."""
    detector = a_detector("no_data", after_s=30.0, forget_after_s=60.0)
    detect(detector, 0, [1.0])
    found = [detect(detector, number, []) for number in range(1, 8)]

    assert "".join(map(shown, found)) == "--xxxoo"
    assert [one.notes[int(one.note[0])] for one in found if one.note is not None] == [*[""] * 5, GONE, GONE]


@pytest.mark.parametrize("kind", list(OURS))
def test_a_dumped_detector_goes_on_as_the_one_before_and_forgotten_slots_are_new(kind: str) -> None:
    """Whatever the room there was; equal states give equal arrays."""
    options = {"threshold": {"above": 150.0}, "rate_of_change": {"above": 10.0, "over_s": 60.0}}.get(kind, {})
    rng = np.random.default_rng(2)
    one, two = a_detector(kind, 3, **options), a_detector(kind, 3, **options)
    windows = rng.lognormal(5.0, 0.3, (60, 2)).tolist()
    for number, values in enumerate(windows[:40]):
        detect(one, number, values)
        if number == 20:
            one.forget(np.array([1]))
    two.load({name: array.copy() for name, array in one.dump().items()})

    for number, values in enumerate(windows[40:], 40):
        left, right = detect(one, number, values), detect(two, number, values)
        np.testing.assert_array_equal([left.value, left.low, left.high], [right.value, right.low, right.high])
        assert (left.beyond.tolist(), left.within.tolist()) == (right.beyond.tolist(), right.within.tolist())
    assert {n: a.tobytes() for n, a in one.dump().items()} == {n: a.tobytes() for n, a in two.dump().items()}
    one.forget(np.array([0, 1]))
    assert {n: a.tobytes() for n, a in one.dump().items() if not n.startswith("clock")} == {
        n: a.tobytes() for n, a in a_detector(kind, 3, **options).dump().items() if not n.startswith("clock")
    }


def test_a_baseline_without_widths_is_no_detector() -> None:
    """What detectors have in common judges nothing by itself."""
    detector = a_detector("deviation")
    assert isinstance(detector, AgainstBaseline)

    with pytest.raises(NotImplementedError):
        AgainstBaseline.widths(detector, detector.expected(np.zeros(1, int), np.zeros(1), 0))
