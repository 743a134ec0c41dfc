"""Kafka's access lists, read and written by the protocol's requests: aiokafka has these, its admin client does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from aiokafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from runtime.config import KafkaConfig
from runtime.kafka_clients import no_right
from schemas.contract.rights import Operation, Resource, Right
from schemas.errors import UnavailableError

_ANY = 1
_ALLOW = 3
_LITERAL, _PREFIXED = 3, 4
_NOT_ALLOWED = 31
_NO_AUTHORIZER = 54
_EVERY_HOST = "*"


async def read_access_lists(admin: Any, kafka: KafkaConfig) -> dict[str, set[Right]] | None:
    """What every login may do, of operations known here, by its principal (``User:name``); None where the brokers have
    no access lists. Raises ``ConfigError`` where this login may not ask, else as every client."""
    request = DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ALLOW)
    answer = await _send(admin, request)
    if answer.error_code == _NO_AUTHORIZER:
        return None
    _demand_done(kafka, answer.error_code, answer.error_message)
    held: defaultdict[str, set[Right]] = defaultdict(set)
    for resource, name, pattern, entries in answer.resources:
        for principal, _host, operation, _permission in entries:
            if resource in set(Resource) and operation in set(Operation):
                held[principal].add(Right(Resource(resource), name, Operation(operation), pattern == _PREFIXED))
    return dict(held)


async def allow(admin: Any, kafka: KafkaConfig, principal: str, rights: Iterable[Right]) -> None:
    """Give a login these rights, from every host; what it has already stays. Raises as ``read_access_lists``."""
    for one in sorted(rights):
        pattern = _PREFIXED if one.prefixed else _LITERAL
        request = CreateAclsRequest(one.resource, one.name, pattern, principal, _EVERY_HOST, one.operation, _ALLOW)
        answer = await _send(admin, request)
        for code, message in answer.creation_responses:
            _demand_done(kafka, code, message)


async def _send(admin: Any, request: Any) -> Any:
    client = admin._client
    return await client.send(client.get_random_node(), request)


def _demand_done(kafka: KafkaConfig, code: int, message: str | None) -> None:
    if code == 0:
        return
    if code == _NOT_ALLOWED:
        raise no_right(kafka, "access lists: Describe and Alter on the cluster")
    raise UnavailableError(f"Kafka at {kafka.bootstrap} answers about access lists with error {code} ({message})")
