"""Ranges as links name them, their bounds, and the width of points."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.time_range import (
    POINTS_MAX,
    SPAN_MAX_MS,
    RangeSpec,
    TimeRange,
    fixed,
    iso,
    last_ms,
    moment_ms,
)
from fleetpulse.dashboard.zone import Zone

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"), [("10s", 10_000), ("15m", 900_000), ("1h", HOUR_MS), ("400d", SPAN_MAX_MS)]
)
def test_a_length_is_a_number_and_a_unit(text: str, expected: int) -> None:
    """From ten seconds to four hundred days."""
    assert last_ms(text) == expected


@pytest.mark.parametrize("text", ["", "h", "0h", "9s", "401d", "1w", "-1h", "1.5h", "1h ", "９h", "1h;drop"])
def test_any_other_text_is_no_length(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"^must be "):
        last_ms(text)


@pytest.mark.parametrize(
    "text", ["1767225600000", "2026-01-01T00:00:00Z", "2026-01-01T00:00", "2026-01-01", "2026-01-01T01:00:00+01:00"]
)
def test_a_moment_is_milliseconds_or_iso(text: str) -> None:
    """A time without a zone is UTC."""
    assert moment_ms(text) == 1_767_225_600_000


@pytest.mark.parametrize("text", ["", "now", "99999999999999999", "-1", "999999999999999", "1969-12-31T23:59:59Z"])
def test_any_other_text_is_no_moment(text: str) -> None:
    """Also none outside the years 1970 to 9999."""
    with pytest.raises(ValueError, match=r"."):
        moment_ms(text)


def test_a_moving_range_ends_at_the_next_window() -> None:
    """So that equal questions within ten seconds are equal."""
    assert RangeSpec("1h").at(10_000_001) == TimeRange(10_010_000 - HOUR_MS, 10_010_000)
    assert RangeSpec("1h").at(10_000_000) == TimeRange(10_000_000 - HOUR_MS, 10_000_000)


def test_fixed_ends_stay_where_they_are() -> None:
    """Whatever the time is."""
    assert fixed(5_000_000, 9_000_000).at(1) == TimeRange(5_000_000, 9_000_000)


def test_a_range_is_never_shorter_than_a_window() -> None:
    """A mark of a millisecond becomes ten seconds."""
    assert fixed(5_000, 5_001) == RangeSpec(None, 5_000, 15_000)


@pytest.mark.parametrize(("from_ms", "to_ms"), [(5, 5), (6, 5), (0, SPAN_MAX_MS + 1)])
def test_ends_the_wrong_way_round_or_too_far_apart_are_refused(from_ms: int, to_ms: int) -> None:
    """With a text that says which."""
    with pytest.raises(ValueError, match=r"^must "):
        fixed(from_ms, to_ms)


@given(st.integers(10_000, SPAN_MAX_MS))
def test_a_chart_has_at_most_so_many_points(span_ms: int) -> None:
    """And its step is a whole number of windows."""
    step_ms = TimeRange(0, span_ms).bucket_ms

    assert span_ms / step_ms <= POINTS_MAX
    assert step_ms % 10_000 == 0


@given(st.integers(0, 4_102_444_800_000))
def test_a_moment_reads_back_as_it_was_written(at_ms: int) -> None:
    """Links keep their milliseconds."""
    assert moment_ms(iso(at_ms)) == at_ms


def test_the_end_of_a_range_does_not_begin_before_it() -> None:
    """The last minute of ten seconds is ten seconds."""
    assert TimeRange(0, 10_000).end(60_000) == TimeRange(0, 10_000)
    assert TimeRange(0, 100_000).end(60_000) == TimeRange(40_000, 100_000)


@pytest.mark.parametrize(
    ("first_ms", "from_ms"),
    [
        (None, 100_000),
        (99_999, 100_000),
        (100_000, 100_000),
        (110_000, 100_000),
        (150_000, 120_000),
        (195_000, 180_000),
        (900_000, 190_000),
    ],
    ids=[
        "no event yet",
        "older",
        "at its beginning",
        "in its first minute",
        "within",
        "in its last window",
        "a fast clock",
    ],
)
def test_a_range_may_begin_with_the_first_event(first_ms: int | None, from_ms: int) -> None:
    """With its minute, whose bill is whole; never before itself, never shorter than a window."""
    assert TimeRange(100_000, 200_000).since(first_ms) == TimeRange(from_ms, 200_000)


def test_a_point_at_an_end_counts_the_windows_of_the_range() -> None:
    """Six of an hour's windows where the range begins a minute before the hour ends; all of them in the middle."""
    span = TimeRange(59 * 60_000 - 3, 7_200_000 + 15_000)

    hours = [span.counted_s(at_ms, 3_600_000) for at_ms in (0, 3_600_000, 7_200_000)]
    assert hours == [60.0, 3_600.0, 20.0]
    assert span.counted_s(0, 10_000) == 10.0
    assert [span.counted_s(at_ms, 3_600_000, 60_000) for at_ms in (0, 7_200_000)] == [60.0, 60.0]
    assert [span.counted_s(at_ms, 3_600_000, 1) for at_ms in (0, 7_200_000)] == [60.003, 15.0]


@pytest.mark.parametrize(
    ("from_ms", "to_ms"),
    [(253_402_300_798_000, 253_402_300_799_000), (253_402_127_995_000, 253_402_127_996_000)],
    ids=["the last second of 9999", "made longer"],
)
def test_a_range_that_ends_beyond_the_calendar_is_refused(from_ms: int, to_ms: int) -> None:
    """No zone shows its end, which would be of the year 10000, once it is as long as a window."""
    with pytest.raises(ValueError, match="between the years 1970 and 9999"):
        fixed(from_ms, to_ms)


def test_the_last_range_of_the_calendar_is_shown_in_every_zone() -> None:
    """At its end it is the year 9999 everywhere."""
    span = fixed(253_402_127_990_000, 253_402_127_991_000)

    assert iso(span.to_ms) == "9999-12-30T00:00:00Z"
    assert Zone("x", timezone(timedelta(hours=14))).moment(span.to_ms) == "9999-12-30 14:00:00"


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "found"),
    [(60_000, 180_000, (60_000, 180_000)), (1, 60_001, (60_000, 120_000)), (59_999, 60_000, (60_000, 60_000))],
)
def test_minutes_are_those_that_silence_is_counted_in(from_ms: int, to_ms: int, found: tuple[int, int]) -> None:
    """Both ends up, as the view rounds them: the same range for a minute."""
    assert TimeRange(from_ms, to_ms).minutes == TimeRange(*found)
