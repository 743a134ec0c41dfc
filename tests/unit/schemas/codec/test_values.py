"""Python values to columns: quick ways and careful ways agree, and what does not fit is named.

Covers schemas.codec.values, schemas.codec.parsed, schemas.codec.json_text and schemas.codec.build.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import json_text, values
from schemas.codec.block import Bins, Labels, Numbers, Texts
from schemas.codec.build import block_from_rows, rows_of
from schemas.errors import RejectedError
from schemas.fields import Field, Kind, Role


def field(kind: Kind, *, required: bool = False) -> Field:
    return Field("x", kind, Role.ATTRIBUTE, "", "", required=required)


def problems_of(kind: Kind, *sent: Any) -> list[tuple[int, str]]:
    _, problems = values.column_of(field(kind), 3, sent)
    assert all(problem.field == 3 for problem in problems)
    return [(problem.row, problem.reason) for problem in problems]


NUMBERS = [
    (Kind.OPTIONAL_INT32, -(2**31), []),
    (Kind.OPTIONAL_INT32, -(2**31) - 1, [(1, "out_of_range")]),
    (Kind.OPTIONAL_INT64, 2**63 - 1, []),
    (Kind.OPTIONAL_INT64, 2**63, [(1, "out_of_range")]),
    (Kind.OPTIONAL_UINT64, 2**64, [(1, "out_of_range")]),
    (Kind.OPTIONAL_UINT32, 10**400, [(1, "out_of_range")]),
    (Kind.OPTIONAL_UINT32, 4.0, []),
    (Kind.OPTIONAL_UINT32, np.int64(4), []),
    (Kind.OPTIONAL_UINT32, False, [(1, "wrong_type")]),
    (Kind.OPTIONAL_UINT32, "4", [(1, "wrong_type")]),
    (Kind.OPTIONAL_UINT32, {"a": 1}, [(1, "wrong_type")]),
    (Kind.OPTIONAL_UINT32, None, []),
    (Kind.UINT32, None, [(1, "missing_field")]),
    (Kind.TEXT, 4, [(1, "wrong_type")]),
    (Kind.TEXT, "\ud800", [(1, "wrong_type")]),
    (Kind.LABEL, 4, [(1, "wrong_type")]),
    (Kind.LABEL, "\ud800", [(1, "wrong_type")]),
    (Kind.BINS, [1], [(1, "wrong_type")]),
    (Kind.BINS, {"1": 1, "01": 1}, [(1, "bad_bins")]),
    (Kind.BINS, {"a": 1}, [(1, "bad_bins")]),
    (Kind.BINS, {"40000": 1}, [(1, "bad_bins")]),
    (Kind.BINS, {True: 1}, [(1, "bad_bins")]),
    (Kind.BINS, {"1": "1"}, [(1, "bad_bins")]),
    (Kind.BINS, {"1": 1.5}, [(1, "bad_bins")]),
    (Kind.BINS, {"1": -1}, [(1, "bad_bins")]),
    (Kind.BINS, {"1": 2**64}, [(1, "bad_bins")]),
    (Kind.BINS, {"1": True}, [(1, "bad_bins")]),
]
SOUND = {Kind.TEXT: "a", Kind.LABEL: "a", Kind.BINS: {"1": 1}}


@pytest.mark.parametrize(("kind", "value", "problems"), NUMBERS)
def test_a_value_fits_or_its_row_is_named(kind: Kind, value: Any, problems: list[tuple[int, str]]) -> None:
    """Each wrong value has its reason; the rows around it have none."""
    sound = SOUND.get(kind, 1)

    assert problems_of(kind, sound, value, sound) == problems


def test_sketches_are_put_in_order() -> None:
    """JSON objects have no order: bins rise in the column whatever the order in which they were sent."""
    column, problems = values.column_of(field(Kind.BINS), 0, [{"7": 1, "-1": 2}, None, {"3": 2.0}])

    assert problems == []
    assert values.values_of(column) == [{-1: 2, 7: 1}, {}, {3: 2}]


@given(st.lists(st.dictionaries(st.integers(-1, 9), st.integers(0, 3), max_size=3), max_size=5))
def test_the_quick_way_to_sketches_is_the_careful_way(sketches: list[dict[int, int]]) -> None:
    """Sorted and unsorted sketches give one column."""
    quick, _ = values.column_of(field(Kind.BINS), 0, [dict(sorted(sketch.items())) for sketch in sketches])
    careful, _ = values.column_of(field(Kind.BINS), 0, [dict(sorted(s.items(), reverse=True)) for s in sketches])

    assert isinstance(quick, Bins)
    assert isinstance(careful, Bins)
    for left, right in ((quick.ends, careful.ends), (quick.keys, careful.keys), (quick.counts, careful.counts)):
        assert left.tolist() == right.tolist()
        assert left.dtype == right.dtype


@given(st.lists(st.none() | st.text(max_size=3) | st.binary(max_size=3), max_size=6))
def test_labels_number_their_distinct_words(words: list[str | bytes | None]) -> None:
    """A word has one code whether it came as text or as bytes; null is code 0."""
    column, _ = values.column_of(field(Kind.LABEL), 0, words)

    assert isinstance(column, Labels)
    assert column.words[0] is None
    assert len(set(column.words)) == len(column.words)
    sent = [word.encode() if isinstance(word, str) else word for word in words]
    assert [column.words[code] for code in column.codes] == sent


@given(st.lists(st.text(max_size=5), max_size=5))
def test_texts_end_where_their_bytes_end(texts: list[str]) -> None:
    """Ends count bytes, not characters."""
    column, _ = values.column_of(field(Kind.TEXT), 0, texts)

    assert isinstance(column, Texts)
    assert column.data == "".join(texts).encode()
    assert values.values_of(column) == texts


def test_known_is_none_when_every_row_is() -> None:
    """A nullable column without nulls carries no map."""
    full, _ = values.column_of(field(Kind.OPTIONAL_UINT32), 0, [1, 2])
    part, _ = values.column_of(field(Kind.OPTIONAL_UINT32), 0, [1, None])

    assert isinstance(full, Numbers)
    assert isinstance(part, Numbers)
    assert full.known is None
    assert part.known is not None
    assert part.known.tolist() == [True, False]


def test_rows_made_in_code_must_fit() -> None:
    """block_from_rows raises with row, field and value."""
    with pytest.raises(RejectedError, match=r"wrong_type: row 1: x = 'a': must be a whole number"):
        block_from_rows([field(Kind.UINT32)], [{"x": 1}, {"x": "a"}])


def test_rows_of_nothing_are_empty() -> None:
    """A block without columns still has its rows."""
    assert rows_of([], block_from_rows([], [{}, {}])) == [{}, {}]


def test_details_stay_short() -> None:
    """What a detail repeats of a value is bounded, however great the value."""
    assert values.shown(10**5000) == f"a number of {(10**5000).bit_length()} bits"
    assert len(values.shown("x" * 10**6)) < 100
    assert len(values.shown([["x"] * 1000])) < 100


@pytest.mark.parametrize("deep", ["[" * 1_000 + "]" * 1_000, '{"a":' * 500 + "1" + "}" * 500], ids=["lists", "objects"])
def test_a_value_nested_deep_is_one_that_does_not_fit(deep: str) -> None:
    """Whoever reads it, from however deep a stack: it costs its event alone."""
    value = json_text.loads(deep.encode())

    assert values.shown(value) == "a value nested more than 100 deep"
    assert problems_of(Kind.OPTIONAL_INT32, 1, value, 2) == [(1, "wrong_type")]
    assert json_text.dumps({"x": value, "y": 1}) == b'{"x": "a value nested more than 100 deep", "y": 1}'
    assert values.shown([[[1]], {"a": [2]}]) == "[[[1]], {'a': [2]}]"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a": [1]}', {"a": [1]}),
        (b'{"a": "' + b"[" * 2_000 + b'"}', {"a": "[" * 2_000}),
        (b'{"a": [' + b",".join([b"[]"] * 200) + b"]}", {"a": [[]] * 200}),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", {"a": orjson.loads(b"[" * 100 + b"]" * 100)}),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", None),
        (b'{"a": ' + b"[" * 1_010 + b"]" * 1_010 + b"}", None),
        (b'{"a": ' * 1_010 + b"1" + b"}" * 1_010, None),
        (b'{"a": ' * 2_000, None),
        (b"[1]", None),
        (b'{"a": NaN}', None),
    ],
    ids=[
        "an object",
        "a text",
        "side by side",
        "100",
        "101",
        "lists",
        "objects",
        "without end",
        "no object",
        "no JSON",
    ],
)
def test_an_object_is_no_deeper_than_can_be_written(text: bytes, found: object) -> None:
    """Brackets in texts and side by side are no depth."""
    assert json_text.object_of(text) == json_text.object_of(memoryview(text)) == found
    assert found is None or orjson.loads(orjson.dumps(found)) == found


def test_nan_and_infinity_are_understood() -> None:
    """What JSON has not but many writers emit becomes floats, and can be written again."""
    assert json_text.loads(b'{"a": [Infinity, -Infinity]}') == {"a": [float("inf"), float("-inf")]}
    assert json_text.dumps({1: 10**30}) == b'{"1": 1000000000000000000000000000000}'
