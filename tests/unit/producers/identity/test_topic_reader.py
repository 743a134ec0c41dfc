"""Engines of all hosts from records of the topic."""

from __future__ import annotations

from dataclasses import replace

from producers.identity.topic_reader import TopicEngines
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
    topic.refresh()

    assert topic.directory.at("10.0.0.7:8000") == ENGINE
    assert topic.directory.at("127.0.0.1:8000") is None
    topic.take(ENGINE.key, None)
    topic.refresh()
    assert topic.directory.engines == ()


def test_engines_that_nobody_has_repeated_are_forgotten() -> None:
    """Their machines are gone."""
    topic = TopicEngines(KafkaConfig(), lambda: NOW_MS)
    topic.take(ENGINE.key, encode(ENGINE))
    old = replace(ENGINE, engine_id="old", reported_ms=NOW_MS - FORGOTTEN_AFTER_MS - 1)
    topic.take(old.key, encode(old))
    topic.refresh()

    assert topic.directory.engines == (ENGINE,)
