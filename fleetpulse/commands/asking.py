"""What ``fleetpulse ask`` decides and shows: over which range, what was understood, and cells as people read them.
Pure but for ``covered``, which asks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fleetpulse.commands.elsewhere import label_utc
from fleetpulse.commands.output import show
from fleetpulse.commands.people import duration_ms
from fleetpulse.dashboard.values import covered_text
from fleetpulse.queries import dashboard
from fleetpulse.queries.calendar_days import before, day_of, midnight
from fleetpulse.queries.data_ends import Span
from fleetpulse.queries.metric_words import label
from fleetpulse.queries.questions import Question
from fleetpulse.queries.range_words import MONTH, TODAY, WEEK, YESTERDAY, NamedRange
from fleetpulse.queries.scope import NAMES
from fleetpulse.report import cells
from fleetpulse.report.gather import span
from fleetpulse.sql.database import Reader
from schemas.errors import ConfigError

_DAYS_AGO = {TODAY: 0, YESTERDAY: 1}


def zone_of(name: str | None) -> tzinfo | None:
    """The zone of that name; None, this machine's, without one. Raises ``ConfigError`` for a name that is none."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError("--zone", name, "must be a time zone such as Europe/Berlin") from None


def bounds_of(
    question: Question,
    last: str | None,
    from_: str | None,
    to: str | None,
    against: str | None,
    zone: tzinfo | None,
    now_ms: int,
) -> dict[str, int]:
    """The range that is asked about, and the one of its length that it is compared with, in ms."""
    length = last or question.last
    of_day = not (from_ or to) and length in _DAYS_AGO
    from_ms, to_ms = span_of(length, from_, to, zone, now_ms)
    back = _back(against) or question.against
    if not (against or of_day) and back and to_ms - from_ms > duration_ms(back):
        back = ""  # so much earlier it would be compared with a part of itself
    if of_day and (not back or back.endswith("d")):
        before_ms, before_to_ms = before((from_ms, to_ms), now_ms, zone, int(back[:-1]) if back else None)
    elif back:
        before_ms, before_to_ms = (at_ms - duration_ms(back) for at_ms in (from_ms, min(to_ms, now_ms)))
    else:
        before_ms, before_to_ms = before((from_ms, to_ms), now_ms, zone)
    to_ms = min(to_ms, now_ms) if of_day else to_ms
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "before_from_ms": max(0, before_ms),
        "before_to_ms": max(0, before_to_ms),
    }


def _back(against: str | None) -> str:
    try:
        return against if against and duration_ms(against) else ""
    except ConfigError as error:
        raise ConfigError("--against", against, error.bound) from error


def span_of(length: str, from_: str | None, to: str | None, zone: tzinfo | None, now_ms: int) -> Span:
    """A whole day of the calendar though it is not over; all else until now at most, but for ends that are given. Days
    among these begin at midnight of the zone, without one UTC."""
    named, today = NamedRange.of(length), day_of(now_ms, zone)
    if from_ or to:
        is_length = not (named.is_of_calendar or named.hours)
        return span(duration_ms(length if is_length else "1d"), from_, to, now_ms, zone)
    if named.hours:
        begin_ms, end_ms = _hours_of_day(*named.hours, named.days_ago, zone, now_ms)
    elif named.what in (WEEK, MONTH):
        first = today.replace(day=1) if named.what == MONTH else today - timedelta(today.weekday())
        begin_ms, end_ms = midnight(first, zone), now_ms
    elif named.what in _DAYS_AGO:
        day = today - timedelta(_DAYS_AGO[named.what])
        begin_ms, end_ms = midnight(day, zone), midnight(day + timedelta(1), zone)
    else:
        begin_ms, end_ms = max(0, now_ms - duration_ms(named.what)), now_ms
    return begin_ms, now_ms if named.since else end_ms


def _hours_of_day(begin_h: float, end_h: float, ago: Sequence[int], zone: tzinfo | None, now_ms: int) -> Span:
    """These hours, so far as they are over, of the first of the days (so many ago) on which they have begun, in ms:
    whole minutes."""
    days = [day_of(now_ms, zone) - timedelta(days) for days in ago]
    ends = [[midnight(day, zone, round(60 * hour)) for hour in (begin_h, end_h)] for day in days]
    begin_ms, end_ms = next((one for one in ends if one[0] < now_ms), ends[-1])
    return begin_ms, min(end_ms, now_ms)


def covered(database: Reader, from_ms: int, to_ms: int, kept_from_ms: int = 0) -> float:
    """Seconds of the range that have data, as pages say it. ``kept_from_ms``: since when rows of 10 s are kept."""
    query = dashboard.query(dashboard.covered(to_ms - from_ms)).kept(from_ms, kept_from_ms)
    given = {"from_ms": from_ms, "to_ms": to_ms}
    ((found, _),) = database.sql(query.at_levels(to_ms - from_ms, given), query.values(given, to_ms - from_ms)).rows
    return float(found) / 1_000


def over(bounds: Mapping[str, int], covered_s: float, which: str = "") -> str:
    """Which range an answer is of, and how much of it has data; with ``before_`` the one that it is compared with."""
    from_ms, to_ms = bounds[f"{which}from_ms"], bounds[f"{which}to_ms"]
    said = f"{label_utc(from_ms, to_ms)}, {covered_text(covered_s, to_ms - from_ms)}"
    return f"before: {said}" if which else said


def understood(names: Mapping[str, str], given: Mapping[str, str], of_today: str) -> str:
    """What was made of the words, as a line below the question: what is measured, and of what alone. Empty for all of
    what the question is about."""
    measured = label(given)
    only = ", ".join(f"{NAMES[kind]} {name}" for kind, name in names.items() if name)
    return ", ".join(one for one in (" of ".join(one for one in (measured, only) if one), of_today) if one)


def of_today(question: Question, last: str, ends: str | None, against: str | None, zone: str | None) -> str:
    """What is said of a range of the calendar: whose day it is, and what it is compared with. Empty for another."""
    length = last or question.last
    if length not in _DAYS_AGO or ends:
        return ""
    back = against or question.against
    other = {"": "", "1d": ", against yesterday" if length == TODAY else ", against the day before"}
    return f"{length}{other.get(back, f', against {back} earlier')} ({zone or 'time of this machine'})"


def command(words: Sequence[str], params: Sequence[str], **options: object) -> str:
    """The command as it was written, without its range."""
    given = [part for one in params for part in ("-p", one)]
    given += [part for name, value in options.items() if value for part in (f"--{name.replace('_', '-')}", str(value))]
    return f"fleetpulse ask {shlex.join([*words, *given])}"


def readable(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Headings and cells for people: amounts in units that they read, by the unit in the column's name."""
    return [cells.head(name) for name in columns], [
        [_cell(name, value) for name, value in zip(columns, row, strict=True)] for row in rows
    ]


def _cell(column: str, value: Any) -> Any:
    return ", ".join(show(one) for one in value) if isinstance(value, list | tuple) else cells.readable(column, value)
