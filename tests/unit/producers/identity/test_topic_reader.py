"""Engines of all hosts from records of the topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from producers.identity import topic_reader
from producers.identity.topic_reader import TURN_RECORDS, TopicEngines
from runtime.backoff import Backoff
from runtime.config import KafkaConfig
from schemas.contract.engines import FORGOTTEN_AFTER_MS, Engine, encode

NOW_MS = 10 * FORGOTTEN_AFTER_MS
ENGINE = Engine("e", "h-1", "g", ("10.0.0.7:8000",), reported_ms=NOW_MS)


def test_the_newest_record_of_an_engine_counts() -> None:
    """A record without a value takes it out; what is no engine changes nothing; loopback leads nowhere."""
    topic = TopicEngines(KafkaConfig(), lambda: NOW_MS)
    topic.take(ENGINE.key, encode(replace(ENGINE, placement_group="before")))
    topic.take(ENGINE.key, encode(ENGINE))
    topic.take(ENGINE.key, b"{}")
    topic.take(None, encode(ENGINE))

    assert topic.directory.at("10.0.0.7:8000") == ENGINE
    assert topic.directory.at("127.0.0.1:8000") is None
    topic.take(ENGINE.key, None)
    assert topic.directory.engines == ()


def test_engines_that_nobody_has_repeated_are_forgotten() -> None:
    """Their machines are gone: a record that is too old already is not taken, and takes out what it repeats."""
    topic = TopicEngines(KafkaConfig(), lambda: NOW_MS)
    topic.take(ENGINE.key, encode(ENGINE))
    old = replace(ENGINE, engine_id="old", reported_ms=NOW_MS - FORGOTTEN_AFTER_MS - 1)
    topic.take(old.key, encode(replace(old, reported_ms=NOW_MS)))
    topic.take(old.key, encode(old))

    assert topic.directory.engines == (ENGINE,)


def test_engines_are_looked_through_for_old_ones_some_at_a_time() -> None:
    """All of them in as many turns as it takes; one that was repeated since its turn began stays."""
    now_ms = [NOW_MS]
    topic = TopicEngines(KafkaConfig(), lambda: now_ms[0])
    engines = [replace(ENGINE, engine_id=str(number)) for number in range(TURN_RECORDS + 2)]
    for engine in engines:
        topic.take(engine.key, encode(engine))
    topic.forget_old()
    now_ms[0] += FORGOTTEN_AFTER_MS + 1
    repeated = replace(engines[0], reported_ms=now_ms[0])
    topic.take(repeated.key, encode(repeated))

    topic.forget_old()
    assert topic.directory.count == 3
    topic.forget_old()
    assert topic.directory.engines == (repeated,)


def test_a_record_costs_the_same_however_many_engines_are_known() -> None:
    """Records change the one directory in place; a directory made anew would be another object."""
    topic = TopicEngines(KafkaConfig(), lambda: NOW_MS)
    directory = topic.directory
    topic.take(ENGINE.key, encode(ENGINE))
    topic.forget_old()

    assert topic.directory is directory
    assert directory.at("10.0.0.7:8000") == ENGINE


class Consumer:
    """Of a broker that goes away after ``polls`` answers; ``sessions`` counts those that began, the fourth waits."""

    def __init__(self, sessions: list[int], polls: int, enough: asyncio.Event) -> None:
        self._sessions, self._polls, self._enough = sessions, polls, enough

    async def start(self) -> None:
        self._sessions.append(1)
        if len(self._sessions) == 4:
            self._enough.set()
            await asyncio.Event().wait()

    async def stop(self) -> None:
        """Nothing is open."""

    def assign(self, partitions: object) -> None:
        """There is one."""

    async def seek_to_beginning(self, *partitions: object) -> None:
        """It has no records."""

    async def getmany(self, *partitions: object, timeout_ms: int) -> dict[object, list[object]]:
        if not self._polls:
            raise OSError("broker away")
        self._polls -= 1
        return {}


@pytest.mark.parametrize(("polls", "logged"), [(0, 1), (2, 3)], ids=["never read", "read in between"])
async def test_each_outage_is_logged_once(
    polls: int, logged: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that ended when something was read; and its pauses begin anew."""
    sessions, enough = list[int](), asyncio.Event()

    async def same(_kafka: KafkaConfig, error: Exception, _failed: str) -> Exception:
        return error

    monkeypatch.setattr(topic_reader, "make_consumer", lambda _kafka: Consumer(sessions, polls, enough))
    monkeypatch.setattr(topic_reader, "explained", same)
    monkeypatch.setattr(topic_reader, "RETRY", Backoff(0.0, 0.0))
    running = asyncio.create_task(TopicEngines(KafkaConfig(), lambda: NOW_MS).run())
    await asyncio.wait_for(enough.wait(), 60)
    running.cancel()
    await asyncio.wait({running})

    assert caplog.text.count("engines of other hosts unknown") == logged
