"""Reads the log ids of topics from the compacted topic ``contract`` (see ``schemas.topics.CONTRACT``)."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from runtime.config import KafkaConfig
from runtime.kafka_access import explained
from schemas.errors import ContractError
from schemas.topics import CONTRACT

READ_WITHIN_S = 20.0


async def read_log_ids(kafka: KafkaConfig) -> dict[str, str]:
    """Log id by topic. Raises ``ContractError`` where nobody migrated yet, ``UnavailableError`` without a broker,
    ``ConfigError`` where it turns us away."""
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            return await _read(kafka)
    except (KafkaError, TimeoutError) as error:
        raise await explained(kafka, error, "does not tell its log ids") from error


async def _read(kafka: KafkaConfig) -> dict[str, str]:
    consumer = AIOKafkaConsumer(**kafka.client_settings(), enable_auto_commit=False, auto_offset_reset="earliest")
    try:
        await consumer.start()
        if CONTRACT.name not in await consumer.topics():
            raise ContractError(f"topic {CONTRACT.name} does not exist; run `fleetpulse migrate`")
        partition = TopicPartition(CONTRACT.name, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        found: dict[str, str] = {}
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(partition, timeout_ms=500)).values():
                found |= {record.key.decode(): record.value.decode() for record in records if record.value}
        return found
    finally:
        await consumer.stop()
