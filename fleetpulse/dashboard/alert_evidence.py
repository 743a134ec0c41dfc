"""The evidence of an alert as tables for people. Pure: lists of (title, columns, rows of text).

Evidence is JSON whose kinds may grow: what is known gets an order and units, anything else is shown as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.dashboard.values import UNKNOWN, clean, microseconds, percent, short
from fleetpulse.dashboard.zone import UTC_ZONE, Zone
from fleetpulse.report.amounts import usd

ROWS_MAX = 100
TITLES = {
    "expected": "Measured and expected",
    "touched": "Affected",
    "requests.slowest": "Slowest requests",
    "requests.failed": "Failed requests",
    "requests.aborted": "Aborted requests",
    "requests.client_fault": "Client faults",
    "gpu.gpus": "GPUs beside it",
    "gpu.engines": "Engines beside it",
    "explained_by": "What explains the change",
    "deployment": "Deployments before it",
}
"""In the order in which they are shown; others follow."""
FIRST = ("request_id", "gpu_uuid", "engine_id", "dimension", "value_us", "status", "error_kind", "tenant", "model")
"""Columns of lists that come first; others follow in the order of the record."""


_UNITS: tuple[tuple[str, float, Callable[[float], str]], ...] = (
    ("_us", 1, microseconds),
    ("share", 1, percent),
    ("_ppm", 1e-6, percent),
    ("_nusd", 1, usd),
)


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """A table: ``title``, names of columns, and rows of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(evidence: Mapping[str, Any], zone: Zone = UTC_ZONE) -> list[EvidenceTable]:
    """The evidence as tables, in the order of ``TITLES``, its moments in this zone."""
    found = dict(_parts("", evidence))
    order = [*TITLES, *sorted(found.keys() - TITLES.keys())]
    made = (_table(TITLES.get(name, name.replace("_", " ")), found[name], zone) for name in order if name in found)
    return [table for table in made if table.rows]


def costs(rows: Sequence[Mapping[str, Any]]) -> EvidenceTable:
    """What requests cost that its fault hit, by tenant: answers of ``request_cost_of_alert``.

    Unanswered: failed or client faults; bills know no more.
    """
    cells = tuple(
        (
            clean(row["name"] or None),
            f"{row['requests']:,}",
            *(f"{row[end]:,}" for end in ("ok", "aborted", "unanswered")),
            *(written(name, row[name]) for name in ("cost_nusd", "unanswered_nusd")),
        )
        for row in rows[:ROWS_MAX]
    )
    final = "" if all(row["all_final"] for row in rows) else ", provisional"
    columns = ("tenant", "requests", "ok", "aborted", "unanswered", "cost", "of it unanswered")
    return EvidenceTable(f"What the requests cost{final}", columns, cells)


def written(name: str, value: Any, zone: Zone = UTC_ZONE) -> str:
    """A value by the unit at the end of its name."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool) or not isinstance(value, int | float):
        return clean(", ".join(_pairs(value, zone)) if isinstance(value, Mapping | list) else value)
    if name.endswith("_ms"):
        return f"{zone.said(int(value))}" if value > 1e11 else microseconds(1_000 * value)
    for ending, scale, write in _UNITS:
        if name.endswith(ending):
            return write(scale * float(value))
    return short(float(value))


def _parts(prefix: str, evidence: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Evidence by kind; kinds that hold lists alone (requests, gpu) by list."""
    for name, value in evidence.items():
        if isinstance(value, Mapping) and value and all(isinstance(one, list) for one in value.values()):
            yield from _parts(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _table(title: str, value: Any, zone: Zone) -> EvidenceTable:
    if isinstance(value, Mapping):
        return EvidenceTable(
            title, ("", ""), tuple((_word(name), written(name, one, zone)) for name, one in value.items())
        )
    rows = (
        [one if isinstance(one, Mapping) else {"": one} for one in value] if isinstance(value, list) else [{"": value}]
    )
    there = dict.fromkeys(name for row in rows for name in row)
    names = (*(name for name in FIRST if name in there), *(name for name in there if name not in FIRST))
    cells = tuple(tuple(written(name, row.get(name), zone) for name in names) for row in rows[:ROWS_MAX])
    return EvidenceTable(title, tuple(map(_word, names)), cells)


def _pairs(value: Mapping[str, Any] | Sequence[Any], zone: Zone) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{_word(str(name))} {written(str(name), one, zone)}" for name, one in value.items()]
    return [written("", one, zone) for one in value]


def _word(name: str) -> str:
    for unit in ("_us", "_ms", "_nusd", "_ppm"):
        name = name.removesuffix(unit)
    return clean(name.replace("_", " "))
