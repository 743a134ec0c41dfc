"""An owner asks for the id of its topic while brokers are away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from runtime import topic_ids
from runtime.config import KafkaConfig
from schemas.errors import UnavailableError
from stream_jobs.runner import kafka_ports
from stream_jobs.runner.kafka_ports import KafkaBroker
from stream_jobs.runner.policy import DEFAULT_POLICY


def a_broker(monkeypatch: pytest.MonkeyPatch, *answers: str | KafkaError) -> KafkaBroker:
    """A cluster that gives these answers, one after the other."""
    waiting = list(answers)

    async def topic_id(client: Any, topic: str) -> str:
        found = waiting.pop(0)
        if isinstance(found, KafkaError):
            raise found
        return found

    monkeypatch.setattr(topic_ids, "topic_id", topic_id)
    monkeypatch.setattr(kafka_ports, "RETRY_AFTER_S", 0.001)
    broker = KafkaBroker(KafkaConfig(), DEFAULT_POLICY)
    broker._asking = SimpleNamespace(_client=None)
    return broker


async def test_brokers_that_are_away_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of time is the caller's."""
    broker = a_broker(monkeypatch, NodeNotReadyError(), NodeNotReadyError(), "an id")

    assert await broker.topic_id("llm.requests") == "an id"


async def test_what_no_retry_mends_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere."""
    broker = a_broker(monkeypatch, TopicAuthorizationFailedError(), "an id")

    with pytest.raises(UnavailableError, match="id of llm"):
        await broker.topic_id("llm.requests")
