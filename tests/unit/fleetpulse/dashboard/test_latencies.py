"""Latencies of what a table lists."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from fleetpulse.dashboard.latencies import IN_TABLES, latency_cells, percentile_column, percentile_lines
from fleetpulse.dashboard.values import FEW, percentile_cells
from fleetpulse.dashboard.view import View
from fleetpulse.sql.database import Answer


class RecordingView:
    """Answers as the database would: of the latency ``tpot`` nothing is known."""

    def __init__(self) -> None:
        self.queries: list[dict[str, Any]] = []

    async def ask(self, name: str, **values: Any) -> Answer:
        self.queries.append({"query": name, **values})
        rows = [] if values["bins"] == "tpot_us_bins" else [(None, [1.0, 2.0], 19), ("a", [3.0, 4.0], 20)]
        return Answer(("name", "percentiles", "counted"), tuple(rows))

    async def gather(self, *queries: Awaitable[Answer]) -> list[Answer]:
        return [await one for one in queries]


async def test_every_latency_is_asked_once_and_every_name_has_its_cells() -> None:
    """Null is a name; what nothing is known of has no numbers."""
    view = RecordingView()

    cells = await latency_cells(cast(View, view), "tenant", ["a", None, "b"])

    about = {"query": "latency_by", "dimension": "tenant", "names": ["a", None, "b"]}
    assert view.queries == [about | {"bins": f"{latency}_us_bins"} for latency in IN_TABLES]
    nothing = percentile_cells(IN_TABLES, [None, None, None])
    many, some = (percentile_cells(("ttft", "e2e"), [one, one]) for one in (([3.0, 4.0], 20), ([1.0, 2.0], 19)))
    assert cells == {"a": nothing | many, None: nothing | some, "b": nothing}
    assert cells[None]["ttft_p95"] == FEW


def test_a_cell_says_of_how_many_values_it_is() -> None:
    """To who points at it."""
    column = percentile_column("ttft", "p95")

    assert (column.name, column.label) == ("ttft_p95", "TTFT p95")
    assert column.title is not None
    assert column.title({"ttft_p95": 4.0, "ttft_counted": 66_532}) == "of 66,532 values"
    assert percentile_column("step", "p50", "Step").label == "Step p50"


def test_lines_have_gaps_where_values_are_few() -> None:
    """And it is said which percentiles have no point at all, and of how many values the others are."""
    rows = [
        {"at_ms": 1, "found": [1.0, 2.0, 3.0], "n": 20},
        {"at_ms": 2, "found": [4.0, 5.0, 6.0], "n": 19},
    ]
    colours = {"p50": "a", "p95": "b", "p99": "c"}

    lines, of = percentile_lines(colours, rows, "found", "n")

    assert {line.name: list(line.points) for line in lines} == {
        "p50": [(1, 1.0), (2, 4.0)],
        "p95": [(1, 2.0), (2, None)],
        "p99": [(1, None), (2, None)],
    }
    assert [line.colour for line in lines] == ["a", "b", "c"]
    assert of == "39 values · too few in each point for p99"
    assert percentile_lines(colours, [rows[0] | {"n": 100}], "found", "n")[1] == "100 values"
