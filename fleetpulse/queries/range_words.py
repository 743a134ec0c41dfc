"""Ranges that a question in plain words names: today, yesterday at 15:38, this week, this month, the last
10 minutes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_UNITS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w", "month": "M"}
_IN_DAYS = {"w": 7, "M": 30}
_UNIT = "|".join(_UNITS)
_LAST = re.compile(
    rf"\b(?:(?:in|of|over|for|during)\s+)?(?:the\s+)?(?:last|past|previous)\s+(?:(\d+)\s*)?({_UNIT})s?\b"
    r"|\b(?:last|past)\s+(\d+)([smhd])\b|\b(?:in|for|over(?!\s+\d+s\b))\s+(\d+)([smhd])\b",
    re.IGNORECASE,
)
_PARTS_OF_DAY = {"night": (-6, 6), "morning": (0, 12), "afternoon": (12, 18), "evening": (18, 24)}
"""Hours of the day from which to which; a night begins the evening before."""
_AROUND_H = 5 / 60
_PART = re.compile(
    r"\b(?:(?:in|during|some\s*time|earlier|late|early)\s+)*(?:this|today|the|last)?\s*"
    rf"({'|'.join(_PARTS_OF_DAY)})\b|\btonight\b",
    re.IGNORECASE,
)
_TIME = r"([01]?\d|2[0-3]):([0-5]\d)"
_CLOCK = re.compile(rf"\b(?:at|around|about|near)\s+{_TIME}\b", re.IGNORECASE)
_SINCE = re.compile(r"\bsince\b", re.IGNORECASE)
_AT_TIME = re.compile(rf"\A\s+(yesterday\s+)?(?={_TIME}\b)", re.IGNORECASE)
_SINCE_WHAT = re.compile(
    r"\bsince\s+(?:(?:the|an?|last|this|that|my|our)\s+\w+|\d\S*)|\bsince\b(?=\W*$)", re.IGNORECASE
)
_DAY = re.compile(r"\b(?:today|yesterday)\b", re.IGNORECASE)
TODAY, YESTERDAY = "today", "yesterday"
MONTH, WEEK = "month", "week"
"""This month, and this week from Monday on, of the calendar, so far."""
_THIS = re.compile(
    r"\b(?:(?:in|of|for|over|during)\s+)?(?:this\s+(week|month)|(?:the\s+)?(week|month)\s+(?:to\s+date|so\s+far))\b",
    re.IGNORECASE,
)
_A_MONTH = re.compile(r"\bmonthly\b|\b(?:per|a|each)\s+month\b", re.IGNORECASE)
_OTHER = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weeks?|weekends?|weekly|fortnights?|months?|quarters?|quarterly|q[1-4]"
    r"|years?|yearly|annual|annually|tomorrow|(?:19|20)\d\d"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec",
    re.IGNORECASE,
)
_MAY = re.compile(r"\b(?:in|of|for|during|since|last|this)\s+(may)\b", re.IGNORECASE)
_COMPARED = re.compile(
    r"\btoday\b.*\byesterday\b|\byesterday\b.*\btoday\b|\b(?:than|vs|versus|against|with|to)\W+yesterday\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class NamedRange:
    """A range as ``range_of`` names it. ``what``: a day, week or month of the calendar, a part of a day, a time of the
    clock, or a length (``10m``). ``since``: it begins there and ends now. ``yesterday``: its hours are of that day."""

    what: str
    since: bool = False
    yesterday: bool = False

    @classmethod
    def of(cls, name: str) -> NamedRange:
        """The range of that name."""
        since, yesterday = "since ", f"{YESTERDAY} "
        what = name.removeprefix(since)
        return cls(what.removeprefix(yesterday), name.startswith(since), what.startswith(yesterday))

    @property
    def name(self) -> str:
        """``since yesterday 15:38``."""
        return f"{'since ' if self.since else ''}{f'{YESTERDAY} ' if self.yesterday else ''}{self.what}"

    @property
    def is_of_calendar(self) -> bool:
        """Whether it is a day, week or month of the calendar, a part of a day, or since one of these or a time: no time
        of the clock alone, which is a moment."""
        return self.since or self.what in (TODAY, YESTERDAY, WEEK, MONTH, *_PARTS_OF_DAY)

    @property
    def days_ago(self) -> tuple[int, ...]:
        """Of which days its hours may be, the first that has begun: today, else yesterday."""
        return (1,) if self.yesterday else (0, 1)

    @property
    def hours(self) -> tuple[float, float] | None:
        """From which hour of a day to which, of a part of it, or of five minutes on both sides of a time; None for any
        other range. Since a time begins with it."""
        if found := re.fullmatch(_TIME, self.what):
            hour = int(found[1]) + int(found[2]) / 60
            return hour - (0 if self.since else _AROUND_H), hour + _AROUND_H
        return _PARTS_OF_DAY.get(self.what)


def range_of(text: str) -> tuple[str, str]:
    """Which range a question is about (``10m``, ``today``, ``afternoon``, ``yesterday 15:38``, ``month``), empty where
    it does not say, and the words that are left. A comparison with yesterday is no range; a week is 7 days, a month 30,
    but for these, which are those of the calendar. ``since`` a day, a part of one or a time is until now."""
    if found := _SINCE.search(text):
        after = _AT_TIME.sub(r" \1at ", text[found.end() :])
        named, left = _range_of(after)
        if named and left.split()[:1] != after.split()[:1]:  # it stands first
            one = NamedRange.of(named)
            until_now = named in (TODAY, WEEK, MONTH) or not (one.is_of_calendar or one.hours)
            return replace(one, since=not until_now).name, f"{text[: found.start()]} {left}"
    return _range_of(text)


def _range_of(text: str) -> tuple[str, str]:
    if found := _LAST.search(text):
        count, unit = found[1] or found[3] or found[5] or "1", found[2] or found[4] or found[6]
        unit = _UNITS.get(unit.lower(), unit.lower())
        days = _IN_DAYS.get(unit)
        return (
            f"{int(count) * days}d" if days else f"{int(count)}{unit}",
            f"{text[: found.start()]} {text[found.end() :]}",
        )
    compared, day = _COMPARED.search(text), _DAY.search(text)
    if found := _CLOCK.search(text) or _PART.search(text):
        hours = f"{int(found[1]):02}:{found[2]}" if found.re is _CLOCK else (found[1] or "evening").lower()
        left = f"{text[: found.start()]} {text[found.end() :]}"
        if compared or not day or day[0].lower() != YESTERDAY or hours == "night":
            return hours, left  # a night begins the evening before
        return NamedRange(hours, yesterday=True).name, _DAY.sub("", left)
    if found := _THIS.search(text) or _A_MONTH.search(text):
        named = (found[1] or found[2]).lower() if found.re is _THIS else "30d"
        return named, f"{text[: found.start()]} {text[found.end() :]}"
    if compared or not day:
        return "", text
    return day[0].lower(), f"{text[: day.start()]} {text[day.end() :]}"


def not_understood(text: str, words: Iterable[str]) -> list[str]:
    """What of a text names a time that ``range_of`` does not know: weekdays, months, quarters among the words, since
    what else it is about, and a second range, as that of a comparison with last month."""
    found = [word for word in words if _OTHER.fullmatch(word)]
    found += [may[1]] if (may := _MAY.search(text)) else []
    left = range_of(text)[1]
    others = (one.search(left) for one in (_SINCE_WHAT, _LAST, _THIS))
    return found or [one[0].strip() for one in others if one]
