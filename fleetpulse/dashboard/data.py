"""Queries of pages to ClickHouse: named queries, one pool of connections, limits, and a sentence when one fails.

Equal queries share one answer for as long as the query allows: twenty people on a page cost what one does. After a
failure the next query connects again; nothing has to be restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import ClientError
from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.queries import data_ends
from fleetpulse.queries.dashboard import SECONDS_MAX, Query, Value, query
from fleetpulse.queries.data_ends import Lack
from fleetpulse.queries.written_out import written_out
from fleetpulse.sql.database import Answer
from runtime.clickhouse_clients import make_async_client
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
KEPT_MAX = 256
CONNECT_S = 3
ANSWER_S = 35
"""A server that is silent for so long is unavailable: every query is stopped by the server itself long before."""
_OUT_OF_TIME, _TOO_MANY_ROWS = "Code: 159", "Code: 396"
_Key = tuple[str, str]


class Data:
    """Answers for all pages of this process. Belongs to the event loop it is used in."""

    def __init__(self, config: ClickHouseConfig) -> None:
        self._config = config
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self._queries = 0
        self._first_ms: int | None = None
        self._moments: dict[str, tuple[int, ...]] = {}
        """Moments with data, by kind."""
        self._answers: OrderedDict[_Key, tuple[float, asyncio.Future[Answer]]] = OrderedDict()
        self.trouble: str | None = "no query was answered yet"
        """Why the latest query failed; None after one that was answered. For ``/readyz``."""

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
        if kept is None or time.monotonic() - kept[0] > found.kept_s or _failed(kept[1]):
            self._answers[key] = kept = (time.monotonic(), asyncio.ensure_future(self._answer(found, sql, bound)))
            self._answers.move_to_end(key)
            while len(self._answers) > KEPT_MAX:
                self._answers.popitem(last=False)
        return await asyncio.shield(kept[1])

    async def since_first_event(self, span: TimeRange) -> TimeRange:
        """The range without what of it lies before the first event of all. Raises as ``ask``."""
        if self._first_ms is None or self._first_ms > span.from_ms:
            (self._first_ms,) = (await self.ask("first_event", {}, span.span_ms)).rows[0]
        return span.since(self._first_ms)

    async def lack(self, kinds: Collection[str], span: TimeRange) -> Lack | None:
        """What of these kinds of data the range has none of. Asked only where no moment with data is known in it.
        Raises as ``ask``."""
        bounds = span.from_ms, span.to_ms
        if all(any(at in range(*bounds) for at in self._moments.get(kind, ())) for kind in kinds):
            return None
        rows = (await self.ask(data_ends.QUERY, {"from_ms": span.from_ms}, span.span_ms)).records()
        self._moments = {row["kind"]: (row["next_ms"], row["last_ms"]) for row in rows if row["next_ms"] is not None}
        return data_ends.lack(rows, kinds, bounds)

    async def _answer(self, found: Query, sql: str, bound: dict[str, Value]) -> Answer:
        if self._queries >= CONNECTIONS_MAX + WAITING_MAX:
            raise UnavailableError("too many queries at once; this page tries again by itself")
        self._queries += 1
        began_s = time.monotonic()
        try:
            async with self._turns:
                answer = await self.sql(written_out(sql), bound, found.settings())
        except FleetpulseError as error:
            self.trouble = str(error) if error.retriable else None
            COUNTERS.add("dashboard_queries", query=found.name, outcome="failed")
            raise
        finally:
            self._queries -= 1
            COUNTERS.add("dashboard_query_ms", 1_000 * (time.monotonic() - began_s), query=found.name)
        self.trouble = None
        COUNTERS.add("dashboard_queries", query=found.name, outcome="answered")
        return answer

    async def sql(self, text: str, bound: Mapping[str, Value], settings: Mapping[str, int | str]) -> Answer:
        """The answer to any SQL of ours with bound parameters. Raises as ``ask``."""
        try:
            client = await self._connected()
            result = await client.query(text, parameters=dict(bound), settings=dict(settings))
        except ClickHouseError as error:
            raise await self._error_of(error) from error
        except (OSError, ClientError, TimeoutError) as error:
            await self._forget()
            raise self._unavailable(error) from error
        return Answer(tuple(result.column_names), tuple(result.result_rows))

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                self._client = await make_async_client(
                    self._config,
                    connector_limit=CONNECTIONS_MAX,
                    connect_timeout=CONNECT_S,
                    send_receive_timeout=ANSWER_S,
                    query_retries=0,
                )
            return self._client

    async def _error_of(self, error: ClickHouseError) -> FleetpulseError:
        said = str(error)
        if _OUT_OF_TIME in said:
            return FleetpulseError(
                f"this took over {SECONDS_MAX} s and was stopped; choose a shorter range or more filters, or see with "
                "`fleetpulse doctor` whether ClickHouse is busy"
            )
        if _TOO_MANY_ROWS in said:
            return FleetpulseError("there is more to show than fits; choose a shorter range or more filters")
        if (part := broken_part(getattr(error, "code", None), said)) is not None:
            says = f"part {part[1]} of {part[0]} cannot be read; `fleetpulse doctor` has the command that takes it out"
            return FleetpulseError(f"{Cause.PART}: {says}")
        if "Code: " in said:
            return FleetpulseError(f"ClickHouse rejected this: {said.splitlines()[0][:300]}")
        await self._forget()
        return self._unavailable(error)

    def _unavailable(self, error: BaseException) -> UnavailableError:
        _log.warning("ClickHouse unavailable; pages retry", extra={"url": self._config.url, "error": str(error)[:200]})
        return UnavailableError("ClickHouse unavailable. This page tries again by itself; see `fleetpulse doctor`.")

    async def _forget(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(ClickHouseError, OSError, ClientError):
                await client.close()

    async def close(self) -> None:
        await self._forget()


def _failed(answer: asyncio.Future[Answer]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)
