"""Percentiles of latencies in tables and charts, each with the number of values that went in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line
from fleetpulse.dashboard.parts import Column
from fleetpulse.dashboard.values import FEW, microseconds, percentile, percentile_cells, short
from fleetpulse.dashboard.view import View

IN_TABLES = ("ttft", "tpot", "e2e")


async def latency_cells(
    view: View, dimension: str, names: Sequence[str | None]
) -> dict[str | None, dict[str, float | str | None]]:
    """Cells of the rows of ``names``, values of a dimension, such as ``ttft_p50`` [us]: one query for each latency,
    side by side."""
    queries = [
        view.ask("latency_by", dimension=dimension, bins=f"{latency}_us_bins", names=list(names))
        for latency in IN_TABLES
    ]
    found = [
        {row["name"]: (row["percentiles"], row["counted"]) for row in one.records()}
        for one in await view.gather(*queries)
    ]
    return {name: percentile_cells(IN_TABLES, [one.get(name) for one in found]) for name in names}


def percentile_column(name: str, each: str, label: str = "") -> Column:
    """The column of a percentile of the latency ``name``; a cell says of how many values when somebody points at it."""
    head = f"{label or name.upper()} {each}"
    return Column(f"{name}_{each}", head, text=microseconds, right=True, title=lambda row: counted_text(row, name))


def counted_text(row: Mapping[str, Any], name: str) -> str:
    """``of 66,532 values``."""
    return f"of {row[f'{name}_counted'] or 0:,} values"


def percentile_lines(
    names: Mapping[str, str], rows: Sequence[Mapping[str, Any]], found: str, counted: str
) -> tuple[list[Line], str]:
    """Lines of percentiles by name and colour, of columns ``found``, in that order, and ``counted``; with gaps where a
    bucket has too few values. And what they are of: how many values went in, and which percentiles are all gap."""
    lines = []
    for place, (name, colour) in enumerate(names.items()):
        shown = [percentile(row[found][place], row[counted], name) for row in rows]
        points = [(row["at_ms"], None if isinstance(one, str) else one) for row, one in zip(rows, shown, strict=True)]
        lines.append(Line(name, points, colour=colour))
    gone = [line.name for line in lines if all(value is None for _, value in line.points)]
    of = f"{short(sum(row[counted] for row in rows))} values"
    return lines, f"{of} · too {FEW} in each point for {', '.join(gone)}" if gone else of
