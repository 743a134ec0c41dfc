"""People's own SQL: what is sent beside it, where it is cut off, whose words an error has."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence

import httpx
import pytest
from pydantic import SecretStr

from fleetpulse.dashboard import console
from fleetpulse.dashboard.console import (
    FILE_BYTES_MAX,
    ROWS_MAX,
    SHOWN_BYTES_MAX,
    SQL_CHARS_MAX,
    Statements,
    Table,
    escaped,
    file,
    settings,
    statement,
    table,
)
from fleetpulse.sql.server_error import error_text
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError

LOGIN = ClickHouseConfig(url="http://db:1", user="reader", password=SecretStr("secret"), database="fleetpulse")
HEAD = b'["n"]\n["UInt64"]\n'


class Stream(httpx.AsyncByteStream):
    """A body in pieces; counts how many were taken."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.taken += 1
            yield piece


def answering(stream: Stream, status: int = 200) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _request: httpx.Response(status, stream=stream))


async def test_rows_come_with_names_and_types() -> None:
    """Names and types stand in the first two lines; a line may be cut anywhere between two pieces."""
    pieces = [b'["n", "<b>"]\n["UI', b'nt64", "String"]\n[1, "a', b'\\n"]\n[2, null]\n']

    found = await table(LOGIN, "SELECT 1", {}, transport=answering(Stream(pieces)))

    assert found == Table(("n", "<b>"), ("UInt64", "String"), ((1, "a\n"), (2, None)), False)


@pytest.mark.parametrize(("rows", "shown", "more"), [(ROWS_MAX, ROWS_MAX, False), (ROWS_MAX + 1, ROWS_MAX, True)])
async def test_rows_beyond_the_limit_are_reported_and_not_read(rows: int, shown: int, more: bool) -> None:
    """As many rows as the limit come whole; one more is reported and left out."""
    stream = Stream([HEAD, *(b"[1]\n" for _ in range(rows)), *(b"[1]\n" * 1_000 for _ in range(50))][: rows + 1])

    found = await table(LOGIN, "SELECT 1", {}, transport=answering(stream))

    assert (len(found.rows), found.more) == (shown, more)


async def test_an_endless_answer_is_left_at_the_limit_of_bytes() -> None:
    """However long its lines are, an answer is read no further than what may be shown and a piece."""
    piece = b'["' + b"x" * (SHOWN_BYTES_MAX // 4) + b'"]\n'
    stream = Stream([HEAD, *[piece] * 1_000])

    found = await table(LOGIN, "SELECT 1", {}, transport=answering(stream))

    assert (len(found.rows), found.more) == (3, True)
    assert stream.taken < 10


@pytest.mark.parametrize("head", [HEAD, b""])
async def test_a_row_that_is_too_wide_is_said(head: bytes) -> None:
    """It is no answer without rows; nor are names that are as long."""
    stream = Stream([head, *[b"x" * (SHOWN_BYTES_MAX // 4)] * 1_000])

    with pytest.raises(FleetpulseError, match="first row alone has more than 8 MiB; select fewer columns"):
        await table(LOGIN, "SELECT 1", {}, transport=answering(stream))


async def test_a_file_beyond_its_limit_is_refused() -> None:
    """A file that would be too large is dropped, with what to do."""
    stream = Stream([b"x" * (FILE_BYTES_MAX // 2)] * 100)

    with pytest.raises(FleetpulseError, match="larger than 64 MiB; add a LIMIT"):
        await file(LOGIN, "SELECT 1", {}, "csv", transport=answering(stream))
    assert stream.taken == 3


@pytest.mark.parametrize(("ending", "name"), [("csv", b'"\'=1"'), ("parquet", b'"=1"')])
async def test_no_name_in_a_csv_file_is_a_formula(ending: str, name: bytes) -> None:
    """Other files are as the server writes them."""
    found = await file(LOGIN, "SELECT 1", {}, ending, transport=answering(Stream([b'"tenant"\n', b'"=1"\n'])))

    assert found == b'"tenant"\n' + name + b"\n"


async def test_sums_of_money_are_numbers_in_a_parquet_file() -> None:
    """The server writes integers of 128 bits as raw bytes there, and decimals as numbers."""
    seen: list[bytes] = []

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        columns = b'["name","type"]\n["String","String"]\n["nusd","Nullable(Int128)"]\n'
        return httpx.Response(200, content=columns if request.content.startswith(b"DESCRIBE") else b"PAR1")

    found = await file(
        LOGIN, "SELECT nusd FROM {a:Identifier};", {"a": "t"}, "parquet", transport=httpx.MockTransport(take)
    )

    assert found == b"PAR1"
    assert seen == [
        b"DESCRIBE TABLE (\nSELECT nusd FROM {a:Identifier}\n)\nFORMAT JSONCompactEachRowWithNamesAndTypes",
        b"SELECT * REPLACE (CAST(toString(`nusd`), 'Nullable(Decimal(38, 0))') AS `nusd`) FROM (\n"
        b"SELECT nusd FROM {a:Identifier}\n)\nFORMAT Parquet",
    ]


async def test_a_csv_file_is_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of others are answered meanwhile. Whoever does not want it any more has its place until it is made."""
    begun, may_end = threading.Event(), threading.Event()

    def made(data: bytes) -> bytes:
        begun.set()
        assert may_end.wait(10)
        return data

    monkeypatch.setattr(console, "as_text", made)
    making = asyncio.ensure_future(file(LOGIN, "SELECT 1", {}, "csv", transport=answering(Stream([b"1"]))))
    assert await asyncio.to_thread(begun.wait, 10)
    making.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not making.done()

    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await making


async def test_the_statement_goes_read_only_with_its_limits_and_values() -> None:
    """The login travels in headers, the statement in the body, and values and ``readonly`` beside it."""
    seen: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=b"a\n")

    found = await file(LOGIN, "SELECT {a:String};\n", {"a": "'; --"}, "csv", transport=httpx.MockTransport(take))

    (request,) = seen
    assert found == b"a\n"
    assert request.content == b"SELECT {a:String}\nFORMAT CSVWithNames"
    assert request.headers["X-ClickHouse-Key"] == "secret"
    assert request.url.params["readonly"] == "2"
    assert request.url.params["param_a"] == "'; --"
    assert "secret" not in str(request.url)


async def test_errors_have_the_servers_words() -> None:
    """Of an error the server's text is shown; without any its status."""
    said = b"Code: 497. DB::Exception: reader: Not enough privileges. (ACCESS_DENIED) (version 26.9.2.1)\n"

    with pytest.raises(FleetpulseError, match=r"^Code: 497\. .+ \(ACCESS_DENIED\)$"):
        await table(LOGIN, "DROP TABLE x", {}, transport=answering(Stream([said]), 403))
    with pytest.raises(FleetpulseError, match="status 500"):
        await table(LOGIN, "SELECT 1", {}, transport=answering(Stream([]), 500))


async def test_an_error_is_found_behind_what_was_written_before_it() -> None:
    """The server sends the rows that it had by then before its words, whatever its status."""
    said = b"Code: 395. DB::Exception: too\nlarge (X) (version 1)\n"
    framed = b"\r\n__exception__\r\ntag\r\n" + said + b"51 tag\r\n__exception__\r\n"

    class Cut(Stream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in super().__aiter__():
                yield piece
            raise httpx.RemoteProtocolError("cut")

    for stream, status in ((Stream([b"0,0\n" * 5_000 + said]), 500), (Cut([b"PAR1" * 5_000, framed]), 200)):
        with pytest.raises(FleetpulseError) as failed:
            await file(LOGIN, "SELECT 1", {}, "csv", transport=answering(stream, status))
        assert str(failed.value) == "Code: 395. DB::Exception: too\nlarge (X)"


def failing(error: type[httpx.HTTPError]) -> Callable[[httpx.Request], httpx.Response]:
    def fail(_request: httpx.Request) -> httpx.Response:
        raise error("away")

    return fail


async def test_an_absent_server_is_reported_as_such() -> None:
    """No answer is no refusal: it may pass."""
    with pytest.raises(UnavailableError, match="ClickHouse unavailable"):
        await table(LOGIN, "SELECT 1", {}, transport=httpx.MockTransport(failing(httpx.ConnectError)))
    with pytest.raises(FleetpulseError, match="in the middle of its answer"):
        await table(LOGIN, "SELECT 1", {}, transport=httpx.MockTransport(failing(httpx.RemoteProtocolError)))


async def test_an_error_in_the_middle_of_an_answer_is_shown() -> None:
    """What stands in a row's place and is no row is the server's error."""
    stream = Stream([HEAD, b"[1]\n", b"Code: 241. DB::Exception: memory limit (version 1)\n"])

    with pytest.raises(FleetpulseError, match=r"^Code: 241\. DB::Exception: memory limit$"):
        await table(LOGIN, "SELECT 1", {}, transport=answering(stream))


@pytest.mark.parametrize("text", ["", "  ;; \n", ";"])
def test_no_statement_is_said(text: str) -> None:
    """Nothing to run is no error of the server."""
    with pytest.raises(FleetpulseError, match="there is no SQL to run"):
        statement(text)


def test_a_statement_has_a_greatest_length() -> None:
    """At the limit it goes, one more does not."""
    assert statement("x" * SQL_CHARS_MAX) == "x" * SQL_CHARS_MAX
    with pytest.raises(FleetpulseError, match="100,001 characters"):
        statement("x" * (SQL_CHARS_MAX + 1))


def test_a_long_error_is_cut() -> None:
    """Four thousand characters of it are enough."""
    assert error_text("x" * 5_000) == "x" * 4_000 + "…"


def test_values_are_escaped_by_their_types() -> None:
    """Text as a field of tab-separated values; what has quotes of its own as it was given."""
    sql, odd = "SELECT {a:String}, {b:Array(String)}", "C:\\n\t\n"

    assert escaped(sql, {"a": odd, "b": odd}) == {"a": r"C:\\n\t\n", "b": odd}


def test_values_cannot_name_settings() -> None:
    """A value is sent under ``param_`` and its name: none can stand in for a setting."""
    sent = settings(LOGIN, {"readonly": 0})

    assert (sent["readonly"], sent["param_readonly"]) == ("2", "0")


async def test_a_page_has_one_statement_of_a_kind_at_a_time_and_none_once_it_is_gone() -> None:
    """A newer one ends the older; one of another kind does not; the page's end ends all."""
    statements, never = Statements(), asyncio.Event()

    async def work() -> None:
        await never.wait()

    first, file_ = statements.start("shown", work()), statements.start("file", work())
    second = statements.start("shown", work())
    await asyncio.sleep(0)
    assert [each.cancelled() for each in (first, second, file_)] == [True, False, False]

    statements.stop()
    await asyncio.wait([second, file_])
    assert [each.cancelled() for each in (second, file_)] == [True, True]
