"""What was given up comes to its topic, whatever the brokers say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError

from runtime.clock import SystemClock
from sinks.delivery import dead_letters
from sinks.delivery.backlog import Delivery, Undelivered
from sinks.delivery.transition import RECORD_BYTES_MAX
from tests.unit.sinks.delivery.delivery_cases import NOW_MS, an_alert, at


class Producer:
    """Fails with these errors, then takes."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.sent: list[tuple[str, dict[str, Any], bytes]] = []

    async def send_and_wait(self, topic: str, value: bytes, key: bytes) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.sent.append((topic, json.loads(value), key))


@pytest.mark.parametrize(
    ("errors", "whole"),
    [
        pytest.param((), True, id="at once"),
        pytest.param((KafkaConnectionError(), OSError()), True, id="Kafka was away"),
        pytest.param((MessageSizeTooLargeError(),), False, id="too large"),
        pytest.param((KafkaConnectionError(), MessageSizeTooLargeError(), OSError()), False, id="away and too large"),
    ],
)
async def test_it_is_published_without_its_record_only_where_that_is_too_large(
    errors: tuple[Exception, ...], whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why it was given up, and which transition it was, is there in any case."""
    monkeypatch.setattr(dead_letters, "_AGAIN_S", 0.0)
    producer, transition = Producer(*errors), at(7, an_alert("aa"))
    given_up = Undelivered(Delivery(transition, 1, NOW_MS, NOW_MS, NOW_MS), "rejected", "status 400: bad")

    await dead_letters.publish(producer, "hook", given_up, SystemClock())

    ((topic, value, key),) = producer.sent
    assert (topic, key) == ("alerts.undelivered", b"aa")
    assert value["record"] == (json.loads(transition.record) if whole else None)
    said = (value["target"], value["reason"], value["detail"], value["transition_id"], value["offset"])
    assert said == ("hook", "rejected", "status 400: bad", transition.alert.transition_id, 7)


def test_the_largest_record_that_is_delivered_has_room() -> None:
    """With all that stands around it."""
    assert dead_letters.REQUEST_BYTES_MAX >= 2 * RECORD_BYTES_MAX
