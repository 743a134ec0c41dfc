"""Clients of ClickHouse: the one place where they are made, and what their errors mean."""

from __future__ import annotations

import os
import threading
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.httputil import check_env_proxy

from runtime.config import ClickHouseConfig
from runtime.tls import untrusted
from schemas.errors import ConfigError, FleetpulseError, UnavailableError

LOGIN = {
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    497: "ACCESS_DENIED",
    516: "AUTHENTICATION_FAILED",
}
"""Error codes to be solved by another user, password or grant."""
ANSWER_BYTES = 32 << 20
"""An answer of up to so many bytes waits for its end in the server's memory. What is longer, or by default every one,
waits in a file there, and on a full disk that comes back short or empty, without an error."""
_OF_SHARDS: dict[str, Any] = {
    "distributed_foreground_insert": 1,  # else a row is acknowledged that waits for a shard which is down
    "parallel_distributed_insert_select": 0,  # 2, the default, reads a shard's own rows alone: other sums, no error
    "distributed_product_mode": "global",  # IN and JOIN with a table of shards inside
    "optimize_skip_unused_shards": 0,
    "skip_unavailable_shards": 0,  # an answer is whole, or an error
}
_OF_REPLICAS: dict[str, Any] = {
    "alter_sync": 2,  # a migration is done when all replicas have it
    "insert_deduplicate": 0,  # rows have identities
}
_OF_CLOUD: dict[str, Any] = {"select_sequential_consistency": 1}
"""Of audits and rollups; a server without replicas takes no notice."""
_no_proxy = threading.Lock()


def connect(config: ClickHouseConfig, **differing: Any) -> Any:
    """A connected client; for use by one thread at a time. ``differing``: settings of clickhouse_connect in place of
    ours. Raises ``ConfigError`` for a login or certificate that is rejected, else ``UnavailableError``."""
    try:
        return make_client(config, **differing)
    except (ClickHouseError, OSError) as error:
        raise unreachable(error, config) from error


def make_client(config: ClickHouseConfig, *, consistent: bool = False, **differing: Any) -> Any:
    """As ``connect``; raises the errors of clickhouse_connect as they are. Without a session, so that queries of one
    client do not lock each other out and a retry finds no session that is still busy. ``consistent``: it reads what
    any replica of ClickHouse Cloud acknowledged."""
    return clickhouse_connect.get_client(**(_settings(config, consistent=consistent) | differing))


async def make_async_client(config: ClickHouseConfig, **differing: Any) -> Any:
    """As ``make_client``, for an event loop."""
    return await clickhouse_connect.get_async_client(**(_settings(config) | differing))


def _settings(config: ClickHouseConfig, *, consistent: bool = False) -> dict[str, Any]:
    given = {**config.client_settings(), "autogenerate_session_id": False, "client_name": "fleetpulse"}
    _go_past_proxies(given["host"], given["port"])
    return given | {"settings": {"buffer_size": ANSWER_BYTES, **server_settings(config, consistent=consistent)}}


def _go_past_proxies(host: str, port: int) -> None:
    """Name the server in ``no_proxy`` where a client would else take a proxy from the environment, and hand it every
    statement and the login. For a client of asyncio clickhouse_connect knows no other way."""
    with _no_proxy:
        if any(check_env_proxy(scheme, host, port) for scheme in ("http", "https")):
            named = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
            os.environ["no_proxy"] = ",".join(filter(None, (named, f"{host}:{port}")))


def server_settings(config: ClickHouseConfig, *, consistent: bool = False) -> dict[str, Any]:
    """What the servers of a cluster, or the replicas of one, are asked for with every statement."""
    found = (_OF_SHARDS if config.cluster else {}) | (_OF_REPLICAS if config.engine_prefix else {})
    return found | (_OF_CLOUD if consistent and not config.engine_prefix else {})


def rows_of(result: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer. Raises ``UnavailableError`` where the server says that it gave more."""
    rows: list[tuple[Any, ...]] = result.result_rows
    if (given := int(result.summary.get("result_rows", 0))) > len(rows):
        raise UnavailableError(f"of an answer of ClickHouse {len(rows):,} of {given:,} rows came: is its disk full?")
    return rows


def named_rows_of(result: Any) -> list[dict[str, Any]]:
    """As ``rows_of``, each row by the names of its columns."""
    return [dict(zip(result.column_names, row, strict=True)) for row in rows_of(result)]


def rejected(error: BaseException, config: ClickHouseConfig) -> FleetpulseError | None:
    """What to change so that the server accepts us; None where ``error`` is another.

    Keys are those of section ``clickhouse``; a reader with a login of its own has the same in ``clickhouse_reader``.
    """
    code = getattr(error, "code", None)
    if code in LOGIN:
        bound = f"must be a login that {config.url} accepts ({LOGIN[code]}: {first_line(error)})"
        return ConfigError("clickhouse.user", config.user, bound)
    return untrusted(error, "clickhouse.url", config.url, "clickhouse.ca_file", config.ca_file)


def unreachable(error: BaseException, config: ClickHouseConfig) -> FleetpulseError:
    """``rejected``, else UnavailableError."""
    return rejected(error, config) or UnavailableError(
        f"ClickHouse at {config.url} does not answer ({first_line(error)}); is it up? See `fleetpulse doctor`"
    )


def first_line(error: BaseException) -> str:
    """The first line of the error's text."""
    return (str(error).splitlines() or [repr(error)])[0]
