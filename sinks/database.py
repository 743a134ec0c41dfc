"""The sink's side of ClickHouse: blocks in, every setting that matters set explicitly, errors split by what helps."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import orjson
from clickhouse_connect.driver.exceptions import ClickHouseError

from runtime.clickhouse_clients import first_line, make_client, rejected, rows_of
from runtime.clickhouse_parts import broken_part
from runtime.config import ClickHouseConfig
from schemas.codec.native import Piece
from schemas.ddl.files import Names
from schemas.ddl.sharded import synced
from schemas.errors import (
    BrokenPartError,
    ContractError,
    DiskFullError,
    FleetpulseError,
    ReplicaBehindError,
    UnavailableError,
)
from sinks.landing import Insert

T = TypeVar("T")

INSERT_SETTINGS: dict[str, Any] = {
    "async_insert": 0,  # the answer must mean "stored"
    "wait_end_of_query": 1,
    "insert_deduplicate": 0,  # rows have identities; tokens were seen to swallow inserts under kill -9
    "optimize_on_insert": 0,  # copies go when parts merge and by FINAL: a quarter of the server's work less
    "input_format_native_allow_types_conversion": 1,  # null labels become empty in sorting keys
    "max_partitions_per_insert_block": 1_000,
}
SECONDS_MAX = 60
STATEMENT_SECONDS_MAX = 3_600
"""Of one that computes rollups. A server that is gone is found by TCP, long before."""
SENT_BYTES_MIN = 64 * 1024
"""Smaller pieces of an insert are sent together."""
FINAL = {
    6: "CANNOT_PARSE_TEXT",
    7: "INCORRECT_NUMBER_OF_COLUMNS",
    8: "THERE_IS_NO_COLUMN",
    10: "NOT_FOUND_COLUMN_IN_BLOCK",
    15: "DUPLICATE_COLUMN",
    16: "NO_SUCH_COLUMN_IN_TABLE",
    20: "NUMBER_OF_COLUMNS_DOESNT_MATCH",
    33: "CANNOT_READ_ALL_DATA",
    36: "BAD_ARGUMENTS",
    43: "ILLEGAL_TYPE_OF_ARGUMENT",
    44: "ILLEGAL_COLUMN",
    46: "UNKNOWN_FUNCTION",
    47: "UNKNOWN_IDENTIFIER",
    50: "UNKNOWN_TYPE",
    53: "TYPE_MISMATCH",
    60: "UNKNOWN_TABLE",
    62: "SYNTAX_ERROR",
    70: "CANNOT_CONVERT_TYPE",
    73: "UNKNOWN_FORMAT",
    81: "UNKNOWN_DATABASE",
    115: "UNKNOWN_SETTING",
    117: "INCORRECT_DATA",
    131: "TOO_LARGE_STRING_SIZE",
    271: "CANNOT_DECOMPRESS",
    349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
}
"""Error codes that a retry cannot fix: the tables or the rows are not as this version expects."""
_BEHIND = frozenset({8, 16, 47, 60})
"""Those of a table or column that is not there. Of several servers one may not have executed yet what made it."""

_NOW = "SELECT toUnixTimestamp64Milli(now64(3))"
_ASK_EVERY_S = 60.0
_REPLICAS = "SELECT max(replica_num) FROM system.clusters WHERE cluster = {cluster:String}"
QUORUM_MS = SECONDS_MAX * 1_000 // 2


_CANNOT_READ_ALL_DATA, _NOT_ENOUGH_SPACE = 33, 243


def quorum(replicas: int) -> dict[str, Any]:
    """Settings of inserts by the number of replicas: a majority has the rows before they are acknowledged. Of two that
    were both, and none could fail."""
    return {"insert_quorum": "auto", "insert_quorum_timeout": QUORUM_MS} if replicas > 2 else {}


def explained(error: Exception, config: ClickHouseConfig) -> FleetpulseError:
    """The error as what the caller can do about it: change the settings, migrate, or try again."""
    if (why := rejected(error, config)) is not None:
        return why
    code, line = getattr(error, "code", None), first_line(error)
    if (part := broken_part(code, line)) is not None:
        return BrokenPartError(f"ClickHouse at {config.url}: part {part[1]} of {part[0]} is broken: {line}")
    if code in FINAL:
        behind = code in _BEHIND and (config.cluster or config.engine_prefix)
        return (ReplicaBehindError if behind else ContractError)(
            f"ClickHouse at {config.url} refuses ({FINAL[code]}); does it need `fleetpulse migrate`? {line}"
        )
    full = code == _NOT_ENOUGH_SPACE or "No space left on device" in line
    return (DiskFullError if full else UnavailableError)(f"ClickHouse at {config.url}: {line}")


class SinkDatabase:
    """One writer connection, used by one thread at a time. ``UnavailableError`` means: try again, nothing is lost."""

    def __init__(self, config: ClickHouseConfig, *, consistent: bool = False, seconds_max: int = SECONDS_MAX) -> None:
        self._config = config
        self._seconds_max = seconds_max
        self._consistent = consistent
        self._client: Any = None

    def insert(self, inserts: Sequence[Insert]) -> None:
        """Land blocks; when it returns they are stored."""
        for one in inserts:
            self._do(partial(_insert, one), repeatable=True)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Insert a few rows of notes; when it returns they are stored."""
        # As lines of JSON: the client's own insert of rows would import pandas where it finds it (a second, 60 MiB).
        lines = [orjson.dumps(dict(zip(columns, row, strict=True)), option=orjson.OPT_APPEND_NEWLINE) for row in rows]
        body = b"".join(lines)
        self._do(
            lambda client: client.raw_insert(table, insert_block=body, fmt="JSONEachRow", settings=INSERT_SETTINGS)
        )

    def command(self, sql: str, settings: dict[str, Any] | None = None) -> None:
        """Run a statement and wait for its end."""
        self._do(lambda client: client.command(sql, settings={"wait_end_of_query": 1, **(settings or {})}))

    def finish(self, sql: str, settings: dict[str, Any] | None = None, *, poll_s: float = 1.0) -> None:
        """Run a statement that may take minutes and that can be repeated. Where the connection breaks, the server goes
        on with it: raises only when that says that it no longer runs, so that a caller who repeats it does not do so
        beside it."""
        query_id = secrets.token_hex(16)
        try:
            self.command(sql, {**(settings or {}), "query_id": query_id})
        except UnavailableError as error:
            answered = getattr(error.__cause__, "code", None) is not None  # by then it had ended
            until_s = time.monotonic() + (0 if answered else STATEMENT_SECONDS_MAX)
            while time.monotonic() < until_s and self._may_run(query_id):
                time.sleep(poll_s)
            raise

    def _may_run(self, query_id: str) -> bool:
        """Whether the server still runs a statement, also where it does not say: it may be too busy with that one."""
        cluster = self._config.cluster
        processes = f"clusterAllReplicas('{cluster}', system.processes)" if cluster else "system.processes"
        try:
            return self.rows(f"SELECT count() FROM {processes} WHERE query_id = '{query_id}'") != [(0,)]
        except UnavailableError:
            return True

    def sync(self, table: str) -> None:
        """Wait until every replica that may be read has the rows of a table that others have. A rollup that is
        computed by one that lags would lack rows for ever: its notes were dealt with."""
        names = Names(self._config.database, self._config.cluster, self._config.engine_prefix)
        if statement := synced(table, names):
            self.command(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        found: list[tuple[Any, ...]] = self._do(lambda client: rows_of(client.query(sql)), repeatable=True)
        return found

    def row(self, sql: str) -> tuple[Any, ...]:
        """The row of a query that always has one; ``UnavailableError`` where it did not come."""
        found = self.rows(sql)
        if not found:
            raise UnavailableError(f"ClickHouse at {self._config.url}: an answer ended before its row")
        return found[0]

    def now_ms(self) -> int:
        """The server's clock."""
        return int(self.row(_NOW)[0])

    def close(self) -> None:
        """Give the connection back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> Any:
        try:
            client = make_client(self._config, consistent=self._consistent, send_receive_timeout=self._seconds_max)
        except ClickHouseError as error:
            if getattr(error, "code", None) != _CANNOT_READ_ALL_DATA:
                raise
            # What it is asked on connecting waits in a file of the server, of which it could read a part.
            raise DiskFullError(f"ClickHouse at {self._config.url}: {first_line(error)}") from error
        if self._config.engine_prefix:
            cluster = self._config.cluster or self._config.database  # that of a replicated database has its name
            for name, value in quorum(int(client.command(_REPLICAS, {"cluster": cluster}))).items():
                client.set_client_setting(name, value)
        return client

    def _do(self, work: Callable[[Any], T], *, repeatable: bool = False) -> T:
        """What ``work`` returns; ``repeatable``: done again at once when the server had closed the connection."""
        was_open = self._client is not None
        try:
            if self._client is None:
                self._client = self._connected()
            return work(self._client)
        except (ClickHouseError, OSError) as error:
            self.close()
            if repeatable and was_open and _hung_up(error):
                return self._do(work)
            raise explained(error, self._config) from error


class DatabaseClock:
    """What time it is by the database's clock, which ``ask`` reads: it drops rows by that one, and this host's may be
    days ahead or behind. Between two questions, a minute apart, a clock goes on that nobody sets."""

    def __init__(self, ask: Callable[[], int], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._monotonic_s = monotonic_s
        self._answer: tuple[int, float] | None = None
        """The database's time [ms], and ours [s] then."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. Raises what ``ask`` does where it was never answered."""
        if self._answer is None or self._monotonic_s() >= self._answer[1] + _ASK_EVERY_S:
            try:
                self._answer = self._ask(), self._monotonic_s()
            except FleetpulseError:
                if self._answer is None:
                    raise
        then_ms, then_s = self._answer
        return then_ms + int((self._monotonic_s() - then_s) * 1_000)


def _insert(one: Insert, client: Any) -> None:
    """Send the pieces as they are: joined they would be copied three times on their way."""
    client.raw_insert(
        one.table,
        column_names=one.columns,
        insert_block=sent(one.pieces),
        fmt="Native",
        settings=INSERT_SETTINGS,
        transport_settings={"Content-Length": str(one.size)},
    )


def sent(pieces: Sequence[Piece]) -> list[Piece]:
    """The same bytes in pieces that are worth a system call each."""
    found: list[Piece] = []
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) < SENT_BYTES_MIN:
            small.append(piece)
            continue
        found += (b"".join(small), piece)
        small = []
    return [*found, b"".join(small)]


def _hung_up(error: BaseException | None) -> bool:
    """Whether the connection was found closed: one that is kept open may be closed just as it is used."""
    while error is not None and not isinstance(error, (ConnectionResetError, BrokenPipeError)):
        error = error.__cause__ or error.__context__
    return error is not None
