"""A sink that is told to stop while ClickHouse does not answer: it ends, and commits nothing that may not be stored."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import TopicPartition

from schemas.contract.record import Record
from schemas.errors import ContractError, UnavailableError
from sinks.drain import Drain, unless
from sinks.landing import Insert
from sinks.service import _else_stopping, _land_all
from tests.unit.sinks.test_service import SETTINGS, Database, Recording, group

HANGS_S = 20.0
"""Whatever takes so long would never end."""


@pytest.fixture(autouse=True)
def _records_as_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Record, "timestamp", 0, raising=False)


class Hanging(Database):
    """Takes its second insert and does not answer until it is let go."""

    def __init__(self, stop: asyncio.Event) -> None:
        super().__init__(99)
        self.loop, self.stop, self.let_go = asyncio.get_running_loop(), stop, threading.Event()

    def insert(self, inserts: Sequence[Insert]) -> None:
        if self.stored:
            self.loop.call_soon_threadsafe(self.stop.set)
            self.let_go.wait(HANGS_S)
        super().insert(inserts)


async def test_what_clickhouse_does_not_answer_is_not_committed() -> None:
    """The batch gathered meanwhile is not landed either; both are read again."""
    stop, consumer = asyncio.Event(), Recording()
    database = Hanging(stop)
    landing = group(database)
    try:
        async with asyncio.timeout(HANGS_S / 2):
            await _land_all(consumer, landing, replace(SETTINGS, drain_s=0.05), stop)

        assert consumer.commits == database.stored
        assert len(consumer.commits) == 1
        assert landing.progress.abandoned
    finally:
        database.let_go.set()


async def test_what_ends_within_the_drain_is_committed() -> None:
    """Told to stop, it still waits for the insert that is under way."""
    stop, consumer = asyncio.Event(), Recording()
    database = Hanging(stop)
    landing = group(database)
    releasing = asyncio.create_task(stop.wait())
    releasing.add_done_callback(lambda _: database.let_go.set())

    await _land_all(consumer, landing, replace(SETTINGS, drain_s=HANGS_S), stop)

    assert consumer.commits == database.stored
    assert len(consumer.commits) >= 2
    assert not landing.progress.abandoned


async def test_all_that_is_waited_for_shares_one_time() -> None:
    """Once it is over the next is not waited for at all."""
    stop, let_go = asyncio.Event(), threading.Event()
    drain = Drain(stop, 0.01)
    stop.set()

    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"has not answered 0\.01 s after the sink was told to stop"):
            await drain.in_thread(lambda: let_go.wait(HANGS_S))

    let_go.set()
    assert drain.abandoned


async def test_what_is_waited_for_no_more_is_abandoned() -> None:
    """The waiting was cancelled: the thread goes on, and the process has to leave it behind."""
    drain, let_go, begun = Drain(asyncio.Event(), HANGS_S), threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        let_go.wait(HANGS_S)

    waiting = asyncio.create_task(drain.in_thread(hangs))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    let_go.set()
    assert drain.abandoned


async def test_a_group_that_is_cancelled_says_what_it_abandoned() -> None:
    """Another one raised, and stopped it before."""
    stop = asyncio.Event()
    database = Hanging(stop)
    landing = group(database)
    try:
        working = asyncio.create_task(_land_all(Recording(), landing, replace(SETTINGS, drain_s=0.5), stop))
        await stop.wait()
        for _ in range(20):  # until it waits for the insert
            await asyncio.sleep(0)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working
        assert landing.progress.abandoned
    finally:
        database.let_go.set()


async def test_a_group_that_cannot_go_on_waits_for_its_insert_as_at_any_stop() -> None:
    """What it read raises while ClickHouse has the insert before: the process ends with that error."""
    hangs, stop = asyncio.Event(), asyncio.Event()
    database = Hanging(hangs)
    landing = group(database)

    class Foreign(Recording):
        async def getmany(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            if hangs.is_set():
                raise ContractError("not ours")
            return await super().getmany(timeout_ms, max_records)

    try:
        async with asyncio.timeout(HANGS_S / 2):
            with pytest.raises(ContractError, match="not ours"):
                await _land_all(Foreign(), landing, replace(SETTINGS, drain_s=0.05), stop)
        assert stop.is_set()
    finally:
        database.let_go.set()


async def test_where_one_raises_the_others_are_told_to_stop() -> None:
    """So that none waits for ClickHouse without an end."""
    stop = asyncio.Event()

    async def fails() -> None:
        raise ContractError("not ours")

    with pytest.raises(ContractError):
        await _else_stopping(fails(), stop)

    assert stop.is_set()


async def test_what_work_returns_and_raises_comes_through() -> None:
    """As from any thread."""
    drain = Drain(asyncio.Event(), 1.0)

    def fails() -> None:
        raise UnavailableError("away")

    assert await drain.in_thread(lambda: 7) == 7
    with pytest.raises(UnavailableError, match="away"):
        await drain.in_thread(fails)
    assert not drain.abandoned


async def test_work_ends_when_it_has_to() -> None:
    """What it raises comes through."""
    stop, ends = asyncio.Event(), list[str]()

    async def works(seconds: float, error: Exception | None = None) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            ends.append("over")
        if error is not None:
            raise error

    assert await unless(stop, works(0.0))
    with pytest.raises(UnavailableError):
        await unless(stop, works(0.0, UnavailableError("away")))
    stop.set()
    assert not await unless(stop, works(HANGS_S))
    assert ends == ["over"] * 3
