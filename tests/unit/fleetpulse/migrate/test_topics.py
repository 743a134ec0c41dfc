"""Log ids are given to topics that have none, however many migrations run at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import InvalidGroupIdError

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


class Groups:
    """Of a cluster that describes a group by these codes one after the other, with a member where the code is 0."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
        code = self.codes.pop(0)
        return [SimpleNamespace(groups=[(code, groups[0], "", "", "", ["a member"] if code == 0 else [])])]


@pytest.mark.parametrize("codes", [(0,), (14, 0), (15, 16, 0)], ids=str)
async def test_members_are_those_of_a_coordinator_that_knows(codes: tuple[int, ...], monkeypatch: Any) -> None:
    """While it loads, or has moved, the answer has no members: a running job would be taken for stopped."""
    pauses: list[float] = []

    async def at_once(pause_s: float) -> None:
        pauses.append(pause_s)

    monkeypatch.setattr("fleetpulse.migrate.topics.asyncio.sleep", at_once)

    assert await topics._members(Groups(*codes), "local-windows") == 1
    assert len(pauses) == len(codes) - 1


async def test_a_group_that_there_never_was_has_no_members_and_other_answers_are_errors() -> None:
    """A login that may not ask is told so, by the group."""
    assert await topics._members(Groups(69), "local-windows") == 0
    with pytest.raises(InvalidGroupIdError):
        await topics._members(Groups(24), "local-windows")
    with pytest.raises(ConfigError, match="group local-windows cannot be described"):
        await topics._busy(KafkaConfig(), Groups(30))
