"""Latencies of what a table lists."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

from fleetpulse.dashboard.latencies import IN_TABLES, latency_cells
from fleetpulse.dashboard.view import View
from fleetpulse.sql.database import Answer


class RecordingView:
    """Answers as the database would: of the latency ``tpot`` nothing is known."""

    def __init__(self) -> None:
        self.queries: list[dict[str, Any]] = []

    async def ask(self, name: str, **values: Any) -> Answer:
        self.queries.append({"query": name, **values})
        rows = [] if values["bins"] == "tpot_us_bins" else [(None, [1.0, 2.0]), ("a", [3.0, 4.0])]
        return Answer(("name", "percentiles"), tuple(rows))

    async def gather(self, *queries: Awaitable[Answer]) -> list[Answer]:
        return [await one for one in queries]


async def test_every_latency_is_asked_once_and_every_name_has_its_cells() -> None:
    """Null is a name; what nothing is known of has no numbers."""
    view = RecordingView()

    cells = await latency_cells(cast(View, view), "tenant", ["a", None, "b"])

    about = {"query": "latency_by", "dimension": "tenant", "names": ["a", None, "b"]}
    assert view.queries == [about | {"bins": f"{latency}_us_bins"} for latency in IN_TABLES]
    nothing = dict.fromkeys(("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "e2e_p50", "e2e_p95"))
    assert cells == {
        "a": nothing | {"ttft_p50": 3.0, "ttft_p95": 4.0, "e2e_p50": 3.0, "e2e_p95": 4.0},
        None: nothing | {"ttft_p50": 1.0, "ttft_p95": 2.0, "e2e_p50": 1.0, "e2e_p95": 2.0},
        "b": nothing,
    }
