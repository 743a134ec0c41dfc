"""Who starts first. The demo itself runs in tests/integration/test_cookbook.py."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.database import Database
from lab.demo import run as demo
from lab.demo.scenario import Scenario
from runtime.config import Config
from schemas.errors import FleetpulseError

EDGES, SERVICES = ("simulate", "agent"), ("windows", "finals", "alerts", "costs", "sink")


class Recording:
    """Names of what was started, and whether the fleet's spool was there; a fleet that ``produces`` opens it."""

    def __init__(self, scenario: Scenario, produces: bool) -> None:
        self.started: list[tuple[str, bool]] = []
        self._scenario, self._produces = scenario, produces

    def start(self, command: Command) -> int:
        self.started.append((command.name, self._scenario.fleet_spool.exists()))
        if self._produces and command.name == "simulate":
            self._scenario.fleet_spool.mkdir()
        return 1


@pytest.mark.parametrize("produces", [True, False], ids=["it produces", "it does not"])
def test_the_fleet_starts_before_the_services_and_they_wait_for_it_for_a_while(
    produces: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started beside them it would step back until they run, and the demo would wait for its minute."""
    monkeypatch.setattr(demo, "HEAD_START_S", 300.0 if produces else 0.0)
    scenario = Scenario(60, 1, tmp_path, tmp_path)
    processes = Recording(scenario, produces)
    nobody = cast(Database, None)

    demo._start(demo._Run(Config(), scenario, nobody, cast(Processes, processes), Console(quiet=True), 0, 0, {}))

    assert processes.started == [
        ("simulate", False),
        ("agent", produces),
        *((name, produces) for name in SERVICES),
    ]
    assert f"{scenario.fleet_spool}" in scenario.edges()[0].arguments


def test_a_second_demo_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it starts or stops anything; when the first has ended, its place is free."""
    monkeypatch.setattr(demo.stack, "down", pytest.fail)
    with demo._alone(tmp_path), pytest.raises(FleetpulseError, match="a demo runs in"):
        demo.run_demo(seconds=5, seed=1, keep=False, svg=None, data_dir=tmp_path)
    with demo._alone(tmp_path):
        pass
