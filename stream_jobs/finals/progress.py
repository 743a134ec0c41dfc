"""How far the sources of an upstream partition have come, and which windows have passed.

``passed_ms`` never falls. A window has passed when its end is not above it, which is so when

- every source of the contract has announced a watermark at or beyond the end (then it is *complete*), or
- those that are silent are not waited for any more: the greatest watermark is ``wait_ms`` past the end, and every
  source that still moves has reached it.

A source is silent when its watermark has not risen for ``wait_ms`` of a clock that is read off the records and counts
only while somebody speaks: it goes on by the time between two records, by ``PAUSE_MS`` at most. So nobody is called
silent because everybody was, and the backlog of an outage is waited for as long as it is being worked off.

Everything here is numbers; a copy of it is what a checkpoint is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.grouping import sets_of
from schemas.limits import WINDOW_MS
from stream_jobs.finals.upstream import Place, Source, UpstreamHeaders, follows, place_of

PAUSE_MS = 5_000
"""A silence of everybody counts as no more."""


def sources_of(partitions: Mapping[str, int]) -> tuple[Source, ...]:
    """Every source that holds up windows: the partitions of topics that have grouping sets."""
    return tuple(
        (topic, number) for topic in sorted(partitions) if sets_of(topic) for number in range(partitions[topic])
    )


@dataclass(frozen=True, slots=True)
class Told:
    """What a source announced last: its greatest watermark, and the clock when that rose."""

    watermark_ms: int = 0
    rose_ms: int = 0


@dataclass(slots=True)
class Progress:
    """``newest_ms`` is the greatest window that had rows."""

    told: dict[Source, Told]
    places: dict[Source, Place] = field(default_factory=dict)
    clock_ms: int = 0
    heard_ms: int = 0
    passed_ms: int = 0
    newest_ms: int = 0

    @classmethod
    def new(cls, sources: tuple[Source, ...]) -> Progress:
        return cls(dict.fromkeys(sources, Told()))

    def copy(self) -> Progress:
        """One that does not change with this."""
        return replace(self, told=dict(self.told), places=dict(self.places))

    @property
    def low_ms(self) -> int:
        """What every source has passed."""
        return min((told.watermark_ms for told in self.told.values()), default=0)

    @property
    def through_ms(self) -> int:
        """The end of the last window that has passed."""
        return self.passed_ms - self.passed_ms % WINDOW_MS

    def is_next(self, headers: UpstreamHeaders) -> bool:
        """Note the place of a record; False when something before it is missing."""
        good = follows(self.places.get(headers.source), headers)
        self.places[headers.source] = place_of(headers)
        return good

    def hear(self, headers: UpstreamHeaders, at_ms: int, wait_ms: int) -> None:
        """Take the watermark of a record that was written at ``at_ms``."""
        if self.heard_ms:
            self.clock_ms += min(max(at_ms - self.heard_ms, 0), PAUSE_MS)
        self.heard_ms = max(self.heard_ms, at_ms)
        before = self.told.get(headers.source)
        if headers.watermark_ms == 0 or (before is None and not sets_of(headers.source[0])):
            return
        if before is None or headers.watermark_ms > before.watermark_ms:
            self.told[headers.source] = Told(headers.watermark_ms, self.clock_ms)
        self._pass(wait_ms)

    def _pass(self, wait_ms: int) -> None:
        every = self.told.values()
        high_ms = max(told.watermark_ms for told in every)
        moving = [told.watermark_ms for told in every if self.clock_ms - told.rose_ms <= wait_ms]
        patient_ms = min([*moving, high_ms - wait_ms])
        self.passed_ms = max(self.passed_ms, self.low_ms, patient_ms)

    def dump(self) -> dict[str, Any]:
        """As plain values, equal for equal progress; without ``passed_ms``, which a checkpoint has of its own."""
        return {
            "told": [[*source, told.watermark_ms, told.rose_ms] for source, told in sorted(self.told.items())],
            "places": [[*source, *place] for source, place in sorted(self.places.items())],
            "clock_ms": self.clock_ms,
            "heard_ms": self.heard_ms,
            "newest_ms": self.newest_ms,
        }

    @classmethod
    def load(cls, found: Mapping[str, Any], passed_ms: int, sources: tuple[Source, ...]) -> Progress:
        """What was dumped, with the sources that the contract has now: a partition that is no more would make every
        window incomplete. One that the contract lacks and that still speaks is back with its next record."""
        told = {(topic, number): Told(*rest) for topic, number, *rest in found["told"] if (topic, number) in sources}
        places = {(topic, number): Place(*rest) for topic, number, *rest in found["places"]}
        every = {**dict.fromkeys(sources, Told()), **told}
        return cls(every, places, found["clock_ms"], found["heard_ms"], passed_ms, found["newest_ms"])
