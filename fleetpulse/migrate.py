"""Bring a cluster's topics and a database's tables to what this version needs. Safe to repeat, also after a kill.

Topics that exist are checked, never changed: a source topic without LogAppendTime would make verdicts depend on the
senders' clocks, and one with fewer partitions than the processes count on would lose records, so both are refused.

A topic's log id is written *before* the topic is made (the topic ``contract``, which keeps the ids, comes first). The
other way round, a topic that was deleted and made again would for a moment, or after a kill for good, have the id of
its predecessor, and its rows would replace the old ones. An id without its topic is harmless: the next run writes
another.

Tables follow numbered migrations, each applied once and noted with its checksum in ``schema_migrations``; statements
are idempotent, so that a migration killed half-way runs again. Functions and views hold no data: where their text
changed they are made anew. Tables whose text changed are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import clickhouse_connect
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError
from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.log_ids import give_log_ids
from runtime import kafka_access
from runtime.clickhouse_access import first_line, refused
from runtime.config import ClickHouseConfig, KafkaConfig
from runtime.log_ids import read_log_ids
from schemas import ddl_tables
from schemas.ddl import Migration, migrations
from schemas.ddl_tables import HISTORY
from schemas.errors import ContractError, FleetpulseError, UnavailableError
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.topics import ALERTS_TOPIC, CONTRACT, TOPICS, Topic

REPLICAS = 3
"""Copies of every partition, where there are so many brokers."""
VISIBLE_WITHIN_S = 20
IN_SYNC_REPLICAS_MIN = 2
"""Of three copies; with ``acks=all`` no answered write is lost with one broker."""


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
    limits: Limits = DEFAULT_LIMITS,
) -> Plan:
    """Make what is missing and return what was done (with ``dry_run``: what would be).

    ``partitions`` overrides the contract's counts. Raises ``ContractError`` for a topic or table that is not as it
    must be, ``ConfigError`` for a login that is refused, ``UnavailableError`` where nobody answers.
    """
    topics = asyncio.run(_migrate_topics(kafka, partitions or {}, dry_run=dry_run))
    return Plan(topics, _migrate_tables(clickhouse, migrations(limits), dry_run=dry_run))


async def _migrate_topics(kafka: KafkaConfig, partitions: Mapping[str, int], *, dry_run: bool) -> tuple[Topic, ...]:
    admin = AIOKafkaAdminClient(**kafka.client_settings())
    try:
        await admin.start()
        try:
            existing = set(await admin.list_topics())
            await check_topics(admin, [topic for topic in TOPICS if topic.name in existing], partitions)
            missing = tuple(
                replace(topic, partitions=partitions_of(topic, partitions))
                for topic in TOPICS
                if topic.name not in existing
            )
            if not dry_run:
                await _make(kafka, admin, missing)
        finally:
            await admin.close()
    except KafkaError as error:
        raise await kafka_access.explained(kafka, error) from error
    return missing


async def _make(kafka: KafkaConfig, admin: Any, missing: tuple[Topic, ...]) -> None:
    """The contract topic first, then every id, then the topics."""
    if any(topic.name == CONTRACT.name for topic in missing):
        await _create(kafka, admin, (CONTRACT,))
        await _visible(admin, CONTRACT.name)
    known = await read_log_ids(kafka)
    new = {topic.name for topic in missing}
    await give_log_ids(kafka, [topic.name for topic in TOPICS if topic.name in new or topic.name not in known])
    others = tuple(topic for topic in missing if topic.name != CONTRACT.name)
    if others:
        await _create(kafka, admin, others)


async def _visible(admin: Any, name: str) -> None:
    """Wait until the topic has a leader, so that clients find it without complaints."""
    for _ in range(VISIBLE_WITHIN_S * 10):
        (found,) = await admin.describe_topics([name])
        if found["error_code"] == 0 and all(
            one["leader"] >= 0 and one["error_code"] == 0 for one in found["partitions"]
        ):
            return
        await asyncio.sleep(0.1)
    raise UnavailableError(f"topic {name} was made but has no leader after {VISIBLE_WITHIN_S} s")


async def _create(kafka: KafkaConfig, admin: Any, topics: tuple[Topic, ...]) -> None:
    replicas = min(REPLICAS, len((await admin.describe_cluster())["brokers"]))
    new = [NewTopic(t.name, t.partitions, replicas, topic_configs=topic_settings(t, replicas)) for t in topics]
    response = await admin.create_topics(new)
    for name, code, *rest in response.topic_errors:
        if code == TopicAuthorizationFailedError.errno:
            raise kafka_access.no_right(kafka, f"topic {name} cannot be created")
        if code not in (0, 36):  # 36: somebody else made it meanwhile
            raise ContractError(f"topic {name} cannot be created: error {code} {rest}")


def partitions_of(topic: Topic, partitions: Mapping[str, int]) -> int:
    """How many partitions a topic must have; a state topic has as many as its source topic."""
    base = topic.name
    if base.startswith("state."):
        base = base.split(".", 2)[2]
    return partitions.get(base, topic.partitions)


def topic_settings(topic: Topic, replicas: int) -> dict[str, str]:
    """Topic-level settings of the contract, for a topic with that many copies."""
    settings = {
        "cleanup.policy": "compact" if topic.compacted else "delete",
        "message.timestamp.type": "LogAppendTime" if topic.log_append_time else "CreateTime",
        "max.message.bytes": str(topic.record_bytes_max),
        "compression.type": "producer",
    }
    if replicas >= REPLICAS:
        settings |= {"min.insync.replicas": str(IN_SYNC_REPLICAS_MIN), "unclean.leader.election.enable": "false"}
    if topic.compacted:
        settings |= {"segment.ms": "600000", "min.cleanable.dirty.ratio": "0.2"}
        if topic.name == ALERTS_TOPIC:  # its readers want every transition, also after an outage
            settings["min.compaction.lag.ms"] = str(DEFAULT_LIMITS.outage_ms)
    else:
        settings["retention.ms"] = str(topic.retention_ms)
    return settings


async def check_topics(admin: Any, existing: Sequence[Topic], partitions: Mapping[str, int]) -> None:
    """Raise ``ContractError`` for a topic of these, all there, that is not as the contract says."""
    if not existing:
        return
    known = {topic.name: topic for topic in existing}
    for found in await admin.describe_topics([topic.name for topic in existing]):
        topic = known[found["topic"]]
        wanted, has = partitions_of(topic, partitions), len(found["partitions"])
        if has < wanted:
            raise ContractError(
                f"topic {topic.name} has {has} partitions, fewer than the {wanted} of the contract (or `partitions`):"
                f" set partitions.{topic.name} to {has}, or add partitions with kafka-topics while nothing produces"
            )
    sources = [topic.name for topic in existing if topic.log_append_time]
    resources = [ConfigResource(ConfigResourceType.TOPIC, n, configs={"message.timestamp.type": None}) for n in sources]
    for response in await admin.describe_configs(resources) if resources else ():
        for code, message, _kind, name, entries in response.resources:
            if code:
                raise kafka_access.untold_settings(name, message)
            found = {entry[0]: entry[1] for entry in entries}.get("message.timestamp.type")
            if found != "LogAppendTime":
                raise ContractError(
                    f"topic {name} has message.timestamp.type={found}; it must be LogAppendTime, because what is late"
                    " is told by the broker's clock: change it with kafka-configs, or use another cluster"
                )


def _migrate_tables(config: ClickHouseConfig, all_: tuple[Migration, ...], *, dry_run: bool) -> tuple[Migration, ...]:
    try:
        client = clickhouse_connect.get_client(**config.client_settings(), autogenerate_session_id=False)
        try:
            applied = _applied(client)
            missing = tuple(one for one in all_ if applied.get(one.number) != one.checksum)
            for one in missing:
                if one.number in applied and not one.replaceable:
                    raise ContractError(
                        f"the tables of {one.file_name} in database {config.database} were made by another version of"
                        f" it: DROP DATABASE {config.database} (or remove the local stack's data folder); migrate again"
                    )
            if not dry_run:
                _apply(client, missing)
        finally:
            client.close()
    except (ClickHouseError, OSError) as error:
        raise _explained(error, config) from error
    return missing


def _explained(error: Exception, config: ClickHouseConfig) -> FleetpulseError:
    if (why := refused(error, config)) is not None:
        return why
    line = first_line(error)
    if getattr(error, "code", None) is not None:
        return ContractError(f"ClickHouse at {config.url} refuses: {line}")
    return UnavailableError(f"ClickHouse at {config.url}: {line}")


def _applied(client: Any) -> dict[int, str]:
    """Checksum by number of what was applied."""
    if not client.command(f"EXISTS TABLE {HISTORY}"):
        return {}
    rows = client.query(f"SELECT * FROM {HISTORY} FINAL").named_results()
    return {int(row["number"]): row.get("checksum", "") for row in rows}


def _apply(client: Any, missing: tuple[Migration, ...]) -> None:
    client.command(ddl_tables.history())
    for migration in missing:
        for statement in migration.statements:
            client.command(statement)
        row = [migration.number, migration.name, migration.checksum]
        client.insert(HISTORY, [row], column_names=["number", "name", "checksum"])
