"""One open page: its state in the address, its queries, its notices. What every page is given to work with."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.theme import DARK, LIGHT, Palette
from fleetpulse.dashboard.time_range import RangeSpec, TimeRange, fixed, window_over_ms
from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import User
from fleetpulse.dashboard.values import clean, covered_text
from fleetpulse.dashboard.zone import Zone
from fleetpulse.queries.dashboard import Query, Value, covered, query
from fleetpulse.queries.data_ends import Lack
from fleetpulse.sql.database import Answer
from schemas.errors import FleetpulseError
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, Limits
from stream_jobs.rules.model import SloClass

_log = logging.getLogger(__name__)

SETTLED_MS = 10_000
"""So long after its end a window is in the tables, when nothing lags."""
AGAIN_S = 3.0
"""After a failure the page asks again by itself, this often."""
MINUTE_S = 60
BY_MINUTES_MS = 10 * MINUTE_MS
"""What is kept for so long is queried by whole minutes, of ranges of this length."""
MARK_CHARS_MAX = 16
"""Of the name of a mark on a chart: its end, where versions differ."""
_SET_ADDRESS = "history.pushState(null, '', {0})"


@dataclass(frozen=True, slots=True)
class Facts:
    """What pages know beside the database. Without ``slo_classes`` nothing is judged. ``budgets_file`` is read whenever
    budgets are shown, so that a change in it needs no restart; ``prices_file``, for list prices, when it changed;
    without it those are of the example. ``limits`` say how long rows of 10 s are kept."""

    slo_classes: tuple[SloClass, ...] = ()
    budgets_file: Path | None = None
    prices_file: Path | None = None
    limits: Limits = DEFAULT_LIMITS


Refresh = Callable[[], Awaitable[None]]
"""Asks again and shows the answers in the elements built before. An error of ours becomes the page's notice."""


class View:
    """The page at ``path``, whose options have these ``defaults``. ``state`` is what the address says. Changes go
    through ``set``, ``zoom`` and ``shell`` only."""

    def __init__(
        self,
        path: str,
        defaults: Mapping[str, str],
        state: UrlState,
        data: Data,
        facts: Facts,
        user: Callable[[], User | None],
        *,
        dark: bool,
        zone: Zone,
        now_ms: Callable[[], int],
        reads: Collection[str] = (),
    ) -> None:
        self.reads = reads
        """Kinds of data without which what is shown has nothing to say of the range."""
        self.facts = facts
        self.user = user
        """Who looks, with the role of this moment; None once revoked. What changes anything asks again."""
        self.path = path
        self._defaults = defaults
        self.state = state
        self.data = data
        self.palette: Palette = DARK if dark else LIGHT
        self.dark = dark
        self.zone = zone
        """Of every time on the page."""
        self._now_ms = now_ms
        self._asked_ms = now_ms()
        self.range: TimeRange = state.range_spec.at(self._asked_ms)
        """As it was chosen: today ends at midnight."""
        self._refresh: Refresh | None = None
        self._running: asyncio.Task[None] | None = None
        self._again = False
        self._logged = ""
        self.marks: tuple[tuple[int, str], ...] = ()
        """Deployments of the range, drawn on every chart over time."""
        self._marked = asyncio.Event()
        """Set but while they are queried: answers of a refresh, which are queried beside, wait for them."""
        self._marked.set()
        self.failed = False
        """The last asking failed for a reason that may pass."""
        self.stale = False
        """The last asking failed: what is shown are answers to one before."""
        self.on_notice: Callable[[str | None], None] = lambda _text: None
        self.on_busy: Callable[[bool], None] = lambda _busy: None
        self.on_lack: Callable[[Lack | None], None] = lambda _lack: None
        self.on_state: Callable[[], None] = lambda: None
        self._when_gone: list[Callable[[], None]] = []

    # what pages use

    def filter(self, name: str) -> str:
        """The wanted value of a dimension; "" for all."""
        return self.state.filters.get(name, "")

    def option(self, name: str) -> str:
        """The option as the address has it, or the default."""
        return self.state.options[name]

    def choice(self, name: str, known: Any) -> str:
        """The option's value when it is one of the known, else its default: links hold anything."""
        value = self.state.options[name]
        return value if value in known else self._defaults[name]

    @property
    def past(self) -> TimeRange:
        """What of the range is no future: it ends as a moving range would, or earlier."""
        return self._past(self.range)

    @property
    def until_ms(self) -> int:
        """The moment that ages are of: the end of the range, or now where that is earlier."""
        return self.past.to_ms

    def _past(self, span: TimeRange) -> TimeRange:
        return span.until(window_over_ms(self._asked_ms))

    def check_user(self) -> User:
        """Who looks. Raises ``FleetpulseError`` once the user was revoked: a page that is open ends with its login."""
        user = self.user()
        if user is None:
            raise FleetpulseError("this login has ended; load the page again to log in")
        return user

    async def ask(self, name: str, **values: Value) -> Answer:
        """The answer to a named query over the page's range, with its filters; ``values`` are its own."""
        return await self.ask_over(self.range, name, **values)

    async def ask_over(self, span: TimeRange, name: str, **values: Value) -> Answer:
        """The same over another range. Queried is what of it is no future: for some queries its end is now."""
        answer = await self._answer(span, name, values)
        await self._marked.wait()
        return answer

    async def _answer(self, span: TimeRange, name: str, values: Mapping[str, Value]) -> Answer:
        past = self._past(span)
        if query(name).kept_s >= MINUTE_S and past.span_ms >= BY_MINUTES_MS:
            past = past.minutes  # else a page that follows the clock would never meet what is kept
        known: dict[str, Value] = {"from_ms": past.from_ms, "to_ms": past.to_ms, "bucket_ms": span.bucket_ms}
        standing = {place: self.filter(place) for place in query(name).parameters}
        self.check_user()  # what a click or a suggestion asks is no refresh
        return await self.data.ask(name, {**standing, **known, **values}, span.span_ms, self._kept_from_ms)

    @property
    def _kept_from_ms(self) -> int:
        return self.facts.limits.kept_from_ms(self._asked_ms)

    def query(self, name: str) -> Query:
        """A named query as it is read over the page's range."""
        return query(name).kept(self.range.from_ms, self._kept_from_ms)

    async def covered_s(self) -> float | None:
        """Seconds of the range in which anything reported, whatever the filters: what a rate is of. None for none."""
        (found,) = (await self.ask(covered(self.range.span_ms))).records()
        return found["covered_ms"] / 1_000 or None

    def mean_of(self, seconds: float | None, what: str = "data") -> str:
        """What a rate over so many seconds with data is the mean of, beside how much of the range is no future."""
        return covered_text(seconds, self.past.span_ms, what)

    async def gather(self, *queries: Awaitable[Answer]) -> list[Answer]:
        """Answers to several queries sent at once, in order; the first failure is raised."""
        return list(await asyncio.gather(*queries))

    def open(self, address: str) -> None:
        """Go to another page, by an address that ``link`` made."""
        ui.navigate.to(address)

    def bucket_ms(self, name: str) -> int:
        """Width of the points that a query over the page's range brings."""
        return max(self.range.bucket_ms, self.query(name).grain_ms(self.range.span_ms))

    def counted_s(self, name: str, at_ms: int) -> float:
        """Seconds that a point of such a query counts: less than its width at the ends of what of the range is past."""
        return self.past.counted_s(at_ms, self.bucket_ms(name))

    def moments(self, name: str) -> range:
        """All points that a query over the page's range may bring and that are over."""
        step_ms = self.bucket_ms(name)
        return range(self.range.from_ms // step_ms * step_ms, self.until_ms - step_ms - SETTLED_MS + 1, step_ms)

    def whole_buckets(
        self, name: str, rows: list[dict[str, Any]], at: str = "at_ms", settled_ms: int = SETTLED_MS
    ) -> list[dict[str, Any]]:
        """The rows for lines: without the last point, when it is not over yet, or was less than ``settled_ms`` ago, as
        a rate of half a minute would look like a fall; where there is no other, the last point. Whether there is
        anything, and sums, are of all rows."""
        if self.state.range_spec.last is None and self.until_ms == self.range.to_ms:
            return rows
        most_ms = self.until_ms - self.bucket_ms(name) - settled_ms
        return [row for row in rows if row[at] <= most_ms] or rows

    def set(self, **values: str) -> None:
        """Other filters or options: into the address, and ask again."""
        self._become(self.state.with_values(**values))

    def zoom(self, from_ms: int, to_ms: int) -> None:
        """Look at this stretch: into the address, and ask again."""
        try:
            spec = fixed(from_ms, to_ms)
        except ValueError as error:
            self.on_notice(str(error))
            return
        self._become(UrlState(spec, False, self.state.filters, self.state.options))

    def link(self, path: str, **values: str) -> str:
        """Address of another page over the same range."""
        return self._link(UrlState(self.state.range_spec, self.state.live), path, values)

    def link_over(self, span: TimeRange, path: str, **values: str) -> str:
        """Address of another page over another range."""
        return self._link(UrlState(fixed(span.from_ms, span.to_ms)), path, values)

    def _link(self, state: UrlState, path: str, values: Mapping[str, str]) -> str:
        kept = state.query()
        own = urlencode({name: value for name, value in values.items() if value})
        query_part = "&".join(part for part in (kept, own) if part)
        return f"{path}?{query_part}" if query_part else path

    # what the shell uses

    def days(self, name: str) -> None:
        """Look at days of the viewer's calendar, by their name in ``DAYS``."""
        span = self.zone.days(name, self._now_ms())
        self.zoom(span.from_ms, span.to_ms)

    def shell(self, state: UrlState) -> None:
        """Another range or live mode, from the shell's controls."""
        self._become(state)

    def begin(self, refresh: Refresh) -> asyncio.Task[None]:
        """Take the page's refresh and run it for the first time."""
        self._refresh = refresh
        return self.again()

    def again(self) -> asyncio.Task[None]:
        """Ask again now; while an earlier asking runs, once more right after it."""
        if self._running is not None and not self._running.done():
            self._again = True
            return self._running
        self._running = asyncio.ensure_future(self._run())
        return self._running

    def tick(self) -> None:
        """The shell's clock: ask again unless an asking is under way."""
        if self._running is None or self._running.done():
            self.again()

    def stop(self) -> None:
        """The browser went away for good."""
        if self._running is not None:
            self._running.cancel()
        for stop in self._when_gone:
            stop()

    def when_gone(self, stop: Callable[[], None]) -> None:
        """Call this too when the browser goes away for good."""
        self._when_gone.append(stop)

    def _become(self, state: UrlState) -> None:
        self.state = state
        address = f"{self.path}?{state.query(self._defaults)}".rstrip("?")
        ui.run_javascript(_SET_ADDRESS.format(_quoted(address)))
        self.on_state()
        self.again()

    async def _run(self) -> None:
        self._again = True
        while self._again:
            self._again = False
            await self._once()

    async def _once(self) -> None:
        assert self._refresh is not None
        self.on_busy(True)
        try:
            self.check_user()
            await self.renew()
            self._marked.clear()
            ended = await asyncio.gather(self._mark(), self._refresh(), return_exceptions=True)
            for failure in filter(None, ended):
                raise failure
            await self.say_lack()
        except FleetpulseError as error:
            self.failed, self.stale = error.retriable, True
            self.on_notice(str(error))
        except Exception as error:
            if repr(error) != self._logged:  # a live page asks every few seconds
                _log.exception("dashboard page failed, please report it", extra={"page": self.path})
            self._logged = repr(error)
            self.failed, self.stale = False, True
            self.on_notice("This page met a defect of the dashboard; see the log of fleetpulse dashboard.")
        else:
            self.failed = self.stale = False
            self._logged = ""
            self.on_notice(None)
        finally:
            self.on_busy(False)

    async def _mark(self) -> None:
        try:
            found = await self._answer(self.range, "deployments", {})
            self.marks = tuple(map(mark_of, found.records()))
        finally:
            self._marked.set()

    async def say_lack(self) -> None:
        """Say what of ``reads`` the range has none of, and lead to where some is. Raises as ``ask``."""
        self.on_lack(await self.data.lack(self.reads, self.range))

    async def renew(self) -> None:
        """Take the range as it is at this moment; one that nobody chose begins with the first event. Raises as
        ``ask``."""
        self._asked_ms = self._now_ms()
        span = self.state.range_spec.at(self._asked_ms)
        self.range = await self.data.since_first_event(span) if self.state.range_spec == RangeSpec() else span


@dataclass(frozen=True, slots=True)
class PageSpec:
    """A page, as ``PAGE`` of its module says it: ``path`` such as ``/fleet``; ``icon`` a name of the Material icons;
    ``options`` name and default.

    ``build`` makes the elements once and asks nothing; the shell calls the refresh it returns: at once, when range,
    filters or options change, and every ``live_s`` in live mode.
    """

    path: str
    title: str
    icon: str
    about: str
    """One line under the title."""
    build: Callable[[View], Refresh]
    filters: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    """Kinds of data (``fleetpulse.queries.data_ends``) without which the page has nothing to show."""
    in_menu: bool = True
    has_range: bool = True
    live_s: float = 5.0


def mark_of(row: Mapping[str, Any]) -> tuple[int, str]:
    """A deployment as a moment and its name: what an engine changed to, else the version, else what the mark says."""
    first_change = (row["a_message"] or "").partition(";")[0]
    became = first_change.rpartition(" -> ")[2] if row["a_kind"] == "changed" and " -> " in first_change else None
    name = became or row["model_version"] or row["a_message"] or row["a_kind"]
    text = clean(name)
    return row["begun_ms"], text if len(text) <= MARK_CHARS_MAX else f"…{text[1 - MARK_CHARS_MAX :]}"


def wall_ms() -> int:
    """Now, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _quoted(text: str) -> str:
    """A JavaScript string; addresses are ASCII after their encoding."""
    assert text.isascii()
    return "'" + text.replace("\\", "%5C").replace("'", "%27") + "'"
