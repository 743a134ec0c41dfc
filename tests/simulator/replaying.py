"""The counting job as a step that is read again: its dump is the state as it was some records ago."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.contract.record import Record
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.partitions import Partitions
from tests.simulator.cluster import Parts
from tests.simulator.counting import Changes, CountingStep, State
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import Rules

BACK = 4
"""Records that a replay begins before the dump."""


@dataclass(slots=True)
class ReplayedState(State):
    """``before`` holds, for the last records, the offset of each and the state before it."""

    before: list[tuple[int, str]] = field(default_factory=list)
    rejected: set[int] = field(default_factory=set)


class ReplayingStep(CountingStep):
    """Rejected records are remembered while they can be met again."""

    def new(self, topic: str, partition: int) -> ReplayedState:
        return ReplayedState()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        assert isinstance(state, ReplayedState)
        for record in records:
            self._remember(state, record)
            if record.offset in state.rejected:
                self._is_new(state, record)
            else:
                super().fold(state, [record], changes)

    def _remember(self, state: ReplayedState, record: Record) -> None:
        state.before.append((record.offset, b"".join(super().dump(state)).decode()))
        del state.before[:-BACK]

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        assert isinstance(state, ReplayedState)
        self._remember(state, record)
        super().reject(state, record, detail, changes)
        state.rejected.add(record.offset)

    def replay_from(self, state: State, position: int) -> int:
        assert isinstance(state, ReplayedState)
        return state.before[0][0] if state.before else position

    def dump(self, state: State) -> list[bytes]:
        assert isinstance(state, ReplayedState)
        first, counted = state.before[0] if state.before else (0, b"".join(super().dump(state)).decode())
        rejected = sorted(offset for offset in state.rejected if offset >= first)
        whole = json.dumps({"counted": counted, "rejected": rejected}).encode()
        size = self._part_bytes
        return [whole[start : start + size] for start in range(0, len(whole), size)]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> ReplayedState:
        told = json.loads(b"".join(parts))
        counted = super().load(topic, partition, [told["counted"].encode()])
        return ReplayedState(counted.seen, counted.total, counted.count, rejected=set(told["rejected"]))


class _FromTheDump(PartitionOwner):
    def _dumped(self) -> tuple[int, list[bytes]]:
        _, parts = super()._dumped()
        return self._position, parts


class _ForgetsRejected(ReplayingStep):
    def dump(self, state: State) -> list[bytes]:
        assert isinstance(state, ReplayedState)
        state.rejected.clear()
        return super().dump(state)


MUTATIONS = (
    Mutation(
        "replay left out",
        "what a step wants to read again is read again",
        "folding goes on where the state was dumped",
        Rules(
            step=ReplayingStep,
            parts=Parts(partitions=type("Mutated", (Partitions,), {"Owner": _FromTheDump})),
        ),
    ),
    Mutation(
        "rejected met again",
        "what was rejected is passed over when it is read again",
        "a later release may accept what was booked as rejected",
        Rules(step=_ForgetsRejected),
        seen_by=9,
    ),
)
