"""The way of an event to its alert in legs, so that a delay names the process that it is spent in.

====================  ==========================================================================================
leg                   from, to
====================  ==========================================================================================
``edge``              the event's own time, its record's append time
``finals_take``       append time, when the finals job sends it on
``finals_commit``     sent on, when the observer could read it
``alerts_take``       could be read, when the alert job sends the alert
``alerts_commit``     sent, when the observer could read it
====================  ==========================================================================================

The observer is a reader like the jobs, so a leg that ends with it may have up to its own wait of a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.events.event_types import GPU_EVENTS
from schemas.rows.finals import PassedOnHeaders

LEGS = ("edge", "finals_take", "finals_commit", "alerts_take", "alerts_commit")


@dataclass(slots=True)
class Trail:
    """When each event came where, ms, by its GPU; an event whose trail has a hole is left out."""

    passed: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    """Its own time, its append time, sent on, could be read."""
    alerts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Alert sent, could be read."""

    def pass_on(self, headers: PassedOnHeaders, value: bytes, sent_ms: int, now_ms: int, prefix: str) -> None:
        """A record of window.finals that passes events on."""
        if headers.schema != GPU_EVENTS.schema:
            return
        for row in rows_of(GPU_EVENTS.fields, native.decode(value, GPU_EVENTS.fields)):
            uuid = str(row["gpu_uuid"])
            if uuid.startswith(prefix):
                self.passed.setdefault(uuid, (int(row["at_ms"]), headers.at_ms, sent_ms, now_ms))

    def alerted(self, uuid: str, sent_ms: int, now_ms: int) -> None:
        """The alert that it opened."""
        self.alerts.setdefault(uuid, (sent_ms, now_ms))

    def legs_s(self) -> Mapping[str, list[float]]:
        """Seconds by leg, in the order of the alerts."""
        whole = [(*self.passed[uuid], *alert) for uuid, alert in self.alerts.items() if uuid in self.passed]
        steps = [[(after - before) / 1_000 for before, after in pairwise(times)] for times in whole]
        return {leg: [one[number] for one in steps] for number, leg in enumerate(LEGS)}

    def slowest(self, count: int) -> list[dict[str, float]]:
        """The events that took longest, leg by leg, with the second of its window in which each happened."""
        found = self.legs_s()
        each = [dict(zip(LEGS, legs, strict=True)) for legs in zip(*found.values(), strict=True)]
        starts = [self.passed[uuid][0] for uuid in self.alerts if uuid in self.passed]
        for legs, at_ms in zip(each, starts, strict=True):
            legs["of_window"] = at_ms % 10_000 / 1_000
        return sorted(each, key=lambda legs: -sum(legs[leg] for leg in LEGS))[:count]
