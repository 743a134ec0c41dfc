"""What the browser's tests share: a stack with an hour of history, a running fleet, the dashboard, and Chromium."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from fleetpulse.dashboard.shell import THEME_COOKIE
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.services.processes import Command, Processes
from fleetpulse.stack import manage, ports
from lab.bench.dashboard_fleet import Fleet
from lab.bench.dashboard_raw import draw, fill_requests
from lab.bench.dashboard_windows import Span, windows
from runtime.config import Config
from schemas.contract.alerts import Alert, encode
from schemas.contract.record import Record
from schemas.ddl.merging import LEVELS
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, MINUTE_MS
from schemas.rows.costs import COSTS
from schemas.rows.tables import BOOKS, REJECTED
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from sinks.rollup import Notebook
from tests.unit.sinks.landing_cases import derived

HOSTILE = (
    "<img src=x onerror=\"window.pwned='img'\">",
    "<script>window.pwned='script'</script>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "../../",
    "'; DROP TABLE alerts; --",
    "' OR 1=1 UNION ALL SELECT 1 --",
    "{x:Identifier}",
    "javascript:window.pwned='link'",
    "\\'); DROP TABLE alerts; --",
    "\N{RIGHT-TO-LEFT OVERRIDE}drawkcab",
)
"""Names of tenants and models that nobody should ever have run, followed or believed."""
LOG_IDS = dict.fromkeys(("rejected", "costs", "books", "alerts"), "history")
READY_WITHIN_S = 90.0
PATIENCE_S = 60
"""How long a browser waits for what must come at last, on a machine that does other things too."""
LOST_AFTER_S, SECONDS = 10, 240
"""When the GPU is lost and when all ends, in seconds of the simulated fleet: ten of them pass in one."""
SIZES = {"light": (1280, 900), "dark": (1280, 900), "phone": (390, 844)}


def eventually(holds: Callable[[], Any], within_s: float, what: str) -> Any:
    """The first answer that is true."""
    until_s = time.monotonic() + within_s
    while not (found := holds()):
        if time.monotonic() > until_s:
            pytest.fail(f"not within {within_s} s: {what}")
        time.sleep(0.05)
    return found


@dataclass
class Rig:
    """Everything that runs. Looks have a browser context each, which all tests share: what a page loads of scripts is
    fetched and compiled once."""

    config: Config
    processes: Processes
    folder: Path
    port: int
    looks: Mapping[str, BrowserContext]
    seen: list[str] = field(default_factory=list)
    """What browsers complained about."""

    @property
    def address(self) -> str:
        return address_of(self.port)

    @contextlib.contextmanager
    def page(self, look: str = "light") -> Iterator[Page]:
        """A page of its own."""
        page = self.looks[look].new_page()
        page.set_default_timeout(1_000 * PATIENCE_S)
        self.listen(page)
        try:
            yield page
        finally:
            page.close()

    def listen(self, page: Page) -> None:
        """Note what the console of a page says."""
        page.on("console", lambda message: self._complained(message.type, message.text))
        page.on("pageerror", lambda error: self._complained("error", str(error)))

    def _complained(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.seen.append(f"{kind}: {text}")

    def open(self, page: Page, path: str) -> None:
        """Open a page and wait until its numbers are there."""
        page.goto(self.address + path)
        settled(page)

    def lose_a_gpu(self) -> None:
        """Start sixteen GPUs under load of which one is lost at once."""
        faults = self.folder / "faults.json"
        lost = {"kind": "gpu_lost", "field": "gpu", "value": "gpu-001:5", "from_s": LOST_AFTER_S, "to_s": SECONDS}
        faults.write_bytes(orjson.dumps([lost]))
        words = ("simulate", "--gpus", "16", "--speed", "10", "--seed", "3", "--seconds", str(SECONDS))
        files = ("--spool", str(self.folder / "spool"), "--faults", str(faults))
        self.processes.start(Command("simulate", (*words, *files), environment(self.config), restart=False))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows that the writer sees."""
        database = SinkDatabase(self.config.clickhouse)
        try:
            return database.rows(sql)
        finally:
            database.close()


def settled(page: Page) -> None:
    """Wait until the page is connected and no query runs."""
    page.wait_for_function("() => window.socket && window.socket.connected")
    page.wait_for_function("() => !document.querySelector('.fp-busy.on')")


def address_of(port: int) -> str:
    """Where the dashboard answers."""
    return f"http://127.0.0.1:{port}"


def environment(config: Config) -> dict[str, str]:
    """Variables that name the stack to a process."""
    return {"FLEETPULSE_DATA_DIR": str(config.data_dir)}


@contextlib.contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Start everything; end everything."""
    data_dir = folder / "data"
    with contextlib.ExitStack() as ending:
        ending.callback(manage.down, data_dir)
        config = bring_up(data_dir, lambda _said: None)
        processes = ending.enter_context(Processes(folder / "log"))
        for job in ("windows", "finals", "alerts"):
            words = ("jobs", job, "--shell", "bare", "--name", f"b-{job}")
            processes.start(Command(job, words, environment(config)))
        processes.start(Command("sink", ("sink",), environment(config)))
        port = ports.free_ports(1, start=secrets.randbelow(5_000))[0]
        processes.start(Command("dashboard", ("dashboard", "--port", str(port)), environment(config)))
        _history(config, time.time_ns() // 1_000_000)
        browser = ending.enter_context(_browser())
        eventually(lambda: _answers(port), READY_WITHIN_S, f"the dashboard answers: {processes.tail('dashboard')}")
        eventually(lambda: _summed(config), READY_WITHIN_S, f"bills are summed: {processes.tail('sink')}")
        yield Rig(config, processes, folder, port, {look: _context(browser, look, port) for look in SIZES})


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "no Chromium here: install Debian's chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


def _context(browser: Browser, look: str, port: int) -> BrowserContext:
    width, height = SIZES[look]
    made = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, timezone_id="UTC")
    if look == "dark":
        made.add_cookies([{"name": THEME_COOKIE, "value": "dark", "url": address_of(port)}])
    return made


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"{address_of(port)}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _summed(config: Config) -> bool:
    """Whether the sink has summed every bill by minute: a page that is not live asks but once."""
    database = SinkDatabase(config.clickhouse)
    try:
        bills = database.rows("SELECT count() FROM token_costs FINAL")
        return bills == database.rows("SELECT sum(arraySum(bill_count)) FROM token_costs_rollup_1m FINAL")
    finally:
        database.close()


def _history(config: Config, now_ms: int) -> None:
    """An hour of a small fleet, names that nobody should have, rejected records, bills, alerts."""
    database = SinkDatabase(config.clickhouse)
    try:
        until_ms = now_ms - now_ms % MINUTE_MS - 2 * MINUTE_MS
        span = Span(until_ms - HOUR_MS, until_ms)
        draw(database, windows(Fleet(2, 7, tenants=("acme", "globex", "initech")), span), lambda _what: None)
        short = Span(until_ms - 10 * MINUTE_MS, until_ms)
        draw(database, windows(Fleet(1, 8, HOSTILE, HOSTILE), short), lambda _what: None)
        fill_requests(database, span, 2, 7)
        records = [
            derived(REJECTED, _rejected(now_ms), "rejected", 0),
            derived(COSTS, _bills(until_ms), "costs", 0),
            derived(BOOKS, _books(until_ms), "books", 0),
            *_alerts(until_ms),
        ]
        landing = land_derived(records, LOG_IDS, now_ms, DEFAULT_LIMITS)
        database.insert(landing.inserts)
        Notebook(database).note(LEVELS[0], landing.dirty)
    finally:
        database.close()


def _rejected(now_ms: int) -> list[dict[str, Any]]:
    common = {"partition": 0, "events": 1, "topic": "llm.requests", "source": "a1b2c3", "schema": "llm.requests/1"}
    return [
        common | {"appended_ms": now_ms - 1_000 * number, "offset": number, "row": number % 3 or None,
                  "reason": "out_of_range", "detail": HOSTILE[number % len(HOSTILE)], "content_type": "text/plain",
                  "bytes": HOSTILE[number % len(HOSTILE)], "bytes_total": 40}
        for number in range(20)
    ]  # fmt: skip


def _books(now_ms: int) -> list[dict[str, Any]]:
    common = {"job": "windows", "topic": "llm.requests", "partition": 90, "source": "a1b2c3", "boot": 1, "records": 1}
    return [
        common | {"committed_ms": now_ms - number * MINUTE_MS, "offset_from": number, "offset_to": number + 1,
                  "verdict": verdict, "events": 400 if verdict == 0 else 10}
        for number in range(30) for verdict in range(5)
    ]  # fmt: skip


def _bills(until_ms: int) -> list[dict[str, Any]]:
    parts = (("request", "decode", HOSTILE[0], "m", 700), ("request", "prefill", "acme", "m", 200),
             ("__wasted__", "held", None, None, 100))  # fmt: skip
    names = ("part_name", "part_kind", "part_tenant", "part_model")
    listed: dict[str, list[Any]] = {name: [one[index] for one in parts] for index, name in enumerate(names)}
    none: list[None] = [None] * len(parts)
    listed |= {"part_slo_class": none, "part_status": ["ok", "ok", None], "part_amount": [900, 100, None]}
    listed |= {"part_cost_nusd": [one[4] * 1_000_000 for one in parts], "part_energy_mj": [9_000] * 3}
    listed |= {"part_gpu_ms": [20_000] * 3, "part_carbon_ug": [1_000] * 3}
    lines: dict[str, list[Any]] = {name.name: [] for name in COSTS.fields if name.name.startswith("line_")}
    common = {"version": 1, "revision": 1, "final": 1, "weights_version": 1, "definition_version": 1,
              "total_nusd": 1_000_000_000, "gpu_nusd": 900_000_000, "host_nusd": 50_000_000, "energy_nusd": 50_000_000,
              "gpu_ms": 60_000, "energy_mj": 27_000, "carbon_ug": 3_000, "unpriced_gpu_ms": 0, "unpriced_energy_mj": 0,
              "unmeasured_gpu_ms": 0, "estimated_gpu_ms": 0, "use": "engine", "owner": HOSTILE[1],
              "placement_group": "e", "prices_version": "1"}  # fmt: skip
    return [common | lines | listed | {"minute_ms": until_ms - minute * MINUTE_MS} for minute in range(1, 40)]


def _alerts(until_ms: int) -> list[Record]:
    found: list[Record] = []
    for number, name in enumerate(HOSTILE):
        opened_ms = until_ms - (number + 2) * MINUTE_MS
        evidence = {
            "requests": {"failed": [{"request_id": name, "tenant": name, "value_us": 1_000}]},
            name: {name: name},
        }
        alert = Alert(f"{number:016x}", "opened", 1, "ttft_high", "warning", f"TTFT of {name} is high", name,
                      {"model": name, "tenant": name, "host": name}, opened_ms, opened_ms, opened_ms,
                      note=name, evidence=evidence)  # fmt: skip
        ended = replace(
            alert, transition="resolved", number=2, resolved_ms=opened_ms + 30_000, at_ms=opened_ms + 30_000
        )
        for one in (alert, ended) if number % 2 else (alert,):
            found.append(Record("alerts", 0, len(found), 0, one.fingerprint.encode(), encode(one), ()))
    return found
