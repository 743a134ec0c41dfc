"""Covers fleetpulse.doctor.look_kafka where it needs no broker: groups whose coordinator cannot say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from fleetpulse.doctor.facts import GroupFacts, TopicFacts
from fleetpulse.doctor.look_kafka import led, look_at_groups
from runtime import consumer_groups


class Groups:
    """Of a cluster that describes a group by these codes one after the other, with a member where the code is 0."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    async def list_consumer_group_offsets(self, _group: str) -> dict[Any, Any]:
        return {}

    async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
        code = self.codes.pop(0)
        return [SimpleNamespace(groups=[(code, groups[0], "", "", "", ["a member"] if code == 0 else [])])]


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        pytest.param((14, 0), GroupFacts(1, {}), id="it loads"),
        pytest.param((69,), GroupFacts(0, {}), id="there never was one"),
        pytest.param((30,), None, id="this login may not ask"),
    ],
)
async def test_a_group_has_the_members_that_its_coordinator_knows(
    codes: tuple[int, ...], found: GroupFacts | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it loads, the answer has none: a running job would be taken for stopped."""

    async def at_once(_pause_s: float) -> None:
        """Nothing is waited for."""

    monkeypatch.setattr(consumer_groups.asyncio, "sleep", at_once)

    assert await look_at_groups(Groups(*codes), ["local-windows"]) == {"local-windows": found}


async def test_a_group_whose_coordinator_says_nothing_holds_up_no_other() -> None:
    """Its members can neither join nor commit while that stays so."""

    class Halves(Groups):
        async def describe_consumer_groups(self, groups: list[str]) -> list[Any]:
            self.codes = [16 if groups == ["local-deliver"] else 0]
            return await super().describe_consumer_groups(groups)

    found = await look_at_groups(Halves(), ["local-deliver", "local-windows"], within_s=0.01)

    assert found == {"local-deliver": GroupFacts(0, {}, answered=False), "local-windows": GroupFacts(1, {})}


def test_partitions_without_leader_are_not_asked_for_offsets() -> None:
    """One of them would use up the time of all other looks."""
    topics = {"books": TopicFacts(3, 1, (1,), (1,), {}), "costs": TopicFacts(1, 1, (0,), (0,), {})}

    assert led(topics) == [TopicPartition("books", 0), TopicPartition("books", 2)]
