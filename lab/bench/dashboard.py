"""``bench dashboard``: how long every query of the catalogue takes, and every page, over the history of a big fleet.

The tables are filled directly (``dashboard_raw``); each query is run by the read-only user over ranges whose tables
differ, as pages run it. A page is loaded by a real Chromium where there is one, until its numbers are there. Queries
ready for people are run over the last hour as ``fleetpulse query NAME`` does, without fetching their rows.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from fleetpulse import queries
from fleetpulse.commands.progress import Progress
from fleetpulse.queries import dashboard as catalogue
from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.query import query_of
from lab.bench.dashboard_alerts import fill_alerts
from lab.bench.dashboard_fleet import GPUS_PER_HOST, Fleet
from lab.bench.dashboard_queries import Examples, examples_of, ranges_of, tables_of, values_of
from lab.bench.dashboard_raw import draw, fill_requests, more_requests, raw
from lab.bench.dashboard_sums import sums
from lab.bench.dashboard_windows import RANGES_MS, Span, windows
from lab.bench.stand import Stand, free_port, fresh_stand, until
from runtime.clickhouse_clients import connect
from runtime.clock import SystemClock
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import HOUR_MS, MINUTE_MS
from sinks.database import SinkDatabase

QUERY_P95_MS = 300
PAGE_P95_MS = 2_000
PEOPLE_P95_MS = 5_000
RAW_SECONDS = 60
_READY_WITHIN_S = 60.0
_MERGED_WITHIN_S = 300.0
_SHOWN_WITHIN_MS = 60_000
_SHOWN = """() => window.socket && window.socket.connected && !document.querySelector('.fp-busy.on')
    && [...document.querySelectorAll('.fp-chart')].every((one) => {
      const { top, bottom } = one.getBoundingClientRect();
      return !one.offsetParent || bottom < 0 || top > innerHeight || one.querySelector('canvas');
    })
"""
NOTE = "filled.json"
"""What the tables hold, beside them."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command. ``keep`` leaves the filled tables, ``kept`` queries those left before."""

    gpus: int
    hours: int
    times: int
    seed: int
    keep: bool = False
    kept: bool = False
    ask: bool = True


def measure(data_dir: Path | None, options: Options, progress: Progress) -> dict[str, Any]:
    """Fill, ask, load; percentiles in ms."""
    keep = options.keep or options.kept
    with fresh_stand(data_dir, progress.say, folder="bench-filled", keep=keep, kept=options.kept) as stand:
        filling = _kept(stand, options) if options.kept else _filled(stand, options, progress)
        _merged(stand, progress)
        empty = _empty_tables(stand, options.hours * HOUR_MS)
        with contextlib.closing(connect(stand.config.reading)) as client:
            examples = examples_of(client, filling.span.to_ms)
            of_pages = _queries(client, filling.span, examples, options.times, progress) if options.ask else {}
            people = _of_people(client, filling.span, options.times, progress) if options.ask else {}
        pages = _pages(stand, filling.span, examples, options.times, progress) if options.ask else None
    bounds = {"query_p95_ms": QUERY_P95_MS, "people_p95_ms": PEOPLE_P95_MS, "page_p95_ms": PAGE_P95_MS}
    beyond = [
        name
        for found, bound_ms in zip((of_pages, people, pages or {}), bounds.values(), strict=True)
        for name, one in found.items()
        if one["p95_ms"] is None or one["p95_ms"] > bound_ms
    ]
    return {
        "gpus": options.gpus, "hours": options.hours, "times": options.times, "rows": filling.rows,
        "queries": of_pages, "people": people, "pages": pages,
        "bounds": bounds, "beyond": beyond, "empty_tables": empty, "found_nothing": found_nothing(of_pages),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filling:
    """What tables hold: history over ``span``, ``rows`` in all."""

    span: Span
    rows: int


def _kept(stand: Stand, options: Options) -> Filling:
    note = orjson.loads((stand.data_dir / NOTE).read_bytes())
    wanted = {"gpus": options.gpus, "hours": options.hours, "seed": options.seed}
    if {name: note[name] for name in wanted} != wanted:
        raise FleetpulseError(f"what was kept has other --gpus, --hours or --seed: {note}")
    return Filling(Span(note["from_ms"], note["to_ms"]), note["rows"])


def _filled(stand: Stand, options: Options, progress: Progress) -> Filling:
    now_ms = SystemClock().now_ms()
    to_ms = now_ms - now_ms % MINUTE_MS
    span = Span(to_ms - options.hours * HOUR_MS, to_ms)
    with contextlib.closing(SinkDatabase(stand.config.clickhouse)) as database:
        rows = _fill(database, Fleet(options.gpus // GPUS_PER_HOST, options.seed), span, progress)
    note = {"gpus": options.gpus, "hours": options.hours, "seed": options.seed}
    note |= {"from_ms": span.from_ms, "to_ms": span.to_ms, "rows": rows}
    (stand.data_dir / NOTE).write_bytes(orjson.dumps(note))
    return Filling(span, rows)


def _fill(database: SinkDatabase, fleet: Fleet, span: Span, progress: Progress) -> int:
    rows = fill_alerts(database, fleet, span) + fill_requests(database, span, RAW_SECONDS, fleet.seed)
    for sql in more_requests(fleet):
        database.command(sql)
    every = chain(sums(fleet, span), raw(fleet, span, RANGES_MS), windows(fleet, span))
    return rows + draw(database, every, progress.say)


def _merged(stand: Stand, progress: Progress) -> None:
    """Wait until the server has put together what was inserted at once: no fleet sends hours of history in minutes."""
    merging = "SELECT count() FROM system.merges"
    with (
        contextlib.closing(SinkDatabase(stand.config.clickhouse)) as database,
        progress.task("waiting for merges"),
        contextlib.suppress(FleetpulseError),
    ):
        until(lambda: database.rows(merging) == [(0,)], _MERGED_WITHIN_S, str, every_s=1.0)


def percentiles(took_ms: list[float]) -> dict[str, float | None]:
    """The median and the 95th percentile; null when nothing was measured."""
    if not took_ms:
        return {"p50_ms": None, "p95_ms": None}
    return {f"p{q}_ms": round(float(np.percentile(took_ms, q)), 1) for q in (50, 95)}


def _empty_tables(stand: Stand, history_ms: int) -> list[str]:
    """Tables that a query of the catalogue reads and that hold nothing: queries of them prove nothing."""
    every = map(catalogue.query, catalogue.names())
    read = {table for query in every for one in ranges_of(query, history_ms) for table in tables_of(query, one)}
    with contextlib.closing(SinkDatabase(stand.config.clickhouse)) as database:
        return sorted(table for table in read if not database.rows(f"SELECT 1 FROM {table} LIMIT 1"))


def found_nothing(queries: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of queries that were answered with no row over any range; keys are name and range."""
    rows: dict[str, int] = {}
    for key, one in queries.items():
        name = key.partition("/")[0]
        rows[name] = rows.get(name, 0) + (one.get("rows") or 0)
    return [name for name, count in rows.items() if not count]


def _queries(client: Any, span: Span, examples: Examples, times: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """By query and range: percentiles, or why it was refused."""
    found: dict[str, dict[str, Any]] = {}
    for query in map(catalogue.query, catalogue.names()):
        with progress.task(f"running {query.name}"):
            for range_ms in ranges_of(query, span.to_ms - span.from_ms):
                bound = values_of(query, span.to_ms - range_ms, span.to_ms, examples)
                sql = query.at_levels(range_ms, bound)
                one, rows = _timed(partial(_rows_of, client, sql, bound, query.settings()), times)
                found[f"{query.name}/{range_ms // MINUTE_MS}m"] = one if rows is None else one | {"rows": rows}
    return found


def _of_people(client: Any, span: Span, times: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """By name: percentiles of each query ready for people; those are left out that want a value that nobody knows."""
    found: dict[str, dict[str, Any]] = {}
    for name in queries.names():
        with progress.task(f"running {name} for people"), contextlib.suppress(ConfigError):
            query = query_of(name, (), span.to_ms, HOUR_MS)
            run = partial(client.raw_query, query.sql, dict(query.parameters), fmt="Null")
            found[name], _ = _timed(run, times)
    return found


def _rows_of(client: Any, sql: str, bound: Mapping[str, catalogue.Value], settings: Mapping[str, Any]) -> int:
    """How many rows an answer has, all of them fetched."""
    return len(client.query(sql, parameters=bound, settings=settings).result_rows)


def _timed(run: Callable[[], Any], times: int) -> tuple[dict[str, Any], Any]:
    """Percentiles of a query and its last answer; or why it was refused, and nothing."""
    took_ms, answer = list[float](), None
    for _ in range(times + 1):
        begun_s = time.perf_counter()
        try:
            answer = run()
        except Exception as error:  # of the driver's many: a query that fails is a result, and shown as one
            return percentiles([]) | {"refused": str(error).splitlines()[0][:200]}, None
        took_ms.append(1_000 * (time.perf_counter() - begun_s))
    return dict(percentiles(took_ms[1:])), answer  # the first reads the disk


def _pages(
    stand: Stand, span: Span, examples: Examples, times: int, progress: Progress
) -> Mapping[str, dict[str, float | None]] | None:
    """By path: how long a page takes to show its numbers; None without a browser."""
    from fleetpulse.dashboard.serve import PAGES

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        progress.say("no pages: they need Chromium and the Python package playwright")
        return None
    with _served(stand) as address, sync_playwright() as playwright, progress.task("loading pages"):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        context = browser.new_context(viewport={"width": 1_280, "height": 900})
        paths = (*(page.path for page in PAGES if page.in_menu), *examples.addresses())
        return {path: percentiles(_loads(context, address + path, span, times)) for path in paths}


@contextlib.contextmanager
def _served(stand: Stand) -> Iterator[str]:
    """The dashboard as its own process; its address."""
    import httpx

    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with Processes(stand.log_dir) as processes:
        processes.start(Command("dashboard", ("dashboard", "--port", str(port)), stand.environment))

        def ready() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(f"{address}/healthz", timeout=2).is_success
            return False

        until(ready, _READY_WITHIN_S, lambda: f"the dashboard did not start:\n{processes.tail('dashboard')}")
        yield address


def _loads(context: Any, address: str, span: Span, times: int) -> list[float]:
    """How long each load took [ms], the first left out: it also fills the browser's cache."""
    return [_load(context, f"{address}{'&' if '?' in address else '?'}{hour}") for hour in hours(span, times + 1)][1:]


def hours(span: Span, times: int) -> list[str]:
    """The last hour of the history as addresses say it, each second of them a second earlier than the one before, so
    that no answer is one that the dashboard still keeps."""
    ends = [span.to_ms - 1_000 * number for number in range(times)]
    return [f"from={max(span.from_ms, to_ms - HOUR_MS)}&to={to_ms}" for to_ms in ends]


def _load(context: Any, address: str) -> float:
    """Until the page is connected, no query runs, every chart in sight is drawn, and the screen has it."""
    page = context.new_page()
    page.set_default_timeout(_SHOWN_WITHIN_MS)
    begun_s = time.perf_counter()
    page.goto(address)
    page.wait_for_function(_SHOWN)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    took_ms = 1_000 * (time.perf_counter() - begun_s)
    page.close()
    return took_ms
