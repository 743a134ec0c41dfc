"""A job whose results hang on a rule that people change: it tells when the last amount goes above a limit, and when it
comes back. Every release has another limit. Whatever happens, what was told must read as one story."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.contract.record import Output, Record
from stream_jobs.runner.job import Job
from stream_jobs.step import Commit, Step
from tests.simulator.counting import OUT_TOPIC, POISON
from tests.simulator.schedule import World

LIMITS = (5, 7, 8)
"""Amounts are 1 to 9."""


@dataclass(slots=True)
class Alarm:
    """``number`` counts what was told of this partition."""

    on: bool = False
    number: int = 0


@dataclass(slots=True)
class Told:
    rows: list[dict[str, Any]] = field(default_factory=list)


class TellingStep(Step[Alarm, Told]):
    name = "telling"
    snapshot_with_outputs = True

    def __init__(self, limit: int, *, lenient: bool) -> None:
        self._limit = limit
        self._lenient = lenient

    def new(self, topic: str, partition: int) -> Alarm:
        return Alarm()

    def changes(self) -> Told:
        return Told()

    def fold(self, state: Alarm, records: Sequence[Record], changes: Told) -> None:
        for record in records:
            value = record.value or b""
            if value.startswith(POISON):
                if not self._lenient:
                    raise ValueError("poison")
                continue
            on = int(value.rpartition(b"=")[2]) > self._limit
            if on is not state.on:
                state.on, state.number = on, state.number + 1
                changes.rows.append({"partition": record.partition, "number": state.number, "on": on})

    def reject(self, state: Alarm, record: Record, detail: str, changes: Told) -> None: ...

    def due(self, state: Alarm, changes: Told) -> bool:
        return bool(changes.rows)

    def rows(self, state: Alarm, changes: Told, commit: Commit) -> list[Output]:
        return [Output(OUT_TOPIC, 0, None, json.dumps(row).encode(), ()) for row in changes.rows]

    def dump(self, state: Alarm) -> list[bytes]:
        return [json.dumps([state.on, state.number]).encode()]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Alarm:
        return Alarm(*json.loads(parts[0]))


class _SilentlyChangedStep(TellingStep):
    """The same without asking for a snapshot with what it tells."""

    snapshot_with_outputs = False


class TellingWorld(World):
    step: type[TellingStep] = TellingStep

    def _job(self) -> Job:
        return Job.of(self.step(self.draw.choice(LIMITS), lenient=self.lenient), [self.source])

    def _judge_outputs(self) -> None:
        told = [json.loads(record.value or b"") for record in self._told(self.outputs[0])]
        self.outcome.commits = len(told)
        for place in self.places:
            own = [(row["number"], row["on"]) for row in told if row["partition"] == place.partition]
            if own != [(number, bool(number % 2)) for number in range(1, len(own) + 1)]:
                self.outcome.violations.append(f"{place.partition}: no story: {own}")


class SilentlyChangedWorld(TellingWorld):
    step = _SilentlyChangedStep
