"""The page *Requests*: what is asked for one id."""

from __future__ import annotations

from typing import Any, cast

from nicegui import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages.requests import PAGE, TOP
from fleetpulse.dashboard.shell import Shell
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.sql.database import Answer
from tests.unit.fleetpulse.dashboard.idle_data import IdleData


class TwoOfOneTrace(IdleData):
    """Every search finds one more request of the trace in the range than in its last minutes."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[dict[str, Any]] = []

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        if name != "requests":
            return await super().ask(name, values, span_ms, kept_from_ms)
        self.queries.append(values)
        found = [(values["to_ms"] - 1_000, "a", "ok", None), (values["to_ms"] - 3_000_000, "b", "ok", None)]
        rows = [row for row in found if row[0] >= values["from_ms"]]
        return Answer(("at_ms", "request_id", "status", "engine_id"), tuple(rows[: values["top"]]))


async def test_all_requests_of_a_trace_are_found(client: Client) -> None:
    """Not the newest alone: an agent's requests share one trace."""
    data, user = TwoOfOneTrace(), User("ada", OPERATOR)

    with client:
        shell = Shell([PAGE], PAGE, cast(Data, data), Facts())
        await shell.open(client, {"id": "abc"}, lambda: user, dark=False, zone=UTC_ZONE)

    tables = [element._props["rows"] for element in client.elements.values() if "rows" in element._props]
    assert [[row["request_id"] for row in rows] for rows in tables] == [["a", "b"]]
    assert [(asked["id"], asked["top"]) for asked in data.queries] == [("abc", TOP)]
