"""A job that is killed and goes on writes what one writes that is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.backtest.alerting import Stage
from lab.audit.disturbed import SNAPSHOT_COMMITS, Disturbed
from schemas.contract.record import Output, Record
from stream_jobs.step import Commit, Step


@dataclass
class Sum(Step[list[int], list[int]]):
    """A step that tells the sum of all bytes so far, and of what came since the last commit."""

    forgets: bool = False
    name: str = "sum"
    dumped: list[int] = field(default_factory=list)

    def new(self, topic: str, partition: int) -> list[int]:
        return [0]

    def changes(self) -> list[int]:
        return []

    def fold(self, state: list[int], records: Sequence[Record], changes: list[int]) -> None:
        for record in records:
            value = (record.value or b"\0")[0]
            state[0] += value
            changes.append(value)

    def reject(self, state: list[int], record: Record, detail: str, changes: list[int]) -> None:
        raise AssertionError(detail)

    def due(self, state: list[int], changes: list[int]) -> bool:
        return True

    def rows(self, state: list[int], changes: list[int], commit: Commit) -> list[Output]:
        said = f"{commit.number} [{commit.offset_from}, {commit.offset_to}) {state[0]} {sum(changes)}"
        return [Output("out", 0, None, said.encode(), ())] * (commit.offset_to % 3)

    def dump(self, state: list[int]) -> list[bytes]:
        self.dumped.append(state[0])
        return [b"%d" % (0 if self.forgets else state[0])]

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> list[int]:
        return [int(parts[0])]


def batches(sizes: Sequence[int]) -> list[list[Record]]:
    """Records of so many at a time, each with its offset as its byte."""
    found, offset = [], 0
    for size in sizes:
        found.append([Record("in", 0, offset + i, 0, None, bytes([(offset + i) % 256]), ()) for i in range(size)])
        offset += size
    return found


@given(st.lists(st.integers(0, 4), max_size=80), st.integers(0, 9))
def test_killed_or_not_the_same_is_told(sizes: list[int], seed: int) -> None:
    """Every commit writes the same records, wherever the blows fall."""
    calm, hit = Stage(Sum()), Disturbed(Sum(), np.random.default_rng(seed), 0.5)

    told = [(calm.take("in", 0, one, 0), hit.take("in", 0, one, 0)) for one in batches(sizes)]

    assert [a for a, _ in told] == [b for _, b in told]


def test_a_step_whose_snapshot_lies_is_found_out() -> None:
    """A state that does not survive its dump shows in what is told: the comparison can fail."""
    sizes = [1] * (3 * SNAPSHOT_COMMITS)
    calm, hit = Stage(Sum()), Disturbed(Sum(forgets=True), np.random.default_rng(1), 0.2)

    told = [(calm.take("in", 0, one, 0), hit.take("in", 0, one, 0)) for one in batches(sizes)]

    assert hit.kills > 0
    assert [a for a, _ in told] != [b for _, b in told]


def test_one_kill_comes_for_certain() -> None:
    """Before the first commit with records from the given one on; none more where one came before."""
    due, before = (Disturbed(Sum(), np.random.default_rng(1), share, kill_by=3) for share in (0.0, 1.0))

    kills = []
    for records in batches([1, 1, 0, 1, 1, 1]):
        due.take("in", 0, records, 0)
        kills.append(due.kills)
    for records in batches([1, 1, 1]):
        before.take("in", 0, records, 0)

    assert kills == [0, 0, 0, 1, 1, 1]
    assert before.kills == 3


def test_no_kill_without_a_share_and_one_before_each_commit_with_all() -> None:
    """The share is the probability of a kill before a commit."""
    never, always = (Disturbed(Sum(), np.random.default_rng(1), share) for share in (0.0, 1.0))

    for records in batches([1] * 7):
        never.take("in", 0, records, 0)
        always.take("in", 0, records, 0)

    assert (never.kills, always.kills) == (0, 7)
