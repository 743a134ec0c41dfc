"""What to write instead, beside an error of the server about a name in people's SQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from fleetpulse.queries.scope import columns_of
from schemas.ddl.declared import declared

NEAREST = 5
_NO_TABLE = re.compile(r"Unknown table expression identifier '(?:\w+\.)?(?P<name>\w+)'")
_NO_COLUMN = re.compile(
    r"Unknown expression(?: or function)? identifier [`'](?:\w+\.)?(?P<name>\w+)[`']"
    r"|Identifier '(?:\w+\.)*(?P<other>\w+)' cannot be resolved"
)
_PERCENTILE = re.compile(r"_p\d+$")
_PLACE = re.compile(r"\{(\w+)\s*:")


def hint(error: str, sql: str) -> str:
    """What to write where the server knows no such table or column, or a view lacks its range. Empty for any other
    error."""
    relations = {name: text for name, text in declared().items() if " FUNCTION " not in text.partition("\n")[0]}
    read = sorted({*re.findall(r"\w+", sql)} & relations.keys())
    if unknown := _NO_TABLE.search(error):
        near = get_close_matches(unknown["name"], relations, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        return f"{meant}SHOW TABLES lists tables and views, fleetpulse ask questions with their queries"
    if "EMPTY_LIST_OF_COLUMNS" in error:
        wanted = {name: _PLACE.findall(relations[name]) for name in read}
        return next((_range(name, places) for name, places in wanted.items() if places), "")
    if unknown := _NO_COLUMN.search(error):
        return _columns(unknown["name"] or unknown["other"], {name: sorted(columns_of(name)) for name in read})
    return ""


def _range(view: str, places: list[str]) -> str:
    return f"this view needs its range: {view}({', '.join(f'{one} = ...' for one in dict.fromkeys(places))})"


def _columns(name: str, known: Mapping[str, list[str]]) -> str:
    """The nearest columns of each table that the statement reads."""
    said = []
    for table, columns in known.items():
        typed = name.lower()
        inside = sorted((one for one in columns if typed in one), key=lambda one: _far(one, typed))
        near = list(dict.fromkeys([*inside, *get_close_matches(typed, columns, n=NEAREST)]))[:NEAREST]
        instead = f"nearest: {', '.join(near)}" if near else f"DESCRIBE {table} lists them"
        said.append(f"no column {name} in {table}; {instead}")
    return "\n".join(said)


def _far(column: str, typed: str) -> tuple[bool, bool, str]:
    """What begins so comes first, of that percentiles."""
    return not column.startswith(typed), not _PERCENTILE.search(column), column
