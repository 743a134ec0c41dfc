"""Native blocks: what is written is read again, by us and by ClickHouse's own client; nonsense is refused.

Covers schemas.codec.native with schemas.codec.native_reader, schemas.codec.native_cursor and schemas.codec.native_fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clickhouse_connect.datatypes.registry import get_from_name
from clickhouse_connect.driver.query import QueryContext
from clickhouse_connect.driver.transform import NativeTransform
from clickhouse_connect.driverc.buffer import ResponseBuffer
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import native
from schemas.codec.block import Block, Labels, Numbers, Texts
from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.native_reader import TYPE_BYTES_MAX, parse
from schemas.errors import RejectedError
from schemas.events.event_types import EVENTS, GPU_SAMPLES, LLM_REQUESTS
from schemas.fields import Field, Kind, Role
from schemas.rows.tables import TABLES
from tests.strategies.blocks import EVERY_KIND, rows_of_every_kind, valid_rows

AT_MS = 1_700_000_000_000
FIELD_TABLES = {**{event.schema: event.fields for event in EVENTS}, **{table.schema: table.fields for table in TABLES}}


def field(kind: Kind, *, required: bool = False) -> Field:
    return Field("x", kind, Role.ATTRIBUTE, "", "a column", required=required)


def column(name: str, kind: str, data: bytes) -> bytes:
    return bytes([len(name)]) + name.encode() + native.varint(len(kind.encode())) + kind.encode() + data


class _Source:
    """What clickhouse-connect's reader takes bytes from."""

    def __init__(self, data: bytes) -> None:
        self.gen = iter([data])
        self.exception_tag = None

    def close(self) -> None:
        pass


def read_by_clickhouse_connect(data: bytes) -> list[dict[str, Any]]:
    result = NativeTransform().parse_response(ResponseBuffer(_Source(data)), QueryContext())
    return [dict(zip(result.column_names, row, strict=True)) for row in result.result_rows]


@given(rows_of_every_kind())
def test_what_is_encoded_is_decoded_again(rows: list[dict[str, Any]]) -> None:
    """decode(encode(block)) has the same rows, for every kind of field and its extreme values."""
    block = block_from_rows(EVERY_KIND, rows)

    assert rows_of(EVERY_KIND, native.decode(native.encode(EVERY_KIND, block), EVERY_KIND)) == rows


@given(rows_of_every_kind().filter(bool))
def test_clickhouse_connect_reads_what_we_write(rows: list[dict[str, Any]]) -> None:
    """The reader of ClickHouse's own Python client finds the same rows in our bytes."""
    data = native.encode(EVERY_KIND, block_from_rows(EVERY_KIND, rows))

    assert read_by_clickhouse_connect(data) == rows


def test_every_field_table_goes_there_and_back() -> None:
    """Each event and each row type survives the wire."""
    for schema in FIELD_TABLES:
        fields = FIELD_TABLES[schema]
        rows = valid_rows(fields, 30, 1, AT_MS)

        assert rows_of(fields, native.decode(native.encode(fields, block_from_rows(fields, rows)), fields)) == rows, (
            schema
        )


@given(rows_of_every_kind(max_size=4), st.permutations(EVERY_KIND))
def test_columns_may_come_in_any_order(rows: list[dict[str, Any]], shuffled: list[Field]) -> None:
    """A writer that orders its columns otherwise is understood."""
    data = native.encode(shuffled, block_from_rows(shuffled, rows))

    assert rows_of(EVERY_KIND, native.decode(data, EVERY_KIND)) == rows


@given(st.lists(rows_of_every_kind(max_size=4), min_size=1, max_size=4))
def test_concatenated_blocks_hold_all_rows_in_order(parts: list[list[dict[str, Any]]]) -> None:
    """concat joins numbers, remaps dictionaries and joins texts and sketches."""
    blocks = [block_from_rows(EVERY_KIND, rows) for rows in parts]

    assert rows_of(EVERY_KIND, native.concat(EVERY_KIND, blocks)) == [row for rows in parts for row in rows]


def test_concatenating_nothing_gives_a_block_without_rows() -> None:
    """concat of no block is an empty block with all columns."""
    assert rows_of(EVERY_KIND, native.concat(EVERY_KIND, [])) == []


def test_words_that_no_row_uses_are_not_written() -> None:
    """A dictionary larger than the column is cut down to the words in use."""
    words = [None, *(str(number).encode() for number in range(1_000))]
    block = Block(2, {"x": Labels(np.array([0, 900]), words)})

    data = native.encode([field(Kind.LABEL)], block)

    assert len(data) < 100
    assert rows_of([field(Kind.LABEL)], native.decode(data, [field(Kind.LABEL)])) == [{"x": None}, {"x": "899"}]


@pytest.mark.parametrize("words", [255, 256, 257, 65_535, 65_536])
def test_indexes_are_as_wide_as_the_dictionary_needs(words: int) -> None:
    """Codes survive at the edges of one and two bytes."""
    rows = [{"x": f"{number}"} for number in range(words)]

    data = native.encode([field(Kind.LABEL)], block_from_rows([field(Kind.LABEL)], rows))

    assert rows_of([field(Kind.LABEL)], native.decode(data, [field(Kind.LABEL)])) == rows


@given(rows_of_every_kind(max_size=3).filter(bool), st.data())
def test_a_block_cut_anywhere_is_refused(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """No prefix of a block is a block."""
    encoded = native.encode(EVERY_KIND, block_from_rows(EVERY_KIND, rows))
    end = data.draw(st.integers(0, len(encoded) - 1))

    with pytest.raises(RejectedError, match="syntax"):
        native.decode(encoded[:end], EVERY_KIND)


def test_bytes_after_the_block_are_refused() -> None:
    """Trailing garbage is a syntax error."""
    with pytest.raises(RejectedError, match="1 bytes follow the block"):
        native.decode(native.encode(EVERY_KIND, block_from_rows(EVERY_KIND, [])) + b"\0", EVERY_KIND)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_not_crashed_on(data: bytes) -> None:
    """decode raises RejectedError or gives a block, for any bytes."""
    try:
        native.decode(data, LLM_REQUESTS.fields)
    except RejectedError:
        return
    assert data[1:2] == b"\0", "only a block without rows can lack the required columns"


INTEGERS = [
    ("UInt8", "<u1", [0, 255]),
    ("UInt16", "<u2", [0, 65_535]),
    ("Int8", "<i1", [0, 127]),
    ("Int16", "<i2", [0, 32_767]),
    ("Int64", "<i8", [0, 2**32 - 1]),
    ("UInt64", "<u8", [0, 2**32 - 1]),
    ("Float64", "<f8", [0, 2**32 - 1]),
]


@pytest.mark.parametrize(("kind", "dtype", "values"), INTEGERS, ids=[kind for kind, _, _ in INTEGERS])
def test_other_widths_are_taken_where_every_value_fits(kind: str, dtype: str, values: list[int]) -> None:
    """A UInt32 field may arrive in any width of integer, and in floats that are whole."""
    data = b"\1\2" + column("x", kind, np.array(values, dtype=dtype).tobytes())

    assert rows_of([field(Kind.UINT32)], native.decode(data, [field(Kind.UINT32)])) == [{"x": v} for v in values]


UNFIT = [
    ("Int64", "<i8", -1, "out_of_range"),
    ("UInt64", "<u8", 2**32, "out_of_range"),
    ("Int8", "<i1", -1, "out_of_range"),
    ("Float64", "<f8", float("nan"), "out_of_range"),
    ("Float64", "<f8", float("inf"), "out_of_range"),
    ("Float64", "<f8", -1.0, "out_of_range"),
    ("Float64", "<f8", 2.0**32, "out_of_range"),
    ("Float32", "<f4", 0.5, "wrong_type"),
]


@pytest.mark.parametrize(("kind", "dtype", "value", "reason"), UNFIT)
def test_a_value_that_does_not_fit_costs_its_row_only(kind: str, dtype: str, value: float, reason: str) -> None:
    """The row is named; its neighbours are read."""
    data = b"\1\2" + column("x", kind, np.array([7, value], dtype=dtype).tobytes())

    parsed = parse(data, [field(Kind.UINT32)])

    assert [(problem.row, problem.reason) for problem in parsed.problems] == [(1, reason)]
    assert rows_of([field(Kind.UINT32)], parsed.block) == [{"x": 7}, {"x": 0}]


def test_the_greatest_unsigned_number_is_no_float() -> None:
    """2^64 does not fit UInt64, though the nearest float of 2^64 - 1 is 2^64."""
    data = b"\1\1" + column("x", "Float64", np.array([2.0**64]).tobytes())

    with pytest.raises(RejectedError, match="out_of_range"):
        native.decode(data, [field(Kind.UINT64)])


LABELS = [
    ("String", b"\1a\0\1a", ["a", "", "a"]),
    ("Nullable(String)", b"\0\1\0\1a\0\1b", ["a", None, "b"]),
    ("LowCardinality(String)", b"", ["", "a", "b"]),
    ("LowCardinality(Nullable(String))", b"", [None, "a", "b"]),
]


@pytest.mark.parametrize(("kind", "data", "expected"), LABELS, ids=[kind for kind, _, _ in LABELS])
def test_labels_may_come_as_any_kind_of_string(kind: str, data: bytes, expected: list[str | None]) -> None:
    """Entry 0 of a dictionary is null only where nulls are allowed."""
    if not data:
        data = (1).to_bytes(8, "little") + (0x600).to_bytes(8, "little") + (3).to_bytes(8, "little")
        data += b"\0\1a\1b" + (3).to_bytes(8, "little") + b"\0\1\2"

    decoded = native.decode(b"\1\3" + column("x", kind, data), [field(Kind.LABEL)])

    assert rows_of([field(Kind.LABEL)], decoded) == [{"x": value} for value in expected]


@pytest.mark.parametrize("kind", ["String", "LowCardinality(String)", "Nullable(String)"])
def test_texts_may_come_as_any_kind_of_string(kind: str) -> None:
    """A text column is also read from dictionaries and nullable strings."""
    source = {"String": Kind.TEXT, "Nullable(String)": Kind.OPTIONAL_TEXT}.get(kind, Kind.LABEL)
    data = native.encode([field(source)], block_from_rows([field(source)], [{"x": "a"}, {"x": "b"}]))

    assert rows_of([field(Kind.TEXT)], native.decode(data, [field(Kind.TEXT)])) == [{"x": "a"}, {"x": "b"}]


SKIPPED = [
    ("UInt8", b"ab"),
    ("Float64", bytes(16)),
    ("DateTime64(3, 'UTC')", bytes(16)),
    ("Enum8('a' = 1, 'b)' = 2)", b"\1\2"),
    ("Decimal(9, 4)", bytes(8)),
    ("Decimal(18, 4)", bytes(16)),
    ("Decimal(38, 4)", bytes(32)),
    ("Decimal(76, 4)", bytes(64)),
    ("FixedString(3)", b"abcdef"),
    ("String", b"\1a\2bc"),
    ("Nullable(String)", b"\0\1\1a\0"),
    ("LowCardinality(String)", (1).to_bytes(8, "little") + (0x600).to_bytes(8, "little") + (1).to_bytes(8, "little")
     + b"\0" + (2).to_bytes(8, "little") + b"\0\0"),
    ("Array(LowCardinality(Nullable(String)))", (1).to_bytes(8, "little") * 2 + (3).to_bytes(8, "little")
     + (0x600).to_bytes(8, "little") + (2).to_bytes(8, "little") + b"\0\1a" + (3).to_bytes(8, "little") + b"\1\0\1"),
    ("Array(LowCardinality(Nullable(String)))", (1).to_bytes(8, "little") + bytes(16)),
    ("Array(UInt16)", (1).to_bytes(8, "little") + (3).to_bytes(8, "little") + bytes(6)),
    ("Array(Array(UInt8))", (1).to_bytes(8, "little") * 2 + (2).to_bytes(8, "little") + b"ab"),
    ("Map(String, UInt8)", (1).to_bytes(8, "little") * 2 + b"\1a" + b"\7"),
    ("Tuple(UInt8, name String)", b"\1\2" + b"\1a\1b"),
    ("Tuple(UInt8, t DateTime64(3, 'UTC'), a Array(UInt8))", b"\1\2" + bytes(16) + bytes(16)),
    ("UUID", bytes(32)),
]  # fmt: skip


def enumeration(size: int) -> str:
    """A type of so many bytes."""
    return "Enum8('" + "a" * (size - len("Enum8('' = 1)")) + "' = 1)"


def test_a_type_as_long_as_may_be_is_skipped() -> None:
    """That of an enumeration names all its words."""
    block = b"\2\1" + column("new", enumeration(TYPE_BYTES_MAX), b"\1") + column("x", "UInt32", b"\7\0\0\0")

    assert rows_of([field(Kind.UINT32)], native.decode(block, [field(Kind.UINT32)])) == [{"x": 7}]


@pytest.mark.parametrize(("kind", "data"), SKIPPED, ids=[f"{kind} of {len(data)} bytes" for kind, data in SKIPPED])
def test_unknown_columns_are_skipped_whatever_their_type(kind: str, data: bytes) -> None:
    """A column that we do not know is passed over, and the one behind it is read."""
    block = b"\2\2" + column("new", kind, data) + column("x", "UInt32", b"\1\0\0\0\2\0\0\0")

    assert rows_of([field(Kind.UINT32)], native.decode(block, [field(Kind.UINT32)])) == [{"x": 1}, {"x": 2}]


NONSENSE = [
    ("a column count beyond any block", native.varint(10**6) + b"\1", "syntax"),
    ("more rows than bytes", b"\1" + native.varint(2**40), "syntax"),
    ("a number of more than 63 bits", b"\xff" * 12, "syntax"),
    ("a column twice", b"\2\1" + 2 * column("x", "UInt32", bytes(4)), "syntax"),
    ("a string for a number", b"\1\1" + column("x", "String", b"\1a"), "wrong_type"),
    ("a bool for a number", b"\1\1" + column("x", "Bool", b"\1"), "wrong_type"),
    ("an unknown type", b"\1\1" + column("y", "Variant(String)", b"\1"), "wrong_type"),
    ("a size that is no number", b"\1\1" + column("y", "FixedString(\N{SUPERSCRIPT TWO})", b"ab"), "wrong_type"),
    ("digits that are no number", b"\1\1" + column("y", "Decimal(\N{SUPERSCRIPT TWO})", bytes(4)), "wrong_type"),
    ("a type of kilobytes", b"\1\1" + column("y", enumeration(TYPE_BYTES_MAX + 1), b"\1"), "syntax"),
    ("a type that is not closed", b"\1\1" + column("y", "Array(UInt8", b"\1"), "syntax"),
    ("arrays nested too deep", b"\1\1" + column("y", "Array(" * 12 + "UInt8" + ")" * 12, b"\0" * 100), "syntax"),
    ("array offsets that fall", b"\1\2" + column("y", "Array(UInt8)", b"\2" + bytes(7) + b"\1" + bytes(9)), "syntax"),
    ("a null where none may be", b"\1\1" + column("x", "Nullable(UInt32)", b"\1" + bytes(4)), "missing_field"),
    ("no column at all", b"\0\1", "missing_field"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), [case[1:] for case in NONSENSE], ids=[case[0] for case in NONSENSE])
def test_what_is_wrong_with_a_block_is_told_by_its_reason(data: bytes, reason: str) -> None:
    """Each kind of nonsense has its reason from the closed set."""
    with pytest.raises(RejectedError) as caught:
        native.decode(data, [field(Kind.UINT32)])

    assert caught.value.reason == reason


@pytest.mark.parametrize("count", [2**31, 2**62, 2**64 - 1])
@pytest.mark.parametrize("kind", [Kind.LABEL, Kind.BINS])
def test_announced_sizes_are_compared_with_the_bytes_there_are(kind: Kind, count: int) -> None:
    """A bomb that announces billions of entries is refused before anything is allocated."""
    huge = count.to_bytes(8, "little")
    label = (1).to_bytes(8, "little") + (0x600).to_bytes(8, "little") + huge
    data = b"\1\1" + column("x", kind.value, label if kind is Kind.LABEL else huge)

    with pytest.raises(RejectedError, match="syntax"):
        native.decode(data, [field(kind)])


def test_missing_optional_columns_are_null() -> None:
    """A writer may leave out what it does not know."""
    required = [f for f in GPU_SAMPLES.fields if f.required or not f.kind.optional]
    rows = valid_rows(tuple(required), 3, 1, AT_MS)

    decoded = native.decode(native.encode(required, block_from_rows(required, rows)), GPU_SAMPLES.fields)

    absent = {f.name: None for f in GPU_SAMPLES.fields}
    assert rows_of(GPU_SAMPLES.fields, decoded) == [{**absent, **row} for row in rows]


def test_values_under_a_null_read_as_nothing() -> None:
    """What a foreign writer leaves under a null does not come through."""
    fields = [field(Kind.OPTIONAL_UINT32)]
    decoded = native.decode(b"\1\2" + column("x", "Nullable(UInt32)", b"\1\0" + b"\7" * 8), fields)

    numbers = decoded.columns["x"]
    assert isinstance(numbers, Numbers)
    assert numbers.values.tolist() == [0, 0x07070707]


def test_texts_keep_bytes_that_are_no_unicode() -> None:
    """A text is bytes; only its display replaces what is not UTF-8."""
    block = Block(1, {"x": Texts(b"\xff\xfe", np.array([2]))})

    decoded = native.decode(native.encode([field(Kind.TEXT)], block), [field(Kind.TEXT)])

    texts = decoded.columns["x"]
    assert isinstance(texts, Texts)
    assert texts.data == b"\xff\xfe"
    assert rows_of([field(Kind.TEXT)], decoded) == [{"x": "��"}]


def test_the_oracle_knows_our_types() -> None:
    """Every kind's wire type is a type that ClickHouse's client knows by the same name."""
    assert [get_from_name(kind.value).name for kind in Kind] == [kind.value for kind in Kind]
