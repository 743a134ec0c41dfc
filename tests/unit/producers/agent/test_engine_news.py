"""What other edges hear of a host's engines, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from producers.agent.engine_news import run_engine_news
from producers.identity import host_file
from producers.identity.host_engines import HostEngines
from schemas.contract.engines import FORGOTTEN_AFTER_MS, SCHEMA, Engine, decode
from tests.virtual_clock import VirtualClock

SEEN = Engine("e", "", "g", ("h-1:8000",))
NOW_MS = 2 * FORGOTTEN_AFTER_MS


class Announced:
    def __init__(self) -> None:
        self.states: list[Engine] = []
        self.withdrawn: list[bytes] = []

    def announce(self, topic: str, key: bytes, value: bytes, schema: str) -> None:
        engine = decode(value)
        assert (topic, key, schema) == ("engines", engine.key, SCHEMA)
        self.states.append(engine)

    def withdraw(self, topic: str, key: bytes, schema: str) -> None:
        assert (topic, schema) == ("engines", SCHEMA)
        self.withdrawn.append(key)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""

    def wait() -> None:
        end_s = time.monotonic() + 5
        while not condition() and time.monotonic() < end_s:
            time.sleep(0.01)
        assert condition()

    await asyncio.to_thread(wait)


def engines_in(path: Path) -> int:
    return len(host_file.read(path).engines) if path.exists() else -1


async def test_a_change_is_in_the_file_and_on_the_topic(tmp_path: Path) -> None:
    """Noticed in a thread, as collectors do; with the time at which it was reported."""
    path, stop, announced, engines = tmp_path / "engines.json", asyncio.Event(), Announced(), HostEngines("h-1")
    news = asyncio.create_task(run_engine_news(announced, engines, path, stop, VirtualClock(NOW_MS)))
    await until(lambda: engines_in(path) == 0)
    await asyncio.to_thread(engines.saw, SEEN)
    await until(lambda: engines_in(path) == 1)
    assert host_file.is_held(path)
    stop.set()
    await news

    assert not host_file.is_held(path)
    known = replace(SEEN, host="h-1", reported_ms=NOW_MS)
    assert host_file.read(path).engines == (known,)
    assert announced.states[-1] == known


async def test_engines_of_before_a_restart_are_known_from_the_start(tmp_path: Path) -> None:
    """Not as responding; those that nobody has seen for a day are forgotten."""
    path, stop, engines = tmp_path / "engines.json", asyncio.Event(), HostEngines("h-1")
    before = replace(SEEN, host="h-1", reported_ms=NOW_MS - 1)
    host_file.write(path, "h-1", [before, replace(before, engine_id="old", reported_ms=NOW_MS - FORGOTTEN_AFTER_MS)])
    news = asyncio.create_task(run_engine_news(Announced(), engines, path, stop, VirtualClock(NOW_MS)))
    await until(lambda: bool(engines.directory.engines))
    stop.set()
    await news

    assert engines.directory.engines == (replace(before, responding=False),)


async def test_an_engine_that_left_its_host_leaves_the_file_and_the_topic(tmp_path: Path) -> None:
    """A day after it last responded; the host lives on."""
    path, stop, announced, engines = tmp_path / "f", asyncio.Event(), Announced(), HostEngines("h-1")
    clock = VirtualClock(NOW_MS)
    engines.saw(SEEN)
    news = asyncio.create_task(run_engine_news(announced, engines, path, stop, clock))
    await until(lambda: engines_in(path) == 1)
    engines.silent("e")
    await until(lambda: not announced.states[-1].responding)
    clock.advance(FORGOTTEN_AFTER_MS)
    engines.saw(replace(SEEN, engine_id="f"))
    await until(lambda: bool(announced.withdrawn))
    stop.set()
    await news

    assert announced.withdrawn == [b"h-1/e"]
    assert [each.engine_id for each in host_file.read(path).engines] == ["f"]


async def test_a_file_that_cannot_be_written_is_logged_and_the_topic_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on."""
    (tmp_path / "file").touch()
    stop, announced, engines = asyncio.Event(), Announced(), HostEngines("h-1")
    engines.saw(SEEN)
    news = asyncio.create_task(run_engine_news(announced, engines, tmp_path / "file" / "x", stop, VirtualClock(NOW_MS)))
    await until(lambda: bool(announced.states))
    stop.set()
    await news

    assert "not written" in caplog.text
