"""A repair that was killed between a copy and its note: the next one notes what it had begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fleetpulse.repair.notes import Notes

BUCKET, OTHER = ("llm.requests", 60_000), ("llm.requests", 120_000)


class Table:
    """The notes of the database: the greatest number by bucket and writer, and what the sink has dealt with."""

    def __init__(self) -> None:
        self.noted: dict[tuple[str, str, int], int] = {}
        self.done: dict[tuple[str, str, int], int] = {}

    def insert_rows(self, _table: str, _columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        for _level, topic, window_ms, writer, number in rows:
            key = (writer, topic, window_ms)
            self.noted[key] = max(self.noted.get(key, 0), number)

    def rows(self, sql: str) -> list[Any]:
        assert "HAVING max(noted) = 1" in sql
        return sorted(key for key, number in self.noted.items() if number == 1)

    def compute(self) -> set[tuple[str, int]]:
        """A sink's pass: the buckets with a note that was not dealt with."""
        found = {key for key, number in self.noted.items() if number > self.done.get(key, 0)}
        self.done |= {key: self.noted[key] for key in found}
        return {key[1:] for key in found}


@pytest.fixture
def table() -> Table:
    return Table()


def notes(table: Table) -> Notes:
    return Notes(table)  # type: ignore[arg-type]


def test_what_a_killed_repair_copied_is_computed_again(table: Table) -> None:
    """The sink computed the bucket before all rows were there, and nothing of it lacks any more."""
    notes(table).begin([BUCKET])
    before = table.compute()
    # here it copies the rows, and is killed

    after = notes(table)
    after.resume(after.unfinished())

    assert (before, table.compute()) == ({BUCKET}, {BUCKET})
    assert notes(table).unfinished() == []


def test_a_repair_that_still_runs_finishes_its_own(table: Table) -> None:
    """Though another took it for killed."""
    running, other = notes(table), notes(table)
    running.begin([BUCKET, OTHER])
    other.resume(other.unfinished())
    table.compute()
    running.finish([BUCKET, OTHER])

    assert table.compute() == {BUCKET, OTHER}


def test_what_was_finished_is_not_computed_again(table: Table) -> None:
    """Nothing is noted for nothing."""
    one = notes(table)
    one.begin([BUCKET])
    one.finish([BUCKET])
    table.compute()

    other = notes(table)
    other.resume(other.unfinished())

    assert table.compute() == set()
