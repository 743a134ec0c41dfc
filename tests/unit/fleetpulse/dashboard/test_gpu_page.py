"""The page *GPU*: when its temperature is amber."""

from __future__ import annotations

from typing import Any, cast

import pytest
from nicegui import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages import gpu
from fleetpulse.dashboard.parts import ChartPanel, Stats
from fleetpulse.dashboard.time_range import RangeSpec
from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts, View
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.sql.database import Answer
from schemas.limits import DAY_MS, MINUTE_MS
from tests.unit.fleetpulse.dashboard.idle_data import IdleData

NOW_MS = 20_000 * DAY_MS


class Signals(IdleData):
    """One point of the GPU says this, and nothing else."""

    def __init__(self, said: dict[str, float | None]) -> None:
        super().__init__()
        columns = [column for one in gpu.SIGNALS for column in one.columns.values()]
        self._row: dict[str, Any] = {"at_ms": NOW_MS - MINUTE_MS, **dict.fromkeys(columns), **said}

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        return Answer(tuple(self._row), (tuple(self._row.values()),)) if name == "gpu_signals" else Answer((), ())


@pytest.mark.parametrize(
    ("fault", "mood"),
    [
        pytest.param(0.0, "", id="by its power limit"),
        pytest.param(0.01, "warn", id="by more than that"),
        pytest.param(None, "", id="by what is unknown"),
    ],
)
async def test_a_gpu_that_is_throttled_is_amber_unless_it_is_by_its_power_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch, fault: float | None, mood: str
) -> None:
    """How much of the time it is throttled is said of each."""
    shown: dict[str, tuple[str, str]] = {}

    def show(_stats: Stats, name: str, _value: str, below: str = "", mood: str = "", *, href: str = "") -> None:
        shown[name] = (below, mood)

    monkeypatch.setattr(Stats, "show", show)
    monkeypatch.setattr(ChartPanel, "draw", lambda _panel, _options: None)
    data, user = cast(Data, Signals({"throttled": 1.0, "throttled_fault": fault})), User("ada", OPERATOR)
    state = UrlState(RangeSpec("1h"), options={**gpu.PAGE.options, "gpu": "GPU-1"})
    view = View(
        "/gpu", gpu.PAGE.options, state, data, Facts(), lambda: user, dark=False, zone=UTC_ZONE, now_ms=lambda: NOW_MS
    )
    with client:
        await gpu.PAGE.build(view)()

    assert shown["heat"] == ("throttled 100.0 %", mood)
