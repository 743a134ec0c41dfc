"""States of compacted topics: the newest of each key, sent until acknowledged, and not twice."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError

from producers.publish.states import PAUSE_S, States
from schemas.contract.placement import place


class Broker:
    """Takes records; fails as often as ``failures`` says; ``silent``: never acknowledges."""

    def __init__(self, failures: int = 0, *, silent: bool = False) -> None:
        self.records: list[tuple[str, bytes, bytes | None, int]] = []
        self._failures = failures
        self._silent = silent

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes, partition: int, headers: Any
    ) -> asyncio.Future[None]:
        assert dict(headers) == {"schema": b"s/1", "content-type": b"application/json"}
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._silent:
            return done
        if self._failures:
            self._failures -= 1
            raise KafkaTimeoutError
        self.records.append((topic, key, value, partition))
        done.set_result(None)
        return done


def producer(broker: Broker) -> AIOKafkaProducer:
    return cast("AIOKafkaProducer", broker)


async def test_the_newest_state_of_a_key_is_sent_once() -> None:
    """And again when it changes; each key in the partition of its own."""
    states, broker = States({"t": 4}, 1.0), Broker()
    states.announce("t", b"a", b"before", "s/1")
    states.announce("t", b"a", b"1", "s/1")
    states.announce("t", b"b", b"1", "s/1")
    for now_s in (0, 1):
        await states.publish(producer(broker), now_s)
    states.announce("t", b"a", b"2", "s/1")
    await states.publish(producer(broker), 2)

    assert broker.records == [
        ("t", key, value, place(key, 4)) for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    ]


async def test_a_state_that_was_not_acknowledged_is_sent_again() -> None:
    """After an error, after silence, and after there was no Kafka at all."""
    states, broker = States({"t": 1}, 0.01), Broker(failures=1)
    states.announce("t", b"a", b"1", "s/1")
    await states.publish(None, 0)
    await states.publish(producer(Broker(silent=True)), 0)
    await states.publish(producer(broker), PAUSE_S)
    await states.publish(producer(broker), PAUSE_S + 1)
    assert broker.records == []

    await states.publish(producer(broker), 2 * PAUSE_S)

    assert broker.records == [("t", b"a", b"1", 0)]


async def test_a_state_that_is_withdrawn_is_a_record_without_a_value() -> None:
    """Once; the same state may come back after it."""
    states, broker = States({"t": 1}, 1.0), Broker()
    states.announce("t", b"a", b"1", "s/1")
    await states.publish(producer(broker), 0)
    states.withdraw("t", b"a", "s/1")
    for now_s in (1, 2):
        await states.publish(producer(broker), now_s)
    states.announce("t", b"a", b"1", "s/1")
    await states.publish(producer(broker), 3)

    assert [value for _, _, value, _ in broker.records] == [b"1", None, b"1"]
