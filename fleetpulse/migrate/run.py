"""The whole migration: look at both servers, refuse before anything is changed, then do what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fleetpulse.migrate import tables, topics
from fleetpulse.migrate.plan import Plan
from runtime.config import ClickHouseConfig, KafkaConfig
from schemas.limits import DEFAULT_LIMITS, Limits


def migrate(
    kafka: KafkaConfig,
    clickhouse: ClickHouseConfig,
    *,
    dry_run: bool = False,
    yes: bool = False,
    partitions: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Plan:
    """Do what is missing and return what was done (with ``dry_run``: what would be).

    Without ``yes`` steps that remove records or rows are left; the plan names them. Raises ``ContractError`` for what
    is refused, before anything is changed, ``ConfigError`` for a login that is rejected, ``UnavailableError`` where
    nobody answers.
    """
    with tables.connect(clickhouse) as client:
        found = asyncio.run(topics.plan(kafka, partitions or {}, limits))
        found += tables.plan(client, clickhouse.database, limits)
        if dry_run:
            return found
        found = found if yes else found.without_removing()
        asyncio.run(topics.carry_out(kafka, found.steps, limits))
        tables.carry_out(client, clickhouse.database, found.steps)
    return found
