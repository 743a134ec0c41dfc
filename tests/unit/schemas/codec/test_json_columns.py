"""JSON columns: one object of arrays of one length."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from schemas.codec import json_columns
from schemas.codec.build import block_from_rows, rows_of
from schemas.errors import RejectedError
from schemas.fields import Field, Kind, Role
from tests.strategies.blocks import EVERY_KIND, rows_of_every_kind

FIELDS = (
    Field("at_ms", Kind.INT64, Role.TIME, "ms", ""),
    Field("x", Kind.OPTIONAL_UINT64, Role.GAUGE, "", ""),
)


@given(rows_of_every_kind())
def test_what_is_encoded_is_decoded_again(rows: list[dict[str, Any]]) -> None:
    """decode(encode(block)) has the same rows, for every kind of field and its extreme values."""
    data = json_columns.encode(EVERY_KIND, block_from_rows(EVERY_KIND, rows))

    assert rows_of(EVERY_KIND, json_columns.decode(data, EVERY_KIND)) == rows


def test_the_object_is_what_clickhouse_writes() -> None:
    """JSONColumns: a name and an array for each column."""
    data = json_columns.encode(FIELDS, block_from_rows(FIELDS, [{"at_ms": 1, "x": 2**64 - 1}, {"at_ms": 2}]))

    assert data == b'{"at_ms":[1,2],"x":[18446744073709551615,null]}'


def test_missing_columns_are_null_and_unknown_ones_ignored() -> None:
    """A writer may leave out and add columns; added ones may be anything."""
    rows = rows_of(FIELDS, json_columns.decode(b'{"at_ms": [1, 2], "new": 5}', FIELDS))

    assert rows == [{"at_ms": 1, "x": None}, {"at_ms": 2, "x": None}]


REFUSED = [
    ("broken", b'{"at_ms": [1', "syntax"),
    ("no object", b"[1]", "wrong_type"),
    ("no array", b'{"at_ms": 1}', "wrong_type"),
    ("arrays of different lengths", b'{"at_ms": [1, 2], "x": [1]}', "column_lengths"),
    ("an empty array beside a full one", b'{"at_ms": [1], "x": []}', "column_lengths"),
    ("too many rows", b'{"at_ms": [1, 2, 3]}', "too_many"),
]


@pytest.mark.parametrize(("data", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_wrong_with_the_whole_is_told_by_its_reason(data: bytes, reason: str) -> None:
    """A batch that is no table is refused as a whole."""
    with pytest.raises(RejectedError) as caught:
        json_columns.parse(data, FIELDS, rows_max=2)

    assert caught.value.reason == reason


def test_a_bad_value_costs_only_its_own_row() -> None:
    """The row is named with its reason and shown as it was sent, NaN and great numbers included."""
    data = b'{"at_ms": [1, 2, 3, "4"], "x": [5, NaN, 99999999999999999999999, 1]}'

    parsed = json_columns.parse(data, FIELDS)

    assert sorted((problem.row, problem.reason) for problem in parsed.problems) == [
        (1, "out_of_range"),
        (2, "out_of_range"),
        (3, "wrong_type"),
    ]
    assert [parsed.event_json(row) for row in range(4)] == [
        b'{"at_ms":1,"x":5}',
        b'{"at_ms":2,"x":null}',
        b'{"at_ms": 3, "x": 99999999999999999999999}',
        b'{"at_ms":"4","x":1}',
    ]
