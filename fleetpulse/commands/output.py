"""How commands speak: data to stdout (tables for people, JSON for programs), everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout, numbers and dataclasses as they are."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode() + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table; numbers stand to the right, unknown values show as an en dash."""
    listed = [tuple(row) for row in rows]
    made = Table(title=title, title_justify="left", header_style="bold", border_style="dim")
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in listed)
        made.add_column(name, justify="right" if numeric else "left")
    for row in listed:
        made.add_row(*(show(value) for value in row))
    return made


def show(value: Any) -> str:
    """A cell: thousands separated, floats to three digits, unknown as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)
