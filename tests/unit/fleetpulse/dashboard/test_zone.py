"""One time zone for a page: whole, half and quarter hours, days of 23, 23.5 and 25 hours."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.zone import DAYS, UTC_ZONE, zone_of
from schemas.limits import HOUR_MS

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe")


def ms(text: str) -> int:
    """Milliseconds of a time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


@pytest.mark.parametrize(
    ("zone", "from_text", "to_text", "label"),
    [
        ("UTC", "2026-01-01T00:00", "2026-01-01T00:05", "Jan 01 00:00:00 – 00:05:00 UTC"),
        ("UTC", "2026-01-01T00:00", "2026-01-01T01:30", "Jan 01 00:00 – 01:30 UTC"),
        ("UTC", "2026-01-01T00:00", "2026-01-02T01:00", "Jan 01 00:00 – Jan 02 01:00 UTC"),
        ("Europe/Berlin", "2026-01-01T22:30", "2026-01-01T23:30", "Jan 01 23:30 – Jan 02 00:30 CET"),
        ("Asia/Kathmandu", "2026-01-01T00:00", "2026-01-01T01:00", "Jan 01 05:45 – 06:45 +0545"),
    ],
)
def test_a_fixed_range_is_written_in_few_characters(zone: str, from_text: str, to_text: str, label: str) -> None:
    """Beside the buttons there is little room; its end says the zone."""
    assert zone_of(zone).label(ms(from_text), ms(to_text)) == label


def test_a_moment_is_written_in_the_zone() -> None:
    """In tables without it, in sentences with it, and of a request with its milliseconds."""
    at_ms, zone = ms("2026-07-31T22:15:30") + 7, zone_of("Asia/Kolkata")

    assert zone.moment(at_ms) == "2026-08-01 03:45:30"
    assert zone.said(at_ms) == "2026-08-01 03:45:30 IST"
    assert zone.clock(at_ms) == "03:45:30.007"
    assert zone.clock(at_ms - 7) == "03:45:30"
    assert (zone.moment(None), zone.said(None)) == (None, None)


@given(st.sampled_from(ZONES), st.integers(0, 4_102_444_800))
def test_what_a_field_holds_reads_back(name: str, at_s: int) -> None:
    """To the second; of an hour that comes twice as its first time."""
    zone = zone_of(name)
    back_ms = zone.read(zone.typed(1_000 * at_s))

    assert zone.typed(back_ms) == zone.typed(1_000 * at_s)
    assert 1_000 * at_s - back_ms in (0, HOUR_MS, HOUR_MS // 2)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00", "1969-01-01T00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """The page says so."""
    with pytest.raises(ValueError, match=r"."):
        UTC_ZONE.read(text)


def test_an_hour_that_is_left_out_is_read_as_clocks_show_it() -> None:
    """In Berlin at 02:30 of that Sunday it is 03:30."""
    assert zone_of("Europe/Berlin").read("2026-03-29T02:30") == ms("2026-03-29T01:30")


@pytest.mark.parametrize(
    ("zone", "now", "name", "from_text", "to_text", "hours"),
    [
        ("UTC", "2026-11-27T05:00", "Today", "2026-11-27T00:00", "2026-11-28T00:00", 24),
        ("UTC", "2026-11-27T05:00", "Last month", "2026-10-01T00:00", "2026-11-01T00:00", 31 * 24),
        ("America/New_York", "2026-11-27T04:00", "Today", "2026-11-26T05:00", "2026-11-27T05:00", 24),
        ("Asia/Kathmandu", "2026-11-27T05:00", "Yesterday", "2026-11-25T18:15", "2026-11-26T18:15", 24),
        ("Europe/Berlin", "2026-03-29T12:00", "Today", "2026-03-28T23:00", "2026-03-29T22:00", 23),
        ("Europe/Berlin", "2026-10-26T12:00", "Yesterday", "2026-10-24T22:00", "2026-10-25T23:00", 25),
        ("Europe/Berlin", "2026-10-31T23:30", "This month", "2026-10-31T23:00", "2026-11-30T23:00", 30 * 24),
        ("Australia/Lord_Howe", "2026-10-04T03:00", "Today", "2026-10-03T13:30", "2026-10-04T13:00", 23.5),
        ("UTC", "2026-12-31T05:00", "This month", "2026-12-01T00:00", "2027-01-01T00:00", 31 * 24),
    ],
)
def test_days_are_those_of_the_viewers_calendar(
    zone: str, now: str, name: str, from_text: str, to_text: str, hours: float
) -> None:
    """From midnight to midnight, however long those days are."""
    found = zone_of(zone).days(name, ms(now))

    assert (found.from_ms, found.to_ms) == (ms(from_text), ms(to_text))
    assert found.span_ms == hours * HOUR_MS


@given(st.sampled_from(ZONES), st.integers(86_400 * 70, 4_102_444_800))
def test_days_follow_one_another(name: str, now_s: int) -> None:
    """Yesterday ends where today begins, which now lies in; so do months."""
    zone = zone_of(name)
    today, yesterday, month, before = (zone.days(one, 1_000 * now_s) for one in DAYS)

    assert yesterday.to_ms == today.from_ms <= 1_000 * now_s < today.to_ms
    assert before.to_ms == month.from_ms <= today.from_ms
    assert today.to_ms <= month.to_ms


@pytest.mark.parametrize("cookie", [None, "", "UTC", "Mars/Olympus", "../../etc/passwd", "Europe", "x" * 9_999, "a\0b"])
def test_a_zone_that_is_not_known_is_utc(cookie: str | None) -> None:
    """A browser may send anything."""
    assert zone_of(cookie) is UTC_ZONE
    assert UTC_ZONE.is_utc


def test_a_browser_may_call_utc_something_else() -> None:
    """Then the page's zone is the browser's own."""
    assert not zone_of("Etc/UTC").is_utc
    assert zone_of("Etc/UTC").said(0) == "1970-01-01 00:00:00 UTC"
