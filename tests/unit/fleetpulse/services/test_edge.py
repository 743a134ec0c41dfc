from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.services.edge import _Watch, probe, run_agent_service, run_once
from producers.agent.sources import SOURCES
from producers.agent.supervisor import STUCK_AFTER_S, Supervisor
from producers.engines import flags
from runtime.config import load
from schemas.errors import ConfigError
from tests.virtual_clock import VirtualClock


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in a folder of its own, in which every source but the host is switched off."""
    import os

    for name in [name for name in os.environ if name.startswith("FLEETPULSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)
    off = "\n".join(f'{source.name} = "off"' for source in SOURCES if source.name != "host")
    Path("fleetpulse.toml").write_text(f'[agent]\nhost = "h"\nperiod_ms = 100\n[agent.collectors]\n{off}\n')


def test_a_probe_tells_of_every_source() -> None:
    """What is collected, and why the rest is not."""
    result = CliRunner().invoke(app, ["agent", "--probe", "--json"])

    found = {each["name"]: (each["switch"], each["chosen"], each["reason"]) for each in json.loads(result.stdout)}
    assert result.exit_code == 0
    assert list(found) == [source.name for source in SOURCES]
    assert found["host"] == ("auto", True, "this host")
    assert {found[name] for name in found if name != "host"} == {("off", False, "switched off")}


def test_a_probe_is_a_table_for_people() -> None:
    """With the same facts."""
    result = CliRunner().invoke(app, ["agent", "--probe"])

    assert result.exit_code == 0


def test_a_probe_names_flags_that_a_vllm_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each engine that is configured, at its server; nothing of others is changed."""
    asked = []

    def missing(url: str, key: str | None) -> tuple[str, ...]:
        asked.append((url, key))
        return ("--a", "--b") if url.endswith("1") else ()

    monkeypatch.setattr(flags, "flags_missing_at", missing)
    text = Path("fleetpulse.toml").read_text().replace('engines = "off"', 'engines = "on"')
    engines = '[[agent.engines]]\nurl = "http://e:1/metrics"\napi_key = "k"\n[[agent.engines]]\nurl = "http://e:2"\n'
    engines += '[[agent.engines]]\nurl = "http://e:8002/metrics"\nfacts_url = "http://e:3"\n'
    Path("fleetpulse.toml").write_text(text + engines)

    result = CliRunner().invoke(app, ["agent", "--probe", "--json"])

    reasons = {each["name"]: each["reason"] for each in json.loads(result.stdout)}
    assert asked == [("http://e:1", "k"), ("http://e:2", None), ("http://e:3", None)]
    assert reasons["engines"].endswith("; the vLLM at http://e:1 would report more with --a, --b")
    assert "vLLM" not in reasons["host"]


@pytest.mark.parametrize("start", [probe, run_once, lambda: run_agent_service(None, 0.0)])
def test_an_agent_without_the_file_of_a_secret_does_not_start(start: Callable[[], object]) -> None:
    """It needs the key of an engine, which other parts that have the same settings do not."""
    text = Path("fleetpulse.toml").read_text()
    Path("fleetpulse.toml").write_text(f'{text}[[agent.engines]]\nurl = "http://e:1"\napi_key_file = "absent"\n')

    assert load().agent.engines[0].api_key is None
    with pytest.raises(ConfigError, match=r"agent\.engines\.0\.api_key_file = 'absent': must be a readable file"):
        start()


def test_once_prints_a_round_as_json_lines() -> None:
    """Each with its topic; nothing is left in the data folder."""
    done = subprocess.run(
        [sys.executable, "-m", "fleetpulse", "agent", "--once"], capture_output=True, text=True, check=False
    )

    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, row["topic"], row["host"], row["origin"]) == (0, "host.samples", "h", "measured")
    assert row["interval_ms"] is not None
    assert sorted(path.name for path in Path().iterdir()) == ["fleetpulse.toml"]


def test_help_has_examples() -> None:
    """Of the probe, of one round and of the service."""
    text = CliRunner().invoke(app, ["agent", "--help"]).stdout

    assert all(example in text for example in ("agent --probe", "agent --once", "--health-port 9464"))


def test_an_agent_is_ready_when_its_supervisor_says_so() -> None:
    """Before there is one, it probes: alive and not ready."""
    watch, clock = _Watch(), VirtualClock()

    before = (watch.alive(), watch.ready())
    watch.watch(Supervisor([], [], clock))
    running = (watch.alive(), watch.ready())
    clock.advance(round(STUCK_AFTER_S * 1_000))

    assert before == (None, "probing")
    assert running == (None, None)
    assert watch.alive() == "the event loop has stood still for 15 s"
