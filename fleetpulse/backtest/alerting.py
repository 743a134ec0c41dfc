"""The alert job over records in memory: its step with rules and evidence as it runs live, and alerts as stories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.contract.alerts import Alert, decode
from schemas.contract.record import Output, Record
from schemas.contract.topics import ALERTS_TOPIC, WINDOW_FINALS
from stream_jobs.alerts.step import AlertStep
from stream_jobs.rules.load import load_set
from stream_jobs.step import Commit, Step


class Stage:
    """A step with its states, driven as its host would: fold, then commit, with nothing in between."""

    def __init__(self, step: Step[Any, Any]) -> None:
        self._step = step
        self._states: dict[tuple[str, int], Any] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._written: dict[tuple[str, int], int] = {}

    def take(self, topic: str, partition: int, records: Sequence[Record], now_ms: int) -> list[Output]:
        """What one commit over these records writes. Without records the source counts as idle."""
        at = (topic, partition)
        if at not in self._states:
            self._states[at] = self._step.new(topic, partition)
        changes = self._step.changes()
        self._step.fold(self._states[at], records, changes)
        begin = self._read.get(at, 0)
        end = self._read[at] = records[-1].offset + 1 if records else begin
        commit = Commit(topic, partition, begin, end, self._written.get(at, 0), now_ms, not records)
        outputs = self._step.rows(self._states[at], changes, commit)
        self._written[at] = commit.number + len(outputs)
        return outputs


def alert_stage(rules: Path | None = None) -> Stage:
    """The alert job over ``window.finals``. Raises ``FileError`` for a file of rules that cannot be read."""
    return Stage(AlertStep(1, load_set(rules)))


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition and when the virtual clock stood as it was written."""

    now_ms: int
    alert: Alert


def alerts_of(stage: Stage, records: list[Record]) -> Iterator[Transition]:
    """The transitions that these records of ``window.finals``, appended together, make the alert job write."""
    if not records:
        return
    now_ms = records[-1].timestamp_ms
    for out in stage.take(WINDOW_FINALS, 0, records, now_ms):
        if out.topic == ALERTS_TOPIC and out.value is not None:
            yield Transition(now_ms, decode(out.value))


@dataclass(slots=True)
class Story:
    """All transitions of one alert, in order."""

    transitions: list[Transition] = field(default_factory=list)

    @property
    def opened_ms(self) -> int:
        """When it opened, event time."""
        return self.transitions[0].alert.opened_ms

    @property
    def last(self) -> Alert:
        """Its state at the end."""
        return self.transitions[-1].alert

    @property
    def resolved_ms(self) -> int | None:
        """When it was resolved; None while it is open."""
        return self.last.resolved_ms if self.last.transition == "resolved" else None

    def labels(self) -> set[tuple[str, str]]:
        """Of all its headlines and members."""
        found: set[tuple[str, str]] = set()
        for one in self.transitions:
            found |= set(one.alert.labels.items())
            for member in one.alert.members:
                found |= set(member.labels.items())
        return found

    def headlines(self) -> list[Alert]:
        """Its states while it was open: what people saw."""
        return [one.alert for one in self.transitions if one.alert.transition != "resolved"]


def stories_of(transitions: Iterable[Transition]) -> list[Story]:
    """The alerts by when they opened."""
    found: dict[tuple[str, int], Story] = {}
    for one in transitions:
        found.setdefault((one.alert.fingerprint, one.alert.opened_ms), Story()).transitions.append(one)
    return sorted(found.values(), key=lambda story: (story.opened_ms, story.transitions[0].alert.fingerprint))


def percentile(values: Sequence[float], q: float) -> float | None:
    """The value at rank ``ceil(q n)`` of the sorted ones: p95 of ten is the greatest. None of none."""
    if not values:
        return None
    rank = -int(-q * len(values) // 1) - 1
    return sorted(values)[max(0, rank)]
