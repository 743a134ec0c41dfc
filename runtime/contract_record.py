"""What the topic ``contract`` says: the log id of every topic, and whose topics they are.

Two deployments on the same topics would fold every record twice, each under groups and transactional ids of its own. So
``migrate`` writes the deployment's name beside the log ids, and every process compares it with its own before it
reads or writes. A contract without a name is one of 0.1.0: anybody may start, and the next ``migrate`` names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from runtime.config import KafkaConfig
from runtime.kafka_clients import explained, open_consumer
from runtime.positions import read_whole
from schemas.contract.topics import CONTRACT, DEPLOYMENT_KEY
from schemas.errors import ConfigError, TopicMissingError

READ_WITHIN_S = 20.0
_FAILED = "does not return its log ids"


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """``deployment``: None where nobody has named it."""

    deployment: str | None = None
    log_ids: dict[str, str] = field(default_factory=dict)


async def read_contract(kafka: KafkaConfig) -> ContractRecord | None:
    """What stands there; None where ``fleetpulse migrate`` has not run. Raises ``UnavailableError`` without a broker,
    ``ConfigError`` where it rejects this client."""
    try:
        async with asyncio.timeout(READ_WITHIN_S):
            return await _read(kafka)
    except TimeoutError as error:
        raise await explained(kafka, error, _FAILED) from error


async def _read(kafka: KafkaConfig) -> ContractRecord | None:
    async with open_consumer(kafka, failed=_FAILED) as consumer:
        if CONTRACT.name not in await consumer.topics():
            return None
        records = read_whole(consumer, [TopicPartition(CONTRACT.name, 0)])
        found = {record.key.decode(): (record.value or b"").decode() async for record in records if record.key}
        named = {key: value for key, value in found.items() if value}
        return ContractRecord(named.pop(DEPLOYMENT_KEY, None), named)


async def read_log_ids(kafka: KafkaConfig) -> dict[str, str]:
    """Log id by topic of this deployment. Raises ``ContractError`` where ``fleetpulse migrate`` has not run,
    ``ConfigError`` where the topics are another deployment's; else as ``read_contract``."""
    found = await read_contract(kafka)
    if found is None:
        raise TopicMissingError(f"{kafka.topic_prefix}{CONTRACT.name}")
    demand_own(kafka, found)
    return found.log_ids


async def check_deployment(kafka: KafkaConfig, topics: Iterable[str] | None = None) -> None:
    """Raise ``ConfigError`` where one of these topics is another deployment's; None: any that has a log id. Else as
    ``read_contract``."""
    found = await read_contract(kafka)
    if found is not None and (topics is None or not found.log_ids.keys().isdisjoint(topics)):
        demand_own(kafka, found)


async def check_edge(kafka: KafkaConfig) -> None:
    """``check_deployment`` of an edge that names a deployment; one that names none sends to whom the topics belong."""
    if "deployment" in kafka.model_fields_set:
        await check_deployment(kafka)


def demand_own(kafka: KafkaConfig, found: ContractRecord) -> None:
    """Raise ``ConfigError`` where these topics are another deployment's."""
    if found.deployment not in (None, kafka.deployment):
        raise foreign(kafka, f"must be {found.deployment}, to which these topics belong")


def foreign(kafka: KafkaConfig, must: str) -> ConfigError:
    """The error of a deployment that finds topics of another."""
    topics = f'"{kafka.topic_prefix}*"' if kafka.topic_prefix else "those without a prefix"
    bound = f"{must}: on the same topics ({topics}) two would count every event twice. Or set kafka.topic_prefix"
    return ConfigError("kafka.deployment", kafka.deployment, f"{bound}, for topics of its own, and run `migrate`")
