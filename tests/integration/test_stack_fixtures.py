"""What every integration test builds on."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from runtime.clickhouse_clients import connect
from tests.tables import Tables

pytestmark = pytest.mark.integration


def test_each_test_has_a_database_of_its_own(clickhouse: Any, clickhouse_config: Any) -> None:
    """The client works in the database that the configuration names."""
    clickhouse.command("CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x")

    assert clickhouse.command("SELECT currentDatabase()") == clickhouse_config.database
    assert clickhouse_config.database.startswith("fleetpulse_test_")


async def test_each_test_has_topics_of_its_own(kafka_bootstrap: str, topic_name: Callable[..., str]) -> None:
    """Partitions and settings as asked; a record that was sent is read, also from inside an event loop."""
    topic = topic_name("gpu.samples", partitions=3, config={"message.timestamp.type": "LogAppendTime"})

    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap, enable_idempotence=True) as producer:
        sent = await producer.send_and_wait(topic, b"x", partition=2)
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka_bootstrap, auto_offset_reset="earliest") as consumer:
        read = await consumer.getone()

    assert (read.value, read.partition, read.timestamp_type) == (b"x", 2, 1)
    assert sent.timestamp_type == 1


def test_names_do_not_repeat(topic_name: Callable[..., str]) -> None:
    """Two topics of one test have different names when asked for different ones, and nothing is made for 0."""
    assert topic_name("a", partitions=0) != topic_name("b", partitions=0)


def test_a_database_is_handed_on_until_a_test_changes_a_table(stack: Any) -> None:
    """Without its rows; whatever was done to a definition, the next test gets a new one."""
    tables, counted = Tables(stack.clickhouse), "SELECT count() FROM exemplars"
    try:
        first = tables.emptied()
        with closing(connect(first)) as client:
            client.command("INSERT INTO exemplars (window_ms) SELECT toUnixTimestamp64Milli(now64(3))")
            filled = client.command(counted)
        second = tables.emptied()
        with closing(connect(second)) as client:
            emptied = client.command(counted)
            client.command("ALTER TABLE exemplars ADD COLUMN more UInt8")
        third = tables.emptied()
    finally:
        tables.drop()

    assert (filled, emptied) == (1, 0)
    assert second.database == first.database != third.database
