"""Committed offsets as Kafka sends them: stable ones, ones about to change, and those of brokers that cannot tell."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError, NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetFetchResponse_v3

from runtime.stable_offsets import OFFSET_FETCH, UnstableOffsetError, stable_offset

REQUEST = bytes.fromhex("02670202740200000003000100")  # group g, topic t[3], stable
NONE = "ffffffffffffffff"


def answer(
    offset: str, metadata: str, code: str = "0000", *, of_all: str = "0000", partition: str = "00000003"
) -> bytes:
    """Version 7, of topic ``t``."""
    text = f"{len(metadata) + 1:02x}{metadata.encode().hex()}"
    row = f"{partition}{offset}00000005{text}{code}00"
    return bytes.fromhex(f"0000000002027402{row}00{of_all}00")


class Client:
    """aiokafka's client, with a coordinator that speaks these versions."""

    def __init__(self, answer: bytes, versions: tuple[int, int] = (0, 9)) -> None:
        self._answer = answer
        self._versions = {OFFSET_FETCH: versions}
        self.sent: list[bytes] = []

    async def send(self, node: int, request: Any, *, group: int) -> Any:
        assert (node, group) == (7, ConnectionGroup.COORDINATION)
        struct = request.prepare(self._versions)
        self.sent.append(struct.encode())
        return struct.RESPONSE_TYPE.decode(BytesIO(self._answer))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (answer("0000000000000100", "number 4"), (256, "number 4")),
        (answer(NONE, ""), (-1, "")),
        (answer("0000000000000100", "", partition="00000004"), None),
    ],
    ids=["offset", "none", "of another partition"],
)
async def test_what_is_stable_is_given(given: bytes, found: tuple[int, str] | None) -> None:
    """The request demands it to be."""
    client = Client(given)

    assert await stable_offset(client, 7, "g", "t", 3) == found
    assert client.sent == [REQUEST]


@pytest.mark.parametrize(
    ("given", "error", "retriable"),
    [
        (answer(NONE, "", "0058"), UnstableOffsetError, True),
        (answer(NONE, "", of_all="0010"), NotCoordinatorForGroupError, True),
        (answer(NONE, "", "001e"), GroupAuthorizationFailedError, False),
    ],
    ids=["a transaction is about to change it", "the coordinator moved", "no right"],
)
async def test_what_is_no_offset_raises(given: bytes, error: type[KafkaError], retriable: bool) -> None:
    """An offset that is about to change is asked for again."""
    with pytest.raises(error) as raised:
        await stable_offset(Client(given), 7, "g", "t", 3)

    assert raised.value.retriable is retriable


async def test_brokers_that_know_no_such_demand_give_what_is_in_force() -> None:
    """Kafka before 2.5."""
    before = OffsetFetchResponse_v3(0, [("t", [(3, 256, "number 4", 0)])], 0).encode()
    client = Client(before, (0, 5))

    assert await stable_offset(client, 7, "g", "t", 3) == (256, "number 4")
    assert len(client.sent) == 1
