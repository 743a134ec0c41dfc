"""Covers fleetpulse.doctor.look_database without a server; the looks themselves are in tests/integration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from pydantic import SecretStr
from urllib3.exceptions import ConnectTimeoutError, ReadTimeoutError

from fleetpulse.doctor import look_database
from fleetpulse.doctor.facts import DatabaseFacts, DiskFacts, LoginFacts, MutationFacts, PartFacts
from fleetpulse.migrate.table_plan import LiveDatabase, LiveTable
from runtime.clickhouse_parts import CODES
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig

WRITER = ClickHouseConfig(url="http://db:8123", user="writer")


def raised(cause: Exception | None, code: int | None = None) -> Exception:
    """As clickhouse_connect raises what its connection raised, or what the server said."""
    if code is not None:
        error: Any = DatabaseError("said")
        error.code = code
        return error
    error = OperationalError("Error executing HTTP request")
    error.__cause__ = cause
    return error


class Server:
    """Lets in, then raises at whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def command(self, *_asked: Any, **_more: Any) -> Any:
        raise self.error

    query = command

    def close(self) -> None:
        """Nothing."""


READ_TIMEOUT = ReadTimeoutError(None, "", "Read timed out. (read timeout=3)")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "slow_s"),
    [
        pytest.param(raised(READ_TIMEOUT), 3.0, id="no answer in time"),
        pytest.param(raised(None, code=159), 3.0, id="given up by the server"),
        pytest.param(raised(ConnectTimeoutError()), None, id="away since then"),
        pytest.param(raised(None, code=241), None, id="another error"),
    ],
)
def test_a_server_that_let_us_in_and_is_late_is_slow(
    error: Exception, slow_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By either login; what is no lateness is reported as before."""
    monkeypatch.setattr(look_database, "make_client", lambda *_given, **_settings: Server(error))

    facts = look_database.look_at_database(WRITER, WRITER, SystemClock(), within_s=3.0)

    assert facts.reader is not None
    assert [(login.slow_s, login.error is None) for login in (facts.writer, facts.reader)] == [(slow_s, False)] * 2


@pytest.mark.parametrize(
    ("given", "proven"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"password": SecretStr("p")}, True, id="a password"),
        pytest.param({"client_cert_file": Path("/c.pem")}, True, id="a certificate"),
    ],
)
def test_a_login_that_is_rejected_shows_who_it_is_or_not(
    given: dict[str, Any], proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a password or a certificate."""
    monkeypatch.setattr(look_database, "make_client", lambda *_given, **_settings: Server(raised(None, code=516)))

    facts = look_database.look_at_database(WRITER, WRITER.model_copy(update=given), SystemClock(), within_s=3.0)

    assert facts.reader is not None
    assert (facts.reader.error_code, facts.reader.proven) == (516, proven)


def test_a_server_that_lets_nobody_in_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that took."""

    def no_client(*_given: Any, **_settings: Any) -> Any:
        raise raised(READ_TIMEOUT)

    monkeypatch.setattr(look_database, "make_client", no_client)

    facts = look_database.look_at_database(WRITER, None, SystemClock(), within_s=3.0)

    assert facts.writer == LoginFacts("writer", WRITER.database, error="Error executing HTTP request")


def test_a_server_that_nobody_named_is_not_looked_for() -> None:
    """What is said is where one was looked for, and what to set."""
    nowhere = ClickHouseConfig()
    nowhere._unset = "is not set"

    facts = look_database.look_at_database(nowhere, None, SystemClock(), within_s=3.0)

    assert (facts.unset, facts.writer.error) == (True, "is not set")


OF_A, OF_B = "ReplacingMergeTree TTL first SETTINGS x = 1", "ReplacingMergeTree ORDER BY x"
BOOKS = [
    ("a:9000", "books", "Distributed", "", 0), ("a:9000", "books_local", "ReplacingMergeTree", OF_A, 3),
    ("b:9000", "books", "Distributed", "", 0), ("b:9000", "books_local", "ReplacingMergeTree", OF_B, 0),
]  # fmt: skip
ON_A, ON_B = {"books": LiveTable("first", 3)}, {"books": LiveTable("", 0)}


class Cluster:
    """Two servers with these tables, in a database of this engine; ``gave``: rows of each answer by its summary."""

    def __init__(self, tables: Any = BOOKS, engine: str = "Atomic", servers: str = "ab", gave: int = 0) -> None:
        self.summary = {"result_rows": str(gave)}
        self.tables, self.engine, self.servers = tables, engine, [(f"{name}:9000",) for name in servers]

    def query(self, asked: str, *_more: Any, **_named: Any) -> Any:
        answers = {"system.one": self.servers, "system.databases": [(self.engine,)], "system.tables": self.tables}
        return SimpleNamespace(
            result_rows=next(rows for name, rows in answers.items() if name in asked), summary=self.summary
        )


def on_cluster(client: Any) -> DatabaseFacts:
    """What is seen from a server that has the table ``books``."""
    live = LiveDatabase("fleetpulse", {"books": LiveTable("old", 0)})
    facts = DatabaseFacts("u", LoginFacts("writer", "fleetpulse"), None, live=live)
    return look_database._with_servers(client, ClickHouseConfig(cluster="fleet"), facts, (), 1.0)


@pytest.mark.parametrize(
    ("tables", "on_a", "on_b"),
    [
        pytest.param(BOOKS, ON_A, ON_B, id="all"),
        pytest.param(BOOKS[1:], {}, ON_B, id="none over shards on one"),
        pytest.param(BOOKS[:3], ON_A, {}, id="none that holds rows on the other"),
        pytest.param(BOOKS[:2], ON_A, {}, id="none at all on the other"),
        pytest.param(BOOKS[2:], {}, ON_B, id="none at all on one"),
    ],
)
def test_tables_of_every_server_of_a_cluster_are_looked_at(tables: Any, on_a: Any, on_b: Any) -> None:
    """Each with its TTL and its rows, under the name that queries have; a table that a server lacks is no other's."""
    found = on_cluster(Cluster(tables))

    assert {server: one.tables for server, one in found.servers.items()} == {"a:9000": on_a, "b:9000": on_b}


def test_a_server_of_a_cluster_that_is_away_leaves_all_unknown() -> None:
    """Without a cluster nothing is asked."""
    away = on_cluster(Server(raised(None, 279)))
    alone = DatabaseFacts("u", LoginFacts("writer", "fleetpulse"), None, live=LiveDatabase("fleetpulse"))

    assert (away.servers, away.servers_error) == ({}, "said")
    assert look_database._with_servers(Cluster(), ClickHouseConfig(), alone, (), 1.0) == alone


def test_an_answer_that_was_cut_short_leaves_all_unknown() -> None:
    """Tables that did not come are not taken for missing."""
    found = on_cluster(Cluster(BOOKS[2:], gave=4))

    assert (found.servers, found.servers_error) == (
        {},
        "of an answer of ClickHouse 2 of 4 rows came: is its disk full?",
    )


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        pytest.param(Cluster(), True, id="shards"),
        pytest.param(Cluster(engine="Replicated"), False, id="replicated"),
        pytest.param(Cluster(BOOKS[:2], servers="a"), False, id="one server"),
    ],
)
def test_servers_are_migrated_one_by_one_where_statements_reach_no_other(client: Cluster, expected: bool) -> None:
    """A replicated database hands them on."""
    assert on_cluster(client).one_by_one is expected


def test_mutations_that_are_not_done_are_looked_at() -> None:
    """Of our tables; a login that may not ask leaves it open."""

    class Answers:
        def query(self, *_asked: Any, **_more: Any) -> Any:
            row = ("books", "mutation_7.txt", "MATERIALIZE TTL", 3, "no space")
            return SimpleNamespace(result_rows=[row], summary={})

    found = look_database._mutations(Answers(), "fleetpulse")

    assert found == (MutationFacts("fleetpulse.books", "mutation_7.txt", "MATERIALIZE TTL", 3, "no space"),)
    assert look_database._mutations(Server(raised(None, 497)), "fleetpulse") is None


class Servers:
    """What is asked of all servers is of ``a`` and ``b``, unless ``error`` comes instead; else it is of one."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def command(self, *_asked: Any, **_more: Any) -> int:
        return 1_800_000_000_000

    def query(self, asked: str, parameters: Any = None) -> Any:
        several = "clusterAllReplicas('fleet', system." in asked
        if several and self.error is not None:
            raise self.error
        rows: list[tuple[Any, ...]] = []
        for server in ("a:9000", "b:9000") if several else ("",):
            if "disks" in asked:
                rows += [("default", 5, 9, server), ("endless", 1 << 62, 1 << 62, server)]
            elif "detached_parts" in asked:
                rows.append(("books", "broken_all_1_1_0", "broken", server))
            elif "mutations" in asked:
                rows.append(("books", "mutation_7.txt", "MODIFY", 3, "", server))
            elif "system.errors" in asked:
                said = "while reading from part /d/all_2_2_0/ in table fleetpulse.books"
                rows.append((33, said, server))
            elif "system.parts" in asked:
                rows += [(1,)] if parameters["server"] == server else []
        return SimpleNamespace(result_rows=rows, summary={})

    def close(self) -> None:
        """Nothing."""


def stored(*servers: str) -> dict[str, Any]:
    """What ``Servers`` have on disk."""
    return {
        "disks": tuple(DiskFacts("default", 5, 9, server) for server in servers),
        "broken": tuple(PartFacts("fleetpulse.books", "broken_all_1_1_0", "broken", True, server) for server in servers)
        + tuple(PartFacts("fleetpulse.books", "all_2_2_0", CODES[33], False, server) for server in servers),
        "mutations": tuple(
            MutationFacts("fleetpulse.books", "mutation_7.txt", "MODIFY", 3, "", server) for server in servers
        ),
    }


def test_every_server_of_a_cluster_is_looked_at_for_what_it_stores() -> None:
    """Each by its name; of one alone where another is away, which is said."""
    config = ClickHouseConfig(cluster="fleet")

    found = look_database._stored(Servers(), config, 0)
    alone = look_database._stored(Servers(), ClickHouseConfig(), 0)
    away = look_database._stored(Servers(raised(None, 279)), config, 0)

    assert found == stored("a:9000", "b:9000")
    assert alone == stored("")
    assert away == stored("") | {"others_error": "said"}


def test_what_copies_store_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the address of each; where one is away that is said."""
    live = LiveDatabase("fleetpulse")
    facts = DatabaseFacts("u", LoginFacts("writer", "fleetpulse"), None, live=live, **stored(""))
    monkeypatch.setattr(look_database, "look", lambda _client, _names: live)
    copy = ClickHouseConfig(url="http://b:8123")

    monkeypatch.setattr(look_database, "make_client", lambda *_given, **_settings: Servers())
    found = look_database._with_servers(Servers(), ClickHouseConfig(), facts, (copy,), 1.0)
    unread = look_database._with_stored(replace(facts, broken=None), copy.url, stored("") | {"broken": ()})
    monkeypatch.setattr(look_database, "make_client", lambda *_given, **_settings: Server(raised(None, 279)))
    away = look_database._with_servers(Servers(), ClickHouseConfig(), facts, (copy,), 1.0)

    assert {name: set(getattr(found, name)) for name in stored()} == {
        name: set(each) for name, each in stored("", copy.url).items()
    }
    assert (found.others_error, unread.broken) == (None, None)
    assert (away.others_error, away.servers_error, away.disks) == ("said", "said", facts.disks)
