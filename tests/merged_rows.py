"""Merging partial rows, in plain Python: the meaning that the compiled fold and the tables must agree with.

For tests, audits and small results. Rows are dictionaries as ``build.rows_of`` gives them. The result does
not depend on the order of the rows nor on how they were grouped before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas import sketch
from schemas.fields import Role
from schemas.rows.tables import Table

Row = Mapping[str, Any]
Key = tuple[Any, ...]


def key_of(table: Table, row: Row) -> Key:
    """What a row is about: window, grouping set, labels."""
    return (row["window_ms"], *(row[field.name] for field in table.fields if field.role is Role.DIMENSION))


def merge_rows(table: Table, rows: Iterable[Row]) -> dict[Key, dict[str, Any]]:
    """One row per window and series, by key in rising order (null before any text)."""
    merged: dict[Key, dict[str, Any]] = {}
    for row in rows:
        key = key_of(table, row)
        merged[key] = merge_two(merged[key], row) if key in merged else dict(row)
    return {key: merged[key] for key in sorted(merged, key=lambda key: [(part is not None, part) for part in key])}


def merge_two(one: Row, other: Row) -> dict[str, Any]:
    """The row of the events of both; they must be of one window and series."""
    merged = dict(one)
    for name, value in other.items():
        if name.endswith("_last"):
            merged[name] = _last(name, one, other)
        elif name == "last_at_ms":
            merged[name] = max(one[name], value)
        elif name.endswith("_bins"):
            merged[name] = sketch.merge(one[name], value)
        elif name.endswith("_min"):
            merged[name] = min((v for v in (one[name], value) if v is not None), default=None)
        elif name.endswith("_max"):
            merged[name] = max((v for v in (one[name], value) if v is not None), default=None)
        elif name.endswith(("_count", "_sum")):
            merged[name] = value if one[name] is None else one[name] if value is None else one[name] + value
    return merged


def _last(name: str, one: Row, other: Row) -> int | None:
    """The value of the row with the greatest last time; the greatest known one where the times are equal."""
    latest = max(one["last_at_ms"], other["last_at_ms"])
    known = [row[name] for row in (one, other) if row["last_at_ms"] == latest and row[name] is not None]
    return max(known, default=None)
