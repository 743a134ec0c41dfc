"""The whole path in one process, on a virtual clock: fleet, windows, finals, alerts; the very steps that run live.

Telemetry is committed when the watermark has passed a window, as the live job does; GPU and engine events go through
at once. Days pass in minutes, because nothing waits and no record leaves the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time

import numpy as np

from fleetpulse.backtest.alerting import Stage
from lab.simulator.fleet import Step
from lab.simulator.wide import Of, Wide
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels
from schemas.codec.select import select
from schemas.contract.headers import NATIVE
from schemas.contract.record import Headers, Output, Record
from schemas.contract.topics import BOOKS_TOPIC, REJECTED_TOPIC, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.finals import PASSED_ON_TOPICS
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.step import FinalsStep
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


def block_of(wide: Wide) -> Block:
    """The rows of a wide batch as one block."""
    columns: dict[str, Column] = {
        name: Labels(column.label.codes[wide.entity], column.label.words) if isinstance(column, Of) else column
        for name, column in wide.columns.items()
    }
    return Block(wide.rows, columns)


def records_of(topic: str, wides: Sequence[Wide]) -> Iterator[tuple[bytes, Headers]]:
    """Value and headers of the records that carry these batches, none of more events than one record may hold."""
    event = BY_TOPIC[topic]
    whole = native.concat(event.fields, [block_of(wide) for wide in wides])
    most = DEFAULT_LIMITS.batch_events_max
    for first in range(0, whole.rows, most):
        number = np.arange(whole.rows)
        block = select(whole, (number >= first) & (number < first + most))
        headers = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()), ("count", b"%d" % block.rows))
        yield native.encode(event.fields, block), headers


class Log:
    """Counts offsets by topic and partition; keeps no record."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def append(self, topic: str, partition: int, value: bytes | None, headers: Headers, now_ms: int) -> Record:
        """The record as a broker would hand it out that appended it at ``now_ms``."""
        offset = self._next.get((topic, partition), 0)
        self._next[topic, partition] = offset + 1
        return Record(topic, partition, offset, now_ms, None, value, headers)

    def append_all(self, outputs: Sequence[Output], now_ms: int) -> list[Record]:
        """What a step wrote, as records in order."""
        return [self.append(out.topic, out.partition, out.value, out.headers, now_ms) for out in outputs]


class Arrivals:
    """What a fleet emitted, as records of all hosts together when they are wanted: four hosts in one record cost the
    codec a tenth of forty records, and what the events say is the same."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._wides: dict[str, list[Wide]] = {event.topic: [] for event in EVENTS}
        self._early: dict[str, list[Record]] = {event.topic: [] for event in EVENTS}

    def add(self, wides: Iterable[Wide]) -> None:
        """Batches in the order in which they came."""
        for wide in wides:
            self._wides[wide.topic].append(wide)

    def passed_on(self, now_ms: int) -> Iterator[tuple[str, list[Record]]]:
        """Topic and records of events that go through at once, beside the windows they also count in."""
        for topic in PASSED_ON_TOPICS:
            if self._wides[topic]:
                records = self._appended(topic, now_ms)
                self._early[topic] += records
                yield topic, records

    def records(self, topic: str, now_ms: int) -> list[Record]:
        """All that came since the last call."""
        early, self._early[topic] = self._early[topic], []
        return early + self._appended(topic, now_ms)

    def _appended(self, topic: str, now_ms: int) -> list[Record]:
        wides, self._wides[topic] = self._wides[topic], []
        pairs = records_of(topic, wides) if wides else ()
        return [self._log.append(topic, 0, value, headers, now_ms) for value, headers in pairs]


class Windows:
    """From steps of a fleet to records of ``window.finals``, in the order in which they are appended. ``beside``: what
    another job appends there, before the finals of the same partials."""

    def __init__(self, spent: Spent, beside: Beside = nothing) -> None:
        self._log = Log()
        self._windows = Stage(WindowsStep(DEFAULT_LIMITS, ONE_EACH))
        self._finals, self._forward = Stage(FinalsStep(DEFAULT_LIMITS, ONE_EACH)), Stage(ForwardStep(DEFAULT_LIMITS))
        self._spent, self._beside = spent, beside
        self._arrivals = Arrivals(self._log)

    def take(self, step: Step) -> list[Record]:
        """What a step of the fleet makes the finals job write."""
        self._spent.on("fleet")
        appended: list[Record] = []
        self._arrivals.add(step.wides)
        for topic, records in self._arrivals.passed_on(step.from_ms):
            appended += self._log.append_all(self._forward.take(topic, 0, records, step.from_ms), step.from_ms)
        if self._passes(step):
            partials = [record for event in EVENTS for record in self._commit(event.topic, step.to_ms)]
            appended += self._log.append_all(self._beside(partials, step.to_ms), step.to_ms)
            self._spent.on("beside")
            appended += self._log.append_all(self._finals.take(WINDOW_PARTIALS, 0, partials, step.to_ms), step.to_ms)
            self._spent.on("finals")
        return [record for record in appended if record.topic == WINDOW_FINALS]

    def _passes(self, step: Step) -> bool:
        """True for the step in which the watermark passes the end of a window."""
        late = DEFAULT_LIMITS.out_of_orderness_ms
        return (step.from_ms - late) // WINDOW_MS != (step.to_ms - late) // WINDOW_MS

    def _commit(self, topic: str, now_ms: int) -> list[Record]:
        """Partial rows of what came since the last window passed, or that nothing did."""
        records = self._arrivals.records(topic, now_ms)
        self._spent.on("encode")
        partials = self._log.append_all(self._windows.take(topic, 0, records, now_ms), now_ms)
        self._spent.on("windows")
        return [record for record in partials if record.topic == WINDOW_PARTIALS]
