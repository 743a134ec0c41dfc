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

READY_WITHIN_S = 60


@contextlib.contextmanager
def servers(folder: Path, shards: int = 2) -> Iterator[tuple[ClickHouseConfig, list[ClickHouseConfig]]]:
    """The writer's logins: to a server by itself, and to the shards of a cluster. The database of each is empty."""
    password = secrets.token_hex(16)
    ports = free_ports(2 + 2 * shards, start=zlib.crc32(str(folder).encode()))
    alone, first, *further = [Ports(0, 0, *pair) for pair in zip(ports[::2], ports[1::2], strict=True)]
    single = StackState(folder / "one", "", alone, password, password)
    cluster = StackState(folder / "shards", "", first, password, password, shards=shards, further=tuple(further))
    with contextlib.ExitStack() as running:
        running.enter_context(_server(single, 1))
        for number in range(1, shards + 1):
            running.enter_context(_server(cluster, number))
        configs = [
            ClickHouseConfig(url=url, user=WRITER, password=SecretStr(password), cluster=state.clickhouse_cluster)
            for state in (single, cluster)
            for url in state.clickhouse_urls
        ]
        for config in configs:
            with contextlib.closing(connect(config, database=None)) as client:
                client.command(f"CREATE DATABASE {config.database}")
        yield configs[0], configs[1:]


@contextlib.contextmanager
def one_server(folder: Path, more: str, grant: str) -> Iterator[ClickHouseConfig]:
    """The writer's login, with one right more, to a server whose configuration has ``more``, elements of XML; no
    database is made."""
    password = secrets.token_hex(16)
    ports = Ports(0, 0, *free_ports(2, start=zlib.crc32(str(folder).encode())))
    with _server(StackState(folder, "", ports, password, password), 1, more, grant):
        yield ClickHouseConfig(
            url=f"http://127.0.0.1:{ports.clickhouse_http}", user=WRITER, password=SecretStr(password)
        )


@contextlib.contextmanager
def _server(state: StackState, number: int, more: str = "", grant: str = "") -> Iterator[None]:
    clickhouse.prepare(state, number)
    home = Path(clickhouse.mark(state.data_dir, number))
    config = home / "config.xml"
    config.write_text(config.read_text().replace("</clickhouse>", f"{more}</clickhouse>"))
    if grant:
        users, every = home / "users.xml", "<query>GRANT SELECT ON system.*</query>"
        users.write_text(users.read_text().replace(every, f"{every}<query>{grant}</query>"))
    with (home / "out.log").open("wb") as log:
        process = subprocess.Popen(
            clickhouse.command(state, number), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until_s = time.monotonic() + READY_WITHIN_S
        while not clickhouse.is_ready(state.nodes[number - 1].clickhouse_http):
            assert process.poll() is None, (home / "out.log").read_text()
            assert time.monotonic() < until_s, (home / "server.log").read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)
