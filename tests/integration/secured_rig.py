"""Servers that let nobody in without TLS: a broker with a login by password and one by certificate, and rights by
topic; a database behind https. Certificates are made by ``openssl``, for a day, in the test's folder.

The server inside chdb-core opens no https port, whatever its configuration says: a relay stands before it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetpulse.stack import clickhouse, daemons, java, kafka, kafka_jars
from lab.drills.certificates import HOST, Authority, TlsRelay
from runtime.local_stack import DATABASE, Ports, StackState
from schemas.contract.rights import ROLES
from tests.unused_ports import unused_ports

USER = "fleetpulse"
"""One login for everything, as a first installation has it. Each role has one of its name, too."""
PASSWORD = "kafka-Pa55-of-the-test"
WRITER, READER = "writer-Pa55-of-the-test", "reader-Pa55-of-the-test"
SECRETS = (PASSWORD, WRITER, READER)
READY_WITHIN_S = 60.0

# Kafka's protocol, CreateAcls (30) version 1: numbers of resources, patterns and operations.
_CREATE_ACLS = 30
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
LITERAL, PREFIXED = 3, 4
READ, WRITE, CREATE, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 5, 8, 10
_ALLOW = 3


@dataclass(frozen=True, slots=True)
class Secured:
    """Where the servers listen, and the files of who may come in."""

    folder: Path
    authority: Authority
    server: Path
    plain_port: int
    """Kafka without TLS and above all rights: for the test alone, to grant them."""
    login_port: int
    """Kafka, SASL_SSL by SCRAM-SHA-512."""
    certificate_port: int
    """Kafka, SSL with a certificate of the client."""
    https_port: int
    """ClickHouse behind TLS."""
    kafka_log: Path


@contextlib.contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """All of it, running until the end of the block."""
    authority = Authority(folder / "authority")
    server = authority.issue("server", host=HOST)
    found = unused_ports(7)
    state = StackState(folder / "servers", "c2VjdXJlZC1icm9rZXItMQ", Ports(*found[:4]), WRITER, READER)
    (state.data_dir / "log").mkdir(parents=True)
    with contextlib.ExitStack() as running:
        processes = [_start_clickhouse(state), _start_kafka(state, authority, server, found[4], found[5])]
        for process in processes:
            running.callback(daemons.stop, process, 20.0)
        assert daemons.wait_until(lambda: clickhouse.is_ready(state.ports.clickhouse_http), READY_WITHIN_S)
        clickhouse.execute(state, f"CREATE DATABASE {DATABASE}")
        running.enter_context(TlsRelay(server, found[6], state.ports.clickhouse_http))
        assert daemons.wait_until(lambda: kafka.is_ready(state.ports.kafka), READY_WITHIN_S), _log(state).read_text()
        yield Secured(folder, authority, server, found[0], found[4], found[5], found[6], _log(state))


def _log(state: StackState) -> Path:
    return state.data_dir / "log" / "kafka.log"


def _start_clickhouse(state: StackState) -> daemons.Process:
    clickhouse.prepare(state)
    return daemons.spawn(clickhouse.command(state), state.data_dir / "log" / "clickhouse.log")


def _start_kafka(
    state: StackState, authority: Authority, server: Path, login: int, certificate: int
) -> daemons.Process:
    runtime = java.find_java(os.environ)
    line = kafka.command(state, runtime, kafka_jars.jars(kafka_jars.cache_dir(os.environ, state.data_dir), print))
    home = state.data_dir / kafka.NAME
    (home / "tmp").mkdir(parents=True)
    properties = home / "server.properties"
    own = _properties(state, authority, server, login, certificate)
    properties.write_text(kafka.settings(state.nodes, home / "log") + own, encoding="utf-8")
    users = [f"--add-scram=SCRAM-SHA-512=[name={name},password={PASSWORD}]" for name in (USER, *ROLES)]
    format_ = ("kafka.tools.StorageTool", "format", "-t", state.cluster_id, "-c", str(properties), *users)
    class_path = line[line.index("-cp") + 1]
    subprocess.run([line[0], "-XX:TieredStopAtLevel=1", "-cp", class_path, *format_], check=True, capture_output=True)
    return daemons.spawn(line, _log(state))


def _properties(state: StackState, authority: Authority, server: Path, login: int, certificate: int) -> str:
    """What comes after the local stack's settings, and overrules them. Who has no rights is nobody: only the plain
    listener, which the test's own set-up uses, is above the rights."""
    plain = f"PLAINTEXT://127.0.0.1:{state.ports.kafka}"
    own = {
        "listeners": f"{plain},CONTROLLER://127.0.0.1:{state.ports.kafka_controller}"
        f",LOGIN://127.0.0.1:{login},CERTIFICATE://127.0.0.1:{certificate}",
        "advertised.listeners": f"{plain},LOGIN://{HOST}:{login},CERTIFICATE://{HOST}:{certificate}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,CERTIFICATE:SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.certificate.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    return "".join(f"{key}={value}\n" for key, value in own.items())


Right = tuple[int, str, int, int]
"""Kind of resource, its name, kind of name, operation."""


def grant(port: int, principal: str, rights: list[Right]) -> None:
    """Allow it, by the plain listener."""
    entries = b"".join(
        struct.pack(">b", kind)
        + _text(name)
        + struct.pack(">b", pattern)
        + _text(f"User:{principal}")
        + _text("*")
        + struct.pack(">bb", operation, _ALLOW)
        for kind, name, pattern, operation in rights
    )
    request = struct.pack(">hhi", _CREATE_ACLS, 1, 1) + _text("test") + struct.pack(">i", len(rights)) + entries
    with socket.create_connection(("127.0.0.1", port), 10.0) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        body = answer.read(struct.unpack(">i", answer.read(4))[0])
    # correlation id, pause, a result for each: error 0, no message
    assert body[8:] == struct.pack(">i", len(rights)) + bytes(4) * len(rights), body


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()
