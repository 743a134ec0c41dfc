"""Answers for all pages: who shares one, what an error of ClickHouse comes to, which connection it ends."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, OperationalError

from fleetpulse.dashboard import data as data_module
from fleetpulse.dashboard.data import CONNECTIONS_MAX, KEPT_MAX, WAITING_MAX, Data
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError

Outcome = BaseException | None


class Server:
    """Makes clients whose queries end when they are told to, in the order in which they were sent."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.queries: list[asyncio.Future[Outcome]] = []
        self.value: object = 1
        """What every answer holds."""

    async def connect(self, _config: object, **_settings: object) -> Client:
        self.clients.append(Client(self))
        return self.clients[-1]

    def end(self, number: int, outcome: Outcome = None) -> None:
        self.queries[number].set_result(outcome)


class Client:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.closed = 0

    async def query(self, _text: str, **_given: object) -> SimpleNamespace:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._server.queries.append(ended)
        outcome = await ended
        if self.closed:
            raise OperationalError("Session is closed")
        if outcome is not None:
            raise outcome
        return SimpleNamespace(column_names=("n",), result_rows=[(self._server.value,)], summary={})

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(data_module, "make_async_client", made.connect)
    return made


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A monotonic clock that stands still."""
    at = [1_000.0]
    monkeypatch.setattr(data_module, "time", SimpleNamespace(monotonic=lambda: at[0]))
    return at


def answers() -> Data:
    return Data(ClickHouseConfig(url="http://db:1"))


def asking(data: Data, number: int = 0) -> asyncio.Task[Any]:
    return asyncio.ensure_future(data.ask("data_ends", {"from_ms": number}, 3_600_000))


async def rest() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_query_that_is_under_way_is_shared_however_long_it_takes(server: Server, now_s: list[float]) -> None:
    """And its answer for as long as the query allows, from when it came."""
    data = answers()
    first = asking(data)
    await rest()
    now_s[0] += 19
    second = asking(data)
    await rest()
    assert len(server.queries) == 1

    server.end(0)
    assert (await first).rows == (await second).rows == ((1,),)
    third = asking(data)
    await rest()
    assert len(server.queries) == 1
    await third

    now_s[0] += 3_600
    fourth = asking(data)
    await rest()
    assert len(server.queries) == 2
    server.end(1)
    await fourth


async def test_answers_that_came_make_room_before_queries_that_run(server: Server, now_s: list[float]) -> None:
    """The oldest query of all is still shared when more were asked since than are kept."""
    data = answers()
    first = asking(data)
    await rest()
    for number in range(1, KEPT_MAX + 1):
        one = asking(data, number)
        await rest()
        server.end(number)
        await one
    second = asking(data)
    await rest()
    assert len(server.queries) == KEPT_MAX + 1
    server.end(0)
    await asyncio.gather(first, second)


class Big:
    """A value of an answer."""


async def test_an_answer_is_dropped_when_it_is_over(server: Server, now_s: list[float]) -> None:
    """By the next query of all, whichever: one of a large fleet takes megabytes, and ranges that move ask others."""
    data = answers()
    server.value = Big()
    held = weakref.ref(server.value)
    first = asking(data)
    await rest()
    server.end(0)
    await first
    del first
    server.value = 1
    server.queries.clear()
    gc.collect()
    assert held() is not None

    now_s[0] += 3_600
    second = asking(data, 1)
    await rest()
    server.end(0)
    await second
    gc.collect()
    assert held() is None


async def test_more_queries_than_are_kept_may_begin_at_once(server: Server) -> None:
    """Those that can't even wait for a turn are told so; none ends otherwise, and later ones are answered."""
    data = answers()
    begun = [asking(data, number) for number in range(KEPT_MAX + 2)]
    await rest()
    refused = [one for one in begun if one.done()]
    assert len(refused) == KEPT_MAX + 2 - CONNECTIONS_MAX - WAITING_MAX
    assert all(isinstance(one.exception(), UnavailableError) for one in refused)

    while not all(one.done() for one in begun):
        for ended in [one for one in server.queries if not one.done()]:
            ended.set_result(None)
        await rest()
    later = asking(data, KEPT_MAX + 2)
    await rest()
    server.end(-1)
    assert (await later).rows == ((1,),)


@pytest.mark.parametrize(
    ("error", "retriable", "says"),
    [
        (DatabaseError("Code: 202. DB::Exception: Too many simultaneous queries", code=202), True, "is busy"),
        (DatabaseError("Code: 241. DB::Exception: (total) memory limit exceeded", code=241), True, "is busy"),
        (DatabaseError("Code: 241. DB::Exception: User memory limit exceeded", code=241), True, "is busy"),
        (DatabaseError("Code: 241. DB::Exception: Query memory limit exceeded", code=241), False, "rejected this"),
        (
            DatabaseError("Code: 241. DB::Exception: Memory limit (for query) exceeded", code=241),
            False,
            "rejected this",
        ),
        (DatabaseError("Code: 159. DB::Exception: Timeout exceeded", code=159), False, "took over 20 s"),
        (DatabaseError("Code: 396. DB::Exception: Limit for result", code=396), False, "more to show than fits"),
        (DatabaseError("Code: 60. DB::Exception: UNKNOWN_TABLE", code=60), False, "rejected this: Code: 60"),
        (OperationalError("Error connecting"), True, "unavailable"),
    ],
    ids=["queries", "memory of all", "of a user", "of a query", "in older words", "time", "rows", "table", "away"],
)
async def test_an_error_says_whether_it_may_pass(
    server: Server, error: ClickHouseError, retriable: bool, says: str
) -> None:
    """A server that is busy is asked again; what no server would answer is not."""
    data = answers()
    one = asking(data)
    await rest()
    server.end(0, error)

    with pytest.raises(FleetpulseError, match=says) as failed:
        await one
    assert failed.value.retriable is retriable


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (DatabaseError("Code: 202. DB::Exception: Too many simultaneous queries", code=202), False),
        (DatabaseError("Code: 60. DB::Exception: UNKNOWN_TABLE", code=60), False),
        (OperationalError("Error connecting"), True),
    ],
    ids=["busy", "rejects", "away"],
)
async def test_a_server_that_answers_is_no_trouble(server: Server, error: ClickHouseError, away: bool) -> None:
    """Also one that is busy: its dashboard stays among those that browsers are sent to."""
    data = answers()
    one = asking(data)
    await rest()
    server.end(0, error)
    with pytest.raises(FleetpulseError):
        await one

    assert (data.trouble is not None) is away


async def test_a_server_that_turns_the_login_away_is_trouble(server: Server) -> None:
    """It answers, and shows nobody anything: no dashboard with a wrong password takes the place of one that works."""
    data = answers()
    one = asking(data)
    await rest()
    server.end(0, DatabaseError("Code: 516. DB::Exception: reader: Authentication failed", code=516))
    with pytest.raises(FleetpulseError):
        await one

    assert data.trouble == "ClickHouse rejected the login"


async def test_a_server_is_looked_at_until_it_answers(server: Server) -> None:
    """Without any page: none is asked for where browsers are sent to a ready dashboard alone."""
    data = answers()
    looking = asyncio.create_task(data.look(every_s=0.0))
    await rest()
    server.end(0, OperationalError("Error connecting"))
    await rest()
    assert len(server.queries) == 2
    assert data.trouble is not None

    server.end(1)
    await rest()
    assert data.trouble is None
    assert len(server.queries) == 2

    one = asking(data)
    await rest()
    server.end(2, OperationalError("reset"))
    with pytest.raises(UnavailableError):
        await one
    await rest()
    assert len(server.queries) == 4
    looking.cancel()
    await asyncio.wait({looking})


async def test_an_outage_is_one_line(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is looked at; the next is another."""
    data = answers()
    looking = asyncio.create_task(data.look(every_s=0.0))
    lines = []
    for number, outcome in enumerate((OperationalError("reset"), OperationalError("reset"), None)):
        await rest()
        server.end(number, outcome)
        await rest()
        lines.append(len(caplog.records))
    one = asking(data)
    await rest()
    server.end(3, OperationalError("reset"))
    with pytest.raises(UnavailableError):
        await one
    looking.cancel()

    assert [*lines, len(caplog.records)] == [1, 1, 1, 2]


async def test_a_connection_that_failed_for_one_query_serves_the_others_to_their_end(server: Server) -> None:
    """The next query has a new one; the old one is closed with its last query, and once."""
    data = answers()
    failing, other = asking(data, 1), asking(data, 2)
    await rest()
    server.end(0, OperationalError("reset"))
    with pytest.raises(UnavailableError):
        await failing
    later = asking(data, 3)
    await rest()
    assert [client.closed for client in server.clients] == [0, 0]

    server.end(1)
    server.end(2)
    assert ((await other).rows, (await later).rows) == (((1,),), ((1,),))
    assert [client.closed for client in server.clients] == [1, 0]


async def test_a_query_of_an_older_connection_ends_no_newer_one(server: Server) -> None:
    """Its error says nothing of the one that was made since."""
    data = answers()
    both = asking(data, 1), asking(data, 2)
    await rest()
    server.end(0, OperationalError("reset"))
    await rest()
    newer = asking(data, 3)
    await rest()
    server.end(1, OperationalError("reset"))
    await asyncio.wait(both)
    assert [client.closed for client in server.clients] == [1, 0]

    server.end(2)
    assert (await newer).rows == ((1,),)
    await data.close()
    assert [client.closed for client in server.clients] == [1, 1]
