"""*SQL*: a read-only console, with every saved query to start from."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from fleetpulse import queries
from fleetpulse.dashboard import console, sql_parameters
from fleetpulse.dashboard.parts import Column, Panel, Table, button, choices, set_text, tag
from fleetpulse.dashboard.sql_parameters import missing, of_range, parsed, values_for
from fleetpulse.dashboard.time_range import RangeSpec
from fleetpulse.dashboard.url_state import CHARS_MAX
from fleetpulse.dashboard.values import clean, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View, wall_ms
from fleetpulse.dashboard.zone import Zone
from fleetpulse.queries import dashboard as catalogue
from fleetpulse.queries.data_ends import kinds_of
from fleetpulse.queries.offers import offered
from fleetpulse.queries.verdict import said_of
from fleetpulse.report.cells import head, readable, rounded
from fleetpulse.sql.query import advice
from schemas.errors import FleetpulseError
from stream_jobs.prices.model import is_example

FIRST = "throughput_by_model"
OF_PAGES = "pages/"
"""Begins the names of the queries behind pages, which stand in a catalogue of their own."""
Act = Coroutine[Any, Any, None]
_READ = "() => { const box = document.getElementById('sql-text'); emit(box ? box.value : ''); }"
_ON_KEY = "(e) => { if ((e.ctrlKey || e.metaKey) && e.key === 'Enter') { e.preventDefault(); emit(e.target.value); } }"


def saved() -> tuple[str, ...]:
    """Names of all saved queries: those for people first, then those behind pages alone."""
    behind = (name for name in catalogue.names() if name not in catalogue.SHARED)
    return (*queries.names(), *(f"{OF_PAGES}{name}" for name in behind))


def text_of(name: str, span_ms: int, query: Callable[[str], catalogue.Query] = catalogue.query) -> str:
    """The SQL of a saved query; of one behind a page, as ``query`` has it, with its tables for a range of this length
    written in."""
    if name.startswith(OF_PAGES):
        found = query(name.removeprefix(OF_PAGES))
        return f"-- {found.title}\n{found.at_levels(span_ms)}"
    return queries.text(name).strip()


def cell(zone: Zone, column: str, value: Any) -> str:
    """A cell: amounts in units that people read, moments in the page's zone; a file has the numbers as they are."""
    said = readable(column, value, zone.said)
    if isinstance(said, int) and not isinstance(said, bool):
        return f"{said:,}"
    return rounded(said) if isinstance(said, float) else clean(said)


def build(view: View) -> Refresh:
    """The editor, and what came back."""
    return _Sql(view).refresh


class _Sql:
    def __init__(self, view: View) -> None:
        self._view = view
        self._shown, self._put, self._ran = "", "", ""
        """Name of the saved query that was chosen, its text as it was put into the editor, and what was run last."""
        self._ran_with: tuple[RangeSpec, str] | None = None
        self._runs = 0
        self._statements = console.Statements()
        view.when_gone(self._statements.stop)
        known = {name: name.replace("_", " ") for name in saved()}
        with Panel("Statement", "read only; Ctrl+Enter runs it").body:
            self._text = tag("textarea", "fp-mono", id="sql-text", aria_label="SQL", rows="10", spellcheck="false")
            self._text._props["style"] = (
                "width:100%;resize:vertical;color:var(--text);background:var(--ground);border:1px solid var(--line);"
                "border-radius:6px;padding:8px 10px;tab-size:4"
            )
            self._text.on("keydown", lambda event: self._start("shown", self._again, event.args), js_handler=_ON_KEY)
            with tag("div", "fp-filters"):
                choices("Saved", known, view.choice("query", known), self._choose)
                self._action("Run", "play_arrow", "shown", self._again, "primary")
                self._action("CSV", "download", "file", lambda sql: self._download(sql, "csv"))
                self._action("Parquet", "download", "file", lambda sql: self._download(sql, "parquet"))
            self._fields = sql_parameters.Fields(self._give)
        self._result = Panel("Answer")
        with self._result.body:
            self._error = tag("pre", "fp-mono fp-bad", text="", role="alert")
            self._error._props["style"] = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0"
            self._error.set_visibility(False)
            self._verdict = tag("p", text="", role="status")
            self._verdict.set_visibility(False)
            self._table = tag("div", "", style="overflow-x:auto")
        self._answer: tuple[object, Table] | None = None
        """The table that stands there, and what it is of."""

    def _action(self, text: str, icon: str, kind: str, act: Callable[[str], Act], classes: str = "") -> None:
        made = button(text, lambda: None, icon, classes)
        made.on("click", lambda event: self._start(kind, act, event.args), js_handler=_READ)

    def _start(self, kind: str, act: Callable[[str], Act], sql: Any) -> None:
        if isinstance(sql, str):
            self._statements.start(kind, act(sql))

    def _choose(self, name: str) -> None:
        self._view.set(query=name, given="")

    def _give(self, given: str, sql: str) -> None:
        """Other values of parameters: into the address, and run what stands in the editor with them."""
        if len(given) > (most := CHARS_MAX["given"]):
            self._fail(f"these values have {len(given):,} characters together, a link carries {most}")
            return
        self._ran = sql
        self._view.set(given=given)

    async def refresh(self) -> None:
        """Put the saved query into the editor when another was chosen, and run it; else run what was run last when the
        range or values of parameters are others, and in live mode unless it runs."""
        name = self._view.choice("query", saved())
        sql = text_of(name, self._view.range.span_ms, self._view.query)
        if name != self._shown:
            self._put_into_editor(sql, chosen=bool(self._shown))
            self._shown = name
        elif self._ran == self._put != sql:  # nobody changed it: for a range of another length it reads other tables
            self._put_into_editor(sql, chosen=False)
        elif self._ran_with == self._running_with() and (
            not self._view.state.live or self._statements.under_way("shown")
        ):
            return
        else:
            sql = self._ran
        await asyncio.wait({self._statements.start("shown", self._run(sql))})

    def _put_into_editor(self, sql: str, *, chosen: bool) -> None:
        # As a property of the element it would be put back over what was typed at every render. What was typed and not
        # run stays, unless another query was chosen.
        put = "const box = document.getElementById('sql-text'); if (%s || ['', %s].includes(box.value)) box.value = %s"
        self._text.client.run_javascript(put % (json.dumps(chosen), json.dumps(self._put), json.dumps(sql)))
        self._put = sql

    def _running_with(self) -> tuple[RangeSpec, str]:
        return self._view.state.range_spec, self._view.option("given")

    def _values(self, sql: str) -> dict[str, str | int]:
        """Raises ``FleetpulseError`` where people must give one."""
        given, offer = parsed(self._view.option("given")), offered(self._shown)
        self._fields.show(sql, given, offer)
        ranged = of_range(self._view.range, wall_ms(), self._view.zone.info)
        values = values_for(sql, ranged, given, offer)
        if lacking := missing(sql, values):
            raise FleetpulseError(lacking)
        return values

    def _against(self, values: Mapping[str, str | int]) -> str:
        """What is said of the range that this one is compared with; "" where there is none."""
        begin, end = values.get("before_from_ms"), values.get("before_to_ms")
        if isinstance(begin, int) and isinstance(end, int):
            return f", against {self._view.zone.label(begin, end)}"
        return ""

    async def _again(self, sql: str) -> None:
        """Run it over the range as it is now, with nothing else of the page asked again, and say where data is if that
        has none."""
        try:
            self._view.check_user()
            await self._view.renew()
            await self._run(sql)
            await self._view.say_lack()
        except FleetpulseError as error:
            self._fail(str(error))

    async def _run(self, sql: str) -> None:
        """Run it and show the answer, unless another was begun meanwhile."""
        self._runs += 1
        run, began_s = self._runs, time.monotonic()
        self._ran, self._ran_with, self._view.reads = sql, self._running_with(), ()
        set_text(self._error, "")
        self._result.hint("running …")
        try:
            self._view.check_user()
            values = self._values(sql)
            async with self._view.data.statements.one():
                found = await console.table(self._view.data.login, sql, values)
            took_s = time.monotonic() - began_s
            rated = " · example prices" if await self._with_examples(sql) else ""
        except FleetpulseError as error:
            if run == self._runs:
                self._fail(str(error))
            return
        if run != self._runs:
            return
        self._error.set_visibility(False)
        cut = f"; cut off at {len(found.rows):,}, a file holds more" if found.more else ""
        advised = f" · {said}" if (said := advice(sql)) else ""
        against = self._against(values)
        self._result.hint(f"{len(found.rows):,} rows in {short(took_s)} s{against}{cut}{rated}{advised}")
        follows = values.get("from_ms") == self._view.range.from_ms
        self._view.reads = kinds_of(sql) if follows and not found.rows else ()
        self._fill(found)
        self._judge(found, sql, values)

    async def _with_examples(self, sql: str) -> bool:
        """Whether money of the range is by the shipped example prices, which nobody charges."""
        if "bills" not in kinds_of(sql):
            return False
        rows = (await self._view.ask("cost_prices")).records()
        return any(is_example(row["version"]) for row in rows)

    def _judge(self, found: console.Table, sql: str, values: Mapping[str, str | int]) -> None:
        """Say what the answer comes to, where that is known; first of all no more what another came to."""
        said = ""
        self._verdict.set_visibility(False)
        if sql == self._put:
            rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
            said = said_of(self._shown, {name: str(value) for name, value in values.items()}, rows)
        set_text(self._verdict, said)
        self._verdict.set_visibility(bool(said))

    def _fail(self, said: str) -> None:
        self._result.hint("rejected")
        self._clear()
        self._verdict.set_visibility(False)
        self._show_error(said)

    def _show_error(self, said: str) -> None:
        self._result.show()
        set_text(self._error, said)
        self._error.set_visibility(True)

    def _clear(self) -> None:
        self._table.clear()
        self._answer = None

    def _fill(self, found: console.Table) -> None:
        """In live mode the table stays, so that page and order stay that somebody chose."""
        if not found.rows:
            self._clear()
            self._result.empty("No rows", "The statement is fine and nothing fits it.")
            return
        self._result.show()
        of = (self._ran, found.columns, found.types)
        if self._answer is None or self._answer[0] != of:
            self._clear()
            self._answer = of, self._new_table(found)
        self._answer[1].show([{f"c{number}": value for number, value in enumerate(row)} for row in found.rows])

    def _new_table(self, found: console.Table) -> Table:
        # Names of columns are anybody's text: rows are keyed by number, names stand in labels alone.
        numeric = [kind.removeprefix("Nullable(").startswith(("UInt", "Int", "Float")) for kind in found.types]
        columns = [
            Column(f"c{number}", clean(head(name)), partial(cell, self._view.zone, name), right=numeric[number])
            for number, name in enumerate(found.columns)
        ]
        with self._table:
            return Table(columns, "Answer", page_rows=25)

    async def _download(self, sql: str, ending: str) -> None:
        name = f"fleetpulse.{ending}"
        try:
            user = self._view.check_user()
            await self._view.renew()
            values = self._values(sql)
            path = await self._view.data.downloads.offer(user, name, lambda: self._file(sql, values, ending))
        except FleetpulseError as error:
            self._show_error(f"No {ending.upper()} file: {error}")  # the answer that is shown stays
            return
        self._error.set_visibility(False)
        with self._table:
            ui.download.from_url(path, name)

    async def _file(self, sql: str, values: Mapping[str, str | int], ending: str) -> bytes:
        async with self._view.data.statements.one():
            return await console.file(self._view.data.login, sql, values, ending)


PAGE = PageSpec(
    path="/sql",
    title="SQL",
    icon="terminal",
    about="Read-only SQL; every query of the other pages to start from",
    build=build,
    options={"query": FIRST, "given": ""},
    live_s=10.0,
)
