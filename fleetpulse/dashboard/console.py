"""People's own SQL: one statement, read-only whatever the login may do, cut off at a number of rows, bytes and seconds.

The statement is sent as it is, with ``readonly = 2`` beside it: the server refuses writes and lets nobody take that
setting back, also where the login itself may write. The answer is read as it comes and the connection dropped at the
limit, so that no statement, whatever settings it names, makes this process hold more than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from fleetpulse.queries.dashboard import SECONDS_MAX
from fleetpulse.sql.csv_text import as_text
from fleetpulse.sql.hints import hint
from fleetpulse.sql.query import parameters_of
from fleetpulse.sql.server_error import SAID_BYTES_MAX, broken_off, error_text, said
from fleetpulse.sql.wide_integers import as_decimals, described
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # at INFO it logs every address, and what people query

SQL_CHARS_MAX = 100_000
ROWS_MAX = 1_000
SHOWN_BYTES_MAX = 8 * 2**20
FILE_BYTES_MAX = 64 * 2**20
_CONNECT_S = 3.0
FORMATS = {"csv": "CSVWithNames", "parquet": "Parquet"}
"""By the ending of a file's name, what the server writes."""
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n"})
"""The server reads a parameter as a field of tab-separated values, but for those of ``_NESTED``."""
_NESTED = ("Array(", "Map(", "Tuple(")
"""Types whose values have quotes and escapes of their own."""
Values = Mapping[str, str | int | float]
Transport = httpx.AsyncBaseTransport | None


@dataclass(frozen=True, slots=True)
class Table:
    """What came back: at most ``ROWS_MAX`` rows, ``more`` where that was not all."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class Statements:
    """The statements of one open page: at most one of each kind at a time, and none once the page is gone. A newer one
    takes the place of the older, which the server stops when its connection is dropped."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, kind: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` in place of what runs of this kind."""
        before = self._tasks.get(kind)
        if before is not None:
            before.cancel()
        self._tasks[kind] = task = asyncio.ensure_future(work)
        return task

    def under_way(self, kind: str) -> bool:
        """Whether one of this kind runs."""
        return kind in self._tasks and not self._tasks[kind].done()

    def stop(self) -> None:
        """The page is gone."""
        for task in self._tasks.values():
            task.cancel()


async def table(login: ClickHouseConfig, sql: str, values: Values, *, transport: Transport = None) -> Table:
    """The answer as rows. Raises ``FleetpulseError`` with the server's own words, ``UnavailableError`` without any."""
    lines: list[bytes] = []
    size, more = 0, False
    async with _answer(login, sql, values, "JSONCompactEachRowWithNamesAndTypes", transport) as pieces:
        async for line in _lines(pieces):
            size += len(line)
            if len(lines) > ROWS_MAX + 1 or size > SHOWN_BYTES_MAX:
                more = True
                break
            lines.append(line)
    if more and len(lines) <= 2:  # names and types
        raise FleetpulseError(
            f"the first row alone has more than {SHOWN_BYTES_MAX // 2**20} MiB; select fewer columns, or take a file"
        )
    if not lines:
        return Table((), (), (), more)
    names, types, *rows = [_parsed(line) for line in lines] if len(lines) > 1 else (_parsed(lines[0]), [])
    return Table(tuple(map(str, names)), tuple(map(str, types)), tuple(tuple(row) for row in rows), more)


async def file(login: ClickHouseConfig, sql: str, values: Values, ending: str, *, transport: Transport = None) -> bytes:
    """The whole answer as a file of one of ``FORMATS``; raises as ``table``, and when it is larger than the limit."""
    if ending == "parquet":
        sql = await _with_decimals(login, sql, values, transport)
    held = bytearray()
    async with _answer(login, sql, values, FORMATS[ending], transport) as pieces:
        async for piece in pieces:
            held += piece
            if len(held) > FILE_BYTES_MAX:
                most = FILE_BYTES_MAX // 2**20
                raise FleetpulseError(f"the file would be larger than {most} MiB; add a LIMIT or use fleetpulse query")
    return await _in_thread(as_text, bytes(held)) if ending == "csv" else bytes(held)


async def _with_decimals(login: ClickHouseConfig, sql: str, values: Values, transport: Transport) -> str:
    """The statement with decimals in place of wide integers. What is no SELECT, or rejected, is left."""
    try:
        columns = await table(login, described(sql), values, transport=transport)
    except FleetpulseError:
        return sql
    return as_decimals(sql, columns.rows)


def statement(text: str) -> str:
    """The statement to send, without the semicolon at its end. Raises ``FleetpulseError`` for none or one too long."""
    kept = text.strip().rstrip(";").rstrip()
    if not kept:
        raise FleetpulseError("there is no SQL to run; write some or take a saved query")
    if len(kept) > SQL_CHARS_MAX:
        raise FleetpulseError(f"this SQL has {len(kept):,} characters; at most {SQL_CHARS_MAX:,}")
    return kept


def settings(login: ClickHouseConfig, values: Values) -> dict[str, str]:
    """What is sent beside the statement: limits, and the values of its places."""
    limits: dict[str, str | int] = {
        "database": login.database,
        "readonly": 2,
        "max_execution_time": SECONDS_MAX,
        "cancel_http_readonly_queries_on_client_close": 1,
        "output_format_json_quote_64bit_integers": 0,
        "output_format_json_quote_denormals": 1,
        "http_write_exception_in_output_format": 0,
    }
    bound = {f"param_{name}": str(value) for name, value in values.items()}
    return {name: str(value) for name, value in limits.items()} | bound


def escaped(sql: str, values: Values) -> dict[str, str]:
    """Values as the server reads them by the types that stand in this statement."""
    kinds = parameters_of(sql)
    return {
        name: str(value) if kinds.get(name, "").startswith(_NESTED) else str(value).translate(_ESCAPES)
        for name, value in values.items()
    }


async def _in_thread(work: Callable[[bytes], bytes], data: bytes) -> bytes:
    """The work done beside the event loop. Whoever is cancelled waits for its end: until then it takes memory, and the
    place of a file."""
    task = asyncio.ensure_future(asyncio.to_thread(work, data))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


@contextlib.asynccontextmanager
async def _answer(
    login: ClickHouseConfig, sql: str, values: Values, form: str, transport: Transport
) -> AsyncIterator[AsyncIterator[bytes]]:
    body = f"{statement(sql)}\nFORMAT {form}".encode()
    limits = httpx.Timeout(SECONDS_MAX + 5.0, connect=_CONNECT_S)
    beside, end = settings(login, escaped(sql, values)), bytearray()
    try:
        async with (
            httpx.AsyncClient(
                verify=login.ssl_context(), timeout=limits, trust_env=False, transport=transport
            ) as client,
            client.stream("POST", login.url, params=beside, content=body, headers=login.login_headers()) as answer,
        ):
            pieces = _noting(answer.aiter_bytes(), end)
            if answer.status_code != httpx.codes.OK:
                async for _ in pieces:
                    pass
                error = said(end) or end.decode("utf-8", "replace")
                rejected = error_text(error) or f"ClickHouse answers with status {answer.status_code}"
                raise FleetpulseError("\n".join(one for one in (rejected, hint(error, sql)) if one))
            yield pieces
    except httpx.RemoteProtocolError as error:
        raise FleetpulseError(broken_off(end, error)) from error
    except httpx.HTTPError as error:
        raise UnavailableError("ClickHouse unavailable. Try again; see `fleetpulse doctor`.") from error


async def _noting(pieces: AsyncIterator[bytes], end: bytearray) -> AsyncIterator[bytes]:
    """The pieces of an answer, whose end so far is kept: an error stands there."""
    async for piece in pieces:
        end[:] = (end + piece)[-SAID_BYTES_MAX:]
        yield piece


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Lines without their ends; one that is longer than all that may be shown comes in part, as the last."""
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > SHOWN_BYTES_MAX:
            break
    if rest:
        yield rest


def _parsed(line: bytes) -> list[Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FleetpulseError(error_text(line.decode("utf-8", "replace"))) from error
    return found if isinstance(found, list) else [found]
