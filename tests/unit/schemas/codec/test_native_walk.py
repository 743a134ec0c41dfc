"""The compiled walk agrees with the tolerant reader wherever it accepts, and accepts whatever we write ourselves.

Covers schemas.codec.native_walk with schemas.codec.native_layout, schemas.codec.native_loads,
schemas.codec.native_kernels, schemas.codec.native_words and schemas.codec.native_fill.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native, native_fill, native_layout, native_walk, native_words
from schemas.codec.block import Block, Labels, Texts
from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.native_cursor import WORDS_SPARE_MAX
from schemas.codec.native_reader import parse
from schemas.contract.verdicts import Verdict
from schemas.errors import RejectedError
from schemas.events.event_types import EVENTS, LLM_REQUESTS
from schemas.fields import Field, Kind, Role
from schemas.rows.tables import TABLES
from schemas.sketch import BIN_MAX, ZERO_BIN
from tests.strategies.blocks import WITHOUT_LISTS, rows_of_every_kind, valid_rows

AT_MS = 1_700_000_000_000
FIELD_TABLES = {
    one.schema: one.fields for one in (*EVENTS, *TABLES) if not any(field.kind.item for field in one.fields)
}
"""Those that the walk is for: what holds lists is read record by record."""
BYTES_MAX = 1 << 40


def encoded(fields: tuple[Field, ...], rows: list[dict[str, Any]]) -> bytes:
    return native.encode(fields, block_from_rows(fields, rows))


def filled(fields: tuple[Field, ...], values: list[bytes], *, texts: bool = True) -> native_walk.Filled:
    dictionaries = native_words.Dictionaries(fields, native_words.any_word)
    return native_walk.fill(native_walk.measure(fields, values), dictionaries, BYTES_MAX, texts=texts)


@given(st.lists(rows_of_every_kind(6, WITHOUT_LISTS), min_size=1, max_size=5))
def test_many_blocks_become_one_in_their_order(batches: list[list[dict[str, Any]]]) -> None:
    """The rows of all records, one behind the other, are the rows of the one block."""
    block = native_walk.decode_many(WITHOUT_LISTS, [encoded(WITHOUT_LISTS, rows) for rows in batches])

    assert rows_of(WITHOUT_LISTS, block) == [row for rows in batches for row in rows]


def test_the_walk_reads_every_field_table() -> None:
    """Each event and each row type, in records of several sizes."""
    for schema in FIELD_TABLES:
        fields = FIELD_TABLES[schema]
        batches = [valid_rows(fields, count, count, AT_MS) for count in (1, 40, 3, 300)]

        block = native_walk.decode_many(fields, [encoded(fields, rows) for rows in batches])

        assert rows_of(fields, block) == [row for rows in batches for row in rows], schema


def test_rows_know_where_they_came_from() -> None:
    """record_of and row_of count records and rows within them; records without rows leave no trace."""
    batches = [valid_rows(WITHOUT_LISTS, count, 1, AT_MS) for count in (2, 0, 1)]

    taken = filled(WITHOUT_LISTS, [encoded(WITHOUT_LISTS, rows) for rows in batches])

    assert taken.record_of.tolist() == [0, 0, 2]
    assert taken.row_of.tolist() == [0, 1, 0]


def test_blocks_of_other_shapes_are_read_too() -> None:
    """decode_many gives blocks that are not canonical to the tolerant reader, in their place."""
    batches = [valid_rows(WITHOUT_LISTS, 3, seed, AT_MS) for seed in range(3)]
    shuffled = WITHOUT_LISTS[::-1]
    values = [encoded(WITHOUT_LISTS, batches[0]), encoded(shuffled, batches[1]), encoded(WITHOUT_LISTS, batches[2])]

    assert rows_of(WITHOUT_LISTS, native_walk.decode_many(WITHOUT_LISTS, values)) == [
        row for rows in batches for row in rows
    ]


def test_no_blocks_and_empty_blocks_give_no_rows() -> None:
    """decode_many of nothing, and of blocks without rows, is a block without rows."""
    assert native_walk.decode_many(WITHOUT_LISTS, []).rows == 0
    assert rows_of(WITHOUT_LISTS, native_walk.decode_many(WITHOUT_LISTS, [encoded(WITHOUT_LISTS, [])])) == []


def test_unreadable_blocks_raise() -> None:
    """decode_many does not pass over what nobody can read."""
    with pytest.raises(RejectedError, match="syntax"):
        native_walk.decode_many(WITHOUT_LISTS, [b"\1\1nonsense"])


@given(rows_of_every_kind(4, WITHOUT_LISTS).filter(bool), st.data())
def test_what_the_walk_accepts_the_tolerant_reader_reads_alike(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever bytes of a block are changed, cut or added: accepted by the walk means equal to the careful reading."""
    value = bytearray(encoded(WITHOUT_LISTS, rows))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(value) - 1))
        value[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not value:
            return
    neighbour = encoded(WITHOUT_LISTS, rows)

    measured = native_walk.measure(WITHOUT_LISTS, [neighbour, bytes(value), neighbour])

    assert measured.rows[[0, 2]].tolist() == [len(rows)] * 2
    if measured.rows[1] > 0:
        taken = native_walk.fill(measured, native_words.Dictionaries(WITHOUT_LISTS, native_words.any_word), BYTES_MAX)
        careful = rows_of(WITHOUT_LISTS, parse(bytes(value), WITHOUT_LISTS).sound())
        assert rows_of(WITHOUT_LISTS, taken.block) == [*rows, *careful, *rows]


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_arbitrary_bytes_are_measured_without_harm(values: list[bytes]) -> None:
    """Bytes that are no block have -1 rows."""
    rows = native_walk.measure(LLM_REQUESTS.fields, values).rows

    assert (rows <= 0).all()


@given(rows_of_every_kind(3, WITHOUT_LISTS).filter(bool))
def test_no_prefix_of_a_block_is_accepted(rows: list[dict[str, Any]]) -> None:
    """A block cut anywhere, even with other bytes behind it in the buffer, is not canonical."""
    value = encoded(WITHOUT_LISTS, rows)
    cuts = list(range(0, len(value), max(1, len(value) // 50)))

    measured = native_walk.measure(WITHOUT_LISTS, [value[:cut] for cut in cuts])

    assert (measured.rows == -1).all()


def test_texts_can_be_left_out() -> None:
    """Without texts their columns are missing; everything else is there."""
    rows = valid_rows(LLM_REQUESTS.fields, 3, 1, AT_MS)

    taken = filled(LLM_REQUESTS.fields, [encoded(LLM_REQUESTS.fields, rows)], texts=False)

    names = {field.name for field in LLM_REQUESTS.fields}
    texts = {"request_id", "trace_id", "model_requested", "user_hash"}
    assert set(taken.block.columns) == names - texts


BOUNDED = [
    Field("i64", Kind.INT64, Role.TIME, "", "", low=-5, high=5),
    Field("u32", Kind.OPTIONAL_UINT32, Role.GAUGE, "", "", low=2, high=9),
    Field("u64", Kind.OPTIONAL_UINT64, Role.GAUGE, "", "", high=2**63),
    Field("i32", Kind.OPTIONAL_INT32, Role.GAUGE, "", "", low=-100, high=-50),
]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("i64", -5, 5), ("u32", 2, 9), ("u64", 0, 2**63), ("i32", -100, -50)],
    ids=["signed 64 bits", "unsigned 32 bits", "unsigned 64 bits", "signed 32 bits"],
)
def test_bounds_include_both_ends(name: str, low: int, high: int) -> None:
    """On the bound is inside, one beyond is a fault of that column; null is judged never."""
    field = next(field for field in BOUNDED if field.name == name)
    outside = [value for value in (low - 1, high + 1) if value >= 0 or field.kind.numpy[1] == "i"]
    values = [low, high, *outside, *([None] if field.kind.optional else [])]

    taken = filled((field,), [encoded((field,), [{name: value} for value in values])])

    assert taken.fault.tolist() == [-1, -1, *[0] * len(outside), *([-1] if field.kind.optional else [])]


def test_the_first_column_at_fault_is_named() -> None:
    """A row with several faults names the first in wire order."""
    rows = [{"i64": 0, "u32": 1, "u64": 2**64 - 1, "i32": 0}]

    assert filled(tuple(BOUNDED), [encoded(tuple(BOUNDED), rows)]).fault.tolist() == [1]


BINS = Field("bins", Kind.BINS, Role.SKETCH_BINS, "", "")
SKETCHES: list[tuple[str, list[tuple[int, int]], bool]] = [
    ("empty", [], True),
    ("zero bin", [(ZERO_BIN, 1)], True),
    ("last bin", [(BIN_MAX, 1)], True),
    ("below the grid", [(ZERO_BIN - 1, 1)], False),
    ("above the grid", [(BIN_MAX + 1, 1)], False),
    ("far below the grid", [(-(2**15), 1)], False),
    ("falling", [(2, 1), (1, 1)], False),
    ("a bin twice", [(2, 1), (2, 1)], False),
    ("a count of zero", [(2, 0)], False),
    ("the greatest count", [(2, native_fill.BIN_COUNT_MAX)], True),
    ("a count beyond", [(2, native_fill.BIN_COUNT_MAX + 1)], False),
    ("a negative count", [(2, 2**64 - 1)], False),
]


@pytest.mark.parametrize(("pairs", "sound"), [case[1:] for case in SKETCHES], ids=[case[0] for case in SKETCHES])
def test_sketches_must_lie_on_the_grid(pairs: list[tuple[int, int]], sound: bool) -> None:
    """Bins rise within the grid and counts are above zero and bounded; a bad sketch hurts no neighbour."""
    data = (len(pairs) + 1).to_bytes(8, "little")
    ends = (1).to_bytes(8, "little") + data + (len(pairs) + 2).to_bytes(8, "little")
    keys = np.array([7, *(key for key, _ in pairs), 7], dtype="<i2").tobytes()
    counts = np.array([1, *(count for _, count in pairs), 1], dtype="<u8").tobytes()
    value = b"\1\3" + native.column_prefix(BINS) + ends + keys + counts

    assert filled((BINS,), [value]).fault.tolist() == [-1, -1 if sound else 0, -1]


def test_texts_are_judged_by_length_and_need() -> None:
    """Too long, or empty where one is required, is a fault; also when texts are left out."""
    fields = (Field("x", Kind.TEXT, Role.ATTRIBUTE, "", "", required=True),)
    value = encoded(fields, [{"x": text} for text in ("a" * 200, "", "a" * 201)])
    dictionaries = native_words.Dictionaries(fields, native_words.any_word)

    for texts in (True, False):
        taken = native_walk.fill(native_walk.measure(fields, [value]), dictionaries, 200, texts=texts)
        assert taken.fault.tolist() == [-1, 0, 0]


def test_refused_words_read_null_and_take_no_code() -> None:
    """A word that the judge refuses is a fault of its rows and does not enter the list of words."""
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""),)
    dictionaries = native_words.Dictionaries(fields, lambda _, word: word != b"bad")
    value = encoded(fields, [{"x": word} for word in ("good", "bad", None, "bad")])

    taken = native_walk.fill(native_walk.measure(fields, [value]), dictionaries, BYTES_MAX)

    labels = taken.block.columns["x"]
    assert isinstance(labels, Labels)
    assert labels.words == [None, b"good"]
    assert labels.codes.tolist() == [1, 0, 0, 0]
    assert taken.fault.tolist() == [-1, 0, -1, 0]


def test_a_word_twice_in_a_dictionary_is_one_word() -> None:
    """Words of a block are distinct, whatever a writer does."""
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""),)
    block = Block(2, {"x": Labels(np.array([1, 2]), [None, b"same", b"same"])})

    labels = filled(fields, [native.encode(fields, block)]).block.columns["x"]

    assert isinstance(labels, Labels)
    assert labels.words == [None, b"same"]
    assert labels.codes.tolist() == [1, 1]


@pytest.mark.parametrize(("spare", "sound"), [(WORDS_SPARE_MAX, True), (WORDS_SPARE_MAX + 1, False)])
def test_dictionaries_are_not_much_longer_than_their_column(spare: int, sound: bool) -> None:
    """Nobody can send millions of words with one event; the tolerant reader refuses the same."""
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""),)
    words = b"".join(b"\4%04x" % number for number in range(spare + 1))
    flags, one = (0x601).to_bytes(8, "little"), (1).to_bytes(8, "little")
    value = b"\1\1" + native.column_prefix(fields[0]) + one + flags + (spare + 1).to_bytes(8, "little") + words
    value += one + b"\5\0"

    assert native_walk.measure(fields, [value]).rows.tolist() == [1 if sound else -1]
    if sound:
        assert rows_of(fields, native.decode(value, fields)) == [{"x": "0005"}]
    else:
        with pytest.raises(RejectedError, match="leave out what is not used"):
            native.decode(value, fields)


@pytest.mark.parametrize("bound", ["_ENTRIES_MAX", "_BYTES_MAX", "_NUMBERS_MAX"])
def test_dictionaries_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """A dictionary is looked at once until there are too many, then once more; what is answered never changes."""
    monkeypatch.setattr(native_words, bound, 1_500)
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""), Field("y", Kind.LABEL, Role.DIMENSION, "", ""))
    asked: list[bytes | None] = []
    dictionaries = native_words.Dictionaries(fields, lambda _, word: asked.append(word) or word != b"bad")

    def codes_of(*words: str) -> list[list[object]]:
        values = [encoded(fields, [{"x": word, "y": "a"}, {"x": "a", "y": word}]) for word in words]
        found = native_walk.fill(native_walk.measure(fields, values), dictionaries, 100)
        columns = [found.block.columns[name] for name in "xy"]
        return [
            [column.words[code] for code in column.codes.tolist()] for column in columns if isinstance(column, Labels)
        ]

    names = [f"word-{number}" for number in range(1_000)]
    for name in names:
        assert codes_of(name, "a", "bad", name) == [
            [name.encode(), b"a", b"a", b"a", None, b"a", name.encode(), b"a"],
            [b"a", name.encode(), b"a", b"a", b"a", None, b"a", name.encode()],
        ]
    asked_for = [asked.count(name.encode()) for name in names]
    assert asked_for == [2] * len(names), "once for each label"
    assert codes_of(names[-1]) == [[names[-1].encode(), b"a"], [b"a", names[-1].encode()]]
    assert 1 < asked.count(b"bad") // 2 < 100
    again = asked.count(names[0].encode())
    codes_of(names[0])
    assert asked.count(names[0].encode()) == again + 2


@pytest.mark.parametrize("bound", ["_ENTRIES_MAX", "_BYTES_MAX", "_NUMBERS_MAX"])
def test_no_more_is_held_between_batches_than_the_bounds_say(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """A batch of many new words leaves nothing behind: the next of its kind may not come for hours."""
    monkeypatch.setattr(native_words, bound, 100)
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""),)
    dictionaries = native_words.Dictionaries(fields, native_words.any_word)
    values = [encoded(fields, [{"x": "large" * 10_000 + str(number)}]) for number in range(200)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        native_walk.fill(native_walk.measure(fields, values), dictionaries, 100)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert held < sum(map(len, values)) / 10


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.lists(
            st.lists(st.none() | st.sampled_from(["", "a", "b", "longer than eight bytes"]), min_size=1), min_size=1
        ),
        min_size=1,
        max_size=4,
    )
)
def test_words_are_numbered_by_batch_in_the_order_of_their_first_use(batches: list[list[list[str | None]]]) -> None:
    """Whatever earlier batches held: a batch knows the words of its own dictionaries alone."""
    fields = (Field("x", Kind.LABEL, Role.DIMENSION, "", ""),)
    dictionaries = native_words.Dictionaries(fields, native_words.any_word)

    for batch in batches:
        blocks = [block_from_rows(fields, [{"x": word} for word in words]) for words in batch]
        measured = native_walk.measure(fields, [native.encode(fields, block) for block in blocks])
        column = native_walk.fill(measured, dictionaries, 100).block.columns["x"]

        expected = native.concat(fields, blocks).columns["x"]
        assert isinstance(column, Labels)
        assert isinstance(expected, Labels)
        assert (column.codes.tolist(), column.words) == (expected.codes.tolist(), expected.words)


def test_texts_longer_than_their_varint_head_are_copied_whole() -> None:
    """Texts around the lengths where the head grows, copied eight bytes at a time, hurt no neighbour."""
    fields = (
        Field("x", Kind.TEXT, Role.ATTRIBUTE, "", ""),
        Field("y", Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", ""),
    )
    sizes = (0, 1, 7, 8, 9, 127, 128, 16_383, 16_384)
    rows = [{"x": "x" * size, "y": None if size == 8 else "y" * size} for size in sizes]

    columns = filled(fields, [encoded(fields, rows), encoded(fields, rows)]).block.columns

    assert isinstance(columns["x"], Texts)
    assert columns["x"].data == b"x" * sum(sizes) * 2
    assert rows_of(fields, Block(len(sizes) * 2, columns)) == rows * 2


def test_compiled_code_and_python_speak_of_the_same_verdicts() -> None:
    """The numbers in compiled code are those of the books."""
    compiled = (native_fill.ACCEPTED, native_fill.LATE, native_fill.FUTURE, native_fill.REJECTED)

    assert compiled == (Verdict.ACCEPTED, Verdict.LATE, Verdict.FUTURE, Verdict.REJECTED)


def test_a_layout_is_made_once_per_field_table() -> None:
    """Equal field tables share their layout."""
    assert native_layout.layout_of(WITHOUT_LISTS) is native_layout.layout_of((*WITHOUT_LISTS[:1], *WITHOUT_LISTS[1:]))


def test_lists_are_not_for_the_walk() -> None:
    """The error says which column and who reads it."""
    field = Field("parts", Kind.LIST_INT64, Role.ATTRIBUTE, "", "")

    with pytest.raises(ValueError, match=r"parts is a list: native\.decode reads it"):
        native_layout.layout_of((field,))
