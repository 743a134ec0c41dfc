import logging
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from clickhouse_connect.driver.httpclient import HttpClient
from pydantic import SecretStr

from runtime.config import (
    ClickHouseConfig,
    Config,
    KafkaConfig,
    file_with_secrets,
    layers,
    load,
    own_data_dir,
    secret_files,
)
from runtime.config_keys import alternatives, known_keys
from runtime.live_process import Process, started
from runtime.local_stack import Ports, StackState, write_state
from runtime.stack_registry import register
from schemas.errors import ConfigError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in a folder of its own without any setting around it."""
    import os

    for name in [name for name in os.environ if name.startswith("FLEETPULSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def make_stack(folder: Path, *, wanted: bool = True) -> StackState:
    folder.mkdir(parents=True, exist_ok=True)
    state = StackState(folder, "c", Ports(1001, 1002, 1003, 1004), "w-secret", "r-secret", wanted)
    write_state(state)
    return state


def test_without_anything_the_defaults_hold() -> None:
    """No flag, no environment, no file, no stack."""
    config = load()

    assert config.kafka.model_dump() == KafkaConfig().model_dump()
    assert config.clickhouse.model_dump() == config.reading.model_dump() == ClickHouseConfig().model_dump()


def running(folder: Path) -> StackState:
    """A stack that runs (as this process) and is noted in the user's registry."""
    import os

    state = replace(make_stack(folder), processes={"kafka": Process(os.getpid(), started(os.getpid()) or "")})
    write_state(state)
    register(folder, os.environ)
    return state


def test_a_stack_that_runs_elsewhere_is_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its folder, addresses and logins; the log says which."""
    state = running(tmp_path / "else where")

    with caplog.at_level(logging.INFO):
        config = load()

    assert (config.data_dir, config.kafka.bootstrap) == (state.data_dir, state.kafka_bootstrap)
    assert (config.clickhouse.url, config.reading.user) == (state.clickhouse_url, "reader")
    assert [(record.message, vars(record)["data_dir"]) for record in caplog.records] == [
        ("using the local stack", str(state.data_dir))
    ]


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({"data_dir": "mine"}, id="a data folder"),
        pytest.param({"kafka.bootstrap": "kafka:9092"}, id="Kafka"),
        pytest.param({"clickhouse.url": "http://clickhouse:8123"}, id="ClickHouse"),
    ],
)
def test_whoever_names_servers_gets_no_stack_of_another_place(tmp_path: Path, flags: dict[str, str]) -> None:
    """Neither its addresses nor its folder."""
    state = running(tmp_path / "elsewhere")

    config = load(flags)

    assert config.data_dir != state.data_dir
    assert config.kafka.bootstrap != state.kafka_bootstrap
    assert config.clickhouse.url != state.clickhouse_url


def test_the_own_folder_comes_before_a_stack_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the working directory, whether its stack runs or not, and FLEETPULSE_DATA_DIR."""
    state = running(tmp_path / "elsewhere")
    make_stack(tmp_path / ".fleetpulse", wanted=False)

    assert load().data_dir == tmp_path / ".fleetpulse"
    assert load().kafka.unset is not None
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(state.data_dir))
    assert load().kafka.bootstrap == state.kafka_bootstrap


def test_of_several_stacks_none_is_guessed(tmp_path: Path) -> None:
    """Also not the one in the user's own folder; the error names all."""
    states = [running(tmp_path / "a"), running(tmp_path / "share" / "fleetpulse")]

    config = load()

    assert config.kafka.unset is not None
    assert [str(state.data_dir) in config.kafka.unset for state in states] == [True, True]
    with pytest.raises(ConfigError, match=r"^kafka\.bootstrap .*FLEETPULSE_DATA_DIR"):
        config.kafka.client_settings()


def test_without_servers_clients_are_not_made(tmp_path: Path) -> None:
    """One sentence each says where was looked and what to set; the configuration itself is whole."""
    config = load()

    looked = f"{tmp_path}/share/fleetpulse and {tmp_path}/state/fleetpulse/stacks"
    for section, key in ((config.kafka, "kafka.bootstrap"), (config.clickhouse, "clickhouse.url")):
        with pytest.raises(ConfigError) as caught:
            section.client_settings()
        assert str(caught.value) == (
            f"{key} = None: is not set, and no local stack runs (looked in {looked}): start one with "
            f"`fleetpulse up`, set FLEETPULSE_DATA_DIR to the folder of one that runs, or set {key}"
        )


def test_an_address_that_is_set_is_used_though_it_is_the_default() -> None:
    """Who means 127.0.0.1:9092 gets it."""
    config = load({"kafka.bootstrap": "127.0.0.1:9092", "clickhouse.url": "http://127.0.0.1:8123"})

    assert config.kafka.unset is None
    assert config.kafka.client_settings()["bootstrap_servers"] == "127.0.0.1:9092"
    assert config.clickhouse.client_settings()["port"] == 8123


def test_a_stack_is_started_in_a_folder_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never in that of one which runs elsewhere: that given, configured, of this place, or the user's."""
    running(tmp_path / "elsewhere")

    assert own_data_dir(None) == tmp_path / "share" / "fleetpulse"
    assert own_data_dir(Path("given")) == tmp_path / "given"
    Path("fleetpulse.toml").write_text('data_dir = "configured"')
    assert own_data_dir(None) == tmp_path / "configured"
    Path("fleetpulse.toml").unlink()
    monkeypatch.setenv("FLEETPULSE_DATA_DIR", str(tmp_path / "named"))
    assert own_data_dir(None) == tmp_path / "named"


def test_a_running_stack_is_found_by_itself(tmp_path: Path) -> None:
    """Ports and both logins come from stack.json."""
    make_stack(tmp_path / ".fleetpulse")

    config = load()

    assert config.data_dir == tmp_path / ".fleetpulse"
    assert config.kafka.bootstrap == "127.0.0.1:1001"
    assert config.clickhouse.client_settings() == {
        "host": "127.0.0.1",
        "port": 1003,
        "secure": False,
        "username": "fleetpulse",
        "password": "w-secret",
        "database": "fleetpulse",
    }
    assert (config.reading.user, config.reading.password.get_secret_value()) == ("reader", "r-secret")


def test_a_stack_that_was_taken_down_is_not_used(tmp_path: Path) -> None:
    """After down the defaults hold again."""
    make_stack(tmp_path / ".fleetpulse", wanted=False)

    assert load().kafka.model_dump() == KafkaConfig().model_dump()


def test_each_source_beats_the_ones_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags before environment before file before stack before defaults."""
    make_stack(tmp_path / ".fleetpulse")
    seen = [load().kafka.bootstrap]

    Path("fleetpulse.toml").write_text('[kafka]\nbootstrap = "file:1"\n')
    seen.append(load().kafka.bootstrap)
    monkeypatch.setenv("FLEETPULSE_KAFKA__BOOTSTRAP", "environment:1")
    seen.append(load().kafka.bootstrap)
    seen.append(load({"kafka.bootstrap": "flag:1"}).kafka.bootstrap)

    assert seen == ["127.0.0.1:1001", "file:1", "environment:1", "flag:1"]


def test_sources_fill_each_other_within_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag for one key leaves the others of its section to the sources below."""
    Path("fleetpulse.toml").write_text('[kafka]\nbootstrap = "file:1"\ndeployment = "blue"\n')
    monkeypatch.setenv("FLEETPULSE_KAFKA__REQUEST_TIMEOUT_MS", "5000")

    kafka = load({"kafka.bootstrap": "flag:1"}).kafka

    assert (kafka.bootstrap, kafka.deployment, kafka.request_timeout_ms) == ("flag:1", "blue", 5000)


def test_a_flag_of_none_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """An absent command-line option hides nothing."""
    monkeypatch.setenv("FLEETPULSE_KAFKA__BOOTSTRAP", "environment:1")

    assert load({"kafka.bootstrap": None, "data_dir": None}).kafka.bootstrap == "environment:1"


@pytest.mark.parametrize("key", ["url", "user", "password"])
def test_the_stacks_passwords_are_never_sent_to_another_server(tmp_path: Path, key: str) -> None:
    """Naming another server or login drops the whole of the stack's login, the reader's too."""
    make_stack(tmp_path / ".fleetpulse")
    value = {"url": "https://production:8443", "user": "someone", "password": "x"}[key]

    config = load({f"clickhouse.{key}": value})

    assert "w-secret" not in str(config.clickhouse.password.get_secret_value())
    assert config.clickhouse_reader is None
    assert config.reading == config.clickhouse


def test_secrets_come_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``password_file`` beside ``password``; the newline at the end is no part of it."""
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__PASSWORD_FILE", str(tmp_path / "secret"))

    assert load().clickhouse.password.get_secret_value() == "from a file"


@pytest.mark.parametrize("variable", ["PASSWORD", "PASSWORD_FILE"])
def test_the_file_of_a_secret_that_is_overridden_is_not_read(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of settings names an absent one; the environment has the secret itself or another file of it."""
    (tmp_path / "fleetpulse.toml").write_text(
        '[clickhouse]\nuser = "u"\npassword_file = "absent"\n'
        '[[agent.engines]]\nurl = "http://weaker:1"\napi_key_file = "absent"\n'
    )
    (tmp_path / "overriding").write_text("overriding\n")
    monkeypatch.setenv(f"FLEETPULSE_CLICKHOUSE__{variable}", "overriding")
    monkeypatch.setenv("FLEETPULSE_AGENT__ENGINES", '[{"url": "http://stronger:1"}]')

    config = load()
    found = layers()

    assert (config.clickhouse.user, config.clickhouse.password.get_secret_value()) == ("u", "overriding")
    assert [engine.url for engine in config.agent.engines] == ["http://stronger:1"]
    assert [tree["clickhouse"] for _, tree in found[1:3]] == [{"password": "overriding"}, {"user": "u"}]


def test_a_flag_overrides_the_file_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read; where nothing overrides it, its absence is an error."""
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__PASSWORD_FILE", "absent")

    config = load({"clickhouse.password": "of a flag"})

    assert config.clickhouse.password.get_secret_value() == "of a flag"
    with pytest.raises(ConfigError, match=r"clickhouse\.password_file = 'absent': must be a readable file"):
        load()


@pytest.mark.parametrize(
    ("given", "read"), [({}, "blue"), ({"database": "green"}, "green"), ({"database": "fleetpulse"}, "fleetpulse")]
)
def test_people_read_the_database_that_is_written(
    given: dict[str, str], read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the reader's section names another, be it the usual one."""
    Path("fleetpulse.toml").write_text('[clickhouse]\ndatabase = "blue"\n')
    for name, value in {"url": "http://db:8123", "user": "reader", **given}.items():
        monkeypatch.setenv(f"FLEETPULSE_CLICKHOUSE_READER__{name.upper()}", value)

    config = load()

    assert config.clickhouse_reader is not None
    assert (config.clickhouse_reader.database, config.reading.database) == (read, read)
    assert config.reading.user == "reader"


def secrets_below(kind: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where secrets may stand, an index for every list."""
    for one in alternatives(kind):
        if one is SecretStr:
            yield at
        elif get_origin(one) is tuple:
            yield from secrets_below(get_args(one)[0], (*at, "0"))
        for name, inner in (known_keys(one) or {}).items():
            yield from secrets_below(inner, (*at, name))


SECRETS = sorted(secrets_below(Config))
BESIDE: dict[str, dict[str, object]] = {
    "agent.engines.0": {"url": "http://h:1"},
    "delivery.default": {"kind": "webhook", "endpoint_url": "http://h/a"},
    "delivery.targets.0": {"kind": "webhook", "endpoint_url": "http://h/a"},
}
"""What else a section must have."""


@pytest.mark.parametrize("path", SECRETS, ids=".".join)
def test_every_secret_comes_from_a_file(path: tuple[str, ...], tmp_path: Path) -> None:
    """``<secret>_file`` beside each that the settings have, wherever it stands; of what one part alone needs once that
    part reads it."""
    (tmp_path / "secret").write_text("http://h/from-a-file\n")
    *sections, name = path
    section = dict(BESIDE.get(".".join(sections), {})) | {f"{name}_file": str(tmp_path / "secret")}
    section |= {"kind": "pagerduty"} if name == "routing_key" else {}
    key = ".".join(sections)

    found: Any = load({key.removesuffix(".0"): [section] if key.endswith(".0") else section})
    for part in sections:
        found = found[int(part)] if part.isdigit() else getattr(found, part)

    assert getattr(found.read(key), name).get_secret_value() == "http://h/from-a-file"


SHARED = """
[remote_write]
bearer_token_file = "absent"
[proxy]
tenant_secret_file = "absent"
[agent.otlp]
enabled = true
host = "0.0.0.0"
token_file = "absent"
[[agent.engines]]
url = "http://h:1"
api_key_file = "absent"
"""


def test_a_secret_of_another_part_is_not_read() -> None:
    """All parts have one file of settings; who has not mounted what another part needs starts, and shows nothing else
    of it than the file's name."""
    Path("fleetpulse.toml").write_text(SHARED)

    config = load()
    found = dict(layers())["file"]

    assert [config.remote_write.bearer_token, config.proxy.tenant_secret, config.agent.otlp.token] == [None] * 3
    assert found["remote_write"] == {"bearer_token_file": "absent"}
    assert found["agent"]["engines"] == [{"url": "http://h:1", "api_key_file": "absent"}]


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (lambda config: config.remote_write.read("remote_write"), "remote_write.bearer_token_file"),
        (lambda config: config.proxy.read("proxy"), "proxy.tenant_secret_file"),
        (lambda config: config.agent.read_secrets(), "agent.engines.0.api_key_file"),
        (lambda config: config.agent.otlp.read("agent.otlp"), "agent.otlp.token_file"),
    ],
)
def test_who_needs_a_secret_says_that_its_file_is_missing(read: Callable[[Config], object], key: str) -> None:
    """With its key and its name."""
    Path("fleetpulse.toml").write_text(SHARED)
    config = load()

    with pytest.raises(ConfigError, match=re.escape(f"{key} = 'absent': must be a readable file")):
        read(config)


def test_what_stands_in_a_secret_s_file_is_judged_and_hidden(tmp_path: Path) -> None:
    """As what stands in the settings."""
    (tmp_path / "a token").write_text("too short\n")
    config = load({"agent.otlp.token_file": str(tmp_path / "a token")})

    with pytest.raises(ConfigError, match="at least 16") as raised:
        config.agent.otlp.read("agent.otlp")

    assert raised.value.key == "agent.otlp.token"
    assert "too short" not in str(raised.value)


@pytest.mark.parametrize(
    ("stronger", "token"), [({"token": "of-the-environment"}, "of-the-environment"), ({"token_file": "one"}, "o" * 16)]
)
@pytest.mark.parametrize("weaker", ['token = "of-the-settings-file"', 'token_file = "absent"'])
def test_a_secret_and_the_file_of_one_override_each_other(
    stronger: dict[str, str], token: str, weaker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stronger source counts, whichever of the two it has."""
    Path("one").write_text("o" * 16 + "\n")
    Path("fleetpulse.toml").write_text(f"[agent.otlp]\n{weaker}\n")
    for name, value in stronger.items():
        monkeypatch.setenv(f"FLEETPULSE_AGENT__OTLP__{name.upper()}", value)

    found = load().agent.otlp.read("agent.otlp").token

    assert found is not None
    assert found.get_secret_value() == token


def test_the_files_of_secrets_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every source and depth, the strongest of each key, whether the file is there or not; no other file."""
    (tmp_path / "fleetpulse.toml").write_text(
        'kafka = { ssl_cafile = "ca", ssl_keyfile = "key", sasl_password_file = "of-file" }\n'
        'clickhouse = { password_file = "weaker" }\n[[delivery.targets]]\nbearer_token = "t"\nhmac_key_file = "list"\n'
        '[remote_write]\npassword_file = "deep"\n'
    )
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__PASSWORD_FILE", "of-environment")
    flags = {"config_file": str(tmp_path / "fleetpulse.toml"), "proxy.tenant_secret_file": "of-flag"}

    found = {str(path) for path in secret_files(flags)}

    assert found == {"key", "of-file", "of-environment", "deep", "list", "of-flag"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('[clickhouse]\npassword = "p"\n', True),
        ('[clickhouse]\npassword = ""\n', False),
        ('[clickhouse]\npassword_file = "named"\nuser = "u"\n', False),
        ('[[agent.engines]]\nurl = "http://e:1"\n[[agent.engines]]\nurl = "http://f:1"\napi_key = "k"\n', True),
        ('[[delivery.targets]]\nkind = "alertmanager"\nendpoint_url = "http://a:9093"\n', False),
        ('[[delivery.targets]]\nkind = "slack"\nendpoint_url = "https://hooks.slack.com/services/T/B/x"\n', True),
        ('[delivery.default]\nkind = "webhook"\nendpoint_url = "https://h/a"\nbearer_token = "t"\n', True),
    ],
)
def test_a_configuration_file_that_holds_a_secret_is_known(
    text: str, holds: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is named, by a flag or by the environment, or the one in the folder."""
    monkeypatch.chdir(tmp_path)
    none = file_with_secrets()
    (tmp_path / "fleetpulse.toml").write_text(text)
    path = tmp_path / "fleetpulse.toml"
    found = [file_with_secrets(), file_with_secrets({"config_file": str(path)})]
    monkeypatch.setenv("FLEETPULSE_CONFIG_FILE", str(path))
    found.append(file_with_secrets({"clickhouse.user": "u"}))

    assert none is None
    assert found == ([Path("fleetpulse.toml"), path, path] if holds else [None] * 3)


def test_secrets_stay_out_of_a_repr() -> None:
    """A configuration in a log shows no password."""
    config = load({"clickhouse.password": "hidden", "kafka.sasl_password": "hidden"})

    assert "hidden" not in repr(config)


@pytest.mark.parametrize(
    ("flags", "key", "bound"),
    [
        ({"kafka.bootstrap": "nowhere"}, "kafka.bootstrap", "host:port"),
        ({"kafka.bootstrap": "a:0"}, "kafka.bootstrap", "host:port"),
        ({"kafka.bootstrap": "a:65536"}, "kafka.bootstrap", "host:port"),
        ({"kafka.bootstrap": "a:1,b"}, "kafka.bootstrap", "host:port"),
        ({"kafka.bootstrap": "fd00::7"}, "kafka.bootstrap", "brackets"),
        ({"kafka.bootstrap": "[fd00::7]:1,fd00::8:9092"}, "kafka.bootstrap", "brackets"),
        ({"kafka.deployment": "Not Good"}, "kafka.deployment", "pattern"),
        ({"kafka.request_timeout_ms": 999}, "kafka.request_timeout_ms", "1000"),
        ({"kafka.security_protocol": "SASL_SSL"}, "kafka", "sasl_username"),
        ({"kafka.bootsrap": "a:1"}, "kafka.bootsrap", "is not a setting"),
        ({"clickhouse.url": "ftp://a"}, "clickhouse.url", "http"),
        ({"clickhouse.url": "http://a:b"}, "clickhouse.url", "http"),
        ({"clickhouse.url": "http://user:pw@a"}, "clickhouse.url", "credentials"),
        ({"kafka.bootstrap": "user:pw@a:9092"}, "kafka.bootstrap", "credentials"),
        ({"kafka.sasl_passwort": "x"}, "kafka.sasl_passwort", "did you mean kafka.sasl_password?"),
        ({"clickhouse_reader.passwd": "x"}, "clickhouse_reader.passwd", "did you mean clickhouse_reader.password?"),
        ({"klickhouse": {}}, "klickhouse", "did you mean clickhouse?"),
        (
            {"agent.engines": [{"url": "http://a:1", "fact_url": "x"}]},
            "agent.engines.0.fact_url",
            "did you mean agent.engines.0.facts_url?",
        ),
        ({"clickhouse.database": "a b"}, "clickhouse.database", "pattern"),
        ({"limits.hot_ms": 0}, "limits.hot_ms", "above 0"),
        ({"limits.out_of_orderness_ms": 1_499}, "limits.out_of_orderness_ms", "at least edge_linger_ms"),
        ({"partitions": {"llm.requests": 0}}, "partitions", "from 1"),
        ({"partitions": {"gpu.sample": 8}}, "partitions", "docs/reference/topics.md"),
        ({"partitions": {"state.windows.gpu.samples": 8}}, "partitions", "without state topics"),
        ({"partitions": {"window.finals": 2}}, "partitions", "window.finals must have 1 partition: its records have"),
        ({"config_file": "missing.toml"}, "config_file", "readable TOML"),
        ({"clickhouse.password_file": "missing"}, "clickhouse.password_file", "readable file"),
    ],
)
def test_what_is_wrong_is_named_with_its_bound(flags: dict[str, object], key: str, bound: str) -> None:
    """The error says which key and what it must satisfy."""
    with pytest.raises(ConfigError) as caught:
        load(flags)

    assert caught.value.key == key
    assert bound in caught.value.bound


WEBHOOK = {"name": "ops", "kind": "webhook", "endpoint_url": "http://h/HIDDEN", "bearer_token": "HIDDEN"}


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({"clickhouse.password": ["HIDDEN"]}, id="a secret of the wrong type"),
        pytest.param({"proxy.tenant_secret": ["HIDDEN"]}, id="of another section"),
        pytest.param({"kafka.sasl_passwort": "HIDDEN"}, id="a mistyped key"),
        pytest.param({"clickhouse.passwd": "HIDDEN"}, id="an unknown key"),
        pytest.param({"tenant_secret": "HIDDEN"}, id="a key in the wrong section"),
        pytest.param({"clickhouse.url": "http://u:HIDDEN@h"}, id="an address"),
        pytest.param({"clickhouse.url": "http://HIDDEN@h"}, id="an address with a user alone"),
        pytest.param({"clickhouse.url": "http://u:HID/@'HIDDEN@h:1"}, id="an address that cannot be read"),
        pytest.param({"proxy.upstreams": [{"url": "http://u:HIDDEN@h"}]}, id="an address in a list"),
        pytest.param({"kafka.bootstrap": "a:1,u:HIDDEN@h:9092"}, id="an address without a scheme"),
        pytest.param({"delivery.targets": [WEBHOOK] * 17}, id="in a list of sections that is too long"),
        pytest.param({"agent.engines": ({"url": "http://h:1", "api_key": "HIDDEN"},) * 65}, id="in a tuple of them"),
        pytest.param({"kafka.bootstrap": [["a"], [{"password": "HIDDEN"}]]}, id="in a list of lists"),
    ],
)
def test_secrets_stay_out_of_an_error(flags: dict[str, object]) -> None:
    """Its text and its value name the key and hide what was given."""
    with pytest.raises(ConfigError) as caught:
        load(flags)

    assert "HIDDEN" not in str(caught.value)
    assert "HIDDEN" not in repr(caught.value)
    assert "HIDDEN" not in repr(caught.value.value)


def test_an_environment_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table must be JSON."""
    monkeypatch.setenv("FLEETPULSE_PARTITIONS", "{")

    with pytest.raises(ConfigError, match="partitions"):
        load()


def test_limits_take_part_in_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """One limit is changed, the others keep their defaults."""
    monkeypatch.setenv("FLEETPULSE_LIMITS__SERIES_MAX", "7")

    limits = load().limits

    assert (limits.series_max, limits.out_of_orderness_ms) == (7, 2_000)


def test_configuration_cannot_be_changed_afterwards() -> None:
    """The tree is frozen at every level."""
    config = load()

    for target, name in ((config, "data_dir"), (config.kafka, "bootstrap"), (config.clickhouse, "url")):
        with pytest.raises(ValueError, match="frozen"):
            setattr(target, name, "x")


def test_sasl_settings_reach_the_client() -> None:
    """aiokafka gets the names it knows."""
    kafka = load(
        {
            "kafka.security_protocol": "SASL_PLAINTEXT",
            "kafka.sasl_username": "me",
            "kafka.sasl_password": "secret",
            "kafka.bootstrap": "a:1",
        }
    ).kafka

    assert kafka.client_settings() == {
        "bootstrap_servers": "a:1",
        "security_protocol": "SASL_PLAINTEXT",
        "request_timeout_ms": 30_000,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }


def test_unreadable_certificates_are_named(tmp_path: Path) -> None:
    """TLS with a missing authority file is a wrong setting, not a crash."""
    flags = {"kafka.bootstrap": "kafka:9093", "kafka.security_protocol": "SSL"}
    kafka = load({**flags, "kafka.ssl_cafile": tmp_path / "none.pem"}).kafka

    with pytest.raises(ConfigError, match="PEM"):
        kafka.client_settings()


def test_https_has_its_own_default_port() -> None:
    """Without a port, https means 8443 and http 8123."""
    ports = [ClickHouseConfig(url=url).client_settings()["port"] for url in ("https://a", "http://a", "http://a:9")]

    assert ports == [8443, 8123, 9]


def test_clickhouse_over_tls_has_its_files(tmp_path: Path) -> None:
    """Authority, certificate and key reach the client; plain http needs none of them."""
    files = {"ca_file": tmp_path / "ca", "client_cert_file": tmp_path / "cert", "client_key_file": tmp_path / "key"}

    secure = ClickHouseConfig(url="https://h", **files).client_settings()
    plain = ClickHouseConfig(url="http://h", **files).client_settings()

    assert {name: value for name, value in secure.items() if "ca" in name or "cert" in name} == {
        "ca_cert": str(tmp_path / "ca"),
        "client_cert": str(tmp_path / "cert"),
        "client_cert_key": str(tmp_path / "key"),
    }
    assert (secure["secure"], secure["port"]) == (True, 8443)
    assert [name for name in plain if "ca_" in name or "cert" in name] == []
    with pytest.raises(ValueError, match="client_key_file needs client_cert_file"):
        ClickHouseConfig(client_key_file=tmp_path / "key")


def sent(config: ClickHouseConfig) -> dict[str, str]:
    """The headers of a login that the driver sends with its requests, by their names in small letters."""
    settings = config.client_settings()
    del settings["secure"]
    client = HttpClient("https", **settings)
    names = ("authorization", "x-clickhouse-user", "x-clickhouse-key", "x-clickhouse-ssl-certificate-auth")
    return {name.lower(): str(value) for name, value in client.headers.items() if name.lower() in names}


@pytest.mark.parametrize("password", ["", "hush"])
@pytest.mark.parametrize("certificate", [None, Path("cert.pem")])
def test_every_client_of_clickhouse_logs_in_alike(
    certificate: Path | None, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By password where there is one, whatever certificate is shown; by the certificate where there is nothing else."""
    monkeypatch.setattr(HttpClient, "_init_common_settings", lambda *_: None)
    config = ClickHouseConfig(url="https://h", user="u", password=SecretStr(password), client_cert_file=certificate)

    driver, http = sent(config), {name.lower(): value for name, value in config.login_headers().items()}

    if certificate is not None and not password:
        assert driver == http == {"x-clickhouse-user": "u", "x-clickhouse-ssl-certificate-auth": "on"}
    else:
        assert driver == {"authorization": "Basic " + b64encode(f"u:{password}".encode()).decode()}
        assert http == {"x-clickhouse-user": "u", "x-clickhouse-key": password}


def test_a_client_of_http_verifies_by_the_same_files(tmp_path: Path) -> None:
    """A file that cannot be read is a wrong setting; plain http reads none."""
    none = tmp_path / "none.pem"

    assert ClickHouseConfig(url="http://h", ca_file=none).ssl_context() is True
    assert isinstance(ClickHouseConfig(url="https://h").ssl_context(), ssl.SSLContext)
    with pytest.raises(ConfigError, match=r"clickhouse\.\*_file = '.*none\.pem': must be readable PEM"):
        ClickHouseConfig(url="https://h", ca_file=none).ssl_context()


def test_layers_say_what_each_source_says_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strongest first; the chosen folder is nobody's word; a stack whose server somebody else names stays out."""
    make_stack(tmp_path / ".fleetpulse")
    Path("fleetpulse.toml").write_text('[kafka]\nbootstrap = "file:1"\n[clickhouse]\ndatabase = "other"\n')
    monkeypatch.setenv("FLEETPULSE_KAFKA__DEPLOYMENT", "blue")

    found = layers({"kafka.sasl_username": "u"})

    assert found[:3] == (
        ("flag", {"kafka": {"sasl_username": "u"}}),
        ("environment", {"kafka": {"deployment": "blue"}}),
        ("file", {"kafka": {"bootstrap": "file:1"}, "clickhouse": {"database": "other"}}),
    )
    assert (found[3][0], sorted(found[3][1])) == ("stack", ["clickhouse", "clickhouse_reader"])
