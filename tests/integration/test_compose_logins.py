"""Brokers as Compose sets them up, by the very file of logins that ``deploy/make_secrets.py`` writes: who has no login
is outside, and each login may do what its role needs."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr

from fleetpulse.migrate import logins
from fleetpulse.stack import daemons, java, kafka, kafka_jars
from runtime.config import KafkaConfig
from runtime.kafka_clients import open_producer
from runtime.local_stack import Ports, StackState
from schemas.contract.rights import ROLES, rights_of
from schemas.errors import FleetpulseError, UnavailableError
from tests.conftest import ROOT
from tests.unused_ports import unused_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

READY_WITHIN_S = 90.0
SETTINGS = {
    name.removeprefix("KAFKA_").lower().replace("_", "."): value
    for name, value in yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka-1"][
        "environment"
    ].items()
    if name.startswith(("KAFKA_SASL", "KAFKA_SUPER", "KAFKA_AUTHORIZER"))
}
"""Of Compose's brokers what is about logins and rights."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where it listens, and the folder of passwords."""

    port: int
    secrets: Path

    def login(self, role: str, password: str | None = None) -> KafkaConfig:
        return KafkaConfig(
            bootstrap=f"127.0.0.1:{self.port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username=f"fleetpulse-{role}",
            sasl_password=SecretStr(password or (self.secrets / f"kafka-{role}").read_text()),
        )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker whose listeners and controller are behind logins, and whose logins have their rights."""
    folder = tmp_path_factory.mktemp("compose")
    spec = importlib.util.spec_from_file_location("make_secrets", ROOT / "deploy" / "make_secrets.py")
    assert spec is not None
    assert spec.loader is not None
    make_secrets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_secrets)
    make_secrets.make(folder / "secrets")
    found = unused_ports(4)
    state = StackState(folder / "servers", "c2VjdXJlZC1icm9rZXItMQ", Ports(*found), "w", "r")
    process = _start(state, folder / "secrets" / "kafka-jaas.conf")
    try:
        broker = Broker(state.ports.kafka, folder / "secrets")
        admin = broker.login("migrate")
        log = state.data_dir / "log" / "kafka.log"
        assert daemons.wait_until(lambda: _answers(admin), READY_WITHIN_S), log.read_text()[-4_000:]
        names = {role: [f"User:fleetpulse-{role}"] for role in ROLES if role != "migrate"}
        logins.carry_out(admin, logins.plan(admin, names).steps)  # type: ignore[arg-type]
        assert logins.plan(admin, names).steps == ()
        yield broker
    finally:
        daemons.stop(process, 20.0)


def _answers(admin: KafkaConfig) -> bool:
    try:
        return logins.plan(admin, {"sink": ["User:nobody"]}).steps != ()
    except UnavailableError:
        return False


def _start(state: StackState, jaas: Path) -> daemons.Process:
    runtime = java.find_java(os.environ)
    home = state.data_dir / kafka.NAME
    for part in (home / "tmp", state.data_dir / "log"):
        part.mkdir(parents=True)
    line = kafka.command(state, runtime, kafka_jars.jars(kafka_jars.cache_dir(os.environ, state.data_dir), print))
    listener = f"INSIDE://127.0.0.1:{state.ports.kafka}"
    own = SETTINGS | {
        "listeners": f"{listener},CONTROLLER://127.0.0.1:{state.ports.kafka_controller}",
        "advertised.listeners": listener,
        "inter.broker.listener.name": "INSIDE",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "auto.create.topics.enable": "true",
    }
    properties = home / "server.properties"
    properties.write_text(
        kafka.settings(state.nodes, home / "log") + "".join(f"{key}={value}\n" for key, value in own.items())
    )
    class_path = line[line.index("-cp") + 1]
    format_ = ("kafka.tools.StorageTool", "format", "-t", state.cluster_id, "-c", str(properties))
    subprocess.run([line[0], "-XX:TieredStopAtLevel=1", "-cp", class_path, *format_], check=True, capture_output=True)
    options = f"-Djava.security.auth.login.config={jaas}"
    return daemons.spawn([line[0], options, *line[1:]], state.data_dir / "log" / "kafka.log")


async def send(kafka_config: KafkaConfig, topic: str) -> str:
    """What comes of sending a record."""
    try:
        async with open_producer(kafka_config) as producer:
            await producer.send_and_wait(topic, b"x")
    except FleetpulseError as error:
        return "not allowed" if "AuthorizationFailed" in str(error) else str(error)
    return "sent"


async def _make(broker: Broker, topics: tuple[str, ...]) -> None:
    async with open_producer(broker.login("migrate")) as producer:
        for topic in topics:
            await producer.send_and_wait(topic, b"x")


def test_each_login_writes_what_its_role_does_and_nothing_else(broker: Broker) -> None:
    """A GPU node sends events and no silence, people send silences and no events, the sink nothing at all."""
    topics = ("gpu.samples", "window.partials", "alert.commands")
    asyncio.run(_make(broker, topics))
    roles = ("edge", "gateway", "jobs", "sink", "deliver", "people")
    found = {role: {topic: asyncio.run(send(broker.login(role), topic)) for topic in topics} for role in roles}

    no, sent = "not allowed", "sent"
    assert found == {
        "edge": dict(zip(topics, (sent, no, no), strict=True)),
        "gateway": dict(zip(topics, (sent, no, no), strict=True)),
        "jobs": dict(zip(topics, (no, sent, sent), strict=True)),
        "sink": dict.fromkeys(topics, no),
        "deliver": dict.fromkeys(topics, no),
        "people": dict(zip(topics, (no, no, sent), strict=True)),
    }
    assert len(rights_of("edge", "x")) > len(topics)


def test_who_has_another_password_is_outside(broker: Broker) -> None:
    """One login's password opens no other."""
    stolen = (broker.secrets / "kafka-edge").read_text()

    assert "Invalid username or password" in asyncio.run(send(broker.login("jobs", stolen), "window.partials"))
