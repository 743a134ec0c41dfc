"""What a runner runs: steps by source topic; their partitions; and the names that the runner gives: groups,
transactional ids, keys of snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.contract.topics import state_topic
from schemas.errors import ConfigError
from stream_jobs.step import Step

NUMBERED = b"n"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one job in one deployment; ``deployment`` keeps two installations on one cluster apart."""

    deployment: str
    job: str

    @property
    def group(self) -> str:
        return f"{self.deployment}-{self.job}"

    def transactional_id(self, topic: str, partition: int) -> str:
        """The fence: the same for every owner of the partition, in whatever process."""
        return f"{self.deployment}-{self.job}-{topic}-{partition}"

    def state_topic(self, source_topic: str) -> str:
        return state_topic(self.job, source_topic)

    def state_key(self, slot: int, piece: int) -> bytes:
        return b"%s%d/%d" % (self.state_prefix, slot, piece)

    def numbered_key(self, number: int) -> bytes:
        """Of a piece that later snapshots may refer to."""
        return b"%s%s/%d" % (self.state_prefix, NUMBERED, number)

    @property
    def state_prefix(self) -> bytes:
        return f"{self.deployment}/".encode()


@dataclass(frozen=True, slots=True)
class Source:
    """``gapless``: its offsets have no holes, as is so without transactional writers and compaction."""

    topic: str
    partition: int
    gapless: bool = True

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


AnyStep = Step[Any, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """``steps`` by source topic, what people wait for most first; ``transactional`` are the source topics whose offsets
    have holes."""

    name: str
    steps: Mapping[str, AnyStep]
    transactional: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, step: AnyStep | Mapping[str, AnyStep], source_topics: Sequence[str] = (), transactional: Sequence[str] = ()
    ) -> Job:
        """One step for all ``source_topics``, or a mapping from topic to step (all of one name)."""
        steps = dict(step) if isinstance(step, Mapping) else dict.fromkeys(source_topics, step)
        names = {each.name for each in steps.values()}
        if len(names) != 1:
            raise ConfigError("job.steps", sorted(names), "must be at least one, all of one name")
        return cls(names.pop(), steps, frozenset(transactional))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.steps)

    def names(self, deployment: str) -> Names:
        return Names(deployment, self.name)

    def source(self, topic: str, partition: int) -> Source:
        return Source(topic, partition, gapless=topic not in self.transactional)
