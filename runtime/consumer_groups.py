"""Consumer groups as their coordinators describe them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiokafka.errors import GroupIdNotFound, KafkaError, for_code

T = TypeVar("T")
_RETRY_AFTER_S = 0.3


async def members_of(admin: Any, group: str) -> int:
    """How many members a group has, 0 of one that there never was. Raises ``KafkaError``; a retriable one while its
    coordinator cannot say, which would otherwise look like a group without members."""
    (answer,) = await admin.describe_consumer_groups([group])
    for code, *_ in answer.groups:
        if code not in (0, GroupIdNotFound.errno):
            raise for_code(code)(group)
    return sum(len(one[5]) for one in answer.groups)


async def once_there(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer about groups, asked for again while there is no coordinator that can give it. A cluster where no
    group ever was makes their topic at the first request. Raises ``KafkaError`` that is not retriable."""
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if not error.retriable:
                raise
            await asyncio.sleep(_RETRY_AFTER_S)
