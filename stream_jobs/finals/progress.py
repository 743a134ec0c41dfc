"""How far the sources of an upstream partition have come, and which windows have passed.

``passed_ms`` never falls. A window has passed when its end is not above it, which is so when

- every source of the contract has announced a watermark at or beyond the end (then it is *complete*), or
- idle sources are not waited for any more: the greatest watermark is ``wait_ms`` past the end, and every source that
  still moves has reached it.

A source is idle when its watermark has not risen for ``wait_ms`` of the records' clock (``record_clock``). So no source
is idle because all were, and the backlog of an outage is waited for as long as it is being consumed.

Everything here is numbers; a copy of it is what a checkpoint is made of.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.events.grouping import sets_of
from schemas.limits import WINDOW_MS
from stream_jobs.finals.upstream import Cursor, Source, UpstreamHeaders, cursor_of, follows
from stream_jobs.record_clock import RecordClock

PAUSE_MS = 5_000
"""A longer pause between two records counts as this."""


def sources_of(partitions: Mapping[str, int]) -> tuple[Source, ...]:
    """Every source that holds up windows: the partitions of topics that have grouping sets."""
    return tuple(
        (topic, number) for topic in sorted(partitions) if sets_of(topic) for number in range(partitions[topic])
    )


@dataclass(frozen=True, slots=True)
class Announced:
    """The greatest watermark of a source, and the clock when it rose."""

    watermark_ms: int = 0
    rose_ms: int = 0


@dataclass(slots=True)
class Progress:
    """``newest_ms`` is the newest window that had rows."""

    announced: dict[Source, Announced]
    cursors: dict[Source, Cursor] = field(default_factory=dict)
    clock: RecordClock = field(default_factory=lambda: RecordClock(PAUSE_MS))
    passed_ms: int = 0
    newest_ms: int = 0

    @classmethod
    def new(cls, sources: tuple[Source, ...]) -> Progress:
        return cls(dict.fromkeys(sources, Announced()))

    def copy(self) -> Progress:
        """One that does not change with this."""
        return replace(self, announced=dict(self.announced), cursors=dict(self.cursors), clock=self.clock.copy())

    @property
    def low_ms(self) -> int:
        """What every source has passed."""
        return min((one.watermark_ms for one in self.announced.values()), default=0)

    @property
    def through_ms(self) -> int:
        """The end of the last window that has passed."""
        return self.passed_ms - self.passed_ms % WINDOW_MS

    def is_next(self, headers: UpstreamHeaders) -> bool:
        """Note where a record stands; False when something before it is missing."""
        good = follows(self.cursors.get(headers.source), headers)
        self.cursors[headers.source] = cursor_of(headers)
        return good

    def advance(self, headers: UpstreamHeaders, at_ms: int, wait_ms: int | None) -> None:
        """Take the watermark of a record that was written at ``at_ms``. ``wait_ms`` None: no window passes by it."""
        self.clock.hear(headers.source, at_ms)
        before = self.announced.get(headers.source)
        if headers.watermark_ms == 0 or (before is None and not sets_of(headers.source[0])):
            return
        if before is None or headers.watermark_ms > before.watermark_ms:
            self.announced[headers.source] = Announced(headers.watermark_ms, self.clock.now_ms)
        if wait_ms is not None:
            self._pass(wait_ms)

    def _pass(self, wait_ms: int) -> None:
        every = self.announced.values()
        high_ms = max(one.watermark_ms for one in every)
        moving = [one.watermark_ms for one in every if self.clock.now_ms - one.rose_ms <= wait_ms]
        patient_ms = min([*moving, high_ms - wait_ms])
        self.passed_ms = max(self.passed_ms, self.low_ms, patient_ms)

    def dump(self) -> dict[str, Any]:
        """As plain values, equal for equal progress; without ``passed_ms``, which a checkpoint has of its own."""
        behind = [[source, behind_ms] for source, behind_ms in self.clock.behind_ms.items()]
        return {
            "told": [[*source, one.watermark_ms, one.rose_ms] for source, one in sorted(self.announced.items())],
            "places": [[*source, *cursor] for source, cursor in sorted(self.cursors.items())],
            "clock_ms": self.clock.now_ms,
            "heard_ms": self.clock.heard_ms,
            "newest_ms": self.newest_ms,
            **({"behind_ms": behind} if behind else {}),
        }

    @classmethod
    def load(cls, found: Mapping[str, Any], passed_ms: int, sources: tuple[Source, ...]) -> Progress:
        """What was dumped, with the sources that the contract has now: a partition that is no more would make every
        window incomplete. One that the contract lacks and that still speaks is back with its next record."""
        announced = {
            (topic, number): Announced(*rest) for topic, number, *rest in found["told"] if (topic, number) in sources
        }
        cursors = {(topic, number): Cursor(*rest) for topic, number, *rest in found["places"]}
        every = {**dict.fromkeys(sources, Announced()), **announced}
        behind_ms: dict[Hashable, int] = {tuple(source): found_ms for source, found_ms in found.get("behind_ms", ())}
        clock = RecordClock(PAUSE_MS, found["clock_ms"], found["heard_ms"], behind_ms)
        return cls(every, cursors, clock, passed_ms, found["newest_ms"])
