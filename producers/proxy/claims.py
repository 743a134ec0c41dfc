"""Claims: the agent of this host learns which requests the proxy reports, and gets what others report of them.

Where a plug-in or the SDK reports the same request to that agent, it is one event, the proxy's, with what it lacks from
the others (``producers.requests.counted_once``). Rows are held for the report of a measurer only while reports of it
come: the first after a start has passed by the time it is there, and is counted once all the same. Requests under way
at the same time with one id get theirs in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from producers.identity.host_file import CLAIM_BYTES_MAX
from producers.requests.counted_once import SDK, common_id, lacking, reporter_of
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters

_log = logging.getLogger(__name__)

HELD_S = 1.0
"""The longest that a row waits for its reports."""
HEARD_S = 60.0
"""So long after a measurer's report rows are held for theirs."""
REPORTS_MAX = 10_000
"""Rows held, and reports of requests that have not ended; beyond, rows pass and the oldest reports are dropped."""
CLAIMS_MAX = 10_000
"""Claims made last, which are sent again to an agent that starts: it may report those requests still."""
WAITING_BYTES_MAX = 1024 * 1024
"""Claims that the agent has not read; beyond it they are not made, and those requests may count twice."""
LOOK_EVERY_S = 0.1
CONNECT_EVERY_S = 0.5
GATHER_S = 0.2
"""Claims of so long go together, so that the agent wakes for them together. Both in all are less than the agent holds
reports, so that claims are there before those pass."""

Row = dict[str, Any]
OnRow = Callable[[Row], None]
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Held:
    row: Row
    on_row: OnRow
    until_s: float
    reported_by: set[str] = field(default_factory=set)
    """Whose reports it has."""


class _Waiting(Generic[T]):
    """Of each id what waits under it, in order of its coming."""

    def __init__(self) -> None:
        self.by_id: dict[str, list[T]] = {}
        self.count = 0

    def add(self, request_id: str, one: T) -> None:
        """Behind what waits."""
        self.by_id.setdefault(request_id, []).append(one)
        self.count += 1

    def remove(self, request_id: str, one: T) -> None:
        """What waits under the id, without this one."""
        waiting = self.by_id[request_id]
        waiting.remove(one)
        self.count -= 1
        if not waiting:
            del self.by_id[request_id]

    def pop(self, request_id: str) -> list[T]:
        """All that waits under the id."""
        found = self.by_id.pop(request_id, [])
        self.count -= len(found)
        return found


class Claims:
    """``path_of``: where the agent's socket is now; None: there is no agent to ask, and rows pass."""

    def __init__(
        self, path_of: Callable[[], Path] | None = None, *, clock: Clock | None = None, counters: Counters = COUNTERS
    ) -> None:
        self._path_of = path_of
        self._clock = clock or SystemClock()
        self._counters = counters
        self._writer: asyncio.StreamWriter | None = None
        self._claimed: list[str] = []
        self._last: deque[str] = deque(maxlen=CLAIMS_MAX)
        self._answers: dict[str, str] = {}  # by the engine's id of an answer: the request's
        self._under_way: dict[str, int] = {}  # requests by their id
        self._reports = _Waiting[Row]()
        self._held = _Waiting[_Held]()
        self._heard_until_s: dict[str, float] = {}  # by measurer

    @property
    def connected(self) -> bool:
        """Whether an agent takes claims now."""
        return self._writer is not None

    def claim(self, request_id: str) -> None:
        """The proxy reports this request, which begins now."""
        if self._path_of is None:
            return
        if request_id not in self._under_way:
            self._reports.pop(request_id)  # of a request before, of the same id
        self._under_way[request_id] = self._under_way.pop(request_id, 0) + 1
        if len(self._under_way) > CLAIMS_MAX:
            del self._under_way[next(iter(self._under_way))]
        self._claim(request_id)

    def claim_answer(self, request_id: str, answer_id: str) -> None:
        """The engine calls this request so, whatever id it came with: others report it under that name. Nothing to do
        where the engine made it of the request's id."""
        name = common_id(answer_id, SDK)
        if self._path_of is None or self._answers.get(name) == request_id or name == request_id != answer_id:
            return
        self._answers[name] = request_id
        if len(self._answers) > CLAIMS_MAX:
            del self._answers[next(iter(self._answers))]
        self._claim(name)

    def _claim(self, name: str) -> None:
        self._last.append(name)
        if self._writer is None:
            return
        self._claimed.append(name)
        if len(self._claimed) == 1:
            asyncio.get_running_loop().call_later(GATHER_S, self._send)

    def _send(self) -> None:
        claimed, self._claimed = self._claimed, []
        if claimed:  # an agent that came since then has them already
            self._write(claimed)

    def _write(self, claimed: Iterable[str]) -> None:
        if self._writer is not None and self._writer.transport.get_write_buffer_size() < WAITING_BYTES_MAX:
            self._writer.write("".join(f"{each}\n" for each in claimed).encode("latin-1"))

    def take(self, row: Row, on_row: OnRow) -> None:
        """Pass the row on, now or when its reports are there."""
        request_id, now_s = row["request_id"], self._clock.monotonic_s()
        held, reports = _Held(row, on_row, now_s + HELD_S), self._reports.pop(request_id)
        others = self._under_way.pop(request_id, 1) - 1
        if others:
            self._under_way[request_id] = others
        for report in reports:
            if not self._completed(held, report) and others:
                self._reports.add(request_id, report)  # of the next one
        if row["status"] == "ok" and self._awaits(held, now_s) and self._held.count < REPORTS_MAX:
            self._held.add(request_id, held)
        else:
            on_row(row)

    def reported(self, report: Row) -> None:
        """A report of a claimed request."""
        now_s = self._clock.monotonic_s()
        self._heard_until_s[reporter_of(report)] = now_s + HEARD_S
        request_id = report.get("request_id")
        if type(request_id) is not str:
            return
        request_id = self._answers.get(request_id, request_id)
        for held in self._held.by_id.get(request_id, ()):
            if self._completed(held, report):
                if not self._awaits(held, now_s):
                    self._held.remove(request_id, held)
                    held.on_row(held.row)
                return
        self._reports.add(request_id, report)
        while self._reports.count > REPORTS_MAX:
            self._reports.pop(next(iter(self._reports.by_id)))

    def _awaits(self, held: _Held, now_s: float) -> bool:
        return any(now_s < until_s for who, until_s in self._heard_until_s.items() if who not in held.reported_by)

    def _completed(self, held: _Held, report: Row) -> bool:
        """Give a row what it lacks from a report; False where it has one of the same measurer."""
        if (reported_by := reporter_of(report)) in held.reported_by:
            return False
        held.row |= lacking(held.row, report)
        if not held.reported_by:
            self._counters.add("proxy_reports_absorbed")
        held.reported_by.add(reported_by)
        return True

    def release(self, *, all_of_them: bool = False) -> None:
        """Pass on rows that have waited long enough, and those of the same id behind them."""
        now_s = self._clock.monotonic_s()
        for request_id, waiting in list(self._held.by_id.items()):
            if not all_of_them and waiting[0].until_s > now_s:
                break  # in order of their coming
            for held in self._held.pop(request_id):
                held.on_row(held.row)

    def end(self) -> None:
        """Every claimed request has its row: reports that come later are of no use, and no events."""
        self.release(all_of_them=True)
        self._write([*self._claimed, ""])
        self._claimed = []

    async def run(self) -> None:
        """Keep the connection and pass rows on, until cancelled."""
        if self._path_of is None:
            return
        connecting = asyncio.create_task(self._connect(self._path_of))
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                self.release()
        finally:
            connecting.cancel()

    async def _connect(self, path_of: Callable[[], Path]) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                reader, self._writer = await asyncio.open_unix_connection(path_of(), limit=CLAIM_BYTES_MAX)
                _log.info("requests of this host are counted once", extra={"agent": str(path_of())})
                self._claimed = []
                self._write(self._last)
                try:
                    while True:
                        self._take_line(await reader.readuntil(b"\n"))
                finally:
                    writer, self._writer = self._writer, None
                    writer.close()
            await asyncio.sleep(CONNECT_EVERY_S)

    def _take_line(self, line: bytes) -> None:
        try:
            report = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        if isinstance(report, dict):
            self.reported(report)
