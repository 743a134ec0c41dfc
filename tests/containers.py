"""Kafka and ClickHouse in containers, for tests on machines where a Docker engine answers."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
from collections.abc import Iterator

from fleetpulse.sql import reader_profile
from fleetpulse.stack import clickhouse, daemons, kafka, ports
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.local_stack import DATABASE, READER, WRITER

KAFKA_IMAGE = "apache/kafka:4.1.0"
CLICKHOUSE_IMAGE = "clickhouse/clickhouse-server:26.8"
READY_WITHIN_S = 120.0
ENGINE_ANSWERS_WITHIN_S = 60.0


def engine_answers() -> bool:
    """Whether there is a Docker engine to talk to. Asked as the containers are: a ``docker`` that answers may be
    podman's, which has no engine. In a process of its own, since that client leaks the socket of a failed attempt."""
    ask = [sys.executable, "-c", "import testcontainers.core.docker_client as it; it.DockerClient().client.ping()"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(ask, capture_output=True, timeout=ENGINE_ANSWERS_WITHIN_S, check=False).returncode == 0
    return False


@contextlib.contextmanager
def kafka_container() -> Iterator[KafkaConfig]:
    """One broker with the settings of the local stack."""
    from testcontainers.core.container import DockerContainer

    port = ports.free_ports(1, start=secrets.randbelow(10_000))[0]
    settings = kafka.SETTINGS | {
        "listeners": "PLAINTEXT://:9092,HOST://:19092,CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://localhost:9092,HOST://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": "1@localhost:9093",
    }
    container = DockerContainer(KAFKA_IMAGE).with_bind_ports(19_092, port)
    for key, value in settings.items():
        container.with_env(f"KAFKA_{key.upper().replace('.', '_')}", value)
    with container:
        assert daemons.wait_until(lambda: kafka.is_ready(port), READY_WITHIN_S), "Kafka does not answer"
        yield KafkaConfig(bootstrap=f"127.0.0.1:{port}")


@contextlib.contextmanager
def clickhouse_container() -> Iterator[tuple[ClickHouseConfig, ClickHouseConfig]]:
    """One server: the writer's login and the reader's."""
    from testcontainers.core.container import DockerContainer

    passwords = {WRITER: secrets.token_urlsafe(24), READER: secrets.token_urlsafe(24)}
    port = ports.free_ports(1, start=secrets.randbelow(10_000))[0]
    container = (
        DockerContainer(CLICKHOUSE_IMAGE)
        .with_bind_ports(8123, port)
        .with_env("CLICKHOUSE_USER", WRITER)
        .with_env("CLICKHOUSE_PASSWORD", passwords[WRITER])
        .with_env("CLICKHOUSE_DB", DATABASE)
        .with_env("CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT", "1")
    )
    with container:
        assert daemons.wait_until(lambda: clickhouse.is_ready(port), READY_WITHIN_S), "ClickHouse does not answer"
        writer, reader = (
            ClickHouseConfig(url=f"http://127.0.0.1:{port}", user=user, password=password, database=DATABASE)
            for user, password in passwords.items()
        )
        _make_reader(writer, passwords[READER])
        yield writer, reader


def _make_reader(writer: ClickHouseConfig, password: str) -> None:
    client = connect(writer)
    client.command(f"CREATE USER {READER} IDENTIFIED BY '{password}'")
    for each in reader_profile.statements(READER, DATABASE):
        client.command(each)
    client.close()
