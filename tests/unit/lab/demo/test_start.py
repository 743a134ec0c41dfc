"""Who starts first, and who may not fail. The demo itself runs in tests/integration/test_cookbook.py."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.database import Database
from lab.demo import run as demo
from lab.demo.scenario import SOURCES, Scenario
from runtime.config import Config
from runtime.local_stack import Ports, StackState, write_state
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


@pytest.mark.parametrize("ran", [False, True])
def test_a_stack_that_ran_before_the_demo_is_left_running(
    ran: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs and a sink may be at work on it. One that the demo started is stopped, however the demo ends."""
    before = StackState(tmp_path, "cluster", Ports(1, 2, 3, 4), "writer", "reader", wanted=ran)
    write_state(before)
    down: list[Path] = []

    def bring_up(*_: object) -> Config:
        write_state(replace(before, wanted=True))
        raise FleetpulseError("enough")

    monkeypatch.setattr(demo.stack, "down", down.append)
    monkeypatch.setattr(demo, "bring_up", bring_up)
    monkeypatch.setattr(demo, "has_loops", lambda _package: True)
    with pytest.raises(FleetpulseError, match="enough"):
        demo.run_demo(seconds=5, seed=1, keep=False, svg=None, data_dir=tmp_path)

    assert down == ([] if ran else [tmp_path])
    assert ("it stays up until: fleetpulse down" in capsys.readouterr().err) is ran


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file does."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(demo.screen, "line", lambda picture: f"at {picture.elapsed_s:.0f} s")
    console = Console(file=io.StringIO(), force_terminal=True)

    with demo._pictures(console) as show:
        show(cast(Any, SimpleNamespace(elapsed_s=7.0)))

    assert console.file.getvalue() == "at 7 s\n"  # type: ignore[attr-defined]


class Tables:
    """Answers of a database in which these topics' raw events, and then windows, arrive at these times [s]."""

    def __init__(self, raw_s: dict[str, float], windows_s: float) -> None:
        self.raw_s, self.windows_s, self.at_s = raw_s, windows_s, 0.0

    def now_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def sql(self, text: str) -> Any:
        is_raw = "appended_ms" in text
        found = self.raw_s if is_raw else dict.fromkeys(SOURCES, self.windows_s)
        rows = [{"topic": topic, "events": int(at_s <= self.at_s)} for topic, at_s in found.items()]
        return SimpleNamespace(records=lambda: rows)


class Calm:
    """Processes that run and say nothing."""

    def names(self) -> tuple[str, ...]:
        return ("sink",)

    def tend(self) -> None: ...

    def exit_code(self, _name: str) -> None: ...

    def tail(self, _name: str) -> str:
        return "waits"


def waited(raw_s: dict[str, float], windows_s: float, folder: Path) -> float:
    """How long it waited for the first windows."""
    tables, scenario = Tables(raw_s, windows_s), Scenario(60, 1, folder, folder)
    before = dict.fromkeys(SOURCES, 0)
    database, processes = cast(Database, tables), cast(Processes, Calm())
    run = demo._Run(Config(), scenario, database, processes, Console(quiet=True), 0, 0, before)
    demo._wait_for_first_events(run, tables.now_s, tables.sleep)
    return tables.at_s


def test_the_demo_waits_as_long_as_something_comes_for_the_first_time(tmp_path: Path) -> None:
    """Raw events of one topic after the other, at last windows."""
    first, second = SOURCES[0], SOURCES[1]

    assert waited({first: 250.0, second: 500.0}, 790.0, tmp_path) == 790.0


def test_the_demo_gives_up_where_nothing_comes_and_says_how_far_it_came(tmp_path: Path) -> None:
    """What came before does not count again."""
    first = SOURCES[0]

    with pytest.raises(
        FleetpulseError, match=f"no windows landed, .* within 300 s \\(raw events: {first}\\)"
    ) as raised:
        waited({first: 100.0}, 401.0, tmp_path)

    assert str(raised.value).endswith("sink:\nwaits")


class Failing:
    """Processes of which the fleet has failed as soon as somebody asks whether it still runs."""

    def __init__(self) -> None:
        self.asked = False

    def names(self) -> tuple[str, ...]:
        return ("simulate",)

    def tend(self) -> None: ...

    def pid(self, _name: str) -> None:
        self.asked = True

    def exit_code(self, name: str) -> int | None:
        return 1 if self.asked and name == "simulate" else None

    def tail(self, name: str) -> str:
        return f"log of {name}"


def test_a_fleet_that_failed_between_two_looks_fails_the_demo(tmp_path: Path) -> None:
    """The books of what it had sent by then are exact, and say nothing of it."""
    scenario, before = Scenario(60, 1, tmp_path, tmp_path), dict.fromkeys(SOURCES, 0)
    database, processes = cast(Database, Tables({}, 0.0)), cast(Processes, Failing())
    run = demo._Run(Config(), scenario, database, processes, Console(quiet=True), 0, 0, before)

    with pytest.raises(FleetpulseError, match="simulate ended with exit code 1; the end of its log:\nlog of simulate"):
        demo._watch(run)
