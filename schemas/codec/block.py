"""A block: events as columns, in memory. Every codec reads and writes this one form.

A column is one of five shapes, by the field's kind:

- ``Numbers``: values and, for nullable kinds, which of them are known;
- ``Labels``: codes into a list of words; word 0 is always null (``None``);
- ``Texts``: one bytes object with the end of each text, and which are known;
- ``Bins``: sketches; row ``i`` owns ``keys[ends[i-1]:ends[i]]`` and the counts beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Numbers:
    """``values`` has the kind's dtype; unknown rows hold 0 there. ``known`` is None when every row is."""

    values: npt.NDArray[Any]
    known: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """``words[codes[i]]`` is the label of row ``i``; ``words[0]`` is None. Words are distinct UTF-8 bytes."""

    codes: npt.NDArray[Any]
    words: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Texts:
    """Row ``i`` is ``data[ends[i-1]:ends[i]]`` (``ends[-1]`` read as 0 for the first); unknown rows are empty."""

    data: bytes
    ends: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Bins:
    """Bin keys rise within a row; counts are above 0."""

    ends: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int16]
    counts: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Lists:
    """Row ``i`` is ``items[ends[i-1]:ends[i]]``; the items of all rows stand behind one another."""

    ends: npt.NDArray[np.int64]
    items: Numbers | Labels


Column = Numbers | Labels | Texts | Bins | Lists


@dataclass(frozen=True, slots=True)
class Block:
    """``rows`` events; every column has that many rows."""

    rows: int
    columns: dict[str, Column]

    def numbers(self, name: str) -> Numbers:
        """A column of numbers."""
        return _of(Numbers, self.columns[name])

    def labels(self, name: str) -> Labels:
        """A column of labels."""
        return _of(Labels, self.columns[name])

    def texts(self, name: str) -> Texts:
        """A column of texts."""
        return _of(Texts, self.columns[name])

    def bins(self, name: str) -> Bins:
        """A column of sketches."""
        return _of(Bins, self.columns[name])


_C = TypeVar("_C", Numbers, Labels, Texts, Bins)


def _of(shape: type[_C], column: Column) -> _C:
    assert isinstance(column, shape)
    return column
