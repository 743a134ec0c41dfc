"""``bench dashboard``: how long every query of the catalogue takes, and every page, over the history of a big fleet.

The tables are filled directly (``dashboard_fill``); each query is asked by the read-only user over ranges whose tables
differ, as pages ask it. A page is loaded by a real Chromium where there is one, until its figures are there.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from fleetpulse.bench.dashboard_fill import Span, fill, fill_requests
from fleetpulse.bench.dashboard_history import GPUS_PER_HOST, TENANTS, Fleet, gpu_uuid
from fleetpulse.bench.dashboard_sums import fill_sums
from fleetpulse.bench.progress import Progress
from fleetpulse.bench.stand import Stand, filled_stand
from fleetpulse.processes import Command, Processes
from fleetpulse.queries import dashboard as catalogue
from fleetpulse.stack import ports
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError
from schemas.limits import HOUR_MS, MINUTE_MS
from sinks.database import SinkDatabase

QUERY_P95_MS = 300
PAGE_P95_MS = 2_000
RANGES_MS = (15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS)
RAW_SECONDS = 60
_READY_WITHIN_S = 60.0
_MERGED_WITHIN_S = 300.0
_SHOWN_WITHIN_MS = 60_000
_SHOWN = """() => window.socket && window.socket.connected && !document.querySelector('.fp-busy.on')
    && [...document.querySelectorAll('.nicegui-echart')]
        .every((one) => !one.offsetParent || one.querySelector('canvas'))
"""
NOTE = "filled.json"
"""What the tables hold, beside them."""
_GIVEN: dict[str, catalogue.Value] = {
    "total": "util_gpu_pct_sum",
    "known": "util_gpu_pct_count",
    "dimension": "tenant",
    "bins": "ttft_us_bins",
    "gpu_uuid": gpu_uuid(0),
    "top": 50,
    "kept_ms": 60 * 24 * HOUR_MS,
    "bytes_max": 2_048,
    "row": -1,
    "metric": "ttft",
    "slo_classes": ["interactive", "standard"],
    "slo_ttft_us": [500_000, None],
    "slo_tpot_us": [50_000, None],
    "slo_e2e_us": [None, 30_000_000],
    "names": [*TENANTS, None],
}
_OF_GPUS: dict[str, catalogue.Value] = {"dimension": "host"}
_EMPTY: dict[str, catalogue.Value] = {"String": ""}
"""What a place takes that no page fills: a filter that takes all; numbers are 0."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command was told. ``keep`` leaves the filled tables, ``kept`` asks those left before."""

    gpus: int
    hours: int
    times: int
    seed: int
    keep: bool = False
    kept: bool = False
    ask: bool = True


def measure(data_dir: Path | None, asked: Asked, progress: Progress) -> dict[str, Any]:
    """Fill, ask, load; percentiles in ms."""
    keep = asked.keep or asked.kept
    with filled_stand(data_dir, progress.say, keep=keep, kept=asked.kept) as stand:
        filling = _kept(stand, asked) if asked.kept else _filled(stand, asked, progress)
        _merged(stand, progress)
        queries = _queries(stand.config.reading, filling.span, asked.times, progress) if asked.ask else {}
        pages = _pages(stand, filling.span, asked.times, progress) if asked.ask else None
    beyond = [name for name, one in queries.items() if one["p95_ms"] is None or one["p95_ms"] > QUERY_P95_MS]
    slow = [path for path, one in (pages or {}).items() if one["p95_ms"] is None or one["p95_ms"] > PAGE_P95_MS]
    return {
        "gpus": asked.gpus, "hours": asked.hours, "times": asked.times, "rows": filling.rows,
        "queries": queries, "pages": pages,
        "bounds": {"query_p95_ms": QUERY_P95_MS, "page_p95_ms": PAGE_P95_MS}, "beyond": beyond + slow,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filling:
    """What tables hold: history over ``span``, ``rows`` in all."""

    span: Span
    rows: int


def _kept(stand: Stand, asked: Asked) -> Filling:
    told = orjson.loads((stand.data_dir / NOTE).read_bytes())
    wanted = {"gpus": asked.gpus, "hours": asked.hours, "seed": asked.seed}
    if {name: told[name] for name in wanted} != wanted:
        raise FleetpulseError(f"what was kept has other --gpus, --hours or --seed: {told}")
    return Filling(Span(told["from_ms"], told["to_ms"]), told["rows"])


def _filled(stand: Stand, asked: Asked, progress: Progress) -> Filling:
    now_ms = SystemClock().now_ms()
    to_ms = now_ms - now_ms % MINUTE_MS
    span = Span(to_ms - asked.hours * HOUR_MS, to_ms)
    database = SinkDatabase(stand.config.clickhouse)
    try:
        rows = _fill(database, Fleet(asked.gpus // GPUS_PER_HOST, asked.seed), span, progress)
    finally:
        database.close()
    told = {"gpus": asked.gpus, "hours": asked.hours, "seed": asked.seed}
    told |= {"from_ms": span.from_ms, "to_ms": span.to_ms, "rows": rows}
    (stand.data_dir / NOTE).write_bytes(orjson.dumps(told))
    return Filling(span, rows)


def _fill(database: SinkDatabase, fleet: Fleet, span: Span, progress: Progress) -> int:
    said = [""]

    def tell(what: str, done: int, of: int) -> None:
        if f"{what}{10 * done // of}" != said[0]:
            said[0] = f"{what}{10 * done // of}"
            progress.say(f"{what}: {done:,} of {of:,}")

    rows = fill_sums(database, fleet, (span.from_ms, span.to_ms), tell)
    return rows + fill_requests(database, span, RAW_SECONDS, fleet.seed) + fill(database, fleet, span, tell)


def _merged(stand: Stand, progress: Progress) -> None:
    """Wait until the server has put together what was inserted at once: no fleet sends hours of history in minutes."""
    database = SinkDatabase(stand.config.clickhouse)
    until_s = time.monotonic() + _MERGED_WITHIN_S
    try:
        with progress.task("waiting for merges"):
            while database.rows("SELECT count() FROM system.merges") != [(0,)] and time.monotonic() < until_s:
                time.sleep(1)
    finally:
        database.close()


def values_of(query: catalogue.Query, from_ms: int, to_ms: int) -> dict[str, catalogue.Value]:
    """A value for every place of a query: the range, no filter, and what a page would choose."""
    range_ms = to_ms - from_ms
    known = {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": range_ms // 120, **_GIVEN}
    known |= _OF_GPUS if query.name == "values_of_gpus" else {}
    given = {
        name: known.get(name, _EMPTY.get(kind, 0))
        for name, kind in query.parameters.items()
        if name not in query.sources
    }
    return query.values(given, to_ms - from_ms)


def percentiles(took_ms: list[float]) -> dict[str, float | None]:
    """The median and the 95th percentile; null when nothing was measured."""
    if not took_ms:
        return {"p50_ms": None, "p95_ms": None}
    return {f"p{q}_ms": round(float(np.percentile(took_ms, q)), 1) for q in (50, 95)}


def _queries(login: ClickHouseConfig, span: Span, times: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """By query and range: percentiles, or why it was refused."""
    import clickhouse_connect

    found: dict[str, dict[str, Any]] = {}
    client = clickhouse_connect.get_client(**login.client_settings(), autogenerate_session_id=False)
    with contextlib.closing(client):
        for name in catalogue.names():
            with progress.task(f"asking {name}"):
                for range_ms in (one for one in RANGES_MS if one <= span.to_ms - span.from_ms):
                    asked = _asked(client, catalogue.query(name), span.to_ms - range_ms, span.to_ms, times)
                    found[f"{name}/{range_ms // MINUTE_MS}m"] = asked
    return found


def _asked(client: Any, query: catalogue.Query, from_ms: int, to_ms: int, times: int) -> dict[str, Any]:
    bound, took_ms = values_of(query, from_ms, to_ms), []
    for _ in range(times + 1):
        begun_s = time.perf_counter()
        try:
            client.query(query.sql, parameters=bound, settings=query.settings())
        except Exception as error:  # of the driver's many: a query that fails is a result, and told as one
            return percentiles([]) | {"refused": str(error).splitlines()[0][:200]}
        took_ms.append(1_000 * (time.perf_counter() - begun_s))
    return percentiles(took_ms[1:])  # the first reads the disk


def _pages(stand: Stand, span: Span, times: int, progress: Progress) -> Mapping[str, dict[str, float | None]] | None:
    """By path: how long a page takes to show its figures; None where there is no browser to ask."""
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
        return {path: percentiles(_loads(context, address + path, span, times)) for path in _paths()}


def _paths() -> list[str]:
    from fleetpulse.dashboard.registry import PAGES

    return [page.path for page in PAGES if page.in_menu]


@contextlib.contextmanager
def _served(stand: Stand) -> Iterator[str]:
    """The dashboard as its own process; its address."""
    import httpx

    port = ports.free_ports(1, start=secrets.randbelow(5_000))[0]
    address = f"http://127.0.0.1:{port}"
    with Processes(stand.log_dir) as processes:
        environment = {"FLEETPULSE_DATA_DIR": str(stand.data_dir)}
        processes.start(Command("dashboard", ("dashboard", "--port", str(port)), environment))
        until_s = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < until_s:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{address}/healthz", timeout=2).is_success:
                    yield address
                    return
            time.sleep(0.2)
        raise FleetpulseError(f"the dashboard did not start:\n{processes.tail('dashboard')}")


def _loads(context: Any, address: str, span: Span, times: int) -> list[float]:
    """How long each load took [ms], the first left out: it also fills the browser's cache."""
    return [_load(context, f"{address}?{hour}") for hour in hours(span, times + 1)][1:]


def hours(span: Span, times: int) -> list[str]:
    """The last hour of the history as addresses say it, each second of them a second earlier than the one before, so
    that no answer is one that the dashboard still keeps."""
    ends = [span.to_ms - 1_000 * number for number in range(times)]
    return [f"from={max(span.from_ms, to_ms - HOUR_MS)}&to={to_ms}" for to_ms in ends]


def _load(context: Any, address: str) -> float:
    """Until the page is connected, nothing is being asked, every chart in sight is drawn, and the screen has it."""
    page = context.new_page()
    page.set_default_timeout(_SHOWN_WITHIN_MS)
    begun_s = time.perf_counter()
    page.goto(address)
    page.wait_for_function(_SHOWN)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    took_ms = 1_000 * (time.perf_counter() - begun_s)
    page.close()
    return took_ms
