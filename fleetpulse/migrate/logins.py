"""One login for each part of an installation: the rights that it lacks, as steps, and giving them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fleetpulse.migrate.plan import Allow, Plan
from runtime.access_lists import allow, read_access_lists
from runtime.config import KafkaConfig
from runtime.kafka_clients import open_admin
from schemas.contract.rights import ROLES, Right, rights_of
from schemas.errors import ConfigError


def logins_of(given: Iterable[str]) -> dict[str, list[str]]:
    """Principals by role, of texts such as ``edge=User:edge``. A name without ``User:`` is a user's. Raises
    ``ConfigError`` for what is none."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for text in given:
        role, equals, principal = text.partition("=")
        if role not in ROLES or not equals or not principal:
            raise ConfigError("--acls", text, f"must be ROLE=LOGIN, a role of {', '.join(ROLES)}")
        found[role].append(principal if principal.startswith("User:") else f"User:{principal}")
    return dict(found)


def plan(kafka: KafkaConfig, logins: Mapping[str, Sequence[str]]) -> Plan:
    """The rights that these logins, by role, lack. Raises ``ConfigError`` where the brokers have no access lists, else
    as ``read_access_lists``."""
    if not logins:
        return Plan()
    held = asyncio.run(_held(kafka))
    if held is None:
        raise ConfigError(
            "kafka.bootstrap", kafka.bootstrap, "must be brokers with an authorizer: these let all do all"
        )
    wanted: defaultdict[str, set[Right]] = defaultdict(set)
    for role, principals in logins.items():
        for principal in principals:
            wanted[principal] |= rights_of(role, kafka.namespace, kafka.topic_prefix)
    steps = [
        Allow(principal, right)
        for principal, rights in wanted.items()
        for right in sorted(rights - held.get(principal, set()))
    ]
    return Plan(tuple(steps))


def carry_out(kafka: KafkaConfig, steps: Iterable[Allow]) -> None:
    """Give them. Raises as ``read_access_lists``."""
    rights: defaultdict[str, list[Right]] = defaultdict(list)
    for step in steps:
        rights[step.principal].append(step.right)
    asyncio.run(_give(kafka, rights))


async def _held(kafka: KafkaConfig) -> dict[str, set[Right]] | None:
    async with open_admin(kafka) as admin:
        return await read_access_lists(admin, kafka)


async def _give(kafka: KafkaConfig, rights: Mapping[str, Iterable[Right]]) -> None:
    async with open_admin(kafka) as admin:
        for principal, lacking in rights.items():
            await allow(admin, kafka, principal, lacking)
