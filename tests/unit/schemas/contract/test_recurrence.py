"""Silences that come again: which hours of the week they mean, on whose clock, also where clocks are set."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from schemas.contract.recurrence import Span, in_force_until_ms, spans_of, zone_of

BERLIN = "Europe/Berlin"


def at(local: str, zone: str = BERLIN) -> int:
    """A moment of a wall clock, in ms since the epoch; with its offset where it exists twice."""
    moment = datetime.fromisoformat(local)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Sat 22:00-06:00", (Span(5, 1_320, 1, 360),)),
        ("Sat,Sun 00:00-24:00", (Span(5, 0, 0, 1_440), Span(6, 0, 0, 1_440))),
        ("Sun-Mon 01:00-02:00", (Span(0, 60, 0, 120), Span(6, 60, 0, 120))),
        ("Fri 20:00 - Mon 06:00", (Span(4, 1_200, 3, 360),)),
        ("Mon 06:00-Mon 06:00", (Span(0, 360, 7, 360),)),
        ("Mon 05:00 - Mon 06:00", (Span(0, 300, 0, 360),)),
    ],
)
def test_spans_are_written_by_weekdays_and_clock(text: str, spans: tuple[Span, ...]) -> None:
    """An end at or before the begin is that of the next day, or of the next week where days are named."""
    assert spans_of(text) == spans


def test_day_means_every_day() -> None:
    """Seven spans."""
    assert spans_of("day 02:00-04:00") == tuple(Span(day, 120, 0, 240) for day in range(7))


@pytest.mark.parametrize(
    "text", ["", "Sat", "Sat 22-06", "sat 22:00-06:00", "Sat 25:00-26:00", "Sat 10:60-11:00", "Sat, Sun 1:00-2:00"]
)
def test_what_means_no_hours_says_how_they_are_written(text: str) -> None:
    """The error holds examples."""
    with pytest.raises(ValueError, match="must be like `Mon-Fri 22:00-06:00`"):
        spans_of(text)


@pytest.mark.parametrize("name", ["", "Berlin", "../etc/passwd", "Europe"])
def test_a_zone_is_one_of_the_database(name: str) -> None:
    """Whatever else stands there."""
    with pytest.raises(ValueError, match="time zone of the IANA database"):
        zone_of(name)


@pytest.mark.parametrize(
    ("every", "now", "until"),
    [
        ("Tue 22:00-06:00", "2026-11-24T21:59:59.999", None),
        ("Tue 22:00-06:00", "2026-11-24T22:00", "2026-11-25T06:00"),
        ("Tue 22:00-06:00", "2026-11-25T05:59:59.999", "2026-11-25T06:00"),
        ("Tue 22:00-06:00", "2026-11-25T06:00", None),
        ("Fri 20:00 - Mon 06:00", "2026-11-22T12:00", "2026-11-23T06:00"),
        ("Mon 06:00 - Mon 05:00", "2026-11-23T04:59", "2026-11-23T05:00"),
        ("Sat,Sun 00:00-24:00", "2026-11-21T12:00", "2026-11-23T00:00"),
        ("Sat 22:00-06:00", "2026-10-24T23:00", "2026-10-25T06:00"),
        ("Sun 01:30-02:30", "2026-03-29T01:45", "2026-03-29T03:30"),
        ("Sun 02:30-05:00", "2026-03-29T03:15", None),
        ("Sun 02:30-05:00", "2026-03-29T03:30", "2026-03-29T05:00"),
        ("Sun 02:30-05:00", "2026-10-25T02:30+02:00", "2026-10-25T05:00"),
        ("Sun 01:00-02:30", "2026-10-25T02:15+02:00", "2026-10-25T02:30+02:00"),
        ("Sun 01:00-02:30", "2026-10-25T02:15+01:00", None),
    ],
    ids=[
        "just before it begins",
        "as it begins",
        "the morning after, just before its end",
        "as it ends",
        "over several days",
        "all but an hour of the week",
        "spans that meet are one",
        "the night in which clocks go back is an hour longer",
        "an end that does not exist is an hour later",
        "a begin that does not exist has not come",
        "nor before the clock that was set shows it",
        "a begin that exists twice is the first",
        "an end that exists twice is the first",
        "and does not come again",
    ],
)
def test_a_span_follows_the_wall_clock(every: str, now: str, until: str | None) -> None:
    """From its first to before its last millisecond, over both changes of the clock."""
    assert in_force_until_ms(every, BERLIN, at(now)) == (None if until is None else at(until))


def test_the_zone_decides_whose_clock() -> None:
    """Six in the evening in Tokyo is morning in Berlin."""
    now_ms = at("2026-11-24T18:00", "Asia/Tokyo")

    assert in_force_until_ms("day 17:00-19:00", "Asia/Tokyo", now_ms) == at("2026-11-24T19:00", "Asia/Tokyo")
    assert in_force_until_ms("day 17:00-19:00", BERLIN, now_ms) is None


def test_what_is_always_silent_ends_after_a_fortnight_and_begins_again() -> None:
    """Spans that meet are not followed for ever."""
    assert in_force_until_ms("day 00:00-24:00", "UTC", at("2026-11-24T12:00", "UTC")) == at("2026-12-09T00:00", "UTC")
