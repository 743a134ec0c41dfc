"""What page *Pipeline* says of groups that stand still, against a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka import TopicPartition

from fleetpulse.dashboard.consumer_lag import Lag, LagOfGroups
from runtime.config import KafkaConfig
from runtime.kafka_clients import make_consumer, make_producer, started

pytestmark = pytest.mark.integration


async def test_what_waits_behind_an_open_transaction_is_lag(
    kafka_bootstrap: str, topic_name: Callable[..., str]
) -> None:
    """Committed records that come after its first can be read by no job: they are behind, all of them."""
    topic = topic_name("held", 1)
    kafka = KafkaConfig(bootstrap=kafka_bootstrap, deployment=topic.replace(".", "-"))
    place = TopicPartition(topic, 0)
    async with started(make_consumer(kafka, group=f"{kafka.namespace}-windows")) as consumer:
        consumer.assign([place])
        await consumer.commit({place: 0})

    async with (
        started(make_producer(kafka, transactional_id=topic)) as slow,
        started(make_producer(kafka)) as quick,
    ):
        await slow.begin_transaction()
        await slow.send_and_wait(topic, b"x", partition=0)
        for _ in range(4):
            await quick.send_and_wait(topic, b"x", partition=0)
        found = await LagOfGroups(kafka, {"windows": (topic,)}).ask()
        await slow.abort_transaction()

    assert found == [Lag("windows", topic, 5, 1)]
