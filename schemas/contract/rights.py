"""Who needs which rights in Kafka, by role: one login for each, so that a GPU node that was taken over can write what
its edge writes, and nothing else.

Numbers are those of Kafka's protocol (https://kafka.apache.org/protocol.html, CreateAcls).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    CONTRACT,
    DEAD_LETTERS,
    DERIVED_TOPICS,
    ENGINES_TOPIC,
    INSIGHT_TOPICS,
    SOURCE_TOPICS,
    STATE_TOPICS,
    TOPICS,
)


class Resource(IntEnum):
    """What a right is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What it allows. Read and Write include Describe, AlterConfigs includes DescribeConfigs."""

    READ = 3
    WRITE = 4
    CREATE = 5
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One right. ``prefixed``: ``name`` is what the names begin with."""

    resource: Resource
    name: str
    operation: Operation
    prefixed: bool = False

    @property
    def subject(self) -> str:
        """Such as ``topic books`` or ``group local-sink*``."""
        return f"{self.resource.name.lower().replace('_', ' ')} {self.name}{'*' if self.prefixed else ''}"


_SOURCES = tuple(topic.name for topic in SOURCE_TOPICS)
_DERIVED = tuple(topic.name for topic in DERIVED_TOPICS)
_JUDGED = tuple(topic.name for topic in INSIGHT_TOPICS)
_STATES = tuple(topic.name for topic in STATE_TOPICS)
_EVERY = tuple(topic.name for topic in TOPICS)
EDGE_WRITES = (*_SOURCES, BOOKS_TOPIC, ENGINES_TOPIC.name)
JOBS_WRITE = (*_DERIVED, *(name for name in _JUDGED if name not in (ALERT_COMMANDS, DEAD_LETTERS)), *_STATES)
"""What jobs write: whoever may write it, too, decides what people see, whatever the events say."""


def _topics(names: Iterable[str], *operations: Operation) -> list[Right]:
    return [Right(Resource.TOPIC, name, operation) for name in names for operation in operations]


def _groups(namespace: str, *names: str) -> list[Right]:
    return [Right(Resource.GROUP, f"{namespace}-{name}", Operation.READ, prefixed=True) for name in names]


def _edge(_namespace: str) -> list[Right]:
    return [*_topics(EDGE_WRITES, Operation.WRITE), *_topics([CONTRACT.name], Operation.READ)]


def _gateway(namespace: str) -> list[Right]:
    return [*_edge(namespace), *_topics([ENGINES_TOPIC.name], Operation.READ)]


def _jobs(namespace: str) -> list[Right]:
    transactions = [
        Right(Resource.TRANSACTIONAL_ID, f"{namespace}-", operation, prefixed=True)
        for operation in (Operation.WRITE, Operation.DESCRIBE)
    ]
    read = (*_SOURCES, *_DERIVED, *_JUDGED, *_STATES)
    return [
        *_topics(read, Operation.READ, Operation.DESCRIBE_CONFIGS),
        *_topics([CONTRACT.name], Operation.READ),
        *_topics(JOBS_WRITE, Operation.WRITE),
        *_topics([ALERT_COMMANDS], Operation.WRITE),  # `fleetpulse jobs reset` is audited; finals carry silences anyway
        *_groups(namespace, "windows", "finals", "alerts", "costs"),
        *transactions,
    ]


def _sink(namespace: str) -> list[Right]:
    read = (*_SOURCES, *_DERIVED, *_JUDGED, CONTRACT.name)
    return [*_topics(read, Operation.READ), *_groups(namespace, "sink", "raw")]


def _deliver(namespace: str) -> list[Right]:
    return [
        *_topics([ALERTS_TOPIC, CONTRACT.name], Operation.READ),
        *_topics([DEAD_LETTERS], Operation.WRITE),
        *_groups(namespace, "deliver"),
    ]


def _people(namespace: str) -> list[Right]:
    return [
        *_topics(_EVERY, Operation.READ, Operation.DESCRIBE_CONFIGS),
        *_topics([ALERT_COMMANDS], Operation.WRITE),
        Right(Resource.GROUP, f"{namespace}-", Operation.DESCRIBE, prefixed=True),
    ]


def _migrate(namespace: str) -> list[Right]:
    changes = (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.READ, Operation.DESCRIBE_CONFIGS)
    return [
        *_topics(_EVERY, *changes),
        *_topics([CONTRACT.name], Operation.WRITE),
        Right(Resource.GROUP, f"{namespace}-", Operation.DESCRIBE, prefixed=True),
    ]


ROLES: Mapping[str, Callable[[str], list[Right]]] = MappingProxyType(
    {
        "edge": _edge,
        "gateway": _gateway,
        "jobs": _jobs,
        "sink": _sink,
        "deliver": _deliver,
        "people": _people,
        "migrate": _migrate,
    }
)
"""``edge``: agent, proxy, simulator, SDK's receiver. ``gateway``: a proxy before engines of other hosts. ``people``:
dashboard and command line."""


def rights_of(role: str, namespace: str, topic_prefix: str = "") -> frozenset[Right]:
    """What a role needs. ``namespace``: what groups and transactional ids begin with, before a dash."""
    return frozenset(
        Right(one.resource, f"{topic_prefix}{one.name}", one.operation) if one.resource is Resource.TOPIC else one
        for one in ROLES[role](namespace)
    )


def writers_of_both(held: Mapping[str, Iterable[Right]], topic_prefix: str = "") -> dict[str, tuple[str, str]]:
    """Logins that may write what an edge measures and also what jobs make of it: an example of each, by login."""
    events = [f"{topic_prefix}{name}" for name in _SOURCES]
    results = [f"{topic_prefix}{name}" for name in JOBS_WRITE if name != BOOKS_TOPIC]
    found: dict[str, tuple[str, str]] = {}
    for login, rights in held.items():
        writes = [one for one in rights if one.resource is Resource.TOPIC and one.operation is Operation.WRITE]
        both = [next((name for name in names if _covers(writes, name)), None) for names in (events, results)]
        if both[0] is not None and both[1] is not None:
            found[login] = (both[0], both[1])
    return found


def _covers(rights: Iterable[Right], name: str) -> bool:
    return any(name.startswith(one.name) if one.prefixed else one.name in (name, "*") for one in rights)
