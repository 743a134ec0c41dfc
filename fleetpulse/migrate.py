"""Bring a cluster's topics and a database's tables to what this version needs. Safe to repeat.

Topics that exist are checked, never changed: a source topic without LogAppendTime would make verdicts depend on the
senders' clocks, so that is refused. Tables follow numbered migrations, each applied once and noted in
``schema_migrations``; the statements are idempotent, so that a migration that was killed half-way runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import clickhouse_connect
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.log_ids import give_log_ids
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.log_ids import read_log_ids
from schemas.ddl import Migration, migrations
from schemas.errors import ContractError, UnavailableError
from schemas.topics import TOPICS, Topic

REPLICAS = 3
"""Copies of every partition, where there are so many brokers."""

_MIGRATIONS_TABLE = """CREATE TABLE IF NOT EXISTS schema_migrations
(
    `number` UInt32 COMMENT 'number of the migration file',
    `name` String COMMENT 'its name',
    `applied` DateTime DEFAULT now() COMMENT 'when it was applied, UTC'
)
ENGINE = ReplacingMergeTree
ORDER BY number
COMMENT 'migrations that were applied'"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is missing. ``str`` of it is for people."""

    topics: tuple[Topic, ...]
    migrations: tuple[Migration, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is to be done."""
        return not self.topics and not self.migrations

    def __str__(self) -> str:
        lines = [f"topic {topic.name}: {topic.partitions} partitions" for topic in self.topics]
        lines += [f"migration {one.file_name}: {len(one.statements)} statements" for one in self.migrations]
        return "\n".join(lines) or "topics and tables are up to date"


def migrate(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    *,
    dry_run: bool = False,
    partitions: Mapping[str, int] | None = None,
) -> Plan:
    """Make what is missing and return what was done (with ``dry_run``: what would be).

    ``partitions`` overrides the contract's counts. Raises ``ContractError`` for a topic that is not as it must be.
    """
    topics = asyncio.run(_migrate_topics(kafka, partitions or {}, dry_run=dry_run))
    return Plan(topics, _migrate_tables(clickhouse, dry_run=dry_run))


async def _migrate_topics(kafka: KafkaConfig, partitions: Mapping[str, int], *, dry_run: bool) -> tuple[Topic, ...]:
    admin = AIOKafkaAdminClient(**kafka.client_settings())
    try:
        await admin.start()
        try:
            existing = set(await admin.list_topics())
            await _check_source_topics(admin, existing)
            missing = tuple(topic for topic in TOPICS if topic.name not in existing)
            if missing and not dry_run:
                await _create(admin, missing, partitions)
        finally:
            await admin.close()
    except KafkaError as error:
        raise UnavailableError(f"Kafka at {kafka.bootstrap}: {error!r}") from error
    if not dry_run:
        known = await read_log_ids(kafka)
        made = {topic.name for topic in missing}
        await give_log_ids(kafka, [topic.name for topic in TOPICS if topic.name in made or topic.name not in known])
    return missing


async def _create(admin: Any, topics: tuple[Topic, ...], partitions: Mapping[str, int]) -> None:
    replicas = min(REPLICAS, len((await admin.describe_cluster())["brokers"]))
    new = [NewTopic(t.name, _count(t, partitions), replicas, topic_configs=topic_settings(t)) for t in topics]
    response = await admin.create_topics(new)
    for name, code, *rest in response.topic_errors:
        if code not in (0, 36):  # 36: somebody else made it meanwhile
            raise ContractError(f"topic {name} cannot be created: error {code} {rest}")


def _count(topic: Topic, partitions: Mapping[str, int]) -> int:
    base = topic.name
    if base.startswith("state."):
        base = base.split(".", 2)[2]  # a state topic has as many partitions as its source topic
    return partitions.get(base, topic.partitions)


def topic_settings(topic: Topic) -> dict[str, str]:
    """Topic-level settings of the contract."""
    settings = {
        "cleanup.policy": "compact" if topic.compacted else "delete",
        "message.timestamp.type": "LogAppendTime" if topic.log_append_time else "CreateTime",
        "max.message.bytes": str(topic.record_bytes_max),
        "compression.type": "producer",
    }
    if topic.compacted:
        settings |= {"segment.ms": "600000", "min.cleanable.dirty.ratio": "0.2"}
    else:
        settings["retention.ms"] = str(topic.retention_ms)
    return settings


async def _check_source_topics(admin: Any, existing: set[str]) -> None:
    sources = [topic.name for topic in TOPICS if topic.log_append_time and topic.name in existing]
    resources = [ConfigResource(ConfigResourceType.TOPIC, n, configs={"message.timestamp.type": None}) for n in sources]
    if not resources:
        return
    for response in await admin.describe_configs(resources):
        for _code, _message, _kind, name, entries in response.resources:
            found = {entry[0]: entry[1] for entry in entries}.get("message.timestamp.type")
            if found != "LogAppendTime":
                raise ContractError(
                    f"topic {name} has message.timestamp.type={found}; it must be LogAppendTime, because what is late"
                    " is told by the broker's clock: change it with kafka-configs, or use another cluster"
                )


def _migrate_tables(config: ClickHouseConfig, *, dry_run: bool) -> tuple[Migration, ...]:
    try:
        client = clickhouse_connect.get_client(**config.client_settings(), autogenerate_session_id=False)
        try:
            exists = client.command("EXISTS TABLE schema_migrations")
            applied = (
                {row[0] for row in client.query("SELECT number FROM schema_migrations").result_rows}
                if exists
                else set()
            )
            missing = tuple(one for one in migrations() if one.number not in applied)
            if not dry_run:
                _apply(client, missing)
        finally:
            client.close()
    except (ClickHouseError, OSError) as error:
        raise UnavailableError(f"ClickHouse at {config.url}: {str(error).splitlines()[0]}") from error
    return missing


def _apply(client: Any, missing: tuple[Migration, ...]) -> None:
    client.command(_MIGRATIONS_TABLE)
    for migration in missing:
        for statement in migration.statements:
            client.command(statement)
        client.insert("schema_migrations", [[migration.number, migration.name]], column_names=["number", "name"])
