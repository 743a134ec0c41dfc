"""Members of a group by the answers of its coordinator."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupLoadInProgressError, InvalidGroupIdError

from runtime import consumer_groups
from runtime.consumer_groups import members_of, once_there


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

    monkeypatch.setattr(consumer_groups.asyncio, "sleep", at_once)

    assert await once_there(partial(members_of, Groups(*codes), "local-windows")) == 1
    assert len(pauses) == len(codes) - 1


async def test_a_group_that_there_never_was_has_no_members_and_other_answers_are_errors() -> None:
    """Who cannot wait is told that a coordinator cannot say."""
    assert await members_of(Groups(69), "local-windows") == 0
    with pytest.raises(InvalidGroupIdError):
        await once_there(partial(members_of, Groups(24), "local-windows"))
    with pytest.raises(GroupLoadInProgressError):
        await members_of(Groups(14), "local-windows")
