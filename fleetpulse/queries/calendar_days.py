"""Days of a zone's calendar, which are not always 24 hours long, and the range that one is compared with. Pure."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo

from fleetpulse.queries.data_ends import Span


def midnight(day: date, zone: tzinfo | None, minutes: int = 0) -> int:
    """The beginning of a day in ms, or that time of it, so many minutes later by the clocks of the zone. None: this
    machine's."""
    start = datetime.combine(day, time()) + timedelta(minutes=minutes)
    return round(start.replace(tzinfo=zone).timestamp() * 1_000)


def day_of(at_ms: int, zone: tzinfo | None) -> date:
    """The day of a moment by the calendar of the zone."""
    return datetime.fromtimestamp(at_ms / 1_000, zone).date()


def before(span: Span, now_ms: int, zone: tzinfo | None, days: int | None = None) -> Span:
    """The range that this one is compared with: as long, and just before it; only so far into it as this one is over:
    today against yesterday until this hour. Days from midnight to midnight are compared with as many whole ones.

    ``days``: so many days earlier instead."""
    (from_ms, to_ms), (first, end) = span, (day_of(at_ms, zone) for at_ms in span)
    over_ms = max(from_ms, min(to_ms, now_ms))
    if first == end or (midnight(first, zone), midnight(end, zone)) != span:
        begin_ms = 2 * from_ms - to_ms
        return begin_ms, begin_ms + over_ms - from_ms
    back = timedelta(days or (end - first).days)
    begin_ms, end_ms = midnight(first - back, zone), midnight(end - back, zone)
    return begin_ms, end_ms if over_ms == to_ms else min(end_ms, begin_ms + over_ms - from_ms)
