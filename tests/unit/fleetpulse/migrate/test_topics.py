"""Log ids are given to topics that have none, however many migrations run at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.metadata import MetadataRequest

from fleetpulse.migrate import topics
from fleetpulse.migrate.plan import MakeTopic
from runtime.config import KafkaConfig
from runtime.contract_record import ContractRecord
from schemas.contract.topics import BY_NAME, CONTRACT
from schemas.errors import ConfigError
from schemas.limits import DEFAULT_LIMITS


class Admin:
    """Of a cluster with these topics."""

    def __init__(self, existing: set[str]) -> None:
        self.existing = existing

    async def list_topics(self) -> list[str]:
        return sorted(self.existing)


async def test_a_topic_that_another_migration_made_meanwhile_keeps_its_log_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is missing gets a new one, also where the contract has that of its predecessor."""
    planned = [MakeTopic(BY_NAME[name]) for name in ("books", "rejected", "costs")]
    contract = ContractRecord("local", {"books": "of another", "rejected": "of its predecessor"})
    written: dict[str, str] = {}

    async def read(_kafka: KafkaConfig) -> ContractRecord:
        return contract

    async def write(_kafka: KafkaConfig, records: dict[str, str]) -> None:
        written.update(records)

    async def create(*_any: Any) -> None:
        """Nothing."""

    monkeypatch.setattr(topics, "read_contract", read)
    monkeypatch.setattr(topics, "_write", write)
    monkeypatch.setattr(topics, "create", create)

    await topics._make(KafkaConfig(), Admin({CONTRACT.name, "books", "costs"}), planned, DEFAULT_LIMITS)

    assert sorted(written) == ["costs", "rejected"]


async def test_a_login_that_may_not_ask_is_told_so() -> None:
    """By the group."""

    class Groups:
        async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
            return [SimpleNamespace(groups=[(30, groups[0], "", "", "", [])])]

    with pytest.raises(ConfigError, match="group local-windows cannot be described"):
        await topics._busy(KafkaConfig(), Groups())


async def test_a_topic_that_the_login_may_not_see_is_not_taken_for_missing() -> None:
    """Brokers leave it out of a list of all topics. They are asked by name, and make none of those that are missing."""
    asked: list[bytes] = []

    class Cluster:
        topic_prefix = "eu."

        async def _send_request(self, request: MetadataRequest) -> Any:
            struct = request.prepare({MetadataRequest.API_KEY: (0, 5)})
            asked.append(struct.encode())
            return SimpleNamespace(topics=[(3, "eu.books", False, []), (29, "eu.costs", False, [])])

    await topics._demand_missing(KafkaConfig(), Cluster(), [])
    with pytest.raises(ConfigError, match="topic costs cannot be described"):
        await topics._demand_missing(KafkaConfig(), Cluster(), ["books", "costs"])

    assert [one[-1:] for one in asked] == [b"\0"], "topics are not made by being asked for"
