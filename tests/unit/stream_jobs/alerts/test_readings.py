"""What windows say of the topology: combinations of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec.block import Block, Labels
from stream_jobs.alerts.readings import Reading, combinations


def _column(values: list[Any]) -> Labels:
    words = [None, *sorted({value for value in values if value is not None})]
    return Labels(np.array([words.index(value) for value in values], np.int32), words)


@settings(max_examples=40)
@given(st.lists(st.tuples(*(st.sampled_from([None, b"a", b"b", b"c"]) for _ in range(3))), max_size=30))
def test_combinations_are_those_of_the_rows(rows: list[tuple[bytes | None, ...]]) -> None:
    """Against a set, in the order in which they stand; rows of other grouping sets do not count."""
    names = ("x", "y", "z")
    grouping = [b"mine" if number % 3 else b"other" for number in range(len(rows))]
    columns = {name: _column([row[i] for row in rows]) for i, name in enumerate(names)}
    block = Block(len(rows), {**columns, "grouping": _column(grouping)})

    found = list(combinations(block, Reading("t", "mine", names)))

    mine = [row for row, group in zip(rows, grouping, strict=True) if group == b"mine"]
    decoded = [tuple(None if word is None else word.decode() for word in row) for row in mine]
    assert found == list(dict.fromkeys(decoded))
