"""Which failures the delivery outlives. Its sessions run against brokers in tests/integration/test_delivery.py."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError

from runtime.assignment import Assignment
from runtime.clock import SystemClock
from runtime.config import KafkaConfig
from runtime.counters import COUNTERS
from runtime.delivery_config import DeliveryConfig
from schemas.contract.alerts import encode
from schemas.errors import ConfigError
from sinks.delivery import service
from sinks.delivery.client import Client
from sinks.delivery.cursor import Cursor
from sinks.delivery.cursor import encode as cursors
from sinks.delivery.request import Request
from sinks.delivery.schedule import Response
from sinks.delivery.service import Delivery, run_delivery
from sinks.delivery.shapes import FINGERPRINT
from tests.unit.sinks.delivery.delivery_cases import an_alert

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


async def test_what_ended_behind_the_cursor_is_not_sent_again_as_firing_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash came before its end was done with: that is read first, and then sent behind the alerts that go on."""
    stop, partition, posted = asyncio.Event(), TopicPartition("alerts", 0), []
    ended, goes_on = "a" * 16, "b" * 16
    alerts = [an_alert(ended), an_alert(goes_on), an_alert(ended, 2, "resolved")]

    class Consumer:
        at = turns = 0

        async def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
            return {partition: 0}

        async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
            return {partition: len(alerts)}

        async def commit(self, _: object) -> None:
            """It is kept."""

        def seek(self, _: TopicPartition, offset: int) -> None:
            self.at = offset

        async def position(self, _: TopicPartition) -> int:
            return self.at

        async def getmany(self, *_: TopicPartition, **__: Any) -> dict[TopicPartition, list[Any]]:
            self.turns += 1
            for _turn in range(10):
                await asyncio.sleep(0)  # senders, where there are any, may go
            if self.turns > 10:
                stop.set()
            if self.at == len(alerts):
                return {}
            self.at += 1
            value, appended_ms = encode(alerts[self.at - 1]), SystemClock().now_ms()
            return {partition: [ConsumerRecord("alerts", 0, self.at - 1, appended_ms, 0, b"k", value, None, 0, 0, ())]}

    class Receiver(Client):
        async def post(self, request: Request) -> Response:
            posted.append([one["labels"][FINGERPRINT] for one in orjson.loads(request.body)])
            return Response(200)

    async def committed(*_: object) -> dict[TopicPartition, tuple[int, str]]:
        return {partition: (2, cursors({"am": Cursor(2, 0)}))}

    monkeypatch.setattr(service, "_committed", committed)
    monkeypatch.setattr(service, "Client", Receiver)
    target = {"name": "am", "kind": "alertmanager", "endpoint_url": "http://127.0.0.1:9/"}
    delivery = Delivery(KafkaConfig(), DeliveryConfig.model_validate({"targets": [target]}), stop)

    await service._Session(delivery, Consumer(), None, Assignment(), [partition]).run()

    assert posted == [[goes_on], [ended]]


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


async def test_a_standby_says_of_no_target_that_something_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had when another process took over is delivered there: its age would stand on this page for ever."""
    stop, gauges = asyncio.Event(), ("deliver_waiting", "deliver_oldest_ms", "deliver_open")

    class Standby:
        async def start(self) -> None:
            """It runs."""

        stop = start

        def subscribe(self, *_: object, **__: object) -> None:
            """It is a member."""

        def assignment(self) -> set[TopicPartition]:
            return set()

        async def getmany(self, **_: int) -> dict[TopicPartition, list[Any]]:
            stop.set()
            return {}

    async def exist(_: KafkaConfig) -> None:
        """All topics do."""

    monkeypatch.setattr(service, "_check_topics", exist)
    for name in ("make_consumer", "make_producer"):
        monkeypatch.setattr(service, name, lambda *_, **__: Standby())
    target = {"name": "standby", "kind": "webhook", "endpoint_url": "http://127.0.0.1:9/"}
    for name in gauges:
        COUNTERS.set(name, 360_000, target="standby")

    await service._consume(Delivery(KafkaConfig(), DeliveryConfig.model_validate({"targets": [target]}), stop))

    assert [COUNTERS.value(name, target="standby") for name in gauges] == [0, 0, 0]
