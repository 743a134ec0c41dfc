"""The compiled walk over JSON lines gives what the careful reader gives, byte for byte, or leaves a record to it.

Covers schemas.codec.ndjson_walk with schemas.codec.ndjson_kernels and schemas.codec.json_kernels.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.codec import native, ndjson, ndjson_walk
from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.native_kernels import hash_bytes
from schemas.codec.ndjson_kernels import PROBES_MAX
from schemas.errors import RejectedError
from schemas.events.event_types import EVENTS
from schemas.fields import Field, Kind, Role
from tests.strategies.blocks import WITHOUT_LISTS, rows_of_every_kind, valid_rows

ROWS_MAX = 20
FIELDS = (
    Field("at_ms", Kind.INT64, Role.TIME, "ms", ""),
    Field("small", Kind.OPTIONAL_INT32, Role.GAUGE, "", ""),
    Field("large", Kind.OPTIONAL_UINT64, Role.GAUGE, "", ""),
    Field("host", Kind.LABEL, Role.DIMENSION, "", ""),
    Field("bins", Kind.BINS, Role.SKETCH_BINS, "", ""),
    Field("note", Kind.OPTIONAL_TEXT, Role.ATTRIBUTE, "", ""),
)


def careful(value: bytes, fields: tuple[Field, ...] = FIELDS) -> bytes | None:
    """The block by the careful reader; None where it finds anything wrong."""
    try:
        return native.encode(fields, ndjson.parse(value, fields, ROWS_MAX).sound()) if value.strip() else None
    except RejectedError:
        return None


def translate(*values: bytes, fields: tuple[Field, ...] = FIELDS) -> list[bytes]:
    return ndjson_walk.translate(fields, values, ROWS_MAX)


def rows_in(line: bytes) -> list[dict[str, Any]]:
    """The rows that the walk reads, which must be those of the careful reader."""
    (block,) = translate(line)
    assert block == careful(line), "not read, or read otherwise"
    return rows_of(FIELDS, native.decode(block, FIELDS))


@given(st.lists(rows_of_every_kind(6, WITHOUT_LISTS), min_size=1, max_size=5))
def test_whatever_we_write_ourselves_is_read(batches: list[list[dict[str, Any]]]) -> None:
    """Every kind of field with its extreme values, in records of several sizes, gives the block as it was."""
    blocks = [block_from_rows(WITHOUT_LISTS, rows) for rows in batches]

    read = translate(*(ndjson.encode(WITHOUT_LISTS, block) for block in blocks), fields=WITHOUT_LISTS)

    assert read == [native.encode(WITHOUT_LISTS, block) if block.rows else b"" for block in blocks]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic)
def test_events_of_foreign_writers_are_read(event: Any) -> None:
    """Names in another order, blanks, nulls left out and escapes make no difference."""
    rows = valid_rows(event.fields, 20, 1, 1_700_000_000_000)
    foreign = "\r\n\n".join(
        json.dumps({name: row[name] for name in sorted(row, reverse=True) if row[name] is not None}) for row in rows
    )

    (read,) = translate(foreign.encode(), fields=event.fields)

    assert rows_of(event.fields, native.decode(read, event.fields)) == rows


_HALF = 1 << 31
READ = [
    ("blanks everywhere", b' \t{ "at_ms" :\t1 , "host"\r: "a" } \r', {"host": "a"}),
    ("a form feed before the line", b'\x0c\x0b{"at_ms":1}', {}),
    ("an empty text and label", b'{"at_ms":1,"host":"","note":""}', {"host": "", "note": ""}),
    ("null for what may be null", b'{"at_ms":1,"small":null,"host":null,"bins":null,"note":null}', {}),
    ("the least number of 32 bits", b'{"at_ms":1,"small":-2147483648}', {"small": -_HALF}),
    ("the greatest number of 32 bits", b'{"at_ms":1,"small":2147483647}', {"small": _HALF - 1}),
    ("the greatest number of 64 bits", b'{"at_ms":1,"large":18446744073709551615}', {"large": 2**64 - 1}),
    ("the least number of 64 bits", b'{"at_ms":-9223372036854775808}', {"at_ms": -(2**63)}),
    ("minus nothing", b'{"at_ms":1,"large":-0}', {"large": 0}),
    ("a whole number as a float", b'{"at_ms":1.0,"large":9007199254740992.000}', {"large": 2**53}),
    ("a sketch", b'{"at_ms":1,"bins":{ "-5" : 0 , "7":18446744073709551615}}', {"bins": {-5: 0, 7: 2**64 - 1}}),
    ("the outermost bins", b'{"at_ms":1,"bins":{"-32768":1,"32767":2}}', {"bins": {-32768: 1, 32767: 2}}),
    ("escapes", rb'{"at_ms":1,"note":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00\u0000z"}',
     {"note": '"\\/\b\f\n\r\tAé€😀\0z'}),
    ("an escape in a name", rb'{"at\u005fms":1,"ho\u0073t":"a"}', {"host": "a"}),
    ("UTF-8 of every length", '{"at_ms":1,"host":"é€😀\x7f"}'.encode(), {"host": "é€😀\x7f"}),
    ("unknown fields", b'{"new":[1,{"a":[],"b":{}},"x"],"at_ms":1,"t":true,"f":false,"n":null}', {}),
    ("unknown numbers", b'{"at_ms":1,"a":-1.25,"b":1e-9,"c":0.5E+10,"d":[0,-0,10]}', {}),
    ("a name that begins like a known one", b'{"at_ms":1,"hos":5,"hosts":5,"":5}', {}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_line_of_any_writer_is_read(line: bytes, expected: dict[str, Any]) -> None:
    """What JSON allows and writers do costs a record nothing."""
    nothing = {"at_ms": 1, "small": None, "large": None, "host": None, "bins": {}, "note": None}

    assert rows_in(line) == [nothing | expected]


LEFT = [
    ("nothing", b" \n\n "),
    ("no object", b"[1]"),
    ("two objects that a comma would join", b'{"at_ms":1},{"at_ms":2}'),
    ("half of an array", b'{"at_ms":1}],[{"at_ms":2}'),
    ("an object in two lines", b'{"at_ms":1,\n"small":2}'),
    ("a text in two lines", b'{"at_ms":1,"note":"a\nb"}'),
    ("cut off", b'{"at_ms":1'),
    ("cut off in a text", b'{"at_ms":1,"note":"a'),
    ("cut off in an escape", b'{"at_ms":1,"note":"\\'),
    ("cut off in a code point", b'{"at_ms":1,"note":"\\u00'),
    ("a comma at the end", b'{"at_ms":1,}'),
    ("something behind it", b'{"at_ms":1} x'),
    ("a zero behind it", b'{"at_ms":1}\x00'),
    ("NaN", b'{"at_ms":1,"small":NaN}'),
    ("NaN in an unknown field", b'{"at_ms":1,"new":NaN}'),
    ("a bool", b'{"at_ms":true}'),
    ("a text for a number", b'{"at_ms":"1"}'),
    ("a number for a text", b'{"at_ms":1,"host":1}'),
    ("a fraction", b'{"at_ms":1.5}'),
    ("a float beyond what floats hold exactly", b'{"at_ms":9007199254740993.0}'),
    ("a point alone", b'{"at_ms":1.}'),
    ("a leading zero", b'{"at_ms":01}'),
    ("a leading plus", b'{"at_ms":+1}'),
    ("minus alone", b'{"at_ms":-}'),
    ("beyond 32 bits", b'{"at_ms":1,"small":2147483648}'),
    ("below 32 bits", b'{"at_ms":1,"small":-2147483649}'),
    ("below nothing", b'{"at_ms":1,"large":-1}'),
    ("beyond 64 bits", b'{"at_ms":1,"large":18446744073709551616}'),
    ("beyond 64 bits once more", b'{"at_ms":1,"large":28446744073709551615}'),
    ("21 digits", b'{"at_ms":1,"large":100000000000000000000}'),
    ("null where none may be", b'{"at_ms":null}'),
    ("missing where none may be", b"{}"),
    ("a name twice", b'{"at_ms":1,"at_ms":2}'),
    ("a control character", b'{"at_ms":1,"note":"\x01"}'),
    ("an unknown escape", rb'{"at_ms":1,"note":"\x41"}'),
    ("half a surrogate pair", rb'{"at_ms":1,"note":"\ud800"}'),
    ("the other half", rb'{"at_ms":1,"note":"\ude00"}'),
    ("a pair of first halves", rb'{"at_ms":1,"note":"\ud83d\ud83d"}'),
    ("no hexadecimal digit", rb'{"at_ms":1,"note":"\u00g0"}'),
    ("no UTF-8", b'{"at_ms":1,"note":"\xff"}'),
    ("a byte that continues nothing", b'{"at_ms":1,"note":"\x80"}'),
    ("UTF-8 cut off", b'{"at_ms":1,"note":"\xe2\x82"}'),
    ("UTF-8 longer than need be", b'{"at_ms":1,"note":"\xe0\x80\x80"}'),
    ("a surrogate in UTF-8", b'{"at_ms":1,"note":"\xed\xa0\x80"}'),
    ("beyond Unicode", b'{"at_ms":1,"note":"\xf4\x90\x80\x80"}'),
    ("no UTF-8 in an unknown name", b'{"at_ms":1,"\xc0\x80":1}'),
    ("a sketch out of order", b'{"at_ms":1,"bins":{"7":1,"5":1}}'),
    ("a bin twice", b'{"at_ms":1,"bins":{"7":1,"7":1}}'),
    ("a bin with a zero before it", b'{"at_ms":1,"bins":{"07":1}}'),
    ("a bin beyond 16 bits", b'{"at_ms":1,"bins":{"32768":1}}'),
    ("a count that is none", b'{"at_ms":1,"bins":{"7":-1}}'),
    ("a list of bins", b'{"at_ms":1,"bins":[1]}'),
    ("a comma behind bins", b'{"at_ms":1,"bins":{"7":1,}}'),
    ("deep nesting", b'{"at_ms":1,"new":' + b"[" * 61 + b"]" * 61 + b"}"),
    ("nesting without end", b'{"at_ms":1,"new":' + b"[" * 100_000),
    ("brackets that cross", b'{"at_ms":1,"new":[{]}}'),
    ("no name in an unknown object", b'{"at_ms":1,"new":{1:2}}'),
    ("a broken unknown word", b'{"at_ms":1,"new":nul}'),
    ("a broken unknown number", b'{"at_ms":1,"new":1e}'),
    ("too many lines", b'{"at_ms":1}\n' * (ROWS_MAX + 1)),
]  # fmt: skip


@pytest.mark.parametrize("line", [case[1] for case in LEFT], ids=[case[0] for case in LEFT])
def test_the_rest_is_left_to_the_careful_reader_record_by_record(line: bytes) -> None:
    """What is wrong or unusual in one record is none of its neighbours' business."""
    good = b'{"at_ms":7}\n{"at_ms":8}'

    assert translate(good, line, good) == [careful(good), b"", careful(good)]


def test_words_made_to_collide_are_left_to_the_careful_reader() -> None:
    """Whoever knows the hash cannot make a record expensive: the look-up ends after some words."""
    words = colliding(PROBES_MAX + 1)
    lines = [orjson.dumps({"at_ms": 1, "host": word}) for word in words]
    fields = (FIELDS[0], FIELDS[3])

    few, many = (ndjson_walk.translate(fields, [b"\n".join(lines[:count])], 1_000) for count in (5, len(lines)))

    assert (bool(few[0]), bool(many[0])) == (True, False)


def colliding(count: int) -> list[str]:
    """Words of one bucket, found by trying."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        word = f"{number:08d}"
        number += 1
        if hash_bytes(np.frombuffer(word.encode() + bytes(8), np.uint8), 0, 8) & 127 == 5:
            found.append(word)
    return found


_WORDS = st.sampled_from(["", "a", "b", "é€😀", "\0", '"\\\n', "x" * 70, "\ud800"])
_NUMBERS = st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30])
_ODD = (
    st.none() | st.booleans() | _NUMBERS | st.integers() | st.floats() | _WORDS
    | st.lists(_NUMBERS, max_size=2) | st.dictionaries(_WORDS, _NUMBERS, max_size=2)
)  # fmt: skip
_BINS = st.dictionaries(st.integers(-9, 9).map(str) | st.sampled_from(["32768", "01", "-0"]), st.integers(-1, 3))
_NAMES = [field.name for field in FIELDS]
_PAIRS = st.one_of(
    st.tuples(st.sampled_from(["at_ms", "small", "large"]), _NUMBERS | st.integers(-9, 9) | st.just(3.0)),
    st.tuples(st.sampled_from(["host", "note"]), _WORDS),
    st.tuples(st.just("bins"), _BINS | _BINS.map(lambda bins: dict(sorted(bins.items(), key=lambda one: int(one[0]))))),
    st.tuples(st.sampled_from(_NAMES) | st.text(max_size=6), _ODD),
)


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    """A line that may be anything from sound to hostile: pairs in any order, twins, then bytes taken out or put in."""
    pairs = draw(st.lists(_PAIRS, max_size=6))
    if draw(st.booleans()):
        pairs.append(("at_ms", 1))
    dumps = json.JSONEncoder(ensure_ascii=draw(st.booleans())).encode
    text = "{" + ",".join(f"{dumps(name)}:{dumps(value)}" for name, value in pairs) + "}"
    line = text.encode(errors="surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        begin, size = draw(st.integers(0, len(line))), draw(st.integers(0, 3))
        line = (
            line[:begin]
            + draw(st.binary(max_size=2) | st.sampled_from([b"],[", b"},{", b"\n", b"\\"]))
            + line[begin + size :]
        )
    return line


@settings(max_examples=400)
@given(st.lists(st.lists(_lines(), max_size=3), max_size=4))
@example([[b'{"at_ms":1}', b'{"at_ms":1,"host":"a"},{"at_ms":2'], [b'"x":1}']])
def test_a_record_is_read_as_the_careful_reader_reads_it_or_not_at_all(records: list[list[bytes]]) -> None:
    """Good, odd and hostile lines: a block is byte for byte the careful reader's, and never of a line that is wrong."""
    values = [b"\n".join(lines) for lines in records]

    for value, block in zip(values, translate(*values), strict=True):
        assert block in (b"", careful(value)), value


@settings(max_examples=300)
@given(st.lists(_lines(), max_size=6))
def test_only_the_lines_that_were_left_are_read_with_care(lines: list[bytes]) -> None:
    """The block and the problems of a record that was left are those of the careful reader over all of it."""
    value = b"\n".join(lines)
    parsed = ndjson.parse(value, FIELDS)

    block, problems = ndjson_walk.translate_lines(FIELDS, value, 1_000)

    assert block == native.encode(FIELDS, parsed.block)
    assert problems == parsed.problems


@given(st.lists(rows_of_every_kind(4, WITHOUT_LISTS), min_size=1, max_size=3), st.data())
def test_one_bad_line_costs_one_line(batches: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    """Among rows of every kind a line that is no object is a row of nulls, and the one problem."""
    lines = [
        line
        for rows in batches
        for line in ndjson.encode(WITHOUT_LISTS, block_from_rows(WITHOUT_LISTS, rows)).splitlines()
    ]
    row = data.draw(st.integers(0, len(lines)))
    lines.insert(row, b"{]")
    value = b"\n".join(lines)

    block, problems = ndjson_walk.translate_lines(WITHOUT_LISTS, value, 1_000)

    assert [(problem.row, problem.reason) for problem in problems if problem.field < 0] == [(row, "syntax")]
    assert block == native.encode(WITHOUT_LISTS, ndjson.parse(value, WITHOUT_LISTS).block)


def test_too_many_lines_are_too_many_however_they_are_read() -> None:
    """The bound is that of the careful reader."""
    with pytest.raises(RejectedError, match="too_many"):
        ndjson_walk.translate_lines(FIELDS, b"{]\n" * (ROWS_MAX + 1), ROWS_MAX)
