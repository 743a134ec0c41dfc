"""Committed offsets of a group that no transaction is still about to change.

A broker may answer that a transaction has ended before the offsets in it are in force (KAFKA-17507): who asks then, as
the owner does that has fenced the one before, is given the offset before that transaction and folds it a second time.
Since Kafka 2.5 a request can demand that the coordinator waits for them; aiokafka has only versions without.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokafka.client import ConnectionGroup
from aiokafka.errors import BrokerResponseError, IncompatibleBrokerVersion, KafkaError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

OFFSET_FETCH = 9
_TEXT = CompactString("utf-8")


class UnstableOffsetError(BrokerResponseError):
    """A transaction that has ended is about to change the offset."""

    errno = 88
    message = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class OffsetFetchResponse_v7(Response):
    API_KEY = OFFSET_FETCH
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _TEXT),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class OffsetFetchRequest_v7(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = OFFSET_FETCH
    API_VERSION = 7
    RESPONSE_TYPE = OffsetFetchResponse_v7
    SCHEMA = Schema(
        ("group", _TEXT),
        ("topics", CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields))),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class StableOffsetRequest(Request[OffsetFetchRequest_v7]):
    """Asks for the offset of one partition."""

    API_KEY = OFFSET_FETCH

    def __init__(self, group: str, topic: str, partition: int) -> None:
        self._asked = group, topic, partition

    def build(self, request_struct_class: type[OffsetFetchRequest_v7]) -> OffsetFetchRequest_v7:
        group, topic, partition = self._asked
        return request_struct_class(group, [(topic, [partition], {})], True, {})


async def stable_offset(client: Any, node: int, group: str, topic: str, partition: int) -> tuple[int, str] | None:
    """Offset (-1: none) and metadata, by the coordinator ``node`` of the group; None where its answer lacks the
    partition. Raises ``KafkaError``, a retriable one while the offset is about to change. Kafka before 2.5 gives what
    is in force."""
    try:
        answer = await client.send(
            node, StableOffsetRequest(group, topic, partition), group=ConnectionGroup.COORDINATION
        )
    except (IncompatibleBrokerVersion, NotImplementedError):
        request = OffsetFetchRequest(group, [(topic, [partition])])
        answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
    if code := getattr(answer, "error_code", 0):
        raise _error(code)
    for offset, metadata, code in _of_partition(answer, topic, partition):
        if code:
            raise _error(code)
        return offset, metadata or ""
    return None


def _of_partition(answer: Any, topic: str, partition: int) -> Iterator[tuple[int, str | None, int]]:
    """Offset, metadata and error code; of an answer in any version."""
    for name, partitions, *_ in answer.topics:
        for found, offset, *rest in partitions:
            if (name, found) == (topic, partition):
                metadata, code = rest[1:3] if isinstance(answer, OffsetFetchResponse_v7) else rest
                yield offset, metadata, code


def _error(code: int) -> KafkaError:
    return UnstableOffsetError() if code == UnstableOffsetError.errno else for_code(code)()
