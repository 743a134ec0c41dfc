"""The finals job in the simulation: two sources announce, the real step merges; the truth is the step undisturbed.

Event time runs twenty times as fast as the simulated clock, so that windows pass, get hot and cold within a schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_FINALS, WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.finals import FinalsHeaders, decode
from stream_jobs.finals.step import FinalsStep
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import TopicPartition
from stream_jobs.step import Commit
from stream_jobs.windows.changes import LastSent
from stream_jobs.windows.messages import passes_another_window
from tests.simulator.edges import Edge
from tests.simulator.schedule import PARTITIONS, World
from tests.unit.stream_jobs.finals.cases import (
    REQUESTS,
    SAMPLES,
    SOURCES,
    WINDOW_MS,
    Upstream,
    last_rows,
    request_rows,
    sample_rows,
)
from tests.unit.stream_jobs.windows.cases import BASE_MS

LIMITS = dataclasses.replace(DEFAULT_LIMITS, hot_ms=30_000, final_wait_ms=20_000)
TIMES = 20
SCHEMAS = ("llm_requests_finals/1", "gpu_samples_finals/1")


EVERYTHING = "everything"
"""Where all that a commit could say stands, in partitions of their own: what is left out must change nothing."""


@dataclasses.dataclass
class FinalsEdge(Edge):
    """A source partition of the windows job. Each commit writes, once, to partitions of ``window.partials`` for which
    it has rows, and to all when its watermark has passed another window. All of them hear of everything in
    ``EVERYTHING``."""

    upstreams: list[Upstream] = dataclasses.field(default_factory=list)
    dense: list[Upstream] = dataclasses.field(default_factory=list)
    last_sent: dict[int, LastSent] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.upstreams = [Upstream() for _ in range(self.partitions)]
        self.dense = [Upstream() for _ in range(self.partitions)]

    def restart(self) -> None:
        """What was committed stays; nothing is sent twice. The next owner does not know what the last one sent."""
        self.last_sent.clear()

    def spool(self) -> None:
        self._commit(BASE_MS + TIMES * self.server.now_ms(), rows_rate=0.7, poison_rate=self.poison_rate)

    def finish(self) -> None:
        """A last commit that all hear of."""
        self._commit(BASE_MS + TIMES * self.server.now_ms() + WINDOW_MS, rows_rate=0.0, poison_rate=0.0)

    def _commit(self, watermark_ms: int, *, rows_rate: float, poison_rate: float) -> None:
        source = REQUESTS if int(self.name, 16) % 2 else SAMPLES
        for partition in range(self.partitions):
            poisoned = self.draw.random() < poison_rate
            has_rows = not poisoned and self.draw.random() < rows_rate
            rows = self._rows(source, watermark_ms) if has_rows else []
            self._append(EVERYTHING, partition, self.dense[partition].commit(source, watermark_ms, rows[:1], rows[1:]))
            if not (rows or self.is_news(partition, watermark_ms)):
                continue
            self.last_sent[partition] = LastSent(0, watermark_ms)
            records = self.upstreams[partition].commit(source, watermark_ms, rows[:1], rows[1:])
            if poisoned:
                records = [one._replace(headers=(("schema", b"later/1"), *one.headers[1:])) for one in records]
            self._append(self.topic, partition, records)
            self.spooled += len(records)
            self.poisoned += poisoned * len(records)

    def is_news(self, partition: int, watermark_ms: int) -> bool:
        """Whether a commit without rows for this partition says anything new there."""
        return passes_another_window(watermark_ms, self.last_sent.get(partition))

    def _append(self, topic: str, partition: int, records: list[Record]) -> None:
        for one in records:
            self.server.append((topic, partition), Output(topic, partition, None, one.value or b"", one.headers))

    def _rows(self, source: tuple[str, int], watermark_ms: int) -> list[dict[str, Any]]:
        at_ms = watermark_ms - WINDOW_MS * self.draw.choice((-1, 0, 0, 0, 1, 2, 5))
        word = self.draw.choice("abc")
        return request_rows(at_ms, tenant=word) if source == REQUESTS else sample_rows(at_ms, gpu_uuid=word)


class FinalsWorld(World):
    source = WINDOW_PARTIALS
    outputs = (TopicPartition(WINDOW_FINALS, 0),)

    edge_class: type[FinalsEdge] = FinalsEdge

    def _edge_class(self) -> Callable[..., Edge]:
        return self.edge_class

    async def _calm(self) -> None:
        for edge in self.edges:
            assert isinstance(edge, FinalsEdge)
            edge.finish()
        await super()._calm()

    def _job(self) -> Job:
        transactional = self.draw.choice(([], [WINDOW_PARTIALS]))
        return Job.of(FinalsStep(LIMITS, SOURCES), [WINDOW_PARTIALS], transactional)

    def _judge_outputs(self) -> None:
        told = [(decode(record.headers, "told"), record) for record in self._told(self.outputs[0])]
        self.outcome.commits = sum(isinstance(head, FinalsHeaders) and head.through_ms > 0 for head, _ in told)
        for partition in range(PARTITIONS):
            wanted = self._undisturbed(WINDOW_PARTIALS, partition)
            if not sum(edge.poisoned for edge in self.edges):  # which takes what it announced with it
                self._judge_left_out(partition, wanted)
            own = [r for head, r in told if isinstance(head, FinalsHeaders) and head.upstream == partition]
            found = [Output(r.topic, r.partition, r.key, r.value or b"", r.headers) for r in own]
            for schema in SCHEMAS:
                if last_rows(found, schema) != last_rows(wanted, schema):
                    self.outcome.violations.append(f"{partition}: rows of {schema} are not those of an undisturbed job")
            if (throughs := _throughs(found)) != sorted(throughs) or throughs[-1:] != _throughs(wanted)[-1:]:
                self.outcome.violations.append(f"{partition}: progress {throughs}")

    def _judge_left_out(self, partition: int, found: list[Output]) -> None:
        """A log of everything gives the same finals, of the same windows."""
        wanted = self._undisturbed(EVERYTHING, partition)
        for schema in SCHEMAS:
            if last_rows(found, schema) != last_rows(wanted, schema):
                self.outcome.violations.append(f"{partition}: rows of {schema} are not those of a log of everything")
        if _throughs(found) != _throughs(wanted):
            self.outcome.violations.append(f"{partition}: progress {_throughs(found)}, not {_throughs(wanted)}")

    def _undisturbed(self, topic: str, partition: int) -> list[Output]:
        """What a job tells that folds record by record and commits after each."""
        step = FinalsStep(LIMITS, SOURCES)
        state, told = step.new(WINDOW_PARTIALS, partition), list[Output]()
        for record in self.server.log((topic, partition)).read(0, 1 << 30).records:
            changes = step.changes()
            if dict(record.headers)["schema"] == b"later/1":
                step.reject(state, record, "", changes)
            else:
                step.fold(state, [record], changes)
            told += step.rows(state, changes, Commit(WINDOW_PARTIALS, partition, 0, 0, 0, 0, False))
        return told


def _throughs(outputs: list[Output]) -> list[int]:
    heads = [decode(output.headers, "told") for output in outputs]
    return [head.through_ms for head in heads if isinstance(head, FinalsHeaders) and head.through_ms]
