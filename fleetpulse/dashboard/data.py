"""Queries of pages to ClickHouse: named queries, one pool of connections, limits, and a sentence when one fails.

Equal queries share one answer for as long as the query allows: twenty people on a page cost what one does. After a
failure the next query connects again; nothing has to be restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError
from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.dashboard.downloads import Downloads
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.turns import Turns
from fleetpulse.queries import data_ends
from fleetpulse.queries.dashboard import SECONDS_MAX, Query, Value, query
from fleetpulse.queries.data_ends import Lack
from fleetpulse.queries.written_out import written_out
from fleetpulse.sql.database import Answer
from runtime.clickhouse_clients import LOGIN, make_async_client, rows_of
from runtime.clickhouse_parts import broken_part
from runtime.config import ClickHouseConfig
from runtime.counters import COUNTERS
from runtime.runbook import Cause
from schemas.errors import FleetpulseError, UnavailableError

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 4
"""Queries under way at once; more wait their turn."""
WAITING_MAX = 200
"""Queries that may wait; beyond that a query fails and its page tries again."""
STATEMENTS_MAX, STATEMENTS_WAITING_MAX = 4, 20
"""The same of people's own statements and files, of all pages: the reader's login is one, and so are its limits."""
KEPT_MAX = 256
CONNECT_S = 3
ANSWER_S = 35
"""A server that is silent for so long is unavailable: every query is stopped by the server itself long before."""
LOOK_S = 10.0
"""So often a server that did not answer is looked at."""
_OUT_OF_TIME, _TOO_MANY_ROWS = "Code: 159", "Code: 396"
_BUSY = {
    173: "CANNOT_ALLOCATE_MEMORY",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    241: "MEMORY_LIMIT_EXCEEDED",
    279: "ALL_CONNECTION_TRIES_FAILED",
    439: "CANNOT_SCHEDULE_TASK",
}
"""Error codes of a server, or of a cluster's other ones, that passes: the query itself is fine."""
_ACCESS_DENIED = 497
_TURNED_AWAY = LOGIN.keys() - {_ACCESS_DENIED}
"""Error codes of a server that lets this login ask nothing at all."""
_AWAY = "ClickHouse unavailable. This page tries again by itself; see `fleetpulse doctor`."
_OWN_MEMORY = re.compile(r"memory limit \(for query\)|query\)? memory limit", re.IGNORECASE)
"""Says that a query took all that one may have, whatever others take."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """An answer with the moment at which it came, by the monotonic clock [s]; and for how long it is shared."""

    answer: asyncio.Future[tuple[float, Answer]]
    kept_s: int

    def is_over(self) -> bool:
        """Whether it has to be queried again: it failed, or came longer ago. What is under way is not."""
        if not self.answer.done():
            return False
        failed = self.answer.cancelled() or self.answer.exception() is not None
        return failed or time.monotonic() - self.answer.result()[0] > self.kept_s


class Data:
    """Answers for all pages of this process. Belongs to the event loop it is used in."""

    def __init__(self, login: ClickHouseConfig) -> None:
        self.login = login
        """Of all queries, people's own statements among them: the one that was found to be right at the start."""
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._turns = Turns(CONNECTIONS_MAX, WAITING_MAX, "too many queries at once; this page tries again by itself")
        self.statements = Turns(
            STATEMENTS_MAX, STATEMENTS_WAITING_MAX, "too many statements are under way; run it again in a moment"
        )
        self.downloads = Downloads()
        self._first_ms: int | None = None
        self._moments: dict[str, tuple[int, ...]] = {}
        """Moments with data, by kind."""
        self._answers: dict[_Key, _Kept] = {}
        self.trouble: str | None = "no query was answered yet"
        """Why ClickHouse did not answer the latest query, or that it lets this login ask nothing; None after an answer,
        also one that it is busy. For ``/readyz``: from a dashboard that is taken out for that, all pages are gone
        instead of one late."""

    async def ask(self, name: str, values: Mapping[str, Value], span_ms: int, kept_from_ms: int = 0) -> Answer:
        """The answer to a named query over a range of this length; one that begins before ``kept_from_ms``, since when
        rows of 10 s are kept, is read by minutes.

        Raises ``UnavailableError`` while ClickHouse is unavailable, ``FleetpulseError`` when it rejects the query; both
        texts are for people. ``KeyError`` and ``ValueError`` are mistakes of the page.
        """
        found = query(name).kept(values.get("from_ms"), kept_from_ms)
        bound = found.values(values, span_ms)
        sql = found.at_levels(span_ms, bound)
        key = (sql, repr(sorted(bound.items())))
        kept = self._answers.get(key)
        if kept is None or kept.is_over():
            self._forget_answers()
            kept = _Kept(asyncio.ensure_future(self._answer(found, sql, bound)), found.kept_s)
            if len(self._answers) < KEPT_MAX:  # else all are under way, and this one is not shared
                self._answers[key] = kept
        return (await asyncio.shield(kept.answer))[1]

    async def since_first_event(self, span: TimeRange) -> TimeRange:
        """The range without what of it lies before the first event of all. Raises as ``ask``."""
        if self._first_ms is None or self._first_ms > span.from_ms:
            (self._first_ms,) = (await self.ask("first_event", {}, span.span_ms)).rows[0]
        return span.since(self._first_ms)

    async def lack(self, kinds: Collection[str], span: TimeRange) -> Lack | None:
        """What of these kinds of data the range has none of. Queried only where no moment with data is known in it.
        Raises as ``ask``."""
        bounds = span.from_ms, span.to_ms
        if all(any(at in range(*bounds) for at in self._moments.get(kind, ())) for kind in kinds):
            return None
        rows = (await self.ask(data_ends.QUERY, {"from_ms": span.from_ms}, span.span_ms)).records()
        self._moments = {row["kind"]: (row["next_ms"], row["last_ms"]) for row in rows if row["next_ms"] is not None}
        return data_ends.lack(rows, kinds, bounds)

    def _forget_answers(self) -> None:
        """Those that are over, since one of a large fleet takes megabytes; and the oldest where no more are kept."""
        for key in [key for key, one in self._answers.items() if one.is_over()]:
            del self._answers[key]
        came = (key for key, one in self._answers.items() if one.answer.done())
        if len(self._answers) >= KEPT_MAX and (oldest := next(came, None)):
            del self._answers[oldest]

    async def _answer(self, found: Query, sql: str, bound: dict[str, Value]) -> tuple[float, Answer]:
        began_s = time.monotonic()
        try:
            async with self._turns.one():
                answer = await self.sql(written_out(sql), bound, found.settings())
        except FleetpulseError:
            COUNTERS.add("dashboard_queries", query=found.name, outcome="failed")
            raise
        finally:
            COUNTERS.add("dashboard_query_ms", 1_000 * (time.monotonic() - began_s), query=found.name)
        COUNTERS.add("dashboard_queries", query=found.name, outcome="answered")
        return time.monotonic(), answer

    async def look(self, every_s: float = LOOK_S) -> None:
        """Ask ClickHouse, until cancelled, while it is not known to answer. No page would: no browser is sent to a
        dashboard that is not ready."""
        while True:
            if self.trouble is not None:
                with contextlib.suppress(FleetpulseError):
                    await self.sql("SELECT 1", {}, {})
            await asyncio.sleep(every_s)

    async def sql(self, text: str, bound: Mapping[str, Value], settings: Mapping[str, int | str]) -> Answer:
        """The answer to any SQL of ours with bound parameters. Raises as ``ask``."""
        connection: _Connection | None = None
        try:
            connection = await self._connected()
            async with connection.in_use() as client:
                result = await client.query(text, parameters=dict(bound), settings=dict(settings))
        except (ClickHouseError, OSError, ClientError, TimeoutError) as error:
            if isinstance(error, ClickHouseError) and (answered := _answered(error)) is not None:
                turned_away = getattr(error, "code", None) in _TURNED_AWAY
                self.trouble = Cause.CLICKHOUSE_LOGIN if turned_away else None
                raise answered from error
            await self._forget(connection)
            self._take_away(error)
            raise UnavailableError(_AWAY) from error
        self.trouble = None
        return Answer(tuple(result.column_names), tuple(rows_of(result)))

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None:
                client = await make_async_client(
                    self.login,
                    connector_limit=CONNECTIONS_MAX,
                    connect_timeout=CONNECT_S,
                    send_receive_timeout=ANSWER_S,
                    query_retries=0,
                )
                self._connection = _Connection(client)
            return self._connection

    def _take_away(self, error: BaseException) -> None:
        """Log the first of the queries that fail in a row."""
        if self.trouble != _AWAY:
            facts = {"url": self.login.url, "error": str(error)[:200]}
            _log.warning("ClickHouse unavailable; pages retry", extra=facts)
        self.trouble = _AWAY

    async def _forget(self, connection: _Connection | None) -> None:
        """Connect again for the next query. Queries of others may still run on a connection that failed for one."""
        if connection is None:
            return
        if self._connection is connection:
            self._connection = None
        await connection.drop()

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class _Connection:
    """A client with the number of queries that run on it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._queries = 0
        self._dropped = False

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncIterator[Any]:
        """The client, for one query."""
        self._queries += 1
        try:
            yield self._client
        finally:
            self._queries -= 1
            if self._dropped:
                await self._close_unused()

    async def drop(self) -> None:
        """Close it once its last query has ended."""
        if not self._dropped:
            self._dropped = True
            await self._close_unused()

    async def _close_unused(self) -> None:
        if not self._queries:
            await self.close()

    async def close(self) -> None:
        with contextlib.suppress(ClickHouseError, OSError, ClientError):
            await self._client.close()


def _answered(error: ClickHouseError) -> FleetpulseError | None:
    """What is said of an error that ClickHouse itself answered with; None where it did not answer."""
    said = str(error)
    code = getattr(error, "code", None)
    if code in _BUSY and not _OWN_MEMORY.search(said):
        why = f"ClickHouse is busy ({_BUSY[code]})"
        return UnavailableError(f"{why}. This page tries again by itself; see `fleetpulse doctor`.")
    if _OUT_OF_TIME in said:
        return FleetpulseError(
            f"this took over {SECONDS_MAX} s and was stopped; choose a shorter range or more filters, or see with "
            "`fleetpulse doctor` whether ClickHouse is busy"
        )
    if _TOO_MANY_ROWS in said:
        return FleetpulseError("there is more to show than fits; choose a shorter range or more filters")
    if (part := broken_part(code, said)) is not None:
        says = f"part {part[1]} of {part[0]} cannot be read; `fleetpulse doctor` has the command that takes it out"
        return FleetpulseError(f"{Cause.PART}: {says}")
    if "Code: " in said:
        return FleetpulseError(f"ClickHouse rejected this: {said.splitlines()[0][:300]}")
    return None
