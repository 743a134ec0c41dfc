"""ECharts options: gaps, axes, and that data never becomes code or a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.charts import (
    BASELINE_DAYS,
    BASELINE_HOURS_MIN,
    UNITS,
    Band,
    Line,
    baseline_range,
    marked,
    number_js,
    over_time,
    usual_band,
    value_axis,
    with_gaps,
    zoomed,
)
from fleetpulse.dashboard.theme import LIGHT
from fleetpulse.dashboard.time_range import TimeRange
from schemas.limits import DAY_MS, HOUR_MS

SPAN = TimeRange(0, 3_600_000)
HOSTILE = "<img src=x onerror=alert(1)>\"'`:alert(1)"


def code(value: Any) -> Iterator[str]:
    """Every text that NiceGUI would run in the browser."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.startswith(":"):
                yield inner
            yield from code(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from code(inner)


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list | tuple) else set()


def test_missing_steps_leave_a_gap() -> None:
    """The step is the least distance of two points."""
    points = [(0, 1.0), (10, 2.0), (40, 3.0)]

    assert with_gaps(points) == [(0, 1.0), (10, 2.0), (20, None), (40, 3.0)]


@pytest.mark.parametrize("points", [[], [(5, 1.0)], [(5, 1.0), (99, None)]])
def test_without_two_distances_nothing_is_missing(points: list[tuple[int, float | None]]) -> None:
    """One distance is the step."""
    assert with_gaps(points) == points


@given(st.text())
def test_names_from_data_are_values_never_keys_and_never_code(name: str) -> None:
    """Whatever a model is called, keys and code of its chart are those of any other model."""
    usual, found = (
        over_time([Line(one, [(0, 1.0)])], SPAN, LIGHT, "us", Band(one, [(0, 1.0, 2.0)]), [(5, one)])
        for one in ("a", name)
    )

    assert keys(found) == keys(usual)
    assert list(code(found)) == list(code(usual))


def test_units_come_from_a_closed_set() -> None:
    """A unit goes into code, so no text from data may become one."""
    assert {"us", "share", "bytes", "W", ""} == UNITS
    with pytest.raises(AssertionError):
        number_js("'); alert(1); ('")


def test_shares_end_at_a_hundred_percent_and_bytes_at_powers_of_two() -> None:
    """Axes that people can read."""
    assert value_axis(LIGHT, "share", 0.98)["max"] == 1
    assert "max" not in value_axis(LIGHT, "share", 0.02)
    axis = value_axis(LIGHT, "bytes", 80 * 2**30)
    assert (axis["interval"], axis["max"]) == (2**35, 3 * 2**35)


@pytest.mark.parametrize(
    ("values", "begins_at_0"), [([], True), ([None], True), ([0.0, 5.0], True), ([5.0, -0.1], False), ([-3.0], False)]
)
def test_an_axis_begins_at_0_where_nothing_lies_below(values: list[float | None], begins_at_0: bool) -> None:
    """A level that applications report may be negative."""
    axis = over_time([Line("level", list(enumerate(values)))], SPAN, LIGHT)["yAxis"]

    assert axis.get("min") == (0 if begins_at_0 else None)


def test_a_band_lies_behind_its_lines() -> None:
    """As a low line that is not seen and the height above it."""
    found = over_time([Line("p95", [(0, 5.0)])], SPAN, LIGHT, "us", Band("usual", [(0, 2.0, 6.0), (9, None, 6.0)]))

    assert [one["name"] for one in found["series"]] == ["usual low", "usual", "p95"]
    assert [one["data"] for one in found["series"]] == [[[0, 2.0], [9, None]], [[0, 4.0], [9, None]], [[0, 5.0]]]


def test_marking_a_stretch_needs_no_button() -> None:
    """The chart's own options stay as they are."""
    assert zoomed({"series": []})["toolbox"]["top"] < 0
    assert zoomed({"series": [1]})["series"] == [1]


# the band of what was usual


def test_what_was_usual_is_given_by_whole_hours_before_the_range() -> None:
    """The range itself does not judge itself."""
    assert baseline_range(TimeRange(10 * DAY_MS + 5, 11 * DAY_MS)) == TimeRange(
        (10 - BASELINE_DAYS) * DAY_MS, 10 * DAY_MS
    )


def test_too_little_history_is_no_band() -> None:
    """Two hours are not what is usual."""
    assert usual_band({3: [1.0] * (BASELINE_HOURS_MIN - 1)}, TimeRange(0, HOUR_MS)) == []
    assert usual_band({}, TimeRange(0, HOUR_MS)) == []


def test_each_hour_of_the_day_has_its_own_band() -> None:
    """An hour with too few values gets the band of all hours."""
    hours = {0: [1.0, 1.0, 1.0], 1: [9.0, 9.0, 9.0], 2: [5.0]}

    found = usual_band(hours, TimeRange(HOUR_MS // 2, 2 * HOUR_MS + 1))

    assert found == [
        (HOUR_MS // 2, 1.0, 1.0),
        (HOUR_MS, 9.0, 9.0),
        (2 * HOUR_MS, 1.0, 9.0),
        (2 * HOUR_MS + 1, 1.0, 9.0),
    ]


def test_the_band_leaves_out_the_outer_tenths() -> None:
    """One bad hour does not make bad hours usual."""
    assert usual_band({0: [float(n) for n in range(11)]}, TimeRange(0, HOUR_MS))[0] == (0, 1.0, 9.0)


def test_a_year_has_few_points() -> None:
    """Hours are skipped where they could not be distinguished."""
    assert len(usual_band({0: [1.0, 2.0, 3.0]}, TimeRange(0, 365 * DAY_MS))) <= 202


def test_deployments_are_drawn_beside_a_charts_own_marks() -> None:
    """On an axis of time; any other chart, and one without lines, stays as it is."""
    options = over_time([Line("a", [(1, 1.0)])], SPAN, LIGHT, marks=[(1, "xid")])
    bare = over_time([Line("a", [(1, 1.0)])], SPAN, LIGHT)
    table = {"xAxis": {"type": "category"}, "series": [{}]}

    assert marked(options, [(2, "v2")], LIGHT)["series"][0]["markLine"]["data"] == [
        {"xAxis": 1, "name": "xid"},
        {"xAxis": 2, "name": "v2"},
    ]
    assert marked(bare, [(2, "v2")], LIGHT)["series"][0]["markLine"]["data"] == [{"xAxis": 2, "name": "v2"}]
    assert marked(bare, [], LIGHT) == bare
    assert marked(table, [(2, "v2")], LIGHT) == table
    assert marked({}, [(2, "v2")], LIGHT) == {}
