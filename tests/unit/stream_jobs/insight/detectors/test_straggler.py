"""One GPU of a group that is far from the others: found among three and more, told with care among two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.insight.detectors.straggler import Straggler, group_of
from stream_jobs.insight.firing import SILENT, SILENT_MS
from stream_jobs.insight.frame import Labels
from tests.unit.stream_jobs.insight.detectors.cases import (
    WINDOW_MS,
    beyond_count,
    day,
    ended,
    frame,
    judged,
    noise,
    resumed,
    rule,
    same,
)


def names(*sizes: int) -> list[Labels]:
    return [(("engine_id", f"e{group}"),) for group, size in enumerate(sizes) for _ in range(size)]


def straggler(*sizes: int, **options: Any) -> Straggler:
    detector = Straggler(rule("straggler", **options))
    detector.named(np.arange(sum(sizes)), names(*sizes))
    return detector


def clocks(windows: int, series: int, seed: int = 1) -> np.ndarray:
    return 1_700 * np.exp(noise(seed, windows, series, 0.008))


@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_slow_one_is_found_in_its_first_window(size: int) -> None:
    """15 % below its peers, and nobody else."""
    values = clocks(60, 2 * size)
    values[40:, 1] *= 0.85

    said = [said for _, said in judged(straggler(size, size), {"value": values})]

    assert [np.flatnonzero(one.beyond).tolist() for one in said] == [[]] * 40 + [[1]] * 20
    assert said[45].baseline[1] == pytest.approx(1_700, rel=0.03)
    assert said[45].value[1] < said[45].low[1]


@pytest.mark.parametrize(("direction", "found"), [("below", [0]), ("above", [1]), ("both", [0, 1])])
def test_of_two_the_rule_must_say_which_side_is_bad(direction: str, found: list[int]) -> None:
    """Two have no spread: the least difference alone decides; the note says so."""
    said = straggler(2, direction=direction).detect(frame(0, {"value": [1_400, 1_700]}))

    assert np.flatnonzero(said.beyond).tolist() == found
    assert said.note is not None
    assert "group of two" in said.notes[said.note[found[0]]]


@pytest.mark.parametrize(
    "values",
    [
        [np.nan, np.nan, np.nan, np.nan],
        [5.0, np.nan, np.nan, np.nan],
        [0.0, 0.0, 0.0, 0.001],
        [7.0, 7.0, 7.0, 7.0],
        [1e308, -1e308, 1e308, 1e308],
        [np.inf, 1.0, 1.0, 1.0],
        [1.0, 1.0, 9.0, 9.0],
    ],
    ids=["unknown", "alone", "all but one are 0", "constant", "enormous", "infinite", "half of them"],
)
def test_odd_groups_have_no_straggler_above(values: list[float]) -> None:
    """No alarm and no warning, window after window."""
    table = np.tile(np.array(values), (20, 1))

    assert beyond_count(straggler(4, direction="above"), {"value": table}) == 0


def test_a_floor_makes_zero_comparable() -> None:
    """With an absolute floor a share of throttled time stands out among zeroes."""
    table = np.tile([0.0, 0.0, 0.0, 0.4], (8, 1))

    said = [said for _, said in judged(straggler(4, direction="above", floor_absolute=0.05), {"value": table})]

    assert np.flatnonzero(said[-1].beyond).tolist() == [3]


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_the_floor_is_a_distance_whatever_the_size_of_the_group(size: int) -> None:
    """Just beyond it is found, just inside is not; among peers that vary by a third of it neither is."""
    steady, uneven = np.full((40, size), 0.05), np.full((40, size), 0.05)
    uneven[:, : size // 2] = 0.1
    steady[20:30, -1], steady[30:, -1] = 0.05 + 0.14, 0.05 + 0.16
    uneven[20:, -1] = 0.05 + 0.16
    found, quiet = (
        [
            np.flatnonzero(one.beyond).tolist()
            for _, one in judged(straggler(size, direction="above", floor_absolute=0.15), {"value": values})
        ]
        for values in (steady, uneven)
    )

    assert found == [[]] * 30 + [[size - 1]] * 10
    assert size == 2 or not any(quiet)


def test_without_the_label_nothing_is_judged() -> None:
    """A GPU that belongs to no engine has no peers."""
    detector = Straggler(rule("straggler"))
    detector.named([0, 1, 2], [(), (("host", "h"),), (("gpu_uuid", "g"),)])

    said = detector.detect(frame(0, {"value": [1, 1, 9]}))

    assert (said.beyond | said.within).tolist() == [False] * 3
    assert group_of("e0") == group_of("e0") != group_of("e1")


def test_one_whose_peers_are_gone_is_not_judged_and_clears() -> None:
    """It is known and nobody can say of it that it fires."""
    detector = straggler(4)
    list(judged(detector, {"value": clocks(20, 4)}))
    alone = [replace(frame(number, {"value": [1_400]}), slots=np.zeros(1, np.int64)) for number in range(20, 60)]

    assert ended(detector, alone) == (SILENT_MS // WINDOW_MS, SILENT)


def test_a_healthy_day_has_no_straggler() -> None:
    """Groups of two to eight under the season of a day, at 1 % noise: nothing in a day of windows."""
    values = np.exp(noise(3, 1_440, 99, 0.01)) * 1_700 * day(1_440, 60_000, 0.05)
    sizes = [2] * 10 + [3] * 13 + [4] * 6 + [8] * 2

    assert beyond_count(straggler(*sizes), {"value": values}) == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.floats(allow_nan=True, width=32), min_size=6, max_size=6), min_size=2, max_size=12))
def test_a_restart_changes_nothing(table: list[list[float]]) -> None:
    """Dumped and loaded at any point it says the same as the one that went on."""
    values = np.array(table, np.float64)
    half = len(values) // 2
    whole = straggler(3, 3)
    list(judged(whole, {"value": values[:half]}))
    again = resumed(whole, Straggler(rule("straggler")), names(3, 3))

    left = [said for _, said in judged(whole, {"value": values[half:]}, first=half)]
    right = [said for _, said in judged(again, {"value": values[half:]}, first=half)]

    assert all(same(one, other) for one, other in zip(left, right, strict=True))
