"""Hours of the week with a price of their own, in the time of the place. Pure but for the time zone table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from stream_jobs.yaml_files.nodes import Node, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import word

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Band:
    """``value`` from minute ``start`` to before minute ``end`` of the ``days`` (0 is Monday)."""

    days: frozenset[int]
    start: int
    end: int
    value: int
    at: str
    said: str
    currency: str | None = None


def band_at(bands: Sequence[Band], zone: str, at_ms: int) -> Band | None:
    """The band that holds then in that time zone. ``at_ms`` within the calendar."""
    if not bands:
        return None
    local = datetime.fromtimestamp(at_ms // 1_000, _zone(zone))
    minute = local.hour * 60 + local.minute
    return next((b for b in bands if local.weekday() in b.days and b.start <= minute < b.end), None)


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def zone_of(node: Node) -> str:
    """A name of the time zone table, like ``Europe/Berlin``. Raises ``WrongError``."""
    text = word(node, "timezone")
    try:
        _zone(text)
    except (ValueError, OSError, KeyError):
        raise WrongError(node.at, f"timezone {quoted(text)} is not known; write it like Europe/Berlin or UTC") from None
    return text


def days_of(node: Node | None) -> frozenset[int]:
    """``mon-fri``, ``sat,sun``; every day where nothing is written. Raises ``WrongError``."""
    if node is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in word(node, "days").lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        for name in (first, last) if dash else (first,):
            if name not in DAYS:
                raise WrongError(node.at, f"days {quoted(part)} is not known; {nearest(name, DAYS)}")
        start, end = DAYS.index(first), DAYS.index(last if dash else first)
        found |= {(start + step) % 7 for step in range((end - start) % 7 + 1)}
    return frozenset(found)


def minutes_of(node: Node) -> tuple[int, int]:
    """``07:00-22:00`` as minutes of the day; 24:00 ends it. Raises ``WrongError``."""
    text = word(node, "hours")
    found = _HOURS.fullmatch(text)
    parts = [int(part) for part in found.groups()] if found else []
    if not parts or parts[1] > 59 or parts[3] > 59:
        raise WrongError(node.at, f"hours {quoted(text)} must be like 07:00-22:00")
    start, end = parts[0] * 60 + parts[1], parts[2] * 60 + parts[3]
    if not start < end <= DAY_MINUTES:
        raise WrongError(
            node.at, f"hours {quoted(text)} must end behind their start and by 24:00; write a night as two bands"
        )
    return start, end


def apart(bands: Sequence[Band], told: Problems) -> None:
    """Tell bands of one period that share a minute."""
    for index, one in enumerate(bands):
        for before in bands[:index]:
            if one.days & before.days and one.start < before.end and before.start < one.end:
                told.add(one.at, f"these hours overlap the band at {before.at}; a minute has one price")


def band_keys() -> tuple[str, ...]:
    """Keys of a band."""
    return ("days", "hours", "value")


def required(node: Table, key: str) -> Node:
    """What stands under a key that must be there. Raises ``WrongError``."""
    found = node.get(key)
    if found is None:
        raise WrongError(node.at, f"needs `{key}`")
    return found
