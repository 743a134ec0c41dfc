"""Metadata as Kafka sends it, with the ids of topics; brokers that give none."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any, NamedTuple

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaError, NodeNotReadyError, RequestTimedOutError, TopicAuthorizationFailedError

from runtime import topic_ids
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


class Broker(NamedTuple):
    nodeId: int


class Connection(NamedTuple):
    is_open: bool

    def connected(self) -> bool:
        return self.is_open


class Client:
    """aiokafka's metadata client, with a broker that speaks these versions."""

    def __init__(self, versions: dict[int, tuple[int, int]], answer: bytes = ANSWER) -> None:
        self._versions = versions
        self._answer = answer
        self.nodes = [1]
        self.failing: dict[int, Exception] = {}
        self.hanging: set[int] = set()
        self.asked: list[int] = []
        self._conns: dict[tuple[int, int], Connection] = {}

    @property
    def cluster(self) -> Client:
        return self

    def brokers(self) -> list[Broker]:
        return [Broker(node) for node in self.nodes]

    def connect(self, node: int, *, connected: bool = True) -> None:
        self._conns[node, ConnectionGroup.DEFAULT] = Connection(connected)

    async def send(self, node: int, request: TopicIdRequest) -> Any:
        self.asked.append(node)
        if node in self.failing:
            raise self.failing[node]
        if node in self.hanging:
            await asyncio.Event().wait()
        request.prepare(self._versions).encode()
        return MetadataResponse_v10.decode(BytesIO(self._answer))


def three(*, first: int) -> Client:
    """Brokers 1 to 3, the first to be asked connected already."""
    client = Client({METADATA: (0, 13)})
    client.nodes = [1, 2, 3]
    client.connect(first)
    return client


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
    client.nodes = []

    with pytest.raises(NodeNotReadyError):
        await topic_id(client, "llm.requests")


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
async def test_where_one_broker_is_away_another_answers(
    first: int, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that refuses connections, and one whose host is gone."""
    monkeypatch.setattr(topic_ids, "BROKER_LIMIT_S", 0.01)
    client = three(first=first)
    if hangs:
        client.hanging.add(first)
    else:
        client.failing[first] = NodeNotReadyError()

    assert await topic_id(client, "llm.requests") == PRINTED
    assert len(client.asked) == 2
    assert client.asked[0] == first


async def test_brokers_with_a_connection_are_asked_first() -> None:
    """The connection to another has broken."""
    client = three(first=2)
    client.connect(1, connected=False)

    for _ in range(8):
        await topic_id(client, "llm.requests")

    assert set(client.asked) == {2}


async def test_where_no_broker_answers_it_may_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one was asked once."""
    monkeypatch.setattr(topic_ids, "BROKER_LIMIT_S", 0.01)
    client = three(first=1)
    client.failing = {1: NodeNotReadyError(), 2: RequestTimedOutError()}
    client.hanging = {3}

    with pytest.raises(KafkaError) as raised:
        await topic_id(client, "llm.requests")

    assert raised.value.retriable
    assert sorted(client.asked) == [1, 2, 3]


async def test_what_no_retry_mends_is_raised_at_once() -> None:
    """Another broker would say the same."""
    client = three(first=1)
    client.failing = {1: TopicAuthorizationFailedError()}

    with pytest.raises(TopicAuthorizationFailedError):
        await topic_id(client, "llm.requests")

    assert client.asked == [1]


def test_one_topic_is_asked_for_and_none_is_made() -> None:
    """By its name."""
    request = TopicIdRequest("books").prepare({METADATA: (0, 13)})

    assert isinstance(request, MetadataRequest_v10)
    assert request.encode().hex() == "02" + bytes(16).hex() + "06" + b"books".hex() + "00" + "000000" + "00"
