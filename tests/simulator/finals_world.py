"""The finals job in the simulation: two sources announce, the real step merges; the truth is the step undisturbed.

Event time runs twenty times as fast as the simulated clock, so that windows pass, get hot and cold within a schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from schemas.contract.record import Output
from schemas.contract.topics import WINDOW_FINALS, WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.finals import FinalsHeaders, decode
from stream_jobs.finals.step import FinalsStep
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import TopicPartition
from stream_jobs.step import Commit
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


@dataclasses.dataclass
class FinalsEdge(Edge):
    """A source partition of the windows job: each commit writes to every partition of ``window.partials``, once."""

    upstreams: list[Upstream] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.upstreams = [Upstream() for _ in range(self.partitions)]

    def restart(self) -> None:
        """What was committed stays; nothing is sent twice."""

    def spool(self) -> None:
        source = REQUESTS if int(self.name, 16) % 2 else SAMPLES
        watermark_ms = BASE_MS + TIMES * self.server.now_ms()
        for partition, upstream in enumerate(self.upstreams):
            poisoned = self.draw.random() < self.poison_rate
            rows = [] if poisoned else self._rows(source, watermark_ms)
            for record in upstream.commit(source, watermark_ms, rows[:1], rows[1:]):
                headers = (("schema", b"later/1"), *record.headers[1:]) if poisoned else record.headers
                self.server.append(
                    (self.topic, partition), Output(self.topic, partition, None, record.value or b"", headers)
                )
                self.spooled += 1
                self.poisoned += poisoned

    def _rows(self, source: tuple[str, int], watermark_ms: int) -> list[dict[str, Any]]:
        at_ms = watermark_ms - WINDOW_MS * self.draw.choice((-1, 0, 0, 0, 1, 2, 5))
        word = self.draw.choice("abc")
        return request_rows(at_ms, tenant=word) if source == REQUESTS else sample_rows(at_ms, gpu_uuid=word)


class FinalsWorld(World):
    source = WINDOW_PARTIALS
    outputs = (TopicPartition(WINDOW_FINALS, 0),)

    def _edge_class(self) -> Callable[..., Edge]:
        return FinalsEdge

    def _job(self) -> Job:
        transactional = self.draw.choice(([], [WINDOW_PARTIALS]))
        return Job.of(FinalsStep(LIMITS, SOURCES), [WINDOW_PARTIALS], transactional)

    def _judge_outputs(self) -> None:
        told = [(decode(record.headers, "told"), record) for record in self._told(self.outputs[0])]
        self.outcome.commits = sum(isinstance(head, FinalsHeaders) and head.through_ms > 0 for head, _ in told)
        for partition in range(PARTITIONS):
            wanted = self._undisturbed(partition)
            own = [r for head, r in told if isinstance(head, FinalsHeaders) and head.upstream == partition]
            found = [Output(r.topic, r.partition, r.key, r.value or b"", r.headers) for r in own]
            for schema in ("llm_requests_finals/1", "gpu_samples_finals/1"):
                if last_rows(found, schema) != last_rows(wanted, schema):
                    self.outcome.violations.append(f"{partition}: rows of {schema} are not those of an undisturbed job")
            if (throughs := _throughs(found)) != sorted(throughs) or throughs[-1:] != _throughs(wanted)[-1:]:
                self.outcome.violations.append(f"{partition}: progress {throughs}")

    def _undisturbed(self, partition: int) -> list[Output]:
        """What a job tells that folds record by record and commits after each."""
        step = FinalsStep(LIMITS, SOURCES)
        state, told = step.new(WINDOW_PARTIALS, partition), list[Output]()
        for record in self.server.log((WINDOW_PARTIALS, partition)).read(0, 1 << 30).records:
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
