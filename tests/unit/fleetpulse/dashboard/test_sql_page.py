"""The page *SQL*: over which range a statement runs, its turn, its file, what stays in the editor."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from nicegui import Client, ui

from fleetpulse.dashboard import console, shell
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.downloads import PATH
from fleetpulse.dashboard.pages import sql as page
from fleetpulse.dashboard.shell import Shell
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts, Refresh, View
from fleetpulse.dashboard.zone import UTC_ZONE, zone_of
from schemas.limits import DAY_MS, HOUR_MS
from tests.unit.fleetpulse.dashboard.idle_data import IdleData

NOW_MS = 1_800_000_000_000
MINE = "SELECT {from_ms:Int64} AS mine"
ADA = User("ada", OPERATOR)


class Opened:
    """The page in a browser, over the last day, at a time that the test sets; what ClickHouse was asked."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client, self.data, self.now_ms = client, IdleData(), NOW_MS
        self.asked: list[tuple[str, Any]] = []
        self.logins: list[object] = []
        self.views: list[View] = []
        self.answer = asyncio.Event()
        self.answer.set()
        monkeypatch.setattr(shell, "wall_ms", lambda: self.now_ms)
        monkeypatch.setattr(console, "table", self._table)
        monkeypatch.setattr(console, "file", self._file)

    async def _table(self, login: object, sql: str, values: dict[str, Any]) -> console.Table:
        self.logins.append(login)
        self.asked.append((sql, values.get("from_ms")))
        await self.answer.wait()
        return console.Table(("n",), ("UInt64",), ((1,),), False)

    async def _file(self, login: object, sql: str, values: dict[str, Any], _ending: str) -> bytes:
        self.logins.append(login)
        self.asked.append((sql, values.get("from_ms")))
        await self.answer.wait()
        return b"n\n1\n"

    async def open(self) -> None:
        spec = replace(page.PAGE, build=self._build)
        with self.client:
            whole = Shell([spec], spec, cast(Data, self.data), Facts())
            await whole.open(self.client, {"last": "24h"}, lambda: ADA, dark=False, zone=UTC_ZONE)
        await self.rest()

    def _build(self, view: View) -> Refresh:
        self.views.append(view)
        return page.build(view)

    async def press(self, text: str, sql: str) -> None:
        """Press a button while this stands in the editor."""
        made = [one for one in self.client.elements.values() if one._props.get("innerText") == text]
        (button,) = {(one if one.tag == "button" else one.parent_slot.parent) for one in made if one.parent_slot}
        for listener in [*button._event_listeners.values()]:
            button._handle_event({"listener_id": listener.id, "args": sql})
        await self.rest()

    async def rest(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def table(self) -> ui.element:
        (found,) = (one for one in self.client.elements.values() if one._props.get("label") == "Answer")
        return found

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """What the browser was told."""
        return [message for _, what, message in self.client.outbox.messages if what == kind]


@pytest.fixture
async def opened(client: Client, monkeypatch: pytest.MonkeyPatch) -> Opened:
    found = Opened(client, monkeypatch)
    await found.open()
    found.asked.clear()
    return found


async def test_a_statement_runs_over_the_range_as_it_is_now(opened: Opened) -> None:
    """Not as it was when the page asked last: a page may stand open for days."""
    for hours, button in enumerate(("Run", "CSV", "Parquet"), 1):
        opened.now_ms = NOW_MS + hours * HOUR_MS
        await opened.press(button, MINE)

    assert opened.asked == [(MINE, NOW_MS + hours * HOUR_MS - DAY_MS) for hours in (1, 2, 3)]


async def test_statements_of_people_run_by_the_login_that_all_pages_have(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever settings say by now: that one may only read, or was consented to, when the dashboard began."""
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__URL", "http://other:1")
    monkeypatch.setenv("FLEETPULSE_CLICKHOUSE__USER", "writer")
    opened.logins.clear()

    for button in ("Run", "CSV", "Parquet"):
        await opened.press(button, MINE)

    assert opened.logins == [opened.data.login] * 3


async def test_in_live_mode_what_was_run_last_runs_again(opened: Opened) -> None:
    """Over the range as it is then; one that takes longer than the pause between two comes to its end."""
    view = opened.views[0]
    await opened.press("Run", MINE)
    opened.asked.clear()
    with opened.client:
        view.tick()
        await opened.rest()
        assert opened.asked == []

        opened.now_ms = NOW_MS + HOUR_MS
        view.shell(replace(view.state, live=True))
        await opened.rest()
        assert opened.asked == [(MINE, NOW_MS + HOUR_MS - DAY_MS)]

        opened.answer.clear()
        await opened.press("Run", "SELECT 2")
        view.tick()
        await opened.rest()
        opened.answer.set()
        await opened.rest()
        assert [sql for sql, _ in opened.asked] == [MINE, "SELECT 2"]

        view.tick()
        await opened.rest()
    assert [sql for sql, _ in opened.asked] == [MINE, "SELECT 2", "SELECT 2"]


async def test_the_page_that_somebody_reads_stays_in_live_mode(opened: Opened) -> None:
    """And its order, for the table stays; another statement has a table of its own."""
    view = opened.views[0]
    await opened.press("Run", MINE)
    table = opened.table()
    with opened.client:
        view.shell(replace(view.state, live=True))
        await opened.rest()
        view.tick()
        await opened.rest()
    assert len(opened.asked) > 2
    assert opened.table() is table

    await opened.press("Run", "SELECT 2")
    assert opened.table() is not table


async def test_what_an_answer_came_to_is_not_said_of_another(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what that comes to cannot be told."""
    monkeypatch.setattr(page, "said_of", lambda *_: "acme explains it")
    put = page.text_of(page.FIRST, DAY_MS)
    await opened.press("Run", put)
    elements = [*opened.client.elements.values()]
    (verdict,) = (one for one in elements if one.tag == "p" and one._props.get("role") == "status")
    assert (verdict.visible, verdict._props["innerText"]) == (True, "acme explains it")

    def fails(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(page, "said_of", fails)
    await opened.press("Run", put)
    assert not verdict.visible


async def test_a_file_goes_by_http(opened: Opened) -> None:
    """What the page's socket carries is its address alone."""
    await opened.press("CSV", MINE)

    (told,) = opened.sent("download")
    assert told["src"].startswith(f"{PATH}/")
    assert told["filename"] == "fleetpulse.csv"
    assert opened.data.downloads.fetch(told["src"].rpartition("/")[2], ADA) is not None


async def test_statements_of_all_pages_share_turns(opened: Opened) -> None:
    """Another page's is under way and one waits: this one's is refused, with what to do."""
    ended = asyncio.Event()

    async def other() -> None:
        async with opened.data.statements.one():
            await ended.wait()

    others = [asyncio.ensure_future(other()) for _ in range(2)]
    await opened.rest()
    await opened.press("Run", MINE)
    assert opened.asked == []
    texts = [one._props.get("innerText") for one in opened.client.elements.values()]
    assert "too many statements" in texts

    ended.set()
    await asyncio.wait(others)
    await opened.press("Run", MINE)
    assert [sql for sql, _ in opened.asked] == [MINE]


def put(told: dict[str, Any]) -> tuple[bool, str, str]:
    """What is put into the editor: whether over anything, over which text else, and what."""
    begin, rest = told["code"].split("if (", 1)[1].split(" || ['', ", 1)
    before, text = rest.split("].includes(box.value)) box.value = ")
    return json.loads(begin), json.loads(before), json.loads(text)


async def test_what_was_typed_and_not_run_stays_when_the_range_changes(opened: Opened) -> None:
    """The same query for a range of another length is put over its own text alone; another query over anything."""
    chosen = "pages/fleet_over_time"
    with opened.client:
        view = opened.views[0]
        view.set(query=chosen)
        await opened.rest()
        view.zoom(NOW_MS - 400 * DAY_MS, NOW_MS)
        await opened.rest()

    texts = [page.text_of(chosen, DAY_MS), page.text_of(chosen, 400 * DAY_MS, view.query)]
    found = [put(told) for told in opened.sent("run_javascript") if "sql-text" in told["code"]]
    assert texts[0] != texts[1]
    assert [one[0] for one in found[-2:]] == [True, False]
    assert [one[1:] for one in found[-1:]] == [(texts[0], texts[1])]


def test_moments_are_of_the_pages_zone_and_say_which() -> None:
    """To the second, as everywhere on the page; what no calendar has is a number."""
    zone = zone_of("Europe/Paris")

    assert page.cell(zone, "at_ms", 1_795_809_501_000) == "2026-11-27 20:58:21 CET"
    assert page.cell(UTC_ZONE, "at_ms", 1_795_809_501_000) == "2026-11-27 19:58:21 UTC"
    assert page.cell(zone, "at_ms", 10**18) == f"{10**18:,}"
    assert page.cell(zone, "duration_ms", 1_500) == "1,500"
