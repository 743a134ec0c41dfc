from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.differences import (
    EDGE_SLACK_MS,
    WINDOW_MS,
    Span,
    apportioned,
    bounds,
    share_ppm,
    since,
    spans,
    summed,
    within,
)
from schemas.events.machine_events import GPU_SAMPLES

MOMENTS = st.integers(0, 2_000_000)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [(5, 9, 4), (5, 5, 0), (9, 5, 5), (9, 0, 0), (None, 5, None), (5, None, None), (None, None, None)],
    ids=["grown", "still", "reset", "reset just now", "first", "not read", "never known"],
)
def test_what_a_counter_grew_by(before: int | None, now: int | None, expected: int | None) -> None:
    """A counter that is lower than before was restarted from nothing."""
    assert since(before, now) == expected


@given(st.lists(st.integers(0, 2**40), min_size=1), st.integers(0, 2**40))
def test_growth_is_never_negative_and_adds_up_between_restarts(readings: list[int], start: int) -> None:
    """The sum of differences is what was counted: each restart gives what was counted since."""
    before, total = start, 0
    for reading in readings:
        grown = since(before, reading)
        assert grown is not None
        assert grown >= 0
        total, before = total + grown, reading

    falls = [
        (start, *readings)[place]
        for place in range(len(readings))
        if (start, *readings)[place + 1] < (start, *readings)[place]
    ]
    assert total == readings[-1] - start + sum(falls)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 4, "b": 2}, 3),
        ({"a": 1}, {"a": 4, "new": 900}, 3),
        ({"a": 1, "gone": 7}, {"a": 4}, 3),
        ({"a": 1}, {"new": 900}, None),
        (None, {"a": 1}, None),
        ({"a": 1}, None, None),
    ],
    ids=["both", "a new device counts from its second reading", "a device is gone", "none in common", "first", "last"],
)
def test_devices_are_added_up(before: dict[str, int] | None, now: dict[str, int] | None, expected: int | None) -> None:
    """Over those of both readings."""
    assert summed(before, now) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"), [(1, 3, 333_333), (5, 4, 1_000_000), (-1, 4, 0), (1, 0, None), (1, -1, None)]
)
def test_a_share_lies_between_nothing_and_all(part: float, whole: float, expected: int | None) -> None:
    """And is unknown of nothing."""
    assert share_ppm(part, whole) == expected


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "expected"),
    [
        (8_000, 9_000, [Span(9_000, 1_000)]),
        (9_003, 10_003, [Span(10_003, 1_000)]),
        (9_250, 10_250, [Span(10_250, 1_000)]),
        (9_251, 10_251, [Span(9_999, 749), Span(10_251, 251)]),
        (9_750, 10_750, [Span(10_750, 1_000)]),
        (9_749, 10_750, [Span(9_999, 251), Span(10_750, 750)]),
        (7_000, 31_000, [Span(9_999, 3_000), Span(19_999, 10_000), Span(29_999, 10_000), Span(31_000, 1_000)]),
        (10_000, 20_000, [Span(20_000, 10_000)]),
        (5_000, 5_000, []),
        (5_000, 4_000, []),
    ],
    ids=[
        "inside a window",
        "a reading a little behind its tick",
        "on the bound of that",
        "one beyond",
        "begun just before an edge",
        "one earlier",
        "a gap over three edges",
        "exactly a window",
        "nothing",
        "backwards",
    ],
)
def test_an_interval_is_cut_at_the_edges_of_windows(begin_ms: int, end_ms: int, expected: list[Span]) -> None:
    """Each part but the last stands at the last millisecond of its window."""
    assert spans(begin_ms, end_ms) == expected


@given(MOMENTS, MOMENTS)
def test_parts_of_an_interval_cover_it_once(begin_ms: int, end_ms: int) -> None:
    """They add up, follow one another, and none reaches over an edge by more than the slack."""
    parts = spans(begin_ms, end_ms)

    assert sum(part.interval_ms for part in parts) == max(0, end_ms - begin_ms)
    assert all(part.interval_ms > 0 for part in parts)
    assert [part.at_ms for part in parts] == sorted({part.at_ms for part in parts})
    start = begin_ms
    for part in parts:
        edges = range(start // WINDOW_MS + 1, -(-(start + part.interval_ms) // WINDOW_MS))
        crossed = [edge * WINDOW_MS for edge in edges]
        assert all(
            edge - start <= EDGE_SLACK_MS or start + part.interval_ms - edge <= EDGE_SLACK_MS for edge in crossed
        )
        start += part.interval_ms


@given(st.integers(0, 2**44), st.lists(st.integers(0, 10_000), min_size=1).filter(any))
def test_parts_of_an_amount_add_up_exactly(amount: int, weights: list[int]) -> None:
    """Each is a whole number within one of its exact share, and nothing goes where no time passed."""
    parts = apportioned(amount, weights)

    assert sum(parts) == amount
    whole = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * whole - amount * weight) < whole
        assert part == 0 or weight > 0


def test_numbers_outside_their_bounds_are_unknown() -> None:
    """On the bound they are kept; attributes with a bound are looked at too, labels never."""
    row = {"util_gpu_pct": 101, "util_memory_pct": 100, "temperature_c": -101, "performance_state": 16, "host": "h"}

    good, wrong = within(bounds(GPU_SAMPLES), row)

    assert good == {
        "util_gpu_pct": None,
        "util_memory_pct": 100,
        "temperature_c": None,
        "performance_state": None,
        "host": "h",
    }
    assert sorted(wrong) == ["performance_state", "temperature_c", "util_gpu_pct"]
    assert within(bounds(GPU_SAMPLES), row) == (good, wrong)
    assert within(bounds(GPU_SAMPLES), good) == (good, [])
