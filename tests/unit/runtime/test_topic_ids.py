"""Metadata as Kafka sends it, with the ids of topics; brokers that give none."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from aiokafka.errors import NodeNotReadyError

from runtime.topic_ids import METADATA, MetadataRequest_v10, MetadataResponse_v10, TopicIdRequest, topic_id

ID, PRINTED = bytes(range(100, 116)), "ZGVmZ2hpamtsbW5vcHFycw"
ANSWER = bytes.fromhex(
    "00000000"  # throttled for
    "02" "00000001" "0a" + b"localhost".hex() + "00002384" "00" "00"  # one broker, in no rack
    "02" + b"c".hex() + "00000001"  # the cluster, its controller
    "02" "0000" "0d" + b"llm.requests".hex() + ID.hex() + "00"  # one topic
    "02" "0000" "00000000" "00000001" "00000005" "02" "00000001" "02" "00000001" "01" "00"  # with one partition
    "80000000" "00" "80000000" "00"
)  # fmt: skip


class Client:
    """aiokafka's metadata client, with a broker that speaks these versions."""

    def __init__(self, versions: dict[int, tuple[int, int]], answer: bytes = ANSWER) -> None:
        self._versions = versions
        self._answer = answer
        self.node: int | None = 1

    def get_random_node(self) -> int | None:
        return self.node

    async def send(self, node: int, request: TopicIdRequest) -> Any:
        request.prepare(self._versions).encode()
        return MetadataResponse_v10.decode(BytesIO(self._answer))


async def test_an_id_is_the_one_that_kafkas_tools_print() -> None:
    """Of another topic nothing is said."""
    client = Client({METADATA: (0, 13)})

    assert await topic_id(client, "llm.requests") == PRINTED
    assert await topic_id(client, "books") is None


@pytest.mark.parametrize("versions", [{METADATA: (0, 8)}, {}], ids=["before 2.8", "unknown"])
async def test_brokers_that_give_no_ids(versions: dict[int, tuple[int, int]]) -> None:
    """Then nobody knows, and nothing is compared."""
    assert await topic_id(Client(versions), "llm.requests") is None


async def test_a_topic_without_an_id_has_none() -> None:
    """As a broker answers of one that is not there."""
    assert await topic_id(Client({METADATA: (0, 13)}, ANSWER.replace(ID, bytes(16))), "llm.requests") is None


async def test_no_broker_is_no_answer() -> None:
    """It is asked again."""
    client = Client({METADATA: (0, 13)})
    client.node = None

    with pytest.raises(NodeNotReadyError):
        await topic_id(client, "llm.requests")


def test_one_topic_is_asked_for_and_none_is_made() -> None:
    """By its name."""
    request = TopicIdRequest("books").prepare({METADATA: (0, 13)})

    assert isinstance(request, MetadataRequest_v10)
    assert request.encode().hex() == "02" + bytes(16).hex() + "06" + b"books".hex() + "00" + "000000" + "00"
