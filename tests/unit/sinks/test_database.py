"""What an error of ClickHouse means for the sink."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from runtime.config import ClickHouseConfig
from schemas.errors import (
    BrokenPartError,
    ConfigError,
    ContractError,
    DiskFullError,
    FleetpulseError,
    ReplicaBehindError,
    UnavailableError,
)
from sinks.database import SECONDS_MAX, SENT_BYTES_MIN, DatabaseClock, SinkDatabase, explained, quorum, sent
from sinks.landing import Insert


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(DatabaseError("no table", code=60), ContractError, id="an unknown table needs migrate"),
        pytest.param(DatabaseError("no column", code=16), ContractError, id="an unknown column needs migrate"),
        pytest.param(DatabaseError("bad data", code=117), ContractError, id="bad data stays bad"),
        pytest.param(DatabaseError("login", code=516), ConfigError, id="a wrong password needs a person"),
        pytest.param(DatabaseError("grant", code=497), ConfigError, id="a missing grant needs a person"),
        pytest.param(DatabaseError("memory", code=241), UnavailableError, id="memory comes back"),
        pytest.param(DatabaseError("parts", code=252), UnavailableError, id="too many parts are merged in time"),
        pytest.param(DatabaseError("disk", code=243), DiskFullError, id="a full disk is emptied"),
        pytest.param(DatabaseError("No space left on device", code=75), DiskFullError, id="by whatever write found it"),
        pytest.param(
            DatabaseError("while reading from part /d/all_1_1_0/ in table a.b", code=33),
            BrokenPartError,
            id="a stored file that is cut is no row of ours",
        ),
        pytest.param(OperationalError("refused"), UnavailableError, id="no answer may be a restart"),
        pytest.param(ConnectionResetError("reset"), UnavailableError, id="a broken connection is made anew"),
    ],
)
def test_an_error_says_whether_trying_again_helps(error: Exception, kind: type[FleetpulseError]) -> None:
    """What a person must mend stops the sink loudly; everything else is tried again."""
    found = explained(error, ClickHouseConfig(url="http://127.0.0.1:1"))

    assert type(found) is kind
    assert found.retriable is issubclass(kind, UnavailableError)
    assert str(error) in str(found)


@pytest.mark.parametrize("several", [{"cluster": "fleet"}, {"engine_prefix": "Replicated"}], ids=["shards", "replicas"])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (8, ReplicaBehindError),
        (16, ReplicaBehindError),
        (47, ReplicaBehindError),
        (60, ReplicaBehindError),
        (117, ContractError),
    ],
)
def test_a_server_of_several_may_be_behind_with_a_table(
    several: dict[str, Any], code: int, kind: type[FleetpulseError]
) -> None:
    """A row that is bad is no better on another."""
    found = explained(DatabaseError("no", code=code), ClickHouseConfig(url="http://127.0.0.1:1", **several))

    assert type(found) is kind
    assert "does it need `fleetpulse migrate`?" in str(found)


def test_an_answer_without_its_row_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose disk is full may end an answer with nothing: that is no reason to end the sink."""
    database = SinkDatabase(ClickHouseConfig())
    monkeypatch.setattr(database, "rows", lambda sql: [(1, 2)] if sql == "whole" else [])

    assert database.row("whole") == (1, 2)
    with pytest.raises(UnavailableError, match="ended before its row"):
        database.row("cut")


def test_what_a_server_could_not_read_back_while_it_is_connected_to_is_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No row of ours is at fault: nothing was sent."""

    def cut(*_config: object, **_settings: object) -> None:
        raise DatabaseError("Cannot read all data. Bytes read: 4096. Bytes expected: 31832", code=33)

    monkeypatch.setattr(clickhouse_connect, "get_client", cut)

    with pytest.raises(DiskFullError, match="Bytes expected: 31832"):
        SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1")).rows("SELECT 1")


def test_small_pieces_are_sent_together_and_none_is_lost() -> None:
    """Large ones go as they are, in their place among the others."""
    large = memoryview(bytes(range(256)) * (SENT_BYTES_MIN // 256))
    pieces = [b"a", b"bc", large, b"d", large, large, b"", b"e"]

    found = sent(pieces)

    assert b"".join(found) == b"".join(pieces)
    assert [piece for piece in found if piece] == [b"abc", large, b"d", large, large, b"e"]
    assert sum(piece is large for piece in found) == 3


@pytest.mark.parametrize(("replicas", "acknowledged"), [(1, {}), (2, {}), (3, {"insert_quorum": "auto"})])
def test_a_majority_has_what_is_acknowledged_where_one_may_fail(replicas: int, acknowledged: dict[str, Any]) -> None:
    """Of two replicas the majority is both. Servers give up before the client does."""
    found = quorum(replicas)

    assert {name: value for name, value in found.items() if name != "insert_quorum_timeout"} == acknowledged
    assert found.get("insert_quorum_timeout", 0) < 1_000 * SECONDS_MAX


def test_a_statement_is_repeated_only_when_the_server_no_longer_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks ends no INSERT SELECT: the one who waits for it waits on, then says so."""
    running, asked = [1, 1, 0], list[str]()

    class Broken:
        def command(self, sql: str, *, settings: dict[str, Any]) -> None:
            asked.append(settings["query_id"])
            raise ConnectionResetError("reset")

        def query(self, sql: str) -> Any:
            asked.append(sql)
            return SimpleNamespace(result_rows=[(running.pop(0),)], summary={})

        def close(self) -> None:
            pass

    monkeypatch.setattr(clickhouse_connect, "get_client", lambda **_: Broken())

    with pytest.raises(UnavailableError):
        SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1"), seconds_max=600).finish("INSERT", poll_s=0.0)

    assert running == []
    assert len(asked) == 4
    assert all(asked[0] in sql for sql in asked[1:])


def test_a_statement_may_still_run_where_the_server_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be too busy with that very statement to be asked: repeated, it would run beside itself."""
    looks: list[Exception | int] = [
        DatabaseError("Too many simultaneous queries", code=202),
        OperationalError("refused"),
        1,
        0,
    ]

    class Busy:
        def command(self, _sql: str, *, settings: dict[str, Any]) -> None:
            raise ConnectionResetError("reset")

        def query(self, _sql: str) -> Any:
            found = looks.pop(0)
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(result_rows=[(found,)], summary={})

        def close(self) -> None:
            pass

    monkeypatch.setattr(clickhouse_connect, "get_client", lambda **_: Busy())

    with pytest.raises(UnavailableError, match="reset"):
        SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1"), seconds_max=600).finish("INSERT", poll_s=0.0)

    assert looks == []


def test_a_statement_is_over_that_the_server_says_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it, also where the server says nothing else, as on a full disk."""
    asked = list[str]()

    class Full:
        def command(self, sql: str, *, settings: dict[str, Any]) -> None:
            asked.append(sql)
            raise DatabaseError("disk", code=243)

        def query(self, sql: str) -> Any:
            asked.append(sql)
            raise DatabaseError("disk", code=243)

        def close(self) -> None:
            pass

    monkeypatch.setattr(clickhouse_connect, "get_client", lambda **_: Full())

    with pytest.raises(DiskFullError):
        SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1"), seconds_max=600).finish("INSERT", poll_s=0.0)

    assert asked == ["INSERT"]


class _Server:
    """Answers inserts in turn: an error is raised, None is "stored"."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []
        self.connections = 0

    def get_client(self, **_settings: Any) -> _Server:
        self.connections += 1
        return self

    def raw_insert(self, _table: str, *, insert_block: Any, **_settings: Any) -> None:
        self.bodies.append(b"".join(insert_block))
        if (answer := self.answers.pop(0)) is not None:
            raise answer

    def close(self) -> None:
        pass


def _closed() -> OperationalError:
    error = OperationalError("Error executing HTTP request")
    error.__cause__ = ConnectionResetError("reset")
    return error


@pytest.mark.parametrize(
    ("answers", "stored", "connections"),
    [
        pytest.param([None, _closed(), None], True, 2, id="closed while it was kept: once more by a new one"),
        pytest.param([None, _closed(), _closed()], False, 2, id="closed again: somebody else decides when"),
        pytest.param([_closed()], False, 1, id="a new one that is closed is no kept one"),
        pytest.param([None, OperationalError("timed out")], False, 1, id="no answer is not a closed connection"),
    ],
)
def test_an_insert_outlives_a_connection_that_was_kept_too_long(
    monkeypatch: pytest.MonkeyPatch, answers: list[Exception | None], stored: bool, connections: int
) -> None:
    """The server closes what is not used for a while, sometimes just as it is used."""
    server = _Server(*answers)
    monkeypatch.setattr(clickhouse_connect, "get_client", server.get_client)
    database, insert = SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1")), Insert("t", (), (b"rows",), 1)

    def insert_all() -> None:
        for _ in range(2 if answers[0] is None else 1):
            database.insert([insert])

    if stored:
        insert_all()
    else:
        with pytest.raises(UnavailableError):
            insert_all()
    assert server.bodies == [b"rows"] * len(answers)
    assert server.connections == connections


def test_the_databases_clock_is_asked_now_and_then() -> None:
    """In between, and where it does not answer, a clock goes on that nobody sets."""
    ours_s, theirs_ms, asked = [7.0], [1_000_000], list[float]()
    away: list[FleetpulseError] = [UnavailableError("away")]

    def ask() -> int:
        asked.append(ours_s[0])
        if away:
            raise away[0]
        return theirs_ms[0]

    clock = DatabaseClock(ask, lambda: ours_s[0])
    with pytest.raises(UnavailableError):
        clock.now_ms()
    away.clear()
    seen = [clock.now_ms()]
    for ours_s[0], theirs_ms[0] in ((66.5, 5_000_000), (67.0, 9_000_000), (68.0, 0)):
        seen.append(clock.now_ms())
    away.append(UnavailableError("away"))
    ours_s[0] = 200.0
    seen.append(clock.now_ms())

    assert seen == [1_000_000, 1_059_500, 9_000_000, 9_001_000, 9_133_000]
    assert asked == [7.0, 7.0, 67.0, 200.0]


def test_the_databases_clock_is_read_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In milliseconds."""
    monkeypatch.setattr(SinkDatabase, "rows", lambda self, sql: [(1_800_000_000_123,)])

    assert SinkDatabase(ClickHouseConfig(url="http://127.0.0.1:1")).now_ms() == 1_800_000_000_123
