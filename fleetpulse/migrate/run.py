"""The whole migration: look at both servers, refuse before anything is changed, then do what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

from fleetpulse.migrate import logins, tables, topics
from fleetpulse.migrate.plan import Allow, Plan
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
    servers: Sequence[ClickHouseConfig] = (),
    acls: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Plan:
    """Do what is missing and return what was done (with ``dry_run``: what would be).

    ``servers``: more ClickHouse servers that get the same tables: shards of a database that is not replicated, or
    copies with a sink of their own. ``acls``: Kafka's logins by role, which get the rights they lack. Without ``yes``
    steps that remove records or rows are left; the plan names them.
    Raises ``ContractError`` for what is refused, before anything is changed, ``ConfigError`` for a login that is
    rejected, ``UnavailableError`` where nobody answers.
    """
    with ExitStack() as opened:
        every = [(opened.enter_context(tables.connect(one)), tables.names_of(one)) for one in (clickhouse, *servers)]
        of_each = [tables.plan(client, names, limits) for client, names in every]
        found = asyncio.run(topics.plan(kafka, partitions or {}, limits))
        lacking = logins.plan(kafka, acls)
        if not yes and not dry_run:
            found, of_each = found.without_removing(), [one.without_removing() for one in of_each]
        if not dry_run:
            asyncio.run(topics.carry_out(kafka, found.steps, limits))
            logins.carry_out(kafka, (step for step in lacking.steps if isinstance(step, Allow)))
            tables.carry_out_on([(*server, of_one.steps) for server, of_one in zip(every, of_each, strict=True)])
    return found + lacking + together(of_each)


def together(plans: Sequence[Plan]) -> Plan:
    """What servers need, a step that several need once."""
    return Plan(
        tuple(dict.fromkeys(step for one in plans for step in one.steps)),
        tuple(dict.fromkeys(note for one in plans for note in one.notes)),
        tuple(dict.fromkeys(step for one in plans for step in one.left)),
    )
