"""The runner's ports in memory, without trouble: for tests of one owner at a time, with a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.counters import Counters
from schemas.contract.record import Output, Record
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.ports import Batch, Committed

BEGAN_MS = 1_800_000_000_000


@dataclass
class Clock:
    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return BEGAN_MS + int(self.now_s * 1_000)


@dataclass
class Log:
    """``end`` is beyond the last record where markers stand."""

    begin: int = 0
    end: int = 0
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> Record:
        """The record with its offset."""
        self.records.append(record._replace(offset=self.end))
        self.end += 1
        return self.records[-1]


@dataclass
class Reader:
    log: Log
    offset: int

    async def poll(self) -> Batch:
        found = [record for record in self.log.records if record.offset >= self.offset]
        self.offset = self.log.end
        return Batch(found, self.offset)

    async def close(self) -> None: ...


@dataclass
class Memory:
    """A broker: logs by topic and partition, the committed offset of the group."""

    logs: dict[tuple[str, int], Log] = field(default_factory=dict)
    offset: Committed | None = None
    adding: Committed | None = None
    missing: set[tuple[str, int]] = field(default_factory=set)
    leaderless: set[tuple[str, int]] = field(default_factory=set)
    topic_ids: dict[str, str] = field(default_factory=dict)

    def log(self, topic: str, partition: int = 0) -> Log:
        return self.logs.setdefault((topic, partition), Log())

    def producer(self, transactional_id: str) -> Any:
        return self

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        return self.offset

    async def has_partition(self, topic: str, partition: int) -> bool:
        return (topic, partition) not in self.missing

    async def has_leader(self, topic: str, partition: int) -> bool:
        return (topic, partition) not in self.leaderless

    async def topic_id(self, topic: str) -> str | None:
        return self.topic_ids.get(topic)

    async def begin_offset(self, topic: str, partition: int) -> int:
        return self.log(topic, partition).begin

    async def end_offset(self, topic: str, partition: int) -> int:
        return self.log(topic, partition).end

    async def reader(self, topic: str, partition: int, offset: int) -> Reader:
        return Reader(self.log(topic, partition), offset)

    async def pause(self) -> None: ...

    async def start(self) -> None: ...

    async def begin(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, outputs: Sequence[Output]) -> list[int]:
        return [
            self.log(o.topic, o.partition).add(Record(o.topic, o.partition, 0, 0, o.key, o.value, o.headers)).offset
            for o in outputs
        ]

    async def add_offset(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        self.adding = committed

    async def commit(self) -> None:
        self.offset = self.adding


@dataclass
class Scene:
    """One source partition, its owner and time."""

    step: Any
    topic: str = "source"
    gapless: bool = True
    memory: Memory = field(default_factory=Memory)
    clock: Clock = field(default_factory=Clock)

    @property
    def log(self) -> Log:
        """Of the source."""
        return self.memory.log(self.topic)

    @property
    def snapshots(self) -> list[int]:
        """Positions of the snapshots that were begun."""
        found = [dict(r.headers) for r in self.memory.log(f"state.{self.step.name}.{self.topic}").records]
        return [int(headers["position"]) for headers in found if headers["piece"].startswith(b"0/")]

    async def owner(self, step: Any = None, counters: Counters | None = None) -> PartitionOwner:
        """A new one that took over; it feeds on what the log has behind its position."""
        source, names = Source(self.topic, 0, self.gapless), Names("d", self.step.name)
        step, counters = step or self.step, counters or Counters()
        owner = PartitionOwner(step, source, self.memory, names, PROMPT_POLICY, self.clock, counters)
        position = await owner.acquire()
        waiting = [record for record in self.log.records if record.offset >= position]
        if waiting:
            await owner.feed(waiting)
        return owner

    async def pass_by(self, owner: PartitionOwner, seconds: int) -> int:
        """Time with nothing in it, looked at every second; how many commits it brought."""
        commits = 0
        for _ in range(seconds):
            self.clock.now_s += 1
            if owner.wants_commit():
                commits += await owner.commit()
            elif owner.seems_idle():
                commits += await owner.commit_idle()
        return commits
