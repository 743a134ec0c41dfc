"""A command that brings up the local stack touches no other server, whatever environment and file name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.migrate import bring_up as module
from fleetpulse.migrate.bring_up import bring_up, demand_local
from runtime.local_stack import Ports, StackState, write_state
from schemas.errors import ConfigError

OWN = "127.0.0.1:20001"
OWN_URL = "http://127.0.0.1:20003"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder without configuration, and no stack of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder of a stack that was brought up."""
    folder = tmp_path / "stack"
    folder.mkdir()
    ports = Ports(kafka=20_001, kafka_controller=20_002, clickhouse_http=20_003, clickhouse_native=20_004)
    write_state(StackState(folder, "id", ports, "writer", "reader", wanted=True))
    return folder


FOREIGN = {
    "KAFKA__BOOTSTRAP": "kafka.example:9093",
    "KAFKA__SECURITY_PROTOCOL": "PLAINTEXT",
    "CLICKHOUSE__URL": "https://clickhouse.example:8443",
    "CLICKHOUSE__USER": "writer",
    "CLICKHOUSE__PASSWORD": "secret",
    "CLICKHOUSE_READER__URL": "https://clickhouse.example:8443",
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("there", [True, False], ids=["a stack", "no stack yet"])
def test_servers_named_by_the_environment_are_refused_before_anything_starts(
    name: str, there: bool, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be migrated, written to and read. A secret is not shown."""
    monkeypatch.setenv(f"FLEETPULSE_{name}", FOREIGN[name])
    for step in ("migrate", "stack"):
        monkeypatch.setattr(module, step, None)  # a call would be an AttributeError or TypeError

    with pytest.raises(ConfigError, match="must not be set here") as refused:
        bring_up(made if there else tmp_path / "none", lambda _text: None)

    assert refused.value.key == f"FLEETPULSE_{name}"
    assert "secret" not in str(refused.value)


def test_a_configuration_file_of_other_servers_is_refused_by_its_key(made: Path, tmp_path: Path) -> None:
    """The file and the key are named."""
    (tmp_path / "fleetpulse.toml").write_text('[kafka]\nbootstrap = "kafka.example:9093"\n', encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        demand_local(made)

    assert (refused.value.key, refused.value.value) == ("fleetpulse.toml: kafka.bootstrap", "kafka.example:9093")


def test_the_stack_by_itself_and_by_its_own_addresses_is_taken(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes beside it are started with such variables; settings that name no server do no harm."""
    monkeypatch.setenv("FLEETPULSE_KAFKA__DEPLOYMENT", "mine")
    demand_local(made)
    monkeypatch.setenv("FLEETPULSE_KAFKA__BOOTSTRAP", OWN)
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__URL", OWN_URL)
    demand_local(made)
    with pytest.raises(ConfigError):
        demand_local(made, new_ports=True)


def test_a_stack_that_is_to_be_made_needs_no_setting(tmp_path: Path) -> None:
    """Nothing is configured and nothing runs."""
    demand_local(tmp_path / "none")
