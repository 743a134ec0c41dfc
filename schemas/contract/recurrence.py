"""When a silence that comes again is in force: spans of the week on the clock of a time zone. Pure.

Written ``Mon-Fri 22:00-06:00``, ``Sat,Sun 00:00-24:00``, ``day 02:00-04:00`` or, over several days,
``Fri 20:00 - Mon 06:00``. Both ends are wall-clock times: where clocks go forward or back, a span is an hour shorter or
longer. A begin or end that does not exist that day is what the clock shows had it not been set (02:30 is 03:30), of one
that exists twice the first counts. Spans that meet are one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MEETING_MAX = 14
"""So many spans that meet are followed: what is silent all week ends, and begins again, after as many days."""
_DAY_MINUTES = 1_440
_CLOCK = r"(\d{2}):(\d{2})"
_DAILY = re.compile(rf"([A-Za-z,\-]+)\s+{_CLOCK}\s*-\s*{_CLOCK}", re.ASCII)
_LONG = re.compile(rf"([A-Z][a-z]{{2}})\s+{_CLOCK}\s*-\s*([A-Z][a-z]{{2}})\s+{_CLOCK}", re.ASCII)
FORM = "must be like `Mon-Fri 22:00-06:00`, `Sat,Sun 00:00-24:00`, `day 02:00-04:00` or `Fri 20:00 - Mon 06:00`"


@dataclass(frozen=True, slots=True)
class Span:
    """From a minute of a weekday (0: Monday) to a minute ``days`` later."""

    weekday: int
    begin: int
    days: int
    end: int


@lru_cache(maxsize=1_024)
def spans_of(text: str) -> tuple[Span, ...]:
    """The spans that a text means. Raises ``ValueError``, which says how it is written."""
    if found := _LONG.fullmatch(text.strip()):
        first, last = _day(found[1]), _day(found[4])
        begin, end = _minute(found[2], found[3]), _minute(found[5], found[6])
        days = (last - first) % len(DAYS) or (0 if begin < end else len(DAYS))
        return (Span(first, begin, days, end),)
    if found := _DAILY.fullmatch(text.strip()):
        begin, end = _minute(found[2], found[3]), _minute(found[4], found[5])
        return tuple(Span(day, begin, int(end <= begin), end) for day in _days(found[1]))
    raise ValueError(FORM)


def _days(text: str) -> tuple[int, ...]:
    if text == "day":
        return tuple(range(len(DAYS)))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        length = (_day(last) - _day(first)) % len(DAYS) if dash else 0
        found += [(_day(first) + step) % len(DAYS) for step in range(length + 1)]
    return tuple(sorted(set(found)))


def _day(name: str) -> int:
    if name not in DAYS:
        raise ValueError(FORM)
    return DAYS.index(name)


def _minute(hours: str, minutes: str) -> int:
    found = int(hours) * 60 + int(minutes)
    if int(minutes) >= 60 or found > _DAY_MINUTES:
        raise ValueError(FORM)
    return found


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of this name. Raises ``ValueError`` for one that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # a folder of the database's is an OSError
        raise ValueError("must be a time zone of the IANA database, such as Europe/Berlin") from error


def in_force_until_ms(every: str, zone: str, now_ms: int) -> int | None:
    """When what is in force now ends; None where nothing is."""
    until_ms = _latest_end_ms(every, zone, now_ms)
    for _ in range(MEETING_MAX if until_ms is not None else 0):
        later_ms = _latest_end_ms(every, zone, until_ms or 0)
        if later_ms is None:
            break
        until_ms = later_ms
    return until_ms


def _latest_end_ms(every: str, zone: str, at_ms: int) -> int | None:
    where = zone_of(zone)
    today = datetime.fromtimestamp(at_ms / 1_000, where).date()
    ends = []
    for span in spans_of(every):
        back = (today.weekday() - span.weekday) % len(DAYS)
        for begun in (today - timedelta(back), today - timedelta(back + len(DAYS))):
            begin_ms = _moment_ms(begun, span.begin, where)
            end_ms = _moment_ms(begun + timedelta(span.days), span.end, where)
            if begin_ms <= at_ms < end_ms:
                ends.append(end_ms)
    return max(ends, default=None)


def _moment_ms(day: date, minute: int, where: ZoneInfo) -> int:
    day, minute = day + timedelta(minute // _DAY_MINUTES), minute % _DAY_MINUTES
    local = datetime.combine(day, time(minute // 60, minute % 60), where)
    return round(local.astimezone(UTC).timestamp() * 1_000)
