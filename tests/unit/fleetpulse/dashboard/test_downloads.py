"""Files on their way to browsers: who fetches one, how often, and how many there are at once."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect

from fleetpulse.dashboard import downloads, serve
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.downloads import AT_ONCE_MAX, PATH, Downloads
from fleetpulse.dashboard.guard import USER
from fleetpulse.dashboard.users import OPERATOR, VIEWER, User
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError

ADA, BOB = User("ada", VIEWER, 1, "a"), User("bob", VIEWER, 1, "b")
DATA = b"x" * 100_000


async def asked() -> bytes:
    return DATA


async def failing() -> bytes:
    raise FleetpulseError("no")


def browser(data: Data, user: User) -> httpx.AsyncClient:
    """A browser in which this user is logged in."""
    web = FastAPI()
    web.add_api_route(f"{PATH}/{{key}}", serve.download_of(data), response_model=None)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        await web({**scope, USER: user}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://localhost")


async def test_a_file_is_fetched_once_by_who_asked_for_it() -> None:
    """By a path that nobody can guess; another user's browser gets nothing, and takes nothing away."""
    data = Data(ClickHouseConfig(url="http://db:1"))
    path = await data.downloads.offer(ADA, 'a "b".csv', asked)

    async with browser(data, BOB) as theirs, browser(data, User("ada", OPERATOR, 1, "a")) as own:
        answers = [await theirs.get(path), await own.get(path), await own.get(path), await own.get(f"{PATH}/x")]

    assert [answer.status_code for answer in answers] == [404, 200, 404, 404]
    assert answers[1].content == DATA
    headers = answers[1].headers
    assert headers["content-disposition"] == "attachment; filename*=utf-8''a%20%22b%22.csv"
    assert (headers["content-length"], headers["cache-control"]) == (str(len(DATA)), "no-store")
    assert "fetched" in answers[2].text
    assert data.downloads.under_way == 0


async def test_there_are_so_many_files_at_once() -> None:
    """Also those that wait to be fetched; one that could not be made is none."""
    files = Downloads()
    with pytest.raises(FleetpulseError, match="no"):
        await files.offer(ADA, "a", failing)
    paths = [await files.offer(ADA, "a", asked) for _ in range(AT_ONCE_MAX)]

    with pytest.raises(UnavailableError, match="4 files are under way"):
        await files.offer(ADA, "a", asked)

    sending = files.fetch(paths[0].rpartition("/")[2], ADA)
    assert sending is not None
    assert files.under_way == AT_ONCE_MAX


@pytest.mark.parametrize("ends", ["leaves", "stalls"])
async def test_whatever_ends_a_file_makes_room(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """A browser that leaves, and one that takes nothing for too long."""
    files = Downloads()
    path = await files.offer(ADA, "a", asked)
    sending = files.fetch(path.rpartition("/")[2], ADA)
    assert sending is not None

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(_message: Any) -> None:
        if ends == "leaves":
            raise OSError("gone")
        await asyncio.Event().wait()

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    monkeypatch.setattr(downloads, "SENT_WITHIN_S", 600 if ends == "leaves" else 0)
    with pytest.raises(ClientDisconnect) if ends == "leaves" else nullcontext():
        await sending(scope, receive, send)
    assert files.under_way == 0


async def test_what_is_not_fetched_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is free again, and a later browser finds nothing."""
    monkeypatch.setattr(downloads, "FETCHED_WITHIN_S", 0)
    files = Downloads()
    path = await files.offer(ADA, "a", asked)
    for _ in range(5):
        await asyncio.sleep(0)

    assert files.fetch(path.rpartition("/")[2], ADA) is None
    assert files.under_way == 0
