"""Columns as somebody sent them, in the shape and width of their fields; rows that do not fit become problems."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Column, Labels, Lists, Numbers, Texts
from schemas.codec.parsed import Problem
from schemas.fields import Field, Kind


def fit(field: Field, index: int, column: Column, problems: list[Problem]) -> Column:
    """The column in the shape and width of its field; rows that do not fit become problems."""
    if isinstance(column, Numbers):
        return _fit_numbers(field, index, column, problems)
    if isinstance(column, Lists):
        return _fit_lists(field, index, column, problems)
    if isinstance(column, Bins):
        return _fit_bins(field, index, column, problems)
    if field.kind is Kind.LABEL:
        return column if isinstance(column, Labels) else _labels_of(column)
    texts = column if isinstance(column, Texts) else _texts_of(column)
    if field.kind is Kind.TEXT and texts.known is not None:
        if field.required:
            _note(problems, ~texts.known, index, "missing_field", f"{field.name} is null")
        return Texts(texts.data, texts.ends)
    return texts


def _fit_numbers(field: Field, index: int, column: Numbers, problems: list[Problem]) -> Numbers:
    values, known = column.values, column.known
    target = np.dtype(field.kind.numpy)
    if known is not None and known.all():
        known = None
    if not field.kind.optional and known is not None:
        _note(problems, ~known, index, "missing_field", f"{field.name} is null")
    unfit = np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        values, unfit = _whole(field, index, values, known, problems)
    elif values.dtype != target:
        low, high = (int(np.iinfo(target).min), int(np.iinfo(target).max))
        own = np.iinfo(values.dtype)
        unfit = (values < max(low, int(own.min))) | (values > min(high, int(own.max)))
        bad = unfit if known is None else unfit & known
        _note_values(problems, bad, index, "out_of_range", field, values, f"must fit {field.kind.value}")
    hidden = unfit if known is None else unfit | ~known
    if hidden.any():
        values = np.where(hidden, values.dtype.type(0), values)
    return Numbers(values.astype(target, copy=False), known if field.kind.optional else None)


def _whole(
    field: Field, index: int, values: npt.NDArray[Any], known: npt.NDArray[np.bool_] | None, problems: list[Problem]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Floats as whole numbers of the field's width, and which rows are none."""
    present = np.ones(len(values), dtype=bool) if known is None else known
    limits = np.iinfo(np.dtype(field.kind.numpy))
    finite = np.isfinite(values)
    whole = np.where(finite, values.astype(np.float64), 0.0)
    fractional = whole != np.floor(whole)
    # The upper bound is exclusive: 2^64 - 1 has no float of its own.
    outside = ~finite | (whole < float(limits.min)) | (whole >= float(int(limits.max) + 1))
    _note_values(problems, present & outside, index, "out_of_range", field, values, f"must fit {field.kind.value}")
    _note_values(
        problems, present & fractional & ~outside, index, "wrong_type", field, values, "must be a whole number"
    )
    unfit = outside | fractional
    return np.where(unfit, 0.0, whole).astype(field.kind.numpy), unfit


def _fit_lists(field: Field, index: int, column: Lists, problems: list[Problem]) -> Lists:
    """An item that does not fit is a problem of its row."""
    assert field.kind.item is not None
    found: list[Problem] = []
    items = fit(replace(field, kind=field.kind.item), index, column.items, found)
    assert isinstance(items, Numbers | Labels)
    rows = np.searchsorted(column.ends, [problem.row for problem in found], side="right").tolist()
    first = {row: replace(problem, row=row) for row, problem in zip(reversed(rows), reversed(found), strict=True)}
    problems += [first[row] for row in sorted(first)]
    return Lists(column.ends, items)


def _fit_bins(field: Field, index: int, column: Bins, problems: list[Problem]) -> Bins:
    keys, counts = column.keys, column.counts
    bad = np.zeros(len(keys), dtype=bool)
    if keys.dtype != np.dtype("<i2"):
        wide = keys.astype(np.float64)
        bad |= (wide < -(2**15)) | (wide >= 2**15)
    if counts.dtype.kind == "i":
        bad |= counts < 0
    if not bad.any():
        return Bins(column.ends, keys.astype(np.int16, copy=False), counts.astype(np.uint64, copy=False))
    rows = np.searchsorted(column.ends, np.flatnonzero(bad), side="right")
    unfit = np.zeros(len(column.ends), dtype=bool)
    unfit[rows] = True
    _note(problems, unfit, index, "bad_bins", f"{field.name}: a bin index or count does not fit {field.kind.value}")
    lengths = np.diff(column.ends, prepend=0)
    keep = ~np.repeat(unfit, lengths)
    ends = np.cumsum(np.where(unfit, 0, lengths), dtype=np.int64)
    return Bins(ends, keys[keep].astype(np.int16), counts[keep].astype(np.uint64))


def _note(problems: list[Problem], rows: npt.NDArray[np.bool_], index: int, reason: str, detail: str) -> None:
    problems.extend(Problem(int(row), index, reason, detail) for row in np.flatnonzero(rows))


def _note_values(
    problems: list[Problem],
    rows: npt.NDArray[np.bool_],
    index: int,
    reason: str,
    field: Field,
    values: npt.NDArray[Any],
    bound: str,
) -> None:
    for row in np.flatnonzero(rows).tolist():
        problems.append(Problem(row, index, reason, f"{field.name} = {values[row].item()}: {bound}"))


def _labels_of(texts: Texts) -> Labels:
    codes: dict[bytes | None, int] = {None: 0}
    known = None if texts.known is None else texts.known.tolist()
    column, start = np.zeros(len(texts.ends), dtype=np.int32), 0
    for row, end in enumerate(texts.ends.tolist()):
        if known is None or known[row]:
            column[row] = codes.setdefault(texts.data[start:end], len(codes))
        start = end
    return Labels(column, list(codes))


def _texts_of(labels: Labels) -> Texts:
    words = [word or b"" for word in labels.words]
    codes = labels.codes.tolist()
    ends = np.cumsum(np.array([len(words[code]) for code in codes], dtype=np.int64), dtype=np.int64)
    known = labels.codes != 0
    return Texts(b"".join(words[code] for code in codes), ends, None if known.all() else known)
