"""The lab's commands hand over what people ask for, and end with 1 where the proof fails.

Covers lab.commands, lab.simulator.service and lab.demo.run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.reconcile.compare import Report
from lab.chaos.compare import Comparison
from lab.chaos.outage import Outage
from lab.chaos.run import ChaosReport
from lab.simulator import service
from lab.soak.judge import Sample
from lab.soak.run import Soak
from schemas.errors import ConfigError


class Recording:
    """In a function's place: what it was called with; returns ``answer``."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.called: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *given: Any, **named: Any) -> object:
        self.called.append((given, named))
        return self.answer


def asked(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words))
    return found.exit_code, found.output


@pytest.mark.parametrize(("exact", "code"), [(True, 0), (False, 1)])
def test_the_demo_ends_with_one_when_books_are_not_exact(
    exact: bool, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Options go on as they are."""
    demo = Recording(exact)
    monkeypatch.setattr("lab.demo.run.run_demo", demo)

    ended, _ = asked("demo", "--seconds", "7", "--seed", "3", "--keep", "--data-dir", str(tmp_path))

    assert ended == code
    assert demo.called == [((), {"seconds": 7, "seed": 3, "keep": True, "svg": None, "data_dir": tmp_path})]


@pytest.mark.parametrize(("cells", "code"), [(9, 0), (0, 1)])
def test_chaos_ends_with_one_unless_everything_is_exact(cells: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in which nothing was compared is not exact."""
    report = ChaosReport(5, {"kill sink": 3}, 1.0, Report((), 1, ()), Comparison(cells, 2, 0, 0, ()))
    chaos = Recording(report)
    monkeypatch.setattr("lab.chaos.run.run_chaos", chaos)

    ended, output = asked("chaos", "--kills", "3", "--seed", "5", "--gpus", "16", "--json")

    assert ended == code
    assert orjson.loads(output)["cells_compared"] == cells
    assert {name: chaos.called[0][1][name] for name in ("kills", "seed", "gpus")} == {"kills": 3, "seed": 5, "gpus": 16}


@pytest.mark.parametrize(("restarts", "code", "verdict"), [(0, 0, "holds"), (1, 1, "GREW")])
def test_a_soak_ends_with_one_where_something_grew(
    restarts: int, code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every amount stands in the table with its verdict; options go on as they are."""
    samples = [
        Sample(float(at), memory_bytes={"sink": 2**28}, ends={"windows": 24 * at}, parts=400) for at in range(0, 360, 5)
    ]
    soak = Recording(Soak(8, 360, samples, {"sink": restarts}, Report((), 1, ())))
    monkeypatch.setattr("lab.soak.run.run_soak", soak)

    ended, output = asked("soak", "--hours", "0.1", "--hosts", "8", "--seed", "3")

    assert ended == code
    assert "memory of sink" in output
    assert verdict in output
    assert {name: soak.called[0][1][name] for name in ("hours", "hosts", "seed")} == {
        "hours": 0.1,
        "hosts": 8,
        "seed": 3,
    }


def test_a_soak_that_was_ended_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends with 1, whatever was seen."""
    soak = Soak(8, 3_600, [], {}, Report((), 1, ()), stopped_s=90.0)
    monkeypatch.setattr("lab.soak.run.run_soak", Recording(soak))

    ended, output = asked("soak", "--hours", "1", "--hosts", "8")

    assert ended == 1
    assert "ended after 90 of 3600 s" in output


@pytest.mark.parametrize(("caught_up_s", "code"), [(60.0, 0), (None, 1)])
def test_an_outage_gets_what_was_asked_and_ends_with_one_where_it_does_not_hold(
    caught_up_s: float | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is killed beside it."""
    found = Outage("kafka", 5_000, 600.0, 0.4, caught_up_s, Report((), 1, ()), Comparison(2, 0, 0, 0, ()))
    outage, chaos = Recording(found), Recording()
    monkeypatch.setattr("lab.chaos.outage.run_outage", outage)
    monkeypatch.setattr("lab.chaos.run.run_chaos", chaos)

    ended, _ = asked("chaos", "--outage", "kafka", "--minutes", "10", "--gpus", "5000")

    ((part,), options) = outage.called[0]
    assert (ended, part, options["minutes"], options["gpus"]) == (code, "kafka", 10.0, 5_000)
    assert chaos.called == []


def test_a_trace_that_is_not_there_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    """So is a speed that is none."""
    missing, trace = tmp_path / "trace.csv", tmp_path / "there.csv"
    trace.touch()

    with pytest.raises(ConfigError, match=r"FILE = .*must be a readable file"):
        service.run_replay(missing, "azure", "1", "m", None)
    with pytest.raises(ConfigError, match="speed"):
        service.run_replay(trace, "azure", "-1", "m", None)


def test_a_replay_gets_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format by its name."""
    replayed = Recording()
    monkeypatch.setattr(service, "run_replay", replayed)
    file = tmp_path / "t.jsonl"

    assert asked("replay", str(file), "--format", "jsonl", "--speed", "max", "--model", "m")[0] == 0

    assert replayed.called == [((file, "jsonl", "max", "m", None), {})]


def test_a_simulation_gets_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option in its field."""
    simulated = Recording()
    monkeypatch.setattr(service, "run_simulate", simulated)

    code, _ = asked(
        *("simulate", "--gpus", "8", "--load", "bulk", "--speed", "2", "--rate", "3", "--seed", "4", "--seconds", "5"),
        *("--truth", str(tmp_path / "truth"), "--shared-gpu", "--spool", str(tmp_path / "spool")),
        *("--health-port", "7"),
    )

    options = service.SimulateOptions(8, "bulk", 2.0, 3.0, 4, 5.0, None, tmp_path / "truth", True)
    assert code == 0
    assert simulated.called == [((options, tmp_path / "spool", 7), {})]
