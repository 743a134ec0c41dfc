"""Settings that all clients of ClickHouse share, and what an error says that somebody must change."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver._backend.http_async import HttpAsyncBackend
from clickhouse_connect.driver._backend.http_sync import HttpSyncBackend
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from pydantic import SecretStr

from runtime.clickhouse_clients import (
    ANSWER_BYTES,
    connect,
    make_async_client,
    make_client,
    named_rows_of,
    rejected,
    rows_of,
    server_settings,
    unreachable,
)
from runtime.clickhouse_config import ClickHouseConfig
from schemas.errors import ConfigError, UnavailableError

LOGIN = ClickHouseConfig(url="https://db:8443", user="me", password=SecretStr("hush-hush"), ca_file=Path("/ca.pem"))


@pytest.mark.parametrize("code", [192, 193, 194, 497, 516])
def test_a_login_that_is_refused_is_a_setting(code: int) -> None:
    """Unknown user, no or a wrong password, no grant."""
    found = rejected(DatabaseError("no\nmore", code=code), LOGIN)

    assert isinstance(found, ConfigError)
    assert str(found).startswith("clickhouse.user = 'me': must be a login that https://db:8443 accepts (")
    assert str(found).endswith(": no)")
    assert "hush-hush" not in str(found)


def test_a_server_that_is_not_trusted_is_a_setting() -> None:
    """However deep the client hides the handshake's error."""
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_code, error.verify_message = 20, "unable to get local issuer certificate"
    outer = OperationalError("retries exceeded")
    outer.__cause__ = error

    assert str(rejected(outer, LOGIN)) == (
        "clickhouse.ca_file = '/ca.pem': must hold the authority behind the certificate of https://db:8443"
        " (unable to get local issuer certificate)"
    )


def test_other_errors_are_no_refusal() -> None:
    """They are reported as a server that does not answer, by their first line."""
    error = OperationalError("Connection refused\nand so on")

    assert rejected(error, LOGIN) is None
    found = unreachable(error, LOGIN)
    assert isinstance(found, UnavailableError)
    assert "ClickHouse at https://db:8443 does not answer (Connection refused); is it up?" in str(found)
    assert isinstance(unreachable(DatabaseError("x", code=516), LOGIN), ConfigError)


def test_clients_share_login_name_and_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a caller passes is put in place of ours."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(clickhouse_connect, "get_client", lambda **settings: made.append(settings))

    make_client(LOGIN)
    make_client(LOGIN, database=None, send_receive_timeout=60)

    shared = {**LOGIN.client_settings(), "autogenerate_session_id": False, "client_name": "fleetpulse"}
    shared["settings"] = {"buffer_size": ANSWER_BYTES}
    assert made == [shared, {**shared, "database": None, "send_receive_timeout": 60}]


def test_rows_that_the_server_gave_and_that_did_not_come_are_an_error() -> None:
    """What it held in a file until the end may come back short from a full disk."""
    came = [(1,), (2,)]

    whole = SimpleNamespace(column_names=("n",), result_rows=came, summary={"result_rows": "2"})
    assert (rows_of(whole), named_rows_of(whole)) == (came, [{"n": 1}, {"n": 2}])
    with pytest.raises(UnavailableError, match="of an answer of ClickHouse 2 of 3 rows came"):
        rows_of(SimpleNamespace(result_rows=came, summary={"result_rows": "3"}))


def test_a_server_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""

    def refuse(**_settings: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(clickhouse_connect, "get_client", refuse)

    with pytest.raises(UnavailableError, match=r"ClickHouse at https://db:8443 does not answer \(connection refused\)"):
        connect(LOGIN)


def test_a_server_by_itself_is_asked_for_nothing() -> None:
    """Nor is ClickHouse Cloud, but by audits and rollups, which read what any replica acknowledged."""
    assert server_settings(LOGIN) == {}
    assert server_settings(LOGIN, consistent=True) == {"select_sequential_consistency": 1}


def test_shards_answer_whole_or_not_at_all() -> None:
    """Defaults of the server acknowledge rows that wait in a queue, and read shards by halves."""
    assert server_settings(LOGIN.model_copy(update={"cluster": "c"})) == {
        "distributed_foreground_insert": 1,
        "parallel_distributed_insert_select": 0,
        "distributed_product_mode": "global",
        "optimize_skip_unused_shards": 0,
        "skip_unavailable_shards": 0,
    }


def test_replicas_take_an_alter_before_it_is_done() -> None:
    """And no insert for a copy of another: rows have identities."""
    replicated = LOGIN.model_copy(update={"engine_prefix": "Replicated"})

    assert server_settings(replicated, consistent=True) == {"alter_sync": 2, "insert_deduplicate": 0}


class _MadeError(Exception):
    """A client's transport was made; there is no server to go on with."""


@pytest.mark.parametrize("url", ["http://localhost:8123", "http://127.0.0.1:8123", "https://DB", "http://[::1]:8123"])
@pytest.mark.parametrize("named", [None, "", "localhost", "127.0.0.0/8,::1/128", "other:1, db:8444", "*"])
def test_clients_take_no_proxy_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, named: str | None
) -> None:
    """It would see the password; and what a proxy takes for itself is another machine's."""
    proxies: list[object] = []

    def sync_made(_backend: object, *, pool_manager: Any, **_given: Any) -> None:
        proxies.append(pool_manager.proxy)
        raise _MadeError

    def async_made(_backend: object, *, proxy_url: str | None, **_given: Any) -> None:
        proxies.append(proxy_url)
        raise _MadeError

    monkeypatch.setattr(HttpSyncBackend, "__init__", sync_made)
    monkeypatch.setattr(HttpAsyncBackend, "__init__", async_made)
    for name in ("http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "")  # so that it is as before afterwards
    monkeypatch.delenv("NO_PROXY", raising=False)
    if named is not None:
        monkeypatch.setenv("NO_PROXY", named)
    config = ClickHouseConfig(url=url, user="me", password=SecretStr("hush-hush"))

    for _ in range(2):
        with pytest.raises(_MadeError):
            make_client(config)
        with pytest.raises(_MadeError):
            asyncio.run(make_async_client(config))

    assert proxies == [None] * 4
    assert os.environ["no_proxy"].count(":8123") <= 1
    assert named is None or named in (os.environ["no_proxy"] or named)
