"""What holds when: periods that neither overlap nor leave a gap unsaid. Pure.

A period is [from, until). Without ``until`` it holds until the next of its list begins; the last one without end.
Both ends are whole minutes, so that a bill of one minute has one price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import pairwise

from stream_jobs.prices.tariff import Band
from stream_jobs.yaml_files.nodes import Node, Table
from stream_jobs.yaml_files.problems import Problems, WrongError, quoted
from stream_jobs.yaml_files.scalars import word

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Period:
    """``value`` in the section's tiny unit, None for said to be unknown; ``said`` is the text it was read from."""

    from_ms: int
    until_ms: int | None
    value: int | None
    at: str
    said: str = "null"
    currency: str | None = None
    bands: tuple[Band, ...] = ()

    def holds(self, at_ms: int) -> bool:
        """True within [from, until)."""
        return self.from_ms <= at_ms and (self.until_ms is None or at_ms < self.until_ms)


def in_force(periods: Sequence[Period], at_ms: int) -> Period | None:
    """The period that holds; None before the first and behind the last."""
    return next((one for one in periods if one.holds(at_ms)), None)


def instant_ms(node: Node, what: str) -> int:
    """``2026-01-01`` (midnight UTC) or ``2026-01-01T06:00:00Z``, a whole minute. Raises ``WrongError``."""
    text = word(node, what)
    try:
        return instant_of(text)
    except (ValueError, OverflowError):
        raise WrongError(
            node.at, f"{what} = {quoted(text)} must be a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)"
        ) from None


def instant_of(text: str) -> int:
    """Milliseconds since 1970 of such a text. Raises ``ValueError`` or ``OverflowError``."""
    if len(text) == len("2026-01-31"):
        day = date.fromisoformat(text)
        found = datetime(day.year, day.month, day.day, tzinfo=UTC)
    else:
        found = datetime.fromisoformat(text)
    seconds = found.timestamp()
    if found.tzinfo is None or seconds < 0 or seconds % 60:
        raise ValueError(text)
    return int(seconds) * 1_000


def instant_text(at_ms: int) -> str:
    """The shortest of both ways to write it; beyond the calendar the number itself."""
    try:
        text = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"
    return text.removesuffix("T00:00:00Z")


def bounds(node: Table) -> tuple[int, int | None]:
    """``from`` and ``until`` of a period; ``until`` None where it is not written."""
    first = node.get("from")
    if first is None:
        raise WrongError(node.at, "a period needs `from`; say since when this holds")
    from_ms = instant_ms(first, "from")
    last = node.get("until")
    until_ms = None if last is None else instant_ms(last, "until")
    if last is not None and until_ms is not None and until_ms <= from_ms:
        raise WrongError(last.at, "until must come after from; the end itself no longer belongs to the period")
    return from_ms, until_ms


def in_a_row(periods: Sequence[Period], told: Problems, unknown: str = "value: null") -> tuple[Period, ...]:
    """Sorted, with open ends closed by the next; overlaps and unsaid gaps are told.

    ``unknown`` is how a gap is said in this place; without it gaps are not judged, because a period could not be read.
    """
    ordered = sorted(periods, key=lambda one: one.from_ms)
    made = [_closed(one, after, told, unknown) for one, after in pairwise(ordered)]
    return (*made, *ordered[-1:])


def _closed(one: Period, after: Period, told: Problems, unknown: str) -> Period:
    if one.from_ms == after.from_ms or (one.until_ms or 0) > after.from_ms:
        told.add(
            after.at,
            f"begins at {instant_text(after.from_ms)} and overlaps the period at {one.at}; "
            f"end that one with `until: {instant_text(after.from_ms)}` or remove one",
        )
    elif unknown and one.until_ms is not None and one.until_ms < after.from_ms:
        gap = f"{{from: {instant_text(one.until_ms)}, until: {instant_text(after.from_ms)}, {unknown}}}"
        told.add(after.at, f"a gap before it, behind the period at {one.at}; close it or say it is unknown: {gap}")
    return one if one.until_ms is not None else replace(one, until_ms=after.from_ms)
