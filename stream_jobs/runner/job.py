"""What a runner runs: steps by source topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import ConfigError
from stream_jobs.runner.names import Names
from stream_jobs.runner.source import Source
from stream_jobs.step import Step

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
        cls,
        step: AnyStep | Mapping[str, AnyStep],
        source_topics: Sequence[str] = (),
        transactional: Sequence[str] = (),
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
