"""What people do to stored results: recorded before it begins, with who it was and without passwords."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.alerts import actions
from fleetpulse.cli import app
from runtime.config import KafkaConfig
from runtime.file_lock import alone
from schemas.contract.alert_commands import Command
from schemas.errors import UnavailableError

DONE = "this is where it would begin"
RUNS = {
    "rerate": (
        ["rerate", "--from", "2026-01-01", "--to", "2026-01-02", "--prices", "PRICES"],
        "fleetpulse.rerate.store.rerate",
        "rerate --from 2026-01-01 --to 2026-01-02 --prices PRICES",
    ),
    "repair": (
        ["repair", "--from", "http://a:1", "--to", "http://b:2"],
        "fleetpulse.repair.run.repair",
        "repair --from http://a:1 --to http://b:2 --last 24h",
    ),
    "rejected replay": (
        ["rejected", "replay", "syntax"],
        "fleetpulse.topics.rejected.replay",
        "rejected replay syntax --limit 1000",
    ),
    "jobs reset": (
        ["jobs", "reset", "--partition", "llm.requests:3", "--of", "windows", "--yes"],
        "fleetpulse.services.reset_partition.reset_partition",
        "jobs reset --partition llm.requests:3 --to earliest --of windows",
    ),
}
"""Every command that changes stored results: its words, what it runs, and what is recorded."""


@pytest.fixture
def prices(tmp_path: Path) -> str:
    path = tmp_path / "prices.yaml"
    path.write_text("version: 1\nprices: []\n")
    return str(path)


def run(words: list[str], prices: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """How it ended, in words: of a rerate whose range is old enough and whose prices can be read, of a first replay."""
    for check in ("check_range", "check_final"):
        monkeypatch.setattr(f"fleetpulse.rerate.store.{check}", lambda *_: None)
    monkeypatch.setattr("stream_jobs.prices.load.load", lambda _path: None)
    monkeypatch.setattr("fleetpulse.topics.rejected.check_memory", lambda *_: None)
    found = CliRunner().invoke(app, [prices if word == "PRICES" else word for word in words])
    return str(found.exception)


def stop_at(order: list[str], what: str) -> Callable[..., Any]:
    def begin(*_args: object, **_named: object) -> None:
        order.append(what)
        raise UnavailableError(what)

    return begin


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_recorded_before_it_begins(name: str, prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who and the command line; then it begins."""
    words, begins, text = RUNS[name]
    order: list[str] = []
    monkeypatch.setattr(begins, stop_at(order, DONE))

    async def publish(_kafka: KafkaConfig, command: Command) -> None:
        order.append(f"{command.command} {command.reason}")
        assert (command.by, command.id[:2]) == (actions.who(), "r-")

    monkeypatch.setattr(actions, "publish", publish)

    assert DONE in run(words, prices, monkeypatch)
    assert order == [f"ran {text.replace('PRICES', prices)}", DONE]


@pytest.mark.parametrize("name", RUNS)
def test_what_cannot_be_recorded_does_not_begin(name: str, prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is away, or the login may not write."""
    words, begins, _ = RUNS[name]
    order: list[str] = []
    monkeypatch.setattr(begins, stop_at(order, DONE))
    monkeypatch.setattr(actions, "publish", stop_at(order, "Kafka is away"))

    assert "Kafka is away" in run(words, prices, monkeypatch)
    assert order == ["Kafka is away"]


def test_a_rerate_that_is_refused_is_not_recorded(prices: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another is at work, or the cost job owes bills of the range."""
    order: list[str] = []
    monkeypatch.setattr("fleetpulse.rerate.store.check_range", lambda *_: None)
    monkeypatch.setattr("fleetpulse.rerate.store.check_final", stop_at(order, "not final"))
    monkeypatch.setattr("fleetpulse.rerate.store.rerate", stop_at(order, DONE))
    monkeypatch.setattr("stream_jobs.prices.load.load", lambda _path: None)
    monkeypatch.setattr(actions, "publish", stop_at(order, "recorded"))
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path))
    words = [prices if word == "PRICES" else word for word in RUNS["rerate"][0]]

    with alone(tmp_path / "rerate.lock", ""):
        beside = CliRunner().invoke(app, words)
    owed = CliRunner().invoke(app, words)

    assert "another rerate is at work" in str(beside.exception)
    assert (str(owed.exception), order) == ("not final", ["not final"])


@pytest.mark.parametrize("name", RUNS)
def test_who_only_looks_is_not_recorded(name: str, prices: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run changes nothing."""
    words, begins, _ = RUNS[name]
    order: list[str] = []
    monkeypatch.setattr(begins, stop_at(order, DONE))
    monkeypatch.setattr(actions, "publish", stop_at(order, "recorded"))
    looking = [word for word in words if word != "--yes"] if "--yes" in words else [*words, "--dry-run"]

    run(looking, prices, monkeypatch)

    assert order == [DONE]


def test_who_it_is_has_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a name has one at least of a machine; what is too long is cut."""
    monkeypatch.setattr(actions.getpass, "getuser", lambda: "ada")
    assert actions.who() == f"ada@{socket.gethostname()}"

    monkeypatch.setattr(actions.getpass, "getuser", lambda: "a" * 300)
    assert len(actions.who()) == 256

    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr(actions.getpass, "getuser", nobody)
    assert actions.who() == f"@{socket.gethostname()}"


def test_a_long_command_line_is_cut_and_passwords_are_left_out() -> None:
    """The record is read by everybody who may read."""
    found = actions.run_of("repair", {"--from": "http://u:SECRET@a:1", "--to": None, "--prices": "p" * 400})

    assert found.reason.startswith("repair --from http://...@a:1 --prices ppp")
    assert len(found.reason) == 256
