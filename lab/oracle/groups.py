"""Rows by what they are of. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Of = TypeVar("Of")
Row = TypeVar("Row")


def grouped(named: Iterable[tuple[Of, Row]]) -> dict[Of, list[Row]]:
    """Rows under their names, as they come; a row may come under several."""
    found: dict[Of, list[Row]] = {}
    for name, row in named:
        found.setdefault(name, []).append(row)
    return found
