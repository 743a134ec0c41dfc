"""The page *Cost*: what is asked for its budgets."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import pytest
from nicegui import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages import cost
from fleetpulse.dashboard.shell import Shell
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts
from fleetpulse.dashboard.zone import zone_of
from fleetpulse.sql.database import Answer
from tests.unit.fleetpulse.dashboard.idle_data import IdleData

MINUTE_MS, HOUR_MS, NOW_MS = 60_000, 3_600_000, 1_800_000_000_000
BUDGETS = Path(str(files("fleetpulse").joinpath("data/budgets/example.yaml")))


class Unbilled(IdleData):
    """There is no bill."""

    def __init__(self) -> None:
        super().__init__()
        self.to_ms: list[int] = []

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        if name == "cost_total":
            return Answer(("bills",), ((0,),))
        if name == "cost_by_day":
            self.to_ms.append(values["to_ms"])
        return await super().ask(name, values, span_ms, kept_from_ms)


async def test_pages_of_one_minute_ask_the_same_of_budgets(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they share an answer: of whole minutes, as bills are."""
    data, user = Unbilled(), User("ada", OPERATOR)
    for after_ms in (1, MINUTE_MS - 1, MINUTE_MS):
        monkeypatch.setattr(cost, "wall_ms", lambda now_ms=NOW_MS + after_ms: now_ms)
        with client:
            shell = Shell([cost.PAGE], cost.PAGE, cast(Data, data), Facts(budgets_file=BUDGETS))
            await shell.open(client, {}, lambda: user, dark=False, zone=zone_of(None))

    assert data.to_ms == [NOW_MS, NOW_MS, NOW_MS + MINUTE_MS]


@pytest.mark.parametrize(
    ("unpriced_h", "no_gpu_price_h", "says"),
    [
        (0, 0, "GPU hours"),
        (3, 3, "GPU hours without the GPU's price"),
        (3, 0, "GPU hours without the host's price"),
        (3, 1, "GPU hours: 1 without the GPU's price, 2 without the host's alone"),
    ],
)
def test_time_that_lacks_a_price_says_which(unpriced_h: int, no_gpu_price_h: int, says: str) -> None:
    """Where the GPU has one and its host has none, the bill is not empty."""
    assert cost.lacking(unpriced_h * HOUR_MS, no_gpu_price_h * HOUR_MS) == says


def test_a_budget_is_used_up_at_a_moment_of_the_pages_zone() -> None:
    """To the second; or not yet."""
    (used_up,) = [one for one in cost.budget_columns(zone_of("Europe/Paris")) if one.name == "exhausted_ms"]

    assert used_up.text(1_795_809_501_000) == "2026-11-27 20:58:21 CET"
    assert used_up.text(None) == "not yet"
