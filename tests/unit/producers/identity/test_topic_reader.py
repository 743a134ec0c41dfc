"""Engines of all hosts from records of the topic."""

from __future__ import annotations

from dataclasses import replace

from producers.identity.topic_reader import TURN_RECORDS, TopicEngines
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
