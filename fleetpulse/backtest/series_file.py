"""A series as a CSV: ``timestamp,value`` with a header line or without, read row by row.

Timestamps are ISO 8601 (``2014-04-01 00:00:00``, with ``T`` and a zone or without: then UTC) or numbers: seconds, or
milliseconds above 10^11. An empty value or ``nan`` is unknown. Other columns are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from schemas.errors import ConfigError

SECONDS_MAX = 1e11
"""A number above this is in milliseconds: as seconds it would be the year 5138."""
GAPS_LOOKED_AT = 200
Spans = tuple[tuple[int, int], ...]
"""Begin and end (both included) in ms of what is labelled."""


class Point(NamedTuple):
    """A row; ``text`` is the timestamp as it was written."""

    at_ms: int
    value: float
    text: str


def read_series(path: Path) -> Iterator[Point]:
    """The rows in order of the file, also where time goes back. Raises ``ConfigError`` with the line for a row that is
    none, and for a file that cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            yield from _points(path, csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error


def _points(path: Path, rows: Iterator[list[str]]) -> Iterator[Point]:
    for number, row in enumerate(rows, 1):
        if not row or (number == 1 and _is_header(row)):
            continue
        try:
            yield Point(time_ms(row[0]), float(row[1] or "nan"), row[0])
        except (IndexError, ValueError) as error:
            raise ConfigError(f"{path}:{number}", ",".join(row)[:80], "must be timestamp,value") from error


def _is_header(row: list[str]) -> bool:
    try:
        time_ms(row[0])
    except ValueError:
        return True
    return False


def time_ms(text: str) -> int:
    """Milliseconds since the epoch. Raises ``ValueError``."""
    try:
        number = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    if not abs(number) < SECONDS_MAX * 1_000:
        raise ValueError(text)
    return round(number if abs(number) > SECONDS_MAX else number * 1_000)


def interval_ms(path: Path) -> int:
    """The usual gap between rows: the median of the first ones. Raises ``ConfigError`` for fewer than two moments."""
    gaps: list[int] = []
    before_ms: int | None = None
    for point in read_series(path):
        if before_ms is not None and point.at_ms > before_ms:
            gaps.append(point.at_ms - before_ms)
        before_ms = point.at_ms
        if len(gaps) == GAPS_LOOKED_AT:
            break
    if not gaps:
        raise ConfigError(str(path), "", "must hold at least two moments")
    return sorted(gaps)[len(gaps) // 2]
