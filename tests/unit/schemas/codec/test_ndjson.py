"""JSON lines: one broken line costs one event."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from schemas.codec import ndjson
from schemas.codec.build import block_from_rows, rows_of
from schemas.errors import RejectedError
from schemas.fields import Field, Kind, Role
from tests.strategies.blocks import EVERY_KIND, rows_of_every_kind

FIELDS = (
    Field("at_ms", Kind.INT64, Role.TIME, "ms", ""),
    Field("x", Kind.OPTIONAL_UINT32, Role.GAUGE, "", ""),
    Field("host", Kind.LABEL, Role.DIMENSION, "", ""),
)


@given(rows_of_every_kind())
def test_what_is_encoded_is_decoded_again(rows: list[dict[str, Any]]) -> None:
    """decode(encode(block)) has the same rows, for every kind of field and its extreme values."""
    data = ndjson.encode(EVERY_KIND, block_from_rows(EVERY_KIND, rows))

    assert rows_of(EVERY_KIND, ndjson.decode(data, EVERY_KIND)) == rows


def test_lines_are_what_clickhouse_writes() -> None:
    """JSONEachRow: one object per line, whole numbers as numbers, map keys as strings."""
    fields = (FIELDS[0], Field("bins", Kind.BINS, Role.SKETCH_BINS, "", ""))

    data = ndjson.encode(fields, block_from_rows(fields, [{"at_ms": 2**62, "bins": {-1: 2, 5: 2**63}}]))

    assert data == b'{"at_ms":4611686018427387904,"bins":{"-1":2,"5":9223372036854775808}}\n'


def test_empty_lines_missing_fields_and_unknown_fields_do_no_harm() -> None:
    """Blank lines are skipped, what is missing is null, what is unknown is ignored, of twins the last counts."""
    data = b'\n{"at_ms": 1, "new": [1, {}]}\r\n  \n {"at_ms": 2, "x": 3, "x": 4, "host": "a"}'

    rows = rows_of(FIELDS, ndjson.decode(data, FIELDS))

    assert rows == [{"at_ms": 1, "x": None, "host": None}, {"at_ms": 2, "x": 4, "host": "a"}]


BROKEN = [
    ("cut off", b'{"at_ms": 1', "syntax"),
    ("no JSON", b"hello", "syntax"),
    ("no UTF-8", b'{"host": "\xff"}', "syntax"),
    ("half a surrogate pair", b'{"at_ms": 1, "host": "\\ud800"}', "syntax"),
    ("nested without end", b"[" * 100_000, "syntax"),
    ("nested without end beside NaN", b"[NaN," + b"[" * 100_000, "syntax"),
    ("a number of 10,000 digits beside NaN", b'{"at_ms": NaN, "x": ' + b"1" * 10_000 + b"}", "syntax"),
    ("a list", b"[1]", "wrong_type"),
    ("a number", b"1", "wrong_type"),
    ("null", b"null", "wrong_type"),
    ("a string for a number", b'{"at_ms": "1"}', "wrong_type"),
    ("a bool for a number", b'{"at_ms": true}', "wrong_type"),
    ("a list for a number", b'{"at_ms": [1]}', "wrong_type"),
    ("a fraction for a number", b'{"at_ms": 1.5}', "wrong_type"),
    ("a number for a label", b'{"at_ms": 1, "host": 5}', "wrong_type"),
    ("NaN", b'{"at_ms": 1, "x": NaN}', "out_of_range"),
    ("Infinity", b'{"at_ms": 1, "x": -Infinity}', "out_of_range"),
    ("a negative number where none may be", b'{"at_ms": 1, "x": -1}', "out_of_range"),
    ("overflow", b'{"at_ms": 1, "x": 4294967296}', "out_of_range"),
    ("overflow of 64 bits", b'{"at_ms": 1e300}', "out_of_range"),
    ("overflow of 64 bits in digits", b'{"at_ms": 9223372036854775808}', "out_of_range"),
    ("null where none may be", b'{"at_ms": null}', "missing_field"),
    ("missing where none may be", b"{}", "missing_field"),
]


@pytest.mark.parametrize(("line", "reason"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_bad_line_costs_only_its_own_event(line: bytes, reason: str) -> None:
    """The line has its reason and is kept as it was sent; its neighbours are read."""
    parsed = ndjson.parse(b'{"at_ms": 7}\n' + line + b'\n{"at_ms": 8}', FIELDS)

    assert [(problem.row, problem.reason) for problem in parsed.problems] == [(1, reason)]
    assert [row["at_ms"] for row in rows_of(FIELDS, parsed.block)][::2] == [7, 8]
    assert parsed.event_json(1) == line


def test_whole_numbers_may_be_written_as_floats() -> None:
    """JavaScript and spreadsheets write 3.0 and 1e3 for whole numbers."""
    rows = rows_of(FIELDS, ndjson.decode(b'{"at_ms": 3.0, "x": 1e3}', FIELDS))

    assert rows == [{"at_ms": 3, "x": 1000, "host": None}]


def test_decode_raises_what_is_wrong_first() -> None:
    """Outside admission a bad line is an error."""
    with pytest.raises(RejectedError, match="row 1: at_ms is missing"):
        ndjson.decode(b'{"at_ms": 1}\n{}', FIELDS)


def test_lines_are_counted_before_they_are_parsed() -> None:
    """Too many lines are refused without reading them."""
    with pytest.raises(RejectedError, match="too_many"):
        ndjson.parse(b"broken\n" * 11, FIELDS, rows_max=10)

    assert ndjson.parse(b"broken\n" * 10, FIELDS, rows_max=10).block.rows == 10
