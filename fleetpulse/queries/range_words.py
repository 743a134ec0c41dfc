"""Ranges that a question in plain words names: today, yesterday, the last 10 minutes. Pure."""

from __future__ import annotations

import re

_UNITS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w", "month": "M"}
_IN_DAYS = {"w": 7, "M": 30}
_UNIT = "|".join(_UNITS)
_LAST = re.compile(
    rf"\b(?:(?:in|of|over|for|during)\s+)?(?:the\s+)?(?:last|past|previous)\s+(?:(\d+)\s*)?({_UNIT})s?\b"
    r"|\b(?:last|past)\s+(\d+)([smhd])\b|\b(?:in|for|over)\s+(\d+)([smhd])\b",
    re.IGNORECASE,
)
_DAY = re.compile(r"\b(?:today|yesterday)\b", re.IGNORECASE)
_COMPARED = re.compile(
    r"\btoday\b.*\byesterday\b|\byesterday\b.*\btoday\b|\b(?:than|vs|versus|against|with|to)\W+yesterday\b",
    re.IGNORECASE,
)


def range_of(text: str) -> tuple[str, str]:
    """How far back a question is about (``10m``, ``30d``, ``today``, ``yesterday``), empty where it does not say, and
    the words that are left. A comparison with yesterday is no range; a week is 7 days, a month 30."""
    if found := _LAST.search(text):
        count, unit = found[1] or found[3] or found[5] or "1", found[2] or found[4] or found[6]
        unit = _UNITS.get(unit.lower(), unit.lower())
        days = _IN_DAYS.get(unit)
        return (
            f"{int(count) * days}d" if days else f"{int(count)}{unit}",
            f"{text[: found.start()]} {text[found.end() :]}",
        )
    compared = _COMPARED.search(text)
    day = _DAY.search(text)
    if compared or not day:
        return "", text
    return day[0].lower(), f"{text[: day.start()]} {text[day.end() :]}"
