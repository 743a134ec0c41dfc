"""Latencies of what a table lists: one query for each, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from fleetpulse.dashboard.values import percentile_cells
from fleetpulse.dashboard.view import View

IN_TABLES = ("ttft", "tpot", "e2e")


async def latency_cells(
    view: View, dimension: str, names: Sequence[str | None]
) -> dict[str | None, dict[str, float | None]]:
    """Cells of the rows of ``names``, values of a dimension, such as ``ttft_p50`` [us]."""
    queries = [
        view.ask("latency_by", dimension=dimension, bins=f"{latency}_us_bins", names=list(names))
        for latency in IN_TABLES
    ]
    found = [{row["name"]: row["percentiles"] for row in one.records()} for one in await view.gather(*queries)]
    return {name: percentile_cells(IN_TABLES, [one.get(name) for one in found]) for name in names}
