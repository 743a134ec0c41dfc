"""Reads the log ids of topics from the compacted topic ``contract`` (see ``schemas.contract.topics.CONTRACT``)."""

from __future__ import annotations

import asyncio

from aiokafka import TopicPartition

from runtime.config import KafkaConfig
from runtime.kafka_clients import explained, open_consumer
from schemas.contract.topics import CONTRACT
from schemas.errors import ContractError

READ_WITHIN_S = 20.0
_FAILED = "does not return its log ids"


async def read_log_ids(kafka: KafkaConfig) -> dict[str, str]:
    """Log id by topic. Raises ``ContractError`` where ``fleetpulse migrate`` has not run, ``UnavailableError`` without
    a broker, ``ConfigError`` where it rejects this client."""
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            return await _read(kafka)
    except TimeoutError as error:
        raise await explained(kafka, error, _FAILED) from error


async def _read(kafka: KafkaConfig) -> dict[str, str]:
    async with open_consumer(kafka, failed=_FAILED) as consumer:
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
