"""The whole path in one process, on a virtual clock: fleet, windows, finals, alerts; the very steps that run live.

Telemetry is committed when the watermark has passed a window, as the live job does; GPU and engine events go through
at once. Days pass in minutes, because nothing waits and no record leaves the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import process_time

from fleetpulse.backtest.alerting import Stage
from lab.evaluate.batches import records_of
from lab.evaluate.log import Log
from lab.simulator.fleet import Step
from lab.simulator.wide import Wide
from schemas.contract.record import Output, Record
from schemas.contract.topics import BOOKS_TOPIC, REJECTED_TOPIC, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.events.event_types import EVENTS
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.finals import PASSED_ON_TOPICS
from stream_jobs.windows.step import WindowsStep

Beside = Callable[[Sequence[Record], int], Sequence[Output]]
"""What another job makes of records of ``window.partials``, committed at a time in ms."""


def nothing(partials: Sequence[Record], now_ms: int) -> Sequence[Output]:
    """No other job."""
    return ()


ONE_EACH = {**{event.topic: 1 for event in EVENTS}, WINDOW_PARTIALS: 1, BOOKS_TOPIC: 1, REJECTED_TOPIC: 1}
"""A fleet in one process needs no second partition."""


@dataclass(slots=True)
class Spent:
    """Processor seconds by part."""

    seconds: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=process_time)

    def on(self, part: str) -> None:
        """Book what passed since the last call."""
        now = process_time()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


class Windows:
    """From steps of a fleet to records of ``window.finals``, in the order in which they are appended. ``beside``: what
    another job appends there, before the finals of the same partials."""

    def __init__(self, finals: Stage, forward: Stage, spent: Spent, beside: Beside = nothing) -> None:
        self._log = Log()
        self._windows = Stage(WindowsStep(DEFAULT_LIMITS, ONE_EACH))
        self._finals = finals
        self._forward = forward
        self._spent = spent
        self._beside = beside
        self._waiting: dict[str, list[Wide]] = {event.topic: [] for event in EVENTS}
        self._arrived: dict[str, list[Record]] = {event.topic: [] for event in EVENTS}

    def take(self, step: Step) -> list[Record]:
        """What a step of the fleet makes the finals job write."""
        self._spent.on("fleet")
        passed: list[Record] = []
        for wide in step.wides:
            self._waiting[wide.topic].append(wide)
        for topic in PASSED_ON_TOPICS:
            passed += self._pass_on(topic, step.from_ms) if self._waiting[topic] else []
        if self._passes(step):
            partials = [record for topic in self._waiting for record in self._commit(topic, step.to_ms)]
            passed += self._log.append_all(self._beside(partials, step.to_ms), step.to_ms)
            self._spent.on("beside")
            passed += self._log.append_all(self._finals.take(WINDOW_PARTIALS, 0, partials, step.to_ms), step.to_ms)
            self._spent.on("finals")
        return [record for record in passed if record.topic == WINDOW_FINALS]

    def _passes(self, step: Step) -> bool:
        """True for the step in which the watermark passes the end of a window."""
        late = DEFAULT_LIMITS.out_of_orderness_ms
        return (step.from_ms - late) // WINDOW_MS != (step.to_ms - late) // WINDOW_MS

    def _pass_on(self, topic: str, now_ms: int) -> list[Record]:
        """Events that go through at once, beside the windows they also count in."""
        records = self._records(topic, now_ms)
        self._arrived[topic] += records
        return self._log.append_all(self._forward.take(topic, 0, records, now_ms), now_ms)

    def _commit(self, topic: str, now_ms: int) -> list[Record]:
        """Partial rows of what came since the last window passed, or that nothing did."""
        arrived, self._arrived[topic] = self._arrived[topic], []
        records = [*arrived, *self._records(topic, now_ms)]
        self._spent.on("encode")
        partials = self._log.append_all(self._windows.take(topic, 0, records, now_ms), now_ms)
        self._spent.on("windows")
        return [record for record in partials if record.topic == WINDOW_PARTIALS]

    def _records(self, topic: str, now_ms: int) -> list[Record]:
        waiting, self._waiting[topic] = self._waiting[topic], []
        pairs = records_of(topic, waiting) if waiting else ()
        return [self._log.append(topic, 0, value, headers, now_ms) for value, headers in pairs]
