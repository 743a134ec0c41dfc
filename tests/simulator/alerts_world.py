"""The alert job in the simulation: upstreams of ``window.finals`` that are late, or silent until windows are judged
without them; the truth is the step undisturbed.

What an alert has as evidence are the windows judged before it, and how many of them were incomplete: so it shows in the
output when one is judged without what waited for it, or earlier or later than the log says. Values that wait are in
files beyond the first few bytes.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from schemas.contract.alerts import Alert
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC, WINDOW_FINALS
from stream_jobs.alerts.changes import Changes, State
from stream_jobs.alerts.step import AlertStep
from stream_jobs.insight.frame import Finding, Window
from stream_jobs.rules.model import Rule
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import TopicPartition
from stream_jobs.step import Commit
from tests.simulator.edges import Edge
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import PARTITIONS, Rules, World
from tests.unit.stream_jobs.alerts.cases import RULESET, T0, WINDOW, at
from tests.unit.stream_jobs.alerts.log import HOT_MS, QUICK, Detector, Log

TIMES = 40
"""Event time runs so many times as fast as the simulated clock: a window takes a quarter of a second."""
SILENT_AFTER_MS = 1_000
EARLY_MS = 300
WINDOWS_MAX = 12
MEMORY_BYTES_MAX = 2_000
UPSTREAMS = 2


class Judged:
    """As evidence: windows so far, and how many of them were incomplete."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.windows = [0, 0]

    def remember(self, window: Window, findings: Sequence[Finding]) -> None:
        self.windows[0] += 1
        self.windows[1] += not window.complete

    def of(self, alert: Alert) -> Mapping[str, Any]:
        return {"windows": list(self.windows)}

    def dump(self) -> list[bytes]:
        return [orjson.dumps(self.windows)]

    def load(self, parts: Sequence[bytes]) -> None:
        self.windows = orjson.loads(parts[0])


class WorldStep(AlertStep):
    """Bounds that a schedule reaches."""

    def __init__(self) -> None:
        super().__init__(UPSTREAMS, RULESET, Detector, Judged, QUICK, open_file=io.BytesIO)

    def new(self, topic: str, partition: int) -> State:
        state = super().new(topic, partition)
        state.gather.wait_ms, state.gather.windows_max = SILENT_AFTER_MS, WINDOWS_MAX
        state.gather.early_ms = EARLY_MS
        state.gather.memory_bytes_max = MEMORY_BYTES_MAX
        return state


@dataclasses.dataclass
class UpstreamEdge(Edge):
    """The finals of one upstream in every partition: window after window, with pauses; and events of GPUs."""

    written: int = 0
    quiet: int = 0

    def restart(self) -> None:
        """What was committed stays; nothing is sent twice."""

    def spool(self) -> None:
        passed = (self.server.now_ms() - T0) * TIMES // WINDOW
        self.quiet = max(0, self.quiet - 1) or (self.draw.randrange(3, 12) if self.draw.random() < 0.15 else 0)
        if self.draw.random() < 0.3:
            self._send(lambda log, place: log.gpu_event("gpu_lost", f"p{place}-{self.spooled}", at(passed)))
        while not self.quiet and self.written < passed:
            window, hot = self.written, self.draw.random() < 0.3
            queue = HOT_MS + 1 + self.draw.randrange(9) if hot else 1
            self._send(
                lambda log, place, window=window, queue=queue: log.rows(  # type: ignore[misc]
                    int(self.name, 16), window, {f"p{place}-{self.name[-1]}": queue}, window + 1
                )
            )
            self.written += 1

    def _send(self, write: Callable[[Log, int], None]) -> None:  # type: ignore[override]
        for place in range(self.partitions):
            log = Log()
            write(log, place)
            (record,) = log.records
            self.server.append((self.topic, place), Output(self.topic, place, None, record.value, record.headers))
        self.spooled += 1


class AlertsWorld(World):
    source = WINDOW_FINALS
    outputs = (TopicPartition(ALERTS_TOPIC, 0),)
    step: type[WorldStep] = WorldStep

    def _make(self) -> None:
        simulated = self.server.now_ms
        begun_ms = simulated()
        self.server.now_ms = lambda: T0 + simulated() - begun_ms
        super()._make()

    def _edge_class(self) -> Callable[..., Edge]:
        return UpstreamEdge

    def _job(self) -> Job:
        return Job.of(self.step(), [WINDOW_FINALS], self.draw.choice(([], [WINDOW_FINALS])))

    def _judge_outputs(self) -> None:
        told = self._told(self.outputs[0])
        self.outcome.commits = len(told)
        for place in range(PARTITIONS):
            wanted = [output.value for output in self._undisturbed(place)]
            found = [record.value for record in told if b'"p%d-' % place in (record.value or b"")]
            if found != wanted:
                at_ = next((n for n, pair in enumerate(zip(found, wanted, strict=False)) if len({*pair}) > 1), None)
                self.outcome.violations.append(f"{place}: {len(found)} alerts, not {len(wanted)}; first other: {at_}")

    def _undisturbed(self, place: int) -> list[Output]:
        """What a job emits that folds record by record and commits after each."""
        step = WorldStep()
        state, told = step.new(WINDOW_FINALS, place), list[Output]()
        for record in self.server.log((WINDOW_FINALS, place)).read(0, 1 << 30).records:
            changes = step.changes()
            step.fold(state, [record], changes)
            told += step.rows(state, changes, Commit(WINDOW_FINALS, place, 0, 0, 0, 0, False))
        return told


class _GoesOnAtTheDump(WorldStep):
    def replay_from(self, state: State, position: int) -> int:
        return position


class _TakesAllAgain(WorldStep):
    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        state = super().load(topic, partition, parts)
        state.replay_to = 0
        return state


class _WaitsAnew(WorldStep):
    """Every owner gives a silent upstream its time anew."""

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        state = super().load(topic, partition, parts)
        state.gather.rose_ms = [state.gather.clock_ms] * UPSTREAMS
        return state


class _LooksAnew(WorldStep):
    """Every owner gives windows that are kept waiting their time anew."""

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        state = super().load(topic, partition, parts)
        for waiting in state.gather.waiting.values():
            waiting.passed_ms = None
        return state


class _LooksByBatches(WorldStep):
    """Windows are looked at once a fetch was folded, wherever it ends."""

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        early_ms, state.gather.early_ms = state.gather.early_ms, 1 << 62
        super().fold(state, records[:-1], changes)
        state.gather.early_ms = early_ms
        super().fold(state, records[-1:], changes)


def _world(step: type[WorldStep]) -> type[AlertsWorld]:
    return type("MutatedWorld", (AlertsWorld,), {"step": step})


MUTATIONS = (
    Mutation(
        "waiting finals not read again",
        "finals that wait for an upstream are read again by the next owner",
        "it goes on where the state was dumped",
        Rules(),
        world=_world(_GoesOnAtTheDump),
    ),
    Mutation(
        "all taken again",
        "of what is read again only that is taken which waited",
        "all of it is taken as new",
        Rules(),
        world=_world(_TakesAllAgain),
    ),
    Mutation(
        "silence counted anew",
        "who is silent, and a window is judged without, follows from the log alone",
        "each owner gives a silent upstream its time again",
        Rules(),
        world=_world(_WaitsAnew),
        seen_by=2,
    ),
    Mutation(
        "time of a look counted anew",
        "when a window that somebody delays is looked at follows from the log alone",
        "each owner gives it its time again",
        Rules(),
        world=_world(_LooksAnew),
        seen_by=13,
    ),
    Mutation(
        "looks where a fetch ends",
        "a window is looked at behind the record that says so",
        "it is looked at where a fetch ends",
        Rules(),
        world=_world(_LooksByBatches),
        seen_by=6,
    ),
)
