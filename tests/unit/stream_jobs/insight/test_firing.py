"""``stream_jobs.insight.firing``: m of n windows begin, calm ones in a row end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.firing import SILENT, SILENT_MS, Firing
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Detection, Frame
from tests.unit.stream_jobs.insight.cases import a_rule, run, temperatures

LENGTH_MS = 10_000
NONE = np.empty(0, np.int64)


def step(firing: Firing, number: int, verdict: str, elapsed: int = 1, note: int = 0) -> bool | None:
    """One window of slot 0: ``x`` beyond, ``o`` within, ``-`` between, ``.`` not judged. True when it has cleared."""
    slots = NONE if verdict == "." else np.zeros(1, np.int64)
    value = np.full(len(slots), float(number))
    unknown = np.full(len(slots), np.nan)
    frame = Frame(number * LENGTH_MS, LENGTH_MS, slots, {}, np.ones(len(slots), np.int64), firing.firing[slots])
    beyond, within = np.full(len(slots), verdict == "x"), np.full(len(slots), verdict == "o")
    codes = np.full(len(slots), note, np.int16)
    notes = ("", "a note")
    cleared = firing.step(
        frame, Detection(slots, beyond, within, value, unknown, unknown, unknown, codes, notes), elapsed
    )
    firing.drop(cleared)
    return bool(len(cleared))


def states(verdicts: str, m: int, n: int, clear_after: int) -> str:
    """``F`` while it fires, ``c`` where it cleared, ``.`` else."""
    firing, shown = Firing(m, n, clear_after, LENGTH_MS), ""
    firing.grow(1)
    for number, verdict in enumerate(verdicts):
        cleared = step(firing, number, verdict)
        shown += "c" if cleared else "F" if firing.firing[0] else "."
    return shown


@pytest.mark.parametrize(
    ("verdicts", "rule", "expected"),
    [
        ("xooo", (1, 1, 1), "Fc.."),
        ("xoxo", (2, 2, 1), "...."),
        ("xoxo", (2, 3, 1), "..Fc"),
        ("xooxo", (2, 3, 1), "....."),
        ("xx-o-oo", (2, 2, 2), ".FFFFFc"),
        ("xxo.o", (2, 2, 2), ".FFFc"),
        ("xxoxoo", (2, 2, 2), ".FFFFc"),
        ("xxoox", (2, 2, 2), ".FFc."),
        ("x.x", (2, 3, 1), "..F"),
        ("....", (1, 1, 1), "...."),
    ],
)
def test_windows_begin_and_end_it(verdicts: str, rule: tuple[int, int, int], expected: str) -> None:
    """After clearing it begins anew: windows before it do not count."""
    assert states(verdicts, *rule) == expected


def by_hand(verdicts: Sequence[str], m: int, n: int, clear_after: int) -> str:
    fires, recent, calm, shown = False, [], 0, ""
    for verdict in verdicts:
        recent = [*recent, verdict == "x"][-n:]
        calm = calm + 1 if verdict == "o" else calm if verdict == "." else 0
        if not fires and verdict == "x" and sum(recent) >= m:
            fires, calm = True, 0
        if fires and calm >= clear_after:
            fires, recent, calm = False, [], 0
            shown += "c"
        else:
            shown += "F" if fires else "."
    return shown


@settings(max_examples=60, deadline=None)
@given(verdicts=st.text("xo-.", max_size=20), n=st.integers(1, 5), data=st.data())
def test_any_run_of_windows_is_as_counted_by_hand(verdicts: str, n: int, data: st.DataObject) -> None:
    """Bits and counters against lists (below the time after which silence ends it)."""
    m, clear_after = data.draw(st.integers(1, n)), data.draw(st.integers(1, 4))

    assert states(verdicts, m, n, clear_after) == by_hand(verdicts, m, n, clear_after)


def test_since_is_the_first_of_the_windows_that_began_it() -> None:
    """Within the last n."""
    firing = Firing(3, 4, 1, LENGTH_MS)
    firing.grow(1)
    for number, verdict in enumerate("xo.xxox"):
        step(firing, number, verdict)

    assert (bool(firing.firing[0]), firing.state["since_ms"].tolist()) == (True, [3 * LENGTH_MS])


@pytest.mark.parametrize(("elapsed", "fires"), [(2, True), (3, False), (64, False), (10_000, False)])
def test_windows_that_never_came_count_in_time(elapsed: int, fires: bool) -> None:
    """2 of 3: the first of them must not be older than three windows."""
    firing = Firing(2, 3, 1, LENGTH_MS)
    firing.grow(1)

    step(firing, 0, "x")
    step(firing, elapsed, "x", elapsed)

    assert bool(firing.firing[0]) is fires


def test_silence_ends_it_with_a_note() -> None:
    """After ``SILENT_MS`` of windows in which it was not judged, not before."""
    firing = Firing(1, 1, 3, LENGTH_MS)
    firing.grow(1)
    step(firing, 0, "x")
    last = SILENT_MS // LENGTH_MS

    before = [step(firing, number, ".") for number in range(1, last)]

    assert before == [False] * (last - 1)
    assert bool(firing.firing[0]) is True
    noted: list[str] = []
    firing.drop = lambda slots: noted.extend(firing.notes.values())  # type: ignore[method-assign]
    assert step(firing, last, ".") is True
    assert noted == [SILENT]


def test_a_note_stays_while_it_fires() -> None:
    """The one told last; it is gone with the next run."""
    firing = Firing(1, 1, 1, LENGTH_MS)
    firing.grow(1)

    step(firing, 0, "x", note=1)
    step(firing, 1, "x")
    kept = dict(firing.notes)
    step(firing, 2, "o")

    assert (kept, firing.notes) == ({0: "a note"}, {})


@pytest.mark.parametrize(
    ("every", "expected"),
    [(1, [2]), (2, [4]), (3, [6]), (4, []), (6, [])],
    ids=["10 s", "20 s", "30 s", "40 s", "60 s"],
)
def test_what_reports_more_rarely_than_by_the_window_is_back_after_so_many_readings(
    every: int, expected: list[int]
) -> None:
    """Silent for 30 s is beyond; windows in between that are shorter than that break no row of calm ones."""
    detector = FleetDetector([a_rule("no_data", options={"after_s": 30.0}, clear_after=3)])
    run(detector, [temperatures(0, {"a": 50}), *(temperatures(number, {}) for number in range(1, 6))])

    windows = [temperatures(6 + number, {} if number % every else {"a": 50}) for number in range(20)]
    found = [detector.detect(window) for window in windows]

    assert [number for number, one in enumerate(found) if one and not one[0].firing] == expected
