"""The reader's view of ClickHouse: run a named query and get columns and rows. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from clickhouse_connect.driver.exceptions import ClickHouseError
from clickhouse_connect.driver.external import ExternalData
from urllib3.exceptions import HTTPError

from fleetpulse import queries
from fleetpulse.queries.written_out import written_out
from fleetpulse.sql.server_error import SAID_BYTES_MAX, broken_off
from runtime.clickhouse_clients import connect, first_line, rows_of
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """Names of the columns and the rows under them."""

    columns: tuple[str, ...]
    rows: tuple[Sequence[Any], ...]

    def records(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@contextmanager
def in_a_line() -> Iterator[None]:
    """What the server rejects is a ``FleetpulseError`` with its first line."""
    try:
        yield
    except ClickHouseError as error:
        raise FleetpulseError(first_line(error)) from error


class Reader(Protocol):
    """``Database``, as far as checks and alerts need it."""

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> Answer: ...


class Database:
    """A connection of the read-only user. Not safe for use from several threads at once."""

    def __init__(self, config: ClickHouseConfig, *, consistent: bool = False) -> None:
        self._client = connect(config, consistent=consistent)

    def named(self, name: str, parameters: Mapping[str, int | float | str]) -> Answer:
        """Run a query of the catalogue."""
        return self.sql(written_out(queries.text(name)), parameters)

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None, **settings: Any) -> Answer:
        """Run a query; raises ``FleetpulseError`` with the server's first line when it rejects it."""
        with in_a_line():
            result = self._client.query(text, parameters=dict(parameters or {}), settings=settings)
        return Answer(tuple(result.column_names), tuple(rows_of(result)))

    def beside(
        self,
        text: str,
        parameters: Mapping[str, Any],
        name: str,
        columns: Mapping[str, str],
        rows: Iterable[Sequence[object]],
    ) -> Answer:
        """Run a query that reads these rows as table ``name`` (columns and their types); raises as ``sql`` does."""
        lines = b"".join(orjson.dumps(list(row), option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        structure = [f"{column} {kind}" for column, kind in columns.items()]
        table = ExternalData(data=lines, fmt="JSONCompactEachRow", structure=structure, file_name=name)
        with in_a_line():
            result = self._client.query(text, parameters=dict(parameters), external_data=table)
        return Answer(tuple(result.column_names), tuple(rows_of(result)))

    def native(self, text: str) -> bytes:
        """The answer to a query as Native; raises as ``sql`` does. It is read as it comes: one that waits for its end
        in a file of the server's comes back short where the disk is full, without an error."""
        data = bytearray()
        with in_a_line(), closing(self._client.raw_stream(text, fmt="Native")) as source:
            try:
                for piece in source.stream(_CHUNK_BYTES):
                    data += piece
            except HTTPError as error:
                raise FleetpulseError(broken_off(data[-SAID_BYTES_MAX:], error)) from error
        return bytes(data)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()
