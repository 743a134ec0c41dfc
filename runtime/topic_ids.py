"""The ids that brokers give topics: a topic that is deleted and made again under its name has another one.

aiokafka asks for metadata in a version that has none. Here is the first that has them, of Kafka 2.8.
"""

from __future__ import annotations

import asyncio
import base64
import random
from io import BytesIO
from typing import Any

from aiokafka.client import ConnectionGroup
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, NodeNotReadyError, RequestTimedOutError
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

METADATA = 3
BROKER_LIMIT_S = 3.0
"""How long one broker has to answer, connecting to it included, before the next is asked. One whose host is gone takes
as long as the client's request timeout, which is longer than an owner may take to acquire a partition."""
_TEXT = CompactString("utf-8")
_NO_ID = bytes(16)


class Uuid(AbstractType[bytes]):
    """16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        found = data.read(len(_NO_ID))
        if len(found) != len(_NO_ID):
            raise ValueError("Buffer underrun decoding Uuid")
        return found


_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline_replicas", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC = (
    ("error_code", Int16),
    ("topic", _TEXT),
    ("topic_id", Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)
_BROKER = (("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields))


class MetadataResponse_v10(Response):
    API_KEY = METADATA
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class MetadataRequest_v10(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = METADATA
    API_VERSION = 10
    RESPONSE_TYPE = MetadataResponse_v10
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("topic", _TEXT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicIdRequest(Request[MetadataRequest_v10]):
    """Asks for the metadata of one topic."""

    API_KEY = METADATA

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[MetadataRequest_v10]) -> MetadataRequest_v10:
        return request_struct_class([(_NO_ID, self._topic, {})], False, False, False, {})


async def topic_id(client: Any, topic: str) -> str | None:
    """The id of a topic, as Kafka's tools print it; None where there is no such topic or the brokers give no ids.
    ``client``: the metadata client of a client that runs (``runtime.topic_prefix.topics_known``). Any broker will do:
    they are asked one after the other, until one answers. Raises ``KafkaError``, a retriable one where none does."""
    failed: KafkaError = NodeNotReadyError("no broker is known")
    for node in _nodes(client):
        try:
            async with asyncio.timeout(BROKER_LIMIT_S):
                answer = await client.send(node, TopicIdRequest(topic))
        except (IncompatibleBrokerVersion, NotImplementedError):
            return None
        except TimeoutError:
            failed = RequestTimedOutError(f"broker {node} did not answer within {BROKER_LIMIT_S:.0f} s")
        except KafkaError as error:
            if not error.retriable:
                raise
            failed = error
        else:
            return _printed(answer, topic)
    raise failed


def _nodes(client: Any) -> list[int]:
    """Ids of the brokers that are known, those with a connection first; else in any order, so that not all clients ask
    the same one."""
    nodes = [broker.nodeId for broker in client.cluster.brokers()]
    random.shuffle(nodes)
    return sorted(nodes, key=lambda node: not _is_connected(client, node))


def _is_connected(client: Any, node: int) -> bool:
    connection = client._conns.get((node, ConnectionGroup.DEFAULT))
    return connection is not None and bool(connection.connected())


def _printed(answer: Any, topic: str) -> str | None:
    ids = {found[1]: found[2] for found in answer.topics}
    found = ids.get(topic, _NO_ID)
    return None if found == _NO_ID else base64.urlsafe_b64encode(found).decode().rstrip("=")
