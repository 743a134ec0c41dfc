"""Where data lies when a range has none of it: what is said then, and the nearest range to look at instead. Pure.

Query ``dashboard/data_ends`` looks it up, in tables by the minute: a few rows of each, whatever they hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.limits import MINUTE_MS

QUERY = "data_ends"
"""Of the dashboard's catalogue; its parameter is ``from_ms``."""
_READ_FROM: Mapping[str, re.Pattern[str]] = {
    "requests": re.compile(
        r"\b(?:llm_requests|\w*request_windows|slow_requests|who_changed|fault_impact|latency_by_concurrency)"
    ),
    "GPU readings": re.compile(r"\b(?:gpu_samples|gpu_windows|gpu_history|gpu_coverage|fleet_now)"),
    "host readings": re.compile(r"\bhost_(?:samples|windows|processes)|\bprocess_windows"),
    "engine readings": re.compile(r"\bengine_(?:samples|windows)"),
    "training steps": re.compile(r"\btraining_(?:steps|windows)"),
    "bills": re.compile(r"\b(?:token_costs|costs|cost_lines|cost_parts|unit_costs|billed)(?:_|\b)"),
}
"""Kinds of data as the query names them, and tables that hold them."""

Row = Mapping[str, Any]
Span = tuple[int, int]
"""[from, to) in ms."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Data that a range has none of. ``held``: where the tables have some, before the range and after it, whole
    minutes; there may be gaps inside. Empty: they have none at all."""

    kinds: tuple[str, ...]
    span: Span
    held: tuple[Span, ...]

    def nearest(self, *, compared: bool = False) -> Span | None:
        """A range with data, as long as this one where there is so much: the last before it, else the
        first after it. ``compared`` with as much before it: then with half of what there is, if need be."""
        if not self.held:
            return None
        begin, end = self.held[0]
        length = max(MINUTE_MS, (self.span[1] - self.span[0]) // MINUTE_MS * MINUTE_MS)
        if compared:
            length = min(length, max(MINUTE_MS, (end - begin) // 2 // MINUTE_MS * MINUTE_MS))
        if begin >= self.span[1] and not compared:
            return begin, min(end, begin + length)
        return max(begin, end - length), end

    def said(self, label: Callable[[int, int], str]) -> str:
        """``no requests in 17:20 – 18:20 UTC; data covers 15:36 – 15:40 UTC``, ranges as ``label`` writes them."""
        none = f"no {' and '.join(self.kinds)}"
        if not self.held:
            return f"{none} yet"
        return f"{none} in {label(*self.span)}; data covers {', and '.join(label(*one) for one in self.held)}"


def kinds_of(sql: str) -> tuple[str, ...]:
    """Kinds of data that a query reads, by the tables in its text."""
    return tuple(kind for kind, tables in _READ_FROM.items() if tables.search(sql))


def lack(rows: Iterable[Row], kinds: Iterable[str], span: Span) -> Lack | None:
    """What of these kinds a range has none of, from rows of the query; None where it has some of each."""
    wanted = {*kinds}
    without = [row for row in rows if row["kind"] in wanted and (row["next_ms"] is None or row["next_ms"] >= span[1])]
    if not without:
        return None
    before = _span(without, "first_ms", "before_ms")
    after = _span(without, "next_ms", "last_ms")
    return Lack(tuple(row["kind"] for row in without), span, tuple(one for one in (before, after) if one))


def _span(rows: Iterable[Row], first: str, last: str) -> Span | None:
    known = [(row[first], row[last]) for row in rows if row[first] is not None and row[last] is not None]
    return (min(one for one, _ in known), max(one for _, one in known) + MINUTE_MS) if known else None
