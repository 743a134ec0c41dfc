from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runtime.config import load
from runtime.edge_config import AgentConfig, EngineConfig, OtlpConfig
from schemas.errors import ConfigError

TAIL = {"path": "/var/log/a.jsonl", "fields": {"at_ms": "t ms", "model": "m"}}
TRAINING = {"path": "/var/log/a.jsonl", "format": "megatron"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in a folder of its own without any setting around it."""
    import os

    for name in [name for name in os.environ if name.startswith("FLEETPULSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"period_ms": 99}, "period_ms"),
        ({"period_ms": 60_001}, "period_ms"),
        ({"interval_ms_max": 1_000, "engine_period_ms": 2_000}, ""),
        ({"hung_threads_max": 0}, "hung_threads_max"),
        ({"dcgm_url": "ftp://host"}, "dcgm_url"),
        ({"dcgm_url": "http://"}, "dcgm_url"),
        ({"dcgm_url": "http://u:p@host:9400/metrics"}, "dcgm_url"),
        ({"engines": [{"url": "http://host:99999999"}]}, "engines"),
        ({"collectors": {"nvml": "maybe"}}, "collectors"),
        ({"collectors": {"unknown": "on"}}, "collectors"),
        ({"placement": {"GPU-1": {"workload": "mining"}}}, "placement"),
        ({"engine_ports": [0]}, "engine_ports"),
        ({"otlp": {"body_bytes_max": 1}}, "otlp"),
        ({"otlp": {"host": "0.0.0.0"}}, "otlp"),
        ({"otlp": {"host": "0.0.0.0", "token": "short"}}, "otlp"),
        ({"host": ""}, "host"),
        ({"log_tails": [TAIL, {**TAIL, "path": "/var/log/x/../a.jsonl", "from_start": True}]}, ""),
        ({"log_tails": [TAIL, {**TAIL, "fields": {"at_ms": "t ms", "model": "m", "tenant": "=b"}}]}, ""),
        (
            {"log_tails": [{**TRAINING, "fields": {"job": "=a"}}, {**TRAINING, "fields": {"job": "=b", "loss": "l"}}]},
            "",
        ),
    ],
)
def test_what_is_out_of_bounds_is_refused(settings: dict[str, Any], key: str) -> None:
    """At the field, never later."""
    with pytest.raises(ValidationError) as raised:
        AgentConfig.model_validate(settings)

    assert [str(error["loc"][0]) if error["loc"] else "" for error in raised.value.errors()] == [key]


def test_the_bounds_themselves_are_fine() -> None:
    """On both ends."""
    config = AgentConfig(period_ms=100, interval_ms_max=1_000, engine_period_ms=1_000)

    assert (config.period_ms, AgentConfig(period_ms=60_000).period_ms) == (100, 60_000)


def test_logs_of_one_file_may_take_different_lines_of_it() -> None:
    """Of another format, or by other fields."""
    others = [TRAINING, {**TAIL, "fields": {"at_ms": "time ms", "model": "m"}}, {**TAIL, "path": "/var/log/b.jsonl"}]

    assert len(AgentConfig.model_validate({"log_tails": [TAIL, *others]}).log_tails) == 4


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
    """Tables, lists of tables, and a secret that stands in a file of its own."""
    (tmp_path / "key").write_text("sk-secret\n")
    (tmp_path / "fleetpulse.toml").write_text(
        f"""
        [agent]
        host = "gpu-7"
        cluster = "eu-1"
        slow_period_ms = 60000

        [agent.collectors]
        nvml = "off"
        dcgm = "on"

        [agent.placement.GPU-1]
        engine_id = "e"
        workload = "training"

        [agent.receiver]
        enabled = false

        [[agent.engines]]
        url = "http://10.0.0.1:8000/metrics/"
        api_key_file = "{tmp_path / "key"}"

        [[agent.jobs]]
        workload = "fine_tuning"
        pattern = "axolotl"
        """
    )

    config = load().agent.read_secrets()

    assert (config.host, config.cluster, config.slow_period_ms) == ("gpu-7", "eu-1", 60_000)
    assert (config.collectors.nvml, config.collectors.dcgm, config.collectors.host) == ("off", "on", "auto")
    assert config.placement["GPU-1"].model_dump(exclude_none=True) == {"engine_id": "e", "workload": "training"}
    assert not config.receiver.enabled
    assert config.jobs[0].pattern == "axolotl"
    (engine,) = config.engines
    assert engine.url == "http://10.0.0.1:8000/metrics"
    assert engine.api_key is not None
    assert engine.api_key.get_secret_value() == "sk-secret"


def test_the_environment_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections by two underscores."""
    monkeypatch.setenv("FLEETPULSE_AGENT__CLUSTER", "eu-2")
    monkeypatch.setenv("FLEETPULSE_AGENT__COLLECTORS__ENGINES", "off")

    assert (load().agent.cluster, load().agent.collectors.engines) == ("eu-2", "off")


def test_a_secret_stands_in_no_repr() -> None:
    """Nor in the error of a file that is not there."""
    config = AgentConfig(engines=(EngineConfig.model_validate({"url": "http://h:1", "api_key": "sk-secret"}),))

    assert "sk-secret" not in repr(config)
    assert "sk-secret" not in str(config.model_dump())


def test_a_secret_s_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """With the engine's place in the list."""
    (tmp_path / "fleetpulse.toml").write_text('[[agent.engines]]\nurl = "http://h:1"\napi_key_file = "none"\n')

    config = load().agent

    with pytest.raises(ConfigError, match=r"agent\.engines\.0\.api_key_file"):
        config.read_secrets()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::0", "10.0.0.1"])
def test_otlp_beyond_loopback_needs_a_token(host: str) -> None:
    """Whoever reaches the host could send events that never were."""
    with pytest.raises(ValueError, match="host beyond loopback needs a token"):
        OtlpConfig(host=host)


def test_the_token_of_otlp_is_read_where_otlp_is_on(tmp_path: Path) -> None:
    """Off, its file need not be there; a file of it is enough to listen beyond loopback."""
    (tmp_path / "a token").write_text("sixteen-letters-\n")
    otlp = OtlpConfig(enabled=True, host="0.0.0.0", token_file=tmp_path / "a token")

    on = AgentConfig(otlp=otlp).read_secrets().otlp.token
    off = AgentConfig(otlp=OtlpConfig(token_file=tmp_path / "none")).read_secrets().otlp

    assert on is not None
    assert on.get_secret_value() == "sixteen-letters-"
    assert (off.enabled, off.token) == (False, None)
