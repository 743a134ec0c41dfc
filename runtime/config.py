"""Configuration: one frozen tree, read in one place.

A value comes from the first of these that has it: explicit flags, ``FLEETPULSE_*`` (sections by two underscores:
``FLEETPULSE_KAFKA__BOOTSTRAP``), ``fleetpulse.toml``, the local stack's ``stack.json``, the default. Anything secret
may come from a file instead: ``password_file`` beside ``password``.

The local stack's addresses and passwords come as a whole: as soon as a higher source names another server, none of
the stack's credentials are used, so that they are never sent elsewhere.

A configuration that names no server and has found no stack (``runtime.stack_choice``) is whole, since the edge starts
without one, but its clients cannot be made.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from runtime.clickhouse_config import ClickHouseConfig as ClickHouseConfig
from runtime.config_keys import Section, holds_secret, holds_section, is_key, is_secret, nearest_key
from runtime.delivery_config import DeliveryConfig
from runtime.edge_config import AgentConfig
from runtime.local_stack import READER, WRITER, StackState, default_data_dir
from runtime.proxy_config import ProxyConfig
from runtime.remote_write_config import RemoteWriteConfig
from runtime.runbook import PAGE, read_at
from runtime.secret_files import named_files, read_secret
from runtime.stack_choice import stack_of, why_unset
from runtime.tls import ssl_context
from runtime.tracing_config import TracingConfig
from schemas.contract.topics import BY_NAME, STATE_TOPICS, Growth
from schemas.errors import ConfigError
from schemas.limits import Limits

_log = logging.getLogger(__name__)


class KafkaConfig(Section):
    """How to reach Kafka. TLS and SASL as aiokafka names them."""

    bootstrap: str = "127.0.0.1:9092"
    """``host:port``, several separated by commas; an IPv6 address in brackets."""
    deployment: str = Field(default="local", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    """Whose topics these are. Part of every transactional id and group; ``migrate`` writes it into the contract, and no
    process of another deployment starts on these topics."""
    topic_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,100}$")
    """What the names of all topics, groups and transactional ids begin with, so that several deployments can share one
    cluster; ``blue.`` gives ``blue.llm.requests``. Empty: none."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_cafile: Path | None = None
    """None: the system's certificate authorities."""
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_key_password: SecretStr | None = None
    request_timeout_ms: int = Field(default=30_000, ge=1_000, le=600_000)

    @field_validator("bootstrap")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for address in value.split(","):
            host, _, port = address.strip().rpartition(":")
            if "@" in host:
                raise ValueError("must not hold credentials: set sasl_username and sasl_password")
            if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                raise ValueError("must be host:port, several separated by commas")
            if ":" in host and not (host.startswith("[") and host.endswith("]")):
                raise ValueError("must be host:port, an IPv6 address in brackets")
        return value

    @model_validator(mode="after")
    def _credentials(self) -> Self:
        if self.security_protocol.startswith("SASL") and not (self.sasl_username and self.sasl_password):
            raise ValueError(f"security_protocol {self.security_protocol} needs sasl_username and sasl_password")
        return self

    @property
    def namespace(self) -> str:
        """What groups and transactional ids begin with, before a dash."""
        return f"{self.topic_prefix}{self.deployment}"

    def client_settings(self) -> dict[str, Any]:
        """Keyword arguments for every aiokafka client. Raises ConfigError where no address is known."""
        self.demand_set("kafka.bootstrap")
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": self.request_timeout_ms,
        }
        if self.security_protocol.startswith("SASL") and self.sasl_password is not None:
            settings["sasl_mechanism"] = self.sasl_mechanism
            settings["sasl_plain_username"] = self.sasl_username
            settings["sasl_plain_password"] = self.sasl_password.get_secret_value()
        if self.security_protocol.endswith("SSL"):
            files = self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile
            settings["ssl_context"] = ssl_context("kafka.ssl_*", files, self.ssl_key_password)
        return settings


class _Environment(EnvSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return _read_secret_files(self.given(), self.current_state)

    def given(self) -> dict[str, Any]:
        """As it stands there, secrets' files by their names."""
        return super().__call__()


class _Layer(PydanticBaseSettingsSource):
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # sources below give whole trees, not single fields


class _File(_Layer):
    def __call__(self) -> dict[str, Any]:
        return _read_secret_files(self.given(), self.current_state)

    def given(self) -> dict[str, Any]:
        """As it stands there, secrets' files by their names."""
        return {} if (path := self.path()) is None else read_toml(path)

    def path(self) -> Path | None:
        """Of the file that is read; None where there is none."""
        given = self.current_state.get("config_file")
        path = Path(given) if given else Path("fleetpulse.toml")
        return path if given or path.is_file() else None


class _LocalStack(_Layer):
    def __call__(self) -> dict[str, Any]:
        data_dir, state = stack_of(self.current_state)
        layer: dict[str, Any] = {"data_dir": data_dir}
        if state is None or not state.wanted:
            return layer
        _log.info("using the local stack", extra={"data_dir": str(data_dir)})
        return layer | _of_stack(state, self.current_state)


def _of_stack(state: StackState, above: Mapping[str, Any]) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    if not {"bootstrap", "security_protocol"} & set(above.get("kafka", {})):
        layer["kafka"] = {"bootstrap": state.kafka_bootstrap}
    if not {"url", "user", "password"} & set(above.get("clickhouse", {})):
        layer["clickhouse"] = {**_login(state, WRITER, state.writer_password), "cluster": state.clickhouse_cluster}
        if not above.get("clickhouse_reader"):
            layer["clickhouse_reader"] = _login(state, READER, state.reader_password)
    return layer


def _login(state: StackState, user: str, password: str) -> dict[str, Any]:
    return {"url": state.clickhouse_url, "user": user, "password": password}


class Config(BaseSettings):
    """Everything a process of fleetpulse needs to know. Make it with ``load``."""

    model_config = SettingsConfigDict(
        env_prefix="FLEETPULSE_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    config_file: Path | None = None
    """None: ``fleetpulse.toml`` here, when there is one."""
    data_dir: Path = Path(".fleetpulse")
    kafka: KafkaConfig = KafkaConfig()
    clickhouse: ClickHouseConfig = ClickHouseConfig()
    clickhouse_reader: ClickHouseConfig | None = None
    """A login that may only read, of ``clickhouse.database`` where it names none. None: people's queries use
    ``clickhouse`` too."""
    health_host: str = Field(default="127.0.0.1", min_length=1, max_length=255)
    """Address of /healthz, /readyz, /metrics, which hold no data of requests. In a container ``0.0.0.0``."""
    runbook_url: str = Field(default=PAGE, min_length=1, max_length=1_024)
    """Where your people read docs/how-to/running.md: what links in log lines, alerts and of the doctor begin with."""
    partitions: dict[str, int] = Field(default_factory=dict)
    """Partition counts other than the contract's (``{"llm.requests": 64}``), the same everywhere."""
    prices: Path | None = None
    rules: Path | None = None
    budgets: Path | None = None
    """Files of yours (docs/how-to/prices.md, rules.md, report.md) for jobs, dashboard, commands. None: example
    prices, which whatever shows money says; the shipped rules; no budgets."""
    limits: Limits = Limits()
    agent: AgentConfig = AgentConfig()
    proxy: ProxyConfig = ProxyConfig()
    delivery: DeliveryConfig = DeliveryConfig()
    tracing: TracingConfig = TracingConfig()
    remote_write: RemoteWriteConfig = RemoteWriteConfig()

    @property
    def reading(self) -> ClickHouseConfig:
        """The login for queries that only read."""
        if self.clickhouse_reader is None:
            return self.clickhouse
        same = {"cluster": self.clickhouse.cluster, "engine_prefix": self.clickhouse.engine_prefix}
        return self.clickhouse_reader.model_copy(update=same)

    @field_validator("clickhouse_reader")
    @classmethod
    def _of_the_same_database(cls, value: ClickHouseConfig | None, info: ValidationInfo) -> ClickHouseConfig | None:
        writer = info.data.get("clickhouse")  # not there where it is wrong itself
        if value is None or writer is None or "database" in value.model_fields_set:
            return value
        return value.model_copy(update={"database": writer.database})

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("partitions")
    @classmethod
    def _counts(cls, value: dict[str, int]) -> dict[str, int]:
        for name, count in value.items():
            topic = BY_NAME.get(name)
            if topic is None or topic in STATE_TOPICS:
                raise ValueError(f"must name topics of docs/reference/topics.md without state topics, not {name!r:.80}")
            if topic.growth is Growth.NEVER and count != 1:
                raise ValueError(f"{name} must have 1 partition: {topic.growth.value}")
        if any(not 0 < count <= 10_000 for count in value.values()):
            raise ValueError("must be partition counts from 1 to 10000 by topic")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls), _File(settings_cls), _LocalStack(settings_cls)


def load(flags: Mapping[str, object] | None = None) -> Config:
    """The configuration of this process. ``flags`` are dotted keys (``kafka.bootstrap``); one of None was not given.
    Raises ConfigError with key, value and bound of what is wrong first; that of a secret or unknown key is hidden."""
    try:
        config = Config(**_read_secret_files(_tree(flags or {})))
    except ValidationError as error:
        raise _explain(error) from None
    except SettingsError as error:
        raise ConfigError("FLEETPULSE_*", str(error), f"must be readable ({error.__cause__})") from error
    _mark_unset(config)
    read_at(config.runbook_url)
    return config


def own_data_dir(given: Path | None) -> Path:
    """Where a stack is started from here: the folder given or configured, else this place's own, else the user's.
    Never that of a stack which runs elsewhere."""
    named = (tree["data_dir"] for _, tree in layers({"data_dir": given}) if tree.get("data_dir"))
    return Path(next(named, None) or default_data_dir(os.environ, Path.cwd())).expanduser().absolute()


def _mark_unset(config: Config) -> None:
    sections: dict[str, Section] = {"kafka.bootstrap": config.kafka, "clickhouse.url": config.clickhouse}
    for key, section in sections.items():
        if key.partition(".")[2] not in section.model_fields_set:
            section._unset = why_unset(config.data_dir, key)


def layers(flags: Mapping[str, object] | None = None) -> tuple[tuple[str, dict[str, Any]], ...]:
    """What each source says by itself, strongest first: ``flag``, ``environment``, ``file``, ``stack``; values as they
    were given, secret files read, but those of secrets that a stronger one has. Defaults are in none. Raises
    ConfigError for what cannot be read at all."""
    given = _read_secret_files(_tree(flags or {}))
    found: list[tuple[str, dict[str, Any]]] = [("flag", given)]
    above = given
    for name, kind in (("environment", _Environment), ("file", _File), ("stack", _LocalStack)):
        source = kind(Config)
        source._set_current_state(above)
        try:
            tree = source()
        except SettingsError as error:
            raise ConfigError("FLEETPULSE_*", str(error), f"must be readable ({error.__cause__})") from error
        found.append((name, tree))
        above = _under(above, tree)
    found[-1][1].pop("data_dir", None)  # chosen, set by nobody
    return tuple(found)


def secret_files(flags: Mapping[str, object] | None = None) -> tuple[Path, ...]:
    """The files that flags, environment and configuration file name for secrets: passwords, tokens, private keys."""
    file, above = _file_below(flags)
    return tuple(named_files(_under(above, file.given())))


def file_with_secrets(flags: Mapping[str, object] | None = None) -> Path | None:
    """The configuration file where it holds a secret itself; None where it only names files, or there is none."""
    file, _above = _file_below(flags)
    return file.path() if holds_secret(Config, file.given()) else None


def _file_below(flags: Mapping[str, object] | None) -> tuple[_File, dict[str, Any]]:
    """The configuration file, and what flags and environment say, secrets' files by their names."""
    above = _tree(flags or {})
    environment, file = _Environment(Config), _File(Config)
    environment._set_current_state(above)
    above = _under(above, environment.given())
    file._set_current_state(above)
    return file, above


def _under(above: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` with what ``tree`` says beside it."""
    both = {
        name: _under(above[name], tree[name])
        for name in above.keys() & tree.keys()
        if isinstance(above[name], dict) and isinstance(tree[name], dict)
    }
    return {**tree, **above, **both}


def _tree(flags: Mapping[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in [(key, value) for key, value in flags.items() if value is not None]:
        *sections, name = key.split(".")
        at = tree
        for section in sections:
            at = at.setdefault(section, {})
        at[name] = value
    return tree


def _read_secret_files(
    tree: Mapping[str, Any], above: Mapping[str, Any] | None = None, at: tuple[str | int, ...] = ()
) -> dict[str, Any]:
    """The tree with every ``<secret>_file`` replaced by the file's text, without the newline at its end, but for those
    that are settings themselves: whoever uses these secrets reads them (``Section.read``). What ``above``, the stronger
    sources, says is not read here."""
    done: dict[str, Any] = {}
    above = above or {}
    for name, value in tree.items():
        path = (*at, name)
        secret = name.removesuffix("_file")
        if value is not None and name != secret and is_secret(Config, (*at, secret)):
            if secret not in above and is_key(Config, path):
                done[name] = value
            elif secret not in above:
                done[secret] = read_secret(".".join(map(str, path)), Path(value))
        elif f"{name}_file" in above and is_secret(Config, path):
            continue
        elif isinstance(value, dict) and isinstance(over := above.get(name, {}), dict):
            done[name] = _read_secret_files(value, over, path)
        elif isinstance(value, list) and name not in above:
            done[name] = [
                _read_secret_files(each, None, (*path, index)) if isinstance(each, dict) else each
                for index, each in enumerate(value)
            ]
        else:
            done[name] = value
    return done


def _explain(error: ValidationError) -> ConfigError:
    """What is wrong first. Of an unknown key, which may be a mistyped secret, of a secret, and of a section or a list
    of sections no value."""
    first = error.errors(include_url=False)[0]
    path, value = first["loc"], first["input"]
    key = ".".join(map(str, path))
    if first["type"] == "extra_forbidden":
        near = nearest_key(Config, path)
        meant = f"; did you mean {near}?" if near else ""
        return ConfigError(key, "...", f"is not a setting{meant} (`fleetpulse config` lists all)")
    hidden = is_secret(Config, path) or holds_section(value)
    return ConfigError(key, "..." if hidden else value, first["msg"].removeprefix("Value error, "))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError when it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError("config_file", str(path), f"must be a readable TOML file ({error})") from error
