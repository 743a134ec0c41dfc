"""Which failures the delivery outlives. Its sessions run against brokers in tests/integration/test_delivery.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError

from runtime.assignment import Assignment
from runtime.config import KafkaConfig
from runtime.delivery_config import DeliveryConfig
from schemas.errors import ConfigError
from sinks.delivery import service
from sinks.delivery.service import Delivery, run_delivery

REJECTED = ConfigError("kafka.sasl_username", "me", "must be a login that broker:9093 accepts")


@pytest.fixture(autouse=True)
def _accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers take the first login, and nobody waits."""

    async def accept(_: KafkaConfig) -> None:
        """Nothing is wrong with it."""

    monkeypatch.setattr(service, "check_login", accept)
    monkeypatch.setattr(service, "_AGAIN_S", 0.001)


@pytest.mark.parametrize("began", [True, False])
async def test_what_is_rejected_after_a_session_is_tried_again(
    began: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is rejected before the first has begun ends the process, so that the setting is corrected."""
    stop, seen = asyncio.Event(), []

    async def consume(delivery: Delivery) -> None:
        seen.append(delivery.readiness.why())
        if len(seen) == 1:
            delivery.started = began
            raise REJECTED
        stop.set()

    monkeypatch.setattr(service, "_consume", consume)
    delivery = Delivery(KafkaConfig(), DeliveryConfig(), stop)
    if not began:
        with pytest.raises(ConfigError):
            await run_delivery(delivery)
        return

    await run_delivery(delivery)

    assert f"Kafka rejected the login: {REJECTED}" in str(seen[1])
    (line,) = caplog.records
    assert line.__dict__["error"] == str(REJECTED)


@pytest.mark.parametrize("away", ["leader", "coordinator"])
async def test_a_stop_ends_a_session_whose_partition_has_no_answer(away: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka waits for ever for the position of a partition without leader, and for a coordinator that is away."""
    stop, never, partition = asyncio.Event(), asyncio.Event(), TopicPartition("alerts", 0)

    class Consumer:
        async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 0)

        end_offsets = beginning_offsets

        async def commit(self, _: object) -> None:
            if away == "coordinator":
                await never.wait()

        def seek(self, _: TopicPartition, __: int) -> None:
            """The log is cut below it, so that its position is looked up."""

        async def position(self, _: TopicPartition) -> int:
            await never.wait()
            return 0

        async def getmany(self, *_: TopicPartition, **__: Any) -> dict[TopicPartition, list[Any]]:
            stop.set()
            return {}

    async def committed(*_: object) -> dict[TopicPartition, tuple[None, str]]:
        return {partition: (None, "")}

    monkeypatch.setattr(service, "_committed", committed)
    monkeypatch.setattr(service, "_COMMIT_WITHIN_S", 0.01)
    config = DeliveryConfig.model_validate({"targets": [{"kind": "webhook", "endpoint_url": "http://127.0.0.1:9/"}]})
    delivery = Delivery(KafkaConfig(), config, stop)
    session = service._Session(delivery, Consumer(), None, Assignment(), [partition])

    if away == "coordinator":
        with pytest.raises(TimeoutError):
            await session.run()
    else:
        await session.run()
        assert stop.is_set()


async def test_a_coordinator_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka drops its error, and gives offsets of no partition."""

    class Admin:
        async def start(self) -> None:
            """It runs."""

        stop = start

        async def list_consumer_group_offsets(self, *_: object, **__: object) -> dict[TopicPartition, object]:
            return {}

    monkeypatch.setattr(service, "make_admin", lambda _: Admin())

    with pytest.raises(GroupCoordinatorNotAvailableError):
        await service._committed(KafkaConfig(), "g", [TopicPartition("alerts", 0)])
