"""Python values (parsed JSON, rows made in code) to columns, and back.

Rules: numbers are whole (``3.0`` counts as 3, a bool or a string never does); labels and texts are strings or bytes;
sketches are maps of bin index (number or its text) to count; of lists null is the empty one.
None and a missing value are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from schemas.codec.block import Bins, Column, Labels, Lists, Numbers, Texts
from schemas.codec.parsed import Problem
from schemas.fields import Field, Kind

_BIN_INDEX = re.compile(r"-?[0-9]{1,5}", re.ASCII)
_STRINGS = {str, type(None)}
_SHOWN_MAX = 80
"""Characters of an offending value that a detail repeats."""
DEPTH_MAX = 100


class ValueProblem(Exception):
    """One value does not fit its field. Carries reason and detail; never leaves this package."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def shown(value: object) -> str:
    """The value as a detail repeats it, cut to 80 characters."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str | bytes):
        value = value[:_SHOWN_MAX]
    if is_deep(value):
        return f"a value nested more than {DEPTH_MAX} deep"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def is_deep(value: object) -> bool:
    """Whether lists and objects are nested so that writing the value as text could fail, whoever calls."""
    level: list[Any] = [value]
    for _ in range(DEPTH_MAX + 1):
        held = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [each for one in held for each in one]
        if not level:
            return False
    return True


def column_of(field: Field, index: int, values: Sequence[Any]) -> tuple[Column, list[Problem]]:
    """The column of these values (one per row), and the rows whose value does not fit: they hold null, 0 or empty."""
    if field.kind.item is not None:
        return _lists(field, index, values)
    if field.kind is Kind.LABEL:
        return _labels(field, index, values)
    if field.kind is Kind.BINS:
        return _bins(field, index, values)
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return _texts(field, index, values)
    return _numbers(field, index, values)


def _numbers(field: Field, index: int, values: Sequence[Any]) -> tuple[Numbers, list[Problem]]:
    dtype = np.dtype(field.kind.numpy)
    bounds = np.iinfo(dtype)
    types = set(map(type, values))
    problems: list[Problem] = []
    if not types <= {int, type(None)} or (type(None) in types and not field.kind.optional):
        values = _each(index, values, lambda value: _whole(field, value), problems)
        types = set(map(type, values))
    whole: Sequence[Any] = values
    if type(None) in types:
        whole = [0 if value is None else value for value in values]
    if len(whole) and not (bounds.min <= min(whole) and max(whole) <= bounds.max):
        low, high = int(bounds.min), int(bounds.max)
        values = _each(index, values, lambda value: _inside(field, value, low, high), problems)
        whole = [0 if value is None else value for value in values]
    known = np.array([value is not None for value in values], dtype=bool) if field.kind.optional else None
    if known is not None and known.all():
        known = None
    return Numbers(np.array(whole, dtype=dtype), known), problems


def _each(
    index: int, values: Sequence[Any], convert: Callable[[Any], Any], problems: list[Problem], stand_in: Any = None
) -> list[Any]:
    """Every value converted; one that cannot be becomes ``stand_in`` and a problem."""
    out: list[Any] = []
    for row, value in enumerate(values):
        try:
            out.append(convert(value))
        except ValueProblem as problem:
            problems.append(Problem(row, index, problem.reason, problem.detail))
            out.append(stand_in)
    return out


def _whole(field: Field, value: Any) -> int | None:
    if value is None:
        if field.kind.optional:
            return None
        raise ValueProblem("missing_field", f"{field.name} is missing or null")
    if type(value) is int:
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueProblem("out_of_range", f"{field.name} = {value}: must be a finite number")
        if value.is_integer():
            return int(value)
    raise ValueProblem("wrong_type", f"{field.name} = {shown(value)}: must be a whole number")


def _inside(field: Field, value: int | None, low: int, high: int) -> int | None:
    if value is None or low <= value <= high:
        return value
    raise ValueProblem("out_of_range", f"{field.name} = {shown(value)}: must fit {field.kind.value}")


def _text_bytes(field: Field, value: Any) -> bytes | None:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise ValueProblem("wrong_type", f"{field.name} = {shown(value)}: is not valid Unicode") from None
    if value is None or isinstance(value, bytes):
        return value
    raise ValueProblem("wrong_type", f"{field.name} = {shown(value)}: must be a string")


def _labels(field: Field, index: int, values: Sequence[Any]) -> tuple[Labels, list[Problem]]:
    problems: list[Problem] = []
    if not set(map(type, values)) <= _STRINGS:
        values = _each(index, values, lambda value: _text_bytes(field, value), problems)
    codes: dict[Any, int] = {None: 0}
    column = np.array([codes.setdefault(word, len(codes)) for word in values], dtype=np.int32)
    try:
        words = [word.encode() if isinstance(word, str) else word for word in codes]
    except UnicodeEncodeError:
        return _labels(field, index, _each(index, values, lambda value: _text_bytes(field, value), problems))[
            0
        ], problems
    if len(set(words)) == len(words):
        return Labels(column, words), problems
    places: dict[bytes | None, int] = {}
    remap = np.array([places.setdefault(word, len(places)) for word in words], dtype=np.int32)
    return Labels(remap[column], list(places)), problems


def _texts(field: Field, index: int, values: Sequence[Any]) -> tuple[Texts, list[Problem]]:
    problems: list[Problem] = []
    if set(map(type, values)) == {str} and (joined := "".join(values)).isascii():
        ends = np.fromiter(accumulate(map(len, values)), dtype=np.int64, count=len(values))
        return Texts(joined.encode(), ends), problems
    texts = _each(index, values, lambda value: _required_text(field, value), problems)
    known = None
    if field.kind.optional and None in texts:
        known = np.array([text is not None for text in texts], dtype=bool)
    filled = [text or b"" for text in texts]
    ends = np.fromiter(accumulate(map(len, filled)), dtype=np.int64, count=len(filled))
    return Texts(b"".join(filled), ends, known), problems


def _required_text(field: Field, value: Any) -> bytes | None:
    text = _text_bytes(field, value)
    if text is None and field.required:
        raise ValueProblem("missing_field", f"{field.name} is missing or null")
    return text


def _bins(field: Field, index: int, values: Sequence[Any]) -> tuple[Bins, list[Problem]]:
    sketches = [{} if value is None else value for value in values]
    plain = _plain_bins(sketches) if set(map(type, sketches)) <= {dict} else None
    if plain is not None:
        return plain, []
    problems: list[Problem] = []
    rows = _each(index, values, lambda value: _sketch(field, value), problems, [])
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.int64, count=len(rows))
    pairs = [pair for row in rows for pair in row]
    keys = np.array([key for key, _ in pairs], dtype=np.int16)
    counts = np.array([count for _, count in pairs], dtype=np.uint64)
    return Bins(ends, keys, counts), problems


def _lists(field: Field, index: int, values: Sequence[Any]) -> tuple[Lists, list[Problem]]:
    assert field.kind.item is not None
    problems: list[Problem] = []
    rows = _each(index, values, lambda value: _items(field, value), problems, [])
    ends = np.fromiter(accumulate(map(len, rows)), dtype=np.int64, count=len(rows))
    item, flat = replace(field, kind=field.kind.item), [value for row in rows for value in row]
    items, found = column_of(item, index, flat)
    assert isinstance(items, Numbers | Labels)
    of = np.searchsorted(ends, [problem.row for problem in found], side="right").tolist()
    first = {row: replace(problem, row=row) for row, problem in zip(reversed(of), reversed(found), strict=True)}
    return Lists(ends, items), problems + [first[row] for row in sorted(first)]


def _items(field: Field, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueProblem("wrong_type", f"{field.name} = {shown(value)}: must be a list")
    return value


def _plain_bins(sketches: Sequence[dict[Any, Any]]) -> Bins | None:
    """The column when every index and count is what it should be and indexes rise, as from a careful writer."""
    counts = [count for sketch in sketches for count in sketch.values()]
    keys = [key for sketch in sketches for key in sketch]
    if not set(map(type, counts)) <= {int} or not set(map(type, keys)) <= {int, str}:
        return None
    indexes = {key: int(key) for key in set(keys) if isinstance(key, int) or _BIN_INDEX.fullmatch(key)}
    if len(indexes) < len(set(keys)):
        return None
    whole = np.array([indexes[key] for key in keys], dtype=np.int64)
    ends = np.fromiter(accumulate(map(len, sketches)), dtype=np.int64, count=len(sketches))
    falls = np.flatnonzero(whole[1:] <= whole[:-1]) + 1
    if not np.isin(falls, ends).all() or (counts and (min(counts) < 0 or max(counts) >= 2**64)):
        return None
    if len(whole) and (whole.min() < -(2**15) or whole.max() >= 2**15):
        return None
    return Bins(ends, whole.astype(np.int16), np.array(counts, dtype=np.uint64))


def _sketch(field: Field, value: Any) -> list[tuple[int, int]]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        raise ValueProblem("wrong_type", f"{field.name} = {shown(value)}: must be a map of bin index to count")
    pairs = sorted((_bin_key(field, key), _bin_count(field, count)) for key, count in value.items())
    if any(left[0] == right[0] for left, right in pairwise(pairs)):
        raise ValueProblem("bad_bins", f"{field.name} has a bin twice")
    return pairs


def _bin_key(field: Field, key: Any) -> int:
    if isinstance(key, str) and len(key) <= 6 and key.isascii() and key.removeprefix("-").isdigit():
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, int | np.integer) or not -(2**15) <= key < 2**15:
        raise ValueProblem("bad_bins", f"{field.name}: bin index {shown(key)} must be a 16-bit whole number")
    return int(key)


def _bin_count(field: Field, count: Any) -> int:
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 0 <= count < 2**64:
        raise ValueProblem("bad_bins", f"{field.name}: count {shown(count)} must be a whole number of 64 bits")
    return int(count)


def values_of(column: Column) -> list[Any]:
    """The column as Python values: ints, str (bytes that are no UTF-8 replaced), maps of bin index to count, lists."""
    if isinstance(column, Numbers):
        return _nulled(column.values.tolist(), column.known)
    if isinstance(column, Labels):
        words = [None if word is None else word.decode(errors="replace") for word in column.words]
        return [words[code] for code in column.codes.tolist()]
    ends = column.ends.tolist()
    if isinstance(column, Lists):
        items = values_of(column.items)
        return [items[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
    ranges = zip([0, *ends[:-1]], ends, strict=True) if ends else ()
    if isinstance(column, Texts):
        return _nulled([column.data[a:b].decode(errors="replace") for a, b in ranges], column.known)
    keys, counts = column.keys.tolist(), column.counts.tolist()
    return [dict(zip(keys[a:b], counts[a:b], strict=True)) for a, b in ranges]


def _nulled(values: list[Any], known: Any) -> list[Any]:
    if known is None:
        return values
    return [value if is_known else None for value, is_known in zip(values, known.tolist(), strict=True)]
