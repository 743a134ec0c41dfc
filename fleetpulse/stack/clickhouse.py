"""A ClickHouse server from the chdb-core wheel, with two users and nothing open but loopback; several are shards."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from fleetpulse.sql import reader_profile
from fleetpulse.stack import serve_clickhouse
from runtime.local_stack import CLUSTER, DATABASE, READER, WRITER, Ports, StackState, node_name
from schemas.errors import StackError

NAME = "clickhouse"
VERSION_MIN = (26, 7)
_HELP = "it comes with fleetpulse[local]: docs/start/install.md#extras"

_CONFIG = """<clickhouse>
  <log-level>warning</log-level>
  <logger><log>{log}</log><size>10M</size><count>2</count><async>false</async></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>{ports.clickhouse_http}</http_port>
  <tcp_port>{ports.clickhouse_native}</tcp_port>
  <users_config>{users}</users_config>
  <timezone>UTC</timezone>
  <keep_alive_timeout>1</keep_alive_timeout>
  <max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>
  <mark_cache_size>134217728</mark_cache_size>
  <memory_worker_period_ms>500</memory_worker_period_ms>
  <background_pool_size>4</background_pool_size>
  <background_schedule_pool_size>8</background_schedule_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
  <access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
  </access_control_improvements>{shards}
</clickhouse>
"""
_SHARDS = """
  <remote_servers><{cluster}><secret>{secret}</secret>{each}</{cluster}></remote_servers>"""
_SHARD = "<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>"

# `default` is the console that keeps the server up: its one session is taken, so nobody else gets in by it.
_USERS = """<clickhouse>
  <profiles>
    <default><async_insert>0</async_insert></default>
    <console><max_sessions_for_user>1</max_sessions_for_user></console>
{reader_profile}
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default>
      <password></password>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>console</profile><quota>default</quota>
      <grants>
        <query>GRANT SYSTEM LISTEN ON *.*</query>
        <query>GRANT CREATE TEMPORARY TABLE ON *.*</query>
      </grants>
    </default>
    <{writer}>
      <password_sha256_hex>{writer_hash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile><quota>default</quota>
      <grants>{writer_grants}
      </grants>
    </{writer}>
    <{reader}>
      <password_sha256_hex>{reader_hash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>reader</profile><quota>default</quota>
      <grants>{reader_grants}
      </grants>
    </{reader}>
  </users>
</clickhouse>
"""

# The writer owns every database whose name begins with `fleetpulse` (tests make their own), may read the server's own
# tables (sizes, parts), and Kafka by the table engine (the peer that `bench` measures against). No files, no URLs.
WRITER_GRANTS = (
    f"GRANT ALL ON {DATABASE}*.*",
    "GRANT TABLE ENGINE ON *",
    "GRANT READ, WRITE ON KAFKA",
    "GRANT CREATE FUNCTION, DROP FUNCTION ON *.*",
    "GRANT CREATE TEMPORARY TABLE, SYSTEM FLUSH LOGS, SYSTEM DROP CACHE, KILL QUERY ON *.*",
    "GRANT SELECT ON system.*",
)
WRITER_GRANTS_OF_SHARDS = ("GRANT READ, WRITE ON REMOTE",)
READER_GRANTS = (f"GRANT SELECT, dictGet, SHOW ON {DATABASE}.*",)


def library() -> Path:
    """The extension module that holds the server; StackError when the wheel is missing or too old."""
    spec = importlib.util.find_spec("chdb")
    if spec is None or spec.origin is None:
        raise StackError(f"ClickHouse is not installed (the chdb-core wheel is missing): {_HELP}")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("chdb-core")
        if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
            raise StackError(f"chdb-core {version} cannot listen, 26.7 or newer can: {_HELP}")
    path = Path(spec.origin).with_name("_chdb.abi3.so")
    if not path.is_file():
        raise StackError(f"{path} is missing, install chdb-core again: {_HELP}")
    return path


PROGRAM = Path(serve_clickhouse.__file__).name
"""The file whose process a server is, wherever it was installed."""


def mark(data_dir: Path, number: int = 1) -> str:
    """The argument by which a server of this folder is recognised, of those that run ``PROGRAM``: anybody may name the
    folder in a command line."""
    return str(data_dir / node_name(NAME, number))


def config(ports: Ports, home: Path, shards: Sequence[Ports] = (), secret: str = "") -> str:
    """The text of ``config.xml``. Several ``shards`` know one another by the secret."""
    each = "".join(_SHARD.format(port=one.clickhouse_native) for one in shards)
    text = _SHARDS.format(cluster=CLUSTER, secret=secret, each=each) if len(shards) > 1 else ""
    paths = {"log": escape(str(home / "server.log")), "users": escape(str(home / "users.xml"))}
    return _CONFIG.format(ports=ports, shards=text, **paths)


def users(writer_password: str, reader_password: str, *, sharded: bool = False) -> str:
    """The text of ``users.xml``; it holds hashes, no passwords."""
    return _USERS.format(
        reader_profile=reader_profile.profile_xml("reader"),
        writer=WRITER,
        writer_hash=_hash(writer_password),
        writer_grants=_queries((*WRITER_GRANTS, *(WRITER_GRANTS_OF_SHARDS if sharded else ()))),
        reader=READER,
        reader_hash=_hash(reader_password),
        reader_grants=_queries(READER_GRANTS),
    )


def _hash(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()


def _queries(grants: tuple[str, ...]) -> str:
    return "".join(f"\n        <query>{grant}</query>" for grant in grants)


def prepare(state: StackState, number: int = 1) -> None:
    """Write a server's configuration."""
    home, shards = state.data_dir / node_name(NAME, number), state.nodes[: state.shards]
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # the folder that it is in may be open to others
    (home / "data").mkdir(exist_ok=True)
    secret = _hash(f"shards {state.writer_password}")
    texts = {
        "config.xml": config(state.nodes[number - 1], home, shards, secret),
        "users.xml": users(state.writer_password, state.reader_password, sharded=len(shards) > 1),
    }
    for file, text in texts.items():
        (home / file).touch(mode=0o600)
        (home / file).write_text(text, encoding="utf-8")


def command(state: StackState, number: int = 1) -> list[str]:
    """A server's command line."""
    return [sys.executable, "-I", "-S", serve_clickhouse.__file__, str(library()), mark(state.data_dir, number)]


def is_ready(port: int) -> bool:
    """Whether the server answers over HTTP."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return _call(port, "GET", "/ping") == (200, "Ok.\n")
    return False


def execute(state: StackState, statement: str, number: int = 1) -> str:
    """A server's answer to one statement of the writer. Raises StackError with the server's words."""
    login = {"X-ClickHouse-User": WRITER, "X-ClickHouse-Key": state.writer_password}
    status, answer = _call(state.nodes[number - 1].clickhouse_http, "POST", "/", statement, login)
    if status != 200:
        raise StackError(f"ClickHouse rejects {statement!r}: {answer.strip()[:400]}")
    return answer


def _call(
    port: int, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        connection.request(method, path, body, {"Connection": "close", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
    finally:
        connection.close()


def log_files(data_dir: Path, number: int = 1) -> tuple[Path, Path]:
    """Where to look when a server does not start: what the process said, what the server logged."""
    return data_dir / "log" / f"{node_name(NAME, number)}.log", data_dir / node_name(NAME, number) / "server.log"
