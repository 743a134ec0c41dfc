"""Two ClickHouse servers of the local stack as two shards of one cluster."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr

from fleetpulse.stack import clickhouse
from fleetpulse.stack.ports import free_ports
from runtime.clickhouse_clients import connect
from runtime.clickhouse_config import ClickHouseConfig
from runtime.local_stack import WRITER, Ports, StackState

CLUSTER = "shards"
READY_WITHIN_S = 60


@contextlib.contextmanager
def servers(folder: Path, shards: int = 2) -> Iterator[tuple[ClickHouseConfig, list[ClickHouseConfig]]]:
    """The writer's logins: to a server by itself, and to the shards of a cluster, which know one another by a secret.
    The database of each is empty."""
    password, secret = secrets.token_hex(16), secrets.token_hex(16)
    ports = free_ports(2 + 2 * shards, start=zlib.crc32(str(folder).encode()))
    states = [
        StackState(folder / str(number), "", Ports(0, 0, http, native), password, password)
        for number, (http, native) in enumerate(zip(ports[::2], ports[1::2], strict=True))
    ]
    natives = [state.ports.clickhouse_native for state in states[1:]]
    with contextlib.ExitStack() as running:
        for state in states:
            running.enter_context(_server(state, _remote_servers(natives, secret)))
        one, *others = [
            ClickHouseConfig(url=state.clickhouse_url, user=WRITER, password=SecretStr(password)) for state in states
        ]
        for config in (one, *others):
            with contextlib.closing(connect(config, database=None)) as client:
                client.command(f"CREATE DATABASE {config.database}")
        yield one, [config.model_copy(update={"cluster": CLUSTER}) for config in others]


def _remote_servers(ports: list[int], secret: str) -> str:
    each = "".join(f"<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>" for port in ports)
    return f"<remote_servers><{CLUSTER}><secret>{secret}</secret>{each}</{CLUSTER}></remote_servers>"


@contextlib.contextmanager
def _server(state: StackState, more: str) -> Iterator[None]:
    clickhouse.prepare(state)
    home = state.data_dir / clickhouse.NAME
    for name, end, added in (
        ("config.xml", "</clickhouse>", more),
        ("users.xml", "<query>GRANT TABLE ENGINE ON *</query>", "<query>GRANT READ, WRITE ON REMOTE</query>"),
    ):
        text = (home / name).read_text(encoding="utf-8")
        assert end in text
        (home / name).write_text(text.replace(end, added + end), encoding="utf-8")
    with (home / "out.log").open("wb") as log:
        process = subprocess.Popen(
            clickhouse.command(state), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until_s = time.monotonic() + READY_WITHIN_S
        while not clickhouse.is_ready(state.ports.clickhouse_http):
            assert process.poll() is None, (home / "out.log").read_text()
            assert time.monotonic() < until_s, (home / "server.log").read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)
