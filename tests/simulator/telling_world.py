"""A job whose results hang on a rule that people change: it tells when the last amount goes above a limit, and when it
comes back. Every release has another limit. Whatever happens, what was told must read as one story."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.contract.record import Output, Record
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import Partitions
from stream_jobs.runner.snapshot import Round
from stream_jobs.step import Commit, Step
from tests.simulator.cluster import Parts
from tests.simulator.counting import OUT_TOPIC, POISON
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import Rules, World

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
        return [json.dumps(state.number).encode(), b"what never changes", json.dumps(state.on).encode()]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> Alarm:
        number, _, on = parts
        return Alarm(json.loads(on), json.loads(number))


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


class _NumbersAnew(PartitionOwner):
    """Numbers the pieces that it writes from 0, whatever the last snapshot refers to."""

    def _next_round(self, number: int, *, whole: bool) -> Round | None:
        known, round_ = self._round, super()._next_round(number, whole=whole)
        if round_ is not None and round_ is not known:
            keys = map(self._names.numbered_key, range(len(round_.pieces)))
            round_.pieces = [piece._replace(key=key) for piece, key in zip(round_.pieces, keys, strict=True)]
        return round_


class _RefersByPlace(PartitionOwner):
    """Refers to what stood at the same place, changed or not."""

    def _next_round(self, number: int, *, whole: bool) -> Round | None:
        known, last, round_ = self._round, self._snapshot, super()._next_round(number, whole=whole)
        if round_ is None or round_ is known or last is None or not last.stored:
            return round_
        kept = {place: one.offset for place, one in enumerate(last.stored) if place}
        first = round_.pieces[0]
        headers = (*(pair for pair in first.headers if pair[0] != "kept"), ("kept", json.dumps(kept).encode()))
        round_.pieces, round_.stored = [first._replace(headers=headers)], [round_.stored[0], *last.stored[1:]]
        return round_


def _owner(owner: type[PartitionOwner]) -> Rules:
    return Rules(parts=Parts(partitions=type("Mutated", (Partitions,), {"Owner": owner})))


MUTATIONS = (
    Mutation(
        "numbers in use taken",
        "a snapshot takes no key of a piece that the one pointed to has or refers to",
        "it numbers its pieces from 0",
        _owner(_NumbersAnew),
        world=TellingWorld,
        seen_by=11,
    ),
    Mutation(
        "referred to by place",
        "a snapshot refers to pieces that hold the same, and to no others",
        "it refers to what stood at the same place",
        _owner(_RefersByPlace),
        world=TellingWorld,
    ),
)
