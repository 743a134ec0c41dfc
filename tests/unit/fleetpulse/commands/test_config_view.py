"""The configuration as people look at it: sources, hidden secrets, keys nobody knows.

Covers fleetpulse.commands.config.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.config_view import Setting, Unknown, settings_of, unknown_keys
from runtime.config import Config, layers, load
from runtime.local_stack import Ports, StackState, write_state
from schemas.errors import ConfigError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in a folder of its own without any setting around it."""
    for name in [name for name in os.environ if name.startswith("FLEETPULSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)


def seen(flags: dict[str, object] | None = None) -> dict[str, Setting]:
    return {one.name: one for one in settings_of(load(flags), layers(flags))}


def test_every_setting_names_where_it_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flag, environment, file, local stack, default: the strongest that says it."""
    (tmp_path / ".fleetpulse").mkdir()
    write_state(StackState(tmp_path / ".fleetpulse", "c", Ports(1, 2, 3, 4), "w", "r", True))
    Path("fleetpulse.toml").write_text(
        '[kafka]\ndeployment = "blue"\nrequest_timeout_ms = 5000\n[limits]\nhot_ms = 9000\n'
    )
    monkeypatch.setenv("FLEETPULSE_KAFKA__REQUEST_TIMEOUT_MS", "6000")

    found = seen({"kafka.sasl_username": "u"})

    names = ("sasl_username", "request_timeout_ms", "deployment", "bootstrap", "sasl_mechanism")
    assert [found[f"kafka.{name}"].source for name in names] == ["flag", "environment", "file", "stack", "default"]
    assert found["kafka.request_timeout_ms"].value == 6_000
    assert found["limits.hot_ms"] == Setting("limits.hot_ms", 9_000, "file")
    assert found["clickhouse_reader.user"] == Setting("clickhouse_reader.user", "reader", "stack")


def test_lists_and_mappings_are_shown_down_to_single_values() -> None:
    """An engine of a list, a placement by its GPU; what an item leaves out is a default."""
    Path("fleetpulse.toml").write_text(
        '[[agent.engines]]\nurl = "http://h:1"\napi_key = "hush"\n[agent.placement.GPU-1]\nworkload = "idle"\n'
        '[partitions]\n"llm.requests" = 64\n'
    )

    found = seen()

    assert found["agent.engines.0.url"] == Setting("agent.engines.0.url", "http://h:1", "file")
    assert found["agent.engines.0.api_key"] == Setting("agent.engines.0.api_key", "***", "file")
    assert found["agent.engines.0.kind"] == Setting("agent.engines.0.kind", None, "default")
    assert found["agent.placement.GPU-1.workload"].source == "file"
    assert found["partitions.llm.requests"] == Setting("partitions.llm.requests", 64, "file")
    assert found["agent.engine_ports"].value == [8000, 30000, 8080, 8002, 3000]


def test_a_secret_read_from_a_file_has_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``password_file`` is where ``password`` came from; those of targets are read where alerts
    are delivered, which need not be here."""
    (tmp_path / "secret").write_text("hush-hush\n")
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__PASSWORD_FILE", str(tmp_path / "secret"))
    Path("fleetpulse.toml").write_text(
        f'[[delivery.targets]]\nname = "ops"\nkind = "webhook"\nendpoint_url_file = "{tmp_path / "url"}"\n'
    )

    found = seen()

    assert found["clickhouse.password"] == Setting("clickhouse.password", "***", "environment")
    assert found["delivery.targets.0.endpoint_url"] == Setting("delivery.targets.0.endpoint_url", None, "file")
    assert found["delivery.targets.0.endpoint_url_file"].value == f"{tmp_path / 'url'}"
    assert found["kafka.sasl_password"].value is None


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ('[kafka]\nbotstrap = "x"\n', ("kafka.botstrap", "kafka.bootstrap")),
        ("[kafak]\nx = 1\n", ("kafak", "kafka")),
        ("[limits]\nhot = 1\n", ("limits.hot", "limits.hot_ms")),
        ('[[agent.engines]]\nurll = "x"\n', ("agent.engines.0.urll", "agent.engines.0.url")),
        ('[agent.placement.G]\nworkloat = "x"\n', ("agent.placement.G.workloat", "agent.placement.G.workload")),
        ("[zzzzzzzz]\nx = 1\n", ("zzzzzzzz", None)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_an_unknown_key_of_the_file_names_the_nearest(text: str, unknown: tuple[str, str | None]) -> None:
    """At any depth, in lists and in tables with free names."""
    Path("fleetpulse.toml").write_text(text)

    assert unknown_keys(layers(), {}) == [Unknown(unknown[0], "file", unknown[1])]


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("FLEETPULSE_KAFKAA__BOOTSTRAP", "FLEETPULSE_KAFKA__BOOTSTRAP"),
        ("FLEETPULSE_DATADIR", "FLEETPULSE_DATA_DIR"),
        ("FLEETPULSE_CLICKHOUSE__PASWORD", "FLEETPULSE_CLICKHOUSE__PASSWORD"),
        ("FLEETPULSE_QQQQQQQQQ", None),
    ],
)
def test_an_unknown_variable_names_the_nearest(
    variable: str, nearest: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that would be ignored in silence."""
    monkeypatch.setenv(variable, "x")

    assert unknown_keys(layers(), os.environ) == [Unknown(variable, "environment", nearest)]


def test_variables_of_others_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's, the tests', and those that are settings, spelt with a secret's file too."""
    environment = dict.fromkeys(("FLEETPULSE_SOCKET", "FLEETPULSE_TEST_KEEP", "FLEETPULSE_DATA_DIR", "HOME"), "x")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert unknown_keys(layers(), environment) == []


def test_every_field_of_the_tree_is_shown() -> None:
    """Nothing is left out of the list."""
    found = seen()

    assert {name.partition(".")[0] for name in found} == set(Config.model_fields)
    assert len(found) == len(set(found))


def test_no_secret_is_in_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the table and in JSON."""
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__PASSWORD", "hush-hush")
    monkeypatch.setenv("FLEETPULSE_KAFKA__SASL_PASSWORD", "hush-hush")

    shown = [CliRunner().invoke(app, ["config", *words]).output for words in ([], ["--json"], ["show", "--changed"])]

    assert ["hush-hush" in text for text in shown] == [False, False, False]
    assert json.loads(shown[1])["clickhouse.password"] == {"value": "***", "source": "environment"}


@pytest.mark.parametrize("name", ["check", "show"])
@pytest.mark.parametrize("option", [["--config", "other.toml"], ["--json"]], ids=lambda option: option[0])
def test_an_option_before_the_command_is_refused(option: list[str], name: str) -> None:
    """The command would not see it, and a file that nobody read would be found to hold."""
    Path("other.toml").write_text("[kafak]\nx = 1\n")

    found = CliRunner().invoke(app, ["config", *option, name])

    assert isinstance(found.exception, ConfigError)
    assert found.exception.key == option[0]
    assert f"options of {name} stand behind it" in str(found.exception)


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["people", "program"])
@pytest.mark.parametrize(
    "text",
    [
        '[[delivery.targets]]\nname = "ops"\nkind = "webhook"\nendpoint_url = "http://hush-hush"\n' * 17,
        '[clickhouse]\nurl = ["http://user:hush-hush@h:8123"]\n',
    ],
    ids=["too many targets", "a list of addresses"],
)
def test_no_secret_is_in_what_check_says(text: str, words: list[str]) -> None:
    """The finding names the key and its bound; of sections and of credentials in lists it shows nothing."""
    Path("fleetpulse.toml").write_text(text)

    found = CliRunner().invoke(app, ["config", "check", *words])

    assert found.exit_code == 1
    assert "hush-hush" not in found.output


@pytest.mark.parametrize(
    ("variable", "value", "subject"),
    [
        ("FLEETPULSE_KAFKA__BOTSTRAP", "x", "FLEETPULSE_KAFKA__BOTSTRAP"),
        ("FLEETPULSE_KAFKA__BOOTSTRAP", "no-port", "kafka.bootstrap"),
    ],
    ids=["unknown", "out of bounds"],
)
def test_check_ends_with_one_and_says_what_is_wrong(
    variable: str, value: str, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For programs: the findings; for the shell: the exit code."""
    good = CliRunner().invoke(app, ["config", "check", "--json"])
    monkeypatch.setenv(variable, value)
    bad = CliRunner().invoke(app, ["config", "check", "--json"])

    assert (good.exit_code, json.loads(good.output)["ok"]) == (0, True)
    assert (bad.exit_code, [one["subject"] for one in json.loads(bad.output)["findings"]]) == (1, [subject])
