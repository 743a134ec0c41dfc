"""A query held to one model, tenant, host ...: the tables that it reads are read with a condition more. Pure.

Only where each of them knows the name: an answer is then of it alone, before anything is summed, ranked or cut. Sums of
bills that do not know it are read from the bills. The clock of rates stays that of the whole fleet. Values are bound by
the server, never written into SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from schemas.ddl.billed_views import AS_SUMS, OF_BILLS
from schemas.ddl.declared import declared
from schemas.ddl.range_views import CHANGED, TIME
from schemas.definitions import BILLED

NAMES: Mapping[str, str] = {
    "model": "model",
    "tenant": "tenant",
    "host": "host",
    "engine_id": "engine",
    "gpu_model": "type of GPU",
    "gpu_uuid": "GPU",
    "region": "region",
    "cluster": "cluster",
    "model_version": "model version",
    "slo_class": "service class",
}
"""What a query may be held to, by the name of its parameter; and how people call it."""
_OF_CHANGES = ("tenant", "model", "model_version", "host", "engine_id")
_KNOWN_AS = {"engine_id": "owner"}
_READ = re.compile(r"\b(FROM|JOIN)(\s+)(\w+)(\([^()]*\))?( FINAL)?")
_PLACE = re.compile(r"\{(\w+)\s*:")
_COLUMN = re.compile(r"^    (\w+) ", re.MULTILINE)
_REQUESTS = re.compile(r"llm_requests_(?:partials|rollup_\w+)")
_OF_ENGINES = re.compile(r"\bgrouping = 'engine'")
_OF_OTHERS = re.compile(r"\bgrouping (?:= '(?!engine')|IN\b)")
_LABELS = "alert_history"
_OF_ALERTS = (
    "(fingerprint, opened_ms) IN (SELECT fingerprint, opened_ms FROM alert_history WHERE at_ms < {{to_ms:Int64}}"
    " GROUP BY ALL HAVING argMax(labels, number)['{name}'] = {value})"
)
"""An alert as it was last: what it is about changes with its likeliest cause."""
_CLOCK = re.compile("|".join(map(re.escape, BILLED.values())))


def takes(sql: str, names: Iterable[str]) -> bool:
    """Whether a query can be held to these at once, by parameters of its own or by the tables that it reads."""
    named = [*names]
    wanted = [name for name in named if name not in _PLACE.findall(sql)]
    found = (one[3] for one in _READ.finditer(_CLOCK.sub("", sql)))
    read = [table for table in found if table in _declared() and table != TIME]
    if CHANGED in read:
        return len(named) < 2 and all(name in _OF_CHANGES for name in wanted)
    rows = _rows_of(sql)
    return not wanted or (bool(read) and all(_condition(table, name, rows) for table in read for name in wanted))


def scoped(sql: str, names: Iterable[str]) -> str:
    """The query held to these, each of which becomes a parameter; it must take them."""
    wanted, rows = [name for name in names if name not in _PLACE.findall(sql)], _rows_of(sql)

    def held(found: re.Match[str]) -> str:
        table = found[3]
        if not wanted or table not in _declared() or table == TIME:
            return found[0]
        if table in OF_BILLS and not all(_column(table, name) for name in wanted):
            table, source, picked = OF_BILLS[table], OF_BILLS[table], f"*, {AS_SUMS}"
            where = "minute_ms >= {from_ms:Int64} AND minute_ms < {to_ms:Int64} AND "
        else:
            source, picked, where = f"{table}{found[4] or ''}{found[5] or ''}", "*", ""
        where += " AND ".join(_condition(table, name, rows) for name in wanted)
        return f"{found[1]}{found[2]}(SELECT {picked} FROM {source} WHERE {where})"

    pieces, clocks = _CLOCK.split(sql), [*_CLOCK.findall(sql), ""]
    return "".join(_READ.sub(held, piece) + clock for piece, clock in zip(pieces, clocks, strict=True))


def _rows_of(sql: str) -> str:
    """The view that has the names of those rows of requests that a query reads from their tables."""
    of_engines = _OF_ENGINES.search(sql) and not _OF_OTHERS.search(sql)
    return "engine_request_windows" if of_engines else "request_windows"


def _condition(table: str, name: str, rows: str) -> str:
    """That a row of this table is of the name; empty where it does not know. ``rows`` of requests are of this view."""
    value = f"{{{name}:String}}"
    if table == CHANGED:
        return f"dimension = '{name}' AND name = {value}"
    if table == _LABELS:
        return _OF_ALERTS.format(name=name, value=value)
    if _REQUESTS.fullmatch(table):
        table = rows
    elif table in OF_BILLS and not _column(table, name):
        table = OF_BILLS[table]
    column = _column(table, name)
    return f"{column} = {value}" if column else ""


def _column(table: str, name: str) -> str:
    """The column that has the name; empty: none."""
    return next((one for one in (name, _KNOWN_AS.get(name, name)) if one in columns_of(table)), "")


@cache
def _declared() -> Mapping[str, str]:
    """Our tables and views; making their statements takes 30 ms, and a query names a dozen."""
    return declared()


@cache
def columns_of(table: str) -> frozenset[str]:
    """Columns of a table or view of ours."""
    return frozenset(_COLUMN.findall(_declared()[table].partition("\n)")[0]))
