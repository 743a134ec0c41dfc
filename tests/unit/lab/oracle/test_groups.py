"""Rows by what they are of."""

from __future__ import annotations

from lab.oracle.groups import grouped


def test_rows_stand_under_each_of_their_names_as_they_come() -> None:
    """The same row twice is two; no rows are no groups."""
    rows = [("b", 3), ("a", 1), ("b", 2)]

    assert grouped((name, row) for of, row in rows for name in ("all", of)) == {"all": [3, 1, 2], "b": [3, 2], "a": [1]}
    assert grouped((("a", 1), row) for row in (5, 5)) == {("a", 1): [5, 5]}
    assert grouped(rows[:0]) == {}
