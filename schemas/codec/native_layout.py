"""How a canonical Native block of a field table looks, as flat arrays that compiled code can follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.codec.native import column_prefix
from schemas.fields import Field, Kind

FIXED, NULLABLE, LABEL, BINS, TEXT, NULLABLE_TEXT = range(6)
"""Shapes of a column; the walk has one branch for each."""

_SHAPES = {Kind.LABEL: LABEL, Kind.BINS: BINS, Kind.TEXT: TEXT, Kind.OPTIONAL_TEXT: NULLABLE_TEXT}
_BITS = (1 << 64) - 1


class Shapes(NamedTuple):
    """What the compiled walk knows of each column: the bytes before its data, its shape, where its values go.

    ``slot`` counts columns of one destination (32-bit numbers, 64-bit numbers, labels, sketches, texts); ``null_slot``
    counts nullable columns (0 for others, never looked at). A number ``v`` is inside its bounds when
    ``v - low <= span`` in unsigned arithmetic of its own width, which holds for signed and unsigned kinds alike.
    """

    prefixes: npt.NDArray[np.uint8]
    prefix_ends: npt.NDArray[np.int64]
    shape: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]
    null_slot: npt.NDArray[np.int64]
    low: npt.NDArray[np.uint64]
    span: npt.NDArray[np.uint64]
    required: npt.NDArray[np.bool_]


class ColumnPlace(NamedTuple):
    """Where one column of the block is found in the walk's arrays; ``null_slot`` is -1 where nothing can be null."""

    name: str
    group: str
    slot: int
    null_slot: int
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A field table as the walk sees it. ``sizes`` are the slots per destination."""

    fields: tuple[Field, ...]
    shapes: Shapes
    places: tuple[ColumnPlace, ...]
    sizes: dict[str, int]


@lru_cache(maxsize=256)
def layout_of(fields: tuple[Field, ...]) -> Layout:
    """The layout of canonical blocks of these fields. ``ValueError`` where one is a list."""
    for field in fields:
        if field.kind.item is not None:
            raise ValueError(f"{field.name} is a list: native.decode reads it, record by record")
    prefixes = [column_prefix(field) for field in fields]
    shapes = [_shape(field) for field in fields]
    groups = [_group(field) for field in fields]
    sizes = {name: groups.count(name) for name in ("n32", "n64", "labels", "sketches", "texts")}
    nullable = [shape in (NULLABLE, NULLABLE_TEXT) for shape in shapes]
    bounds = [_bounds(field) for field in fields]
    slots = _slots(groups)
    null_slots = np.where(nullable, np.cumsum(nullable) - 1, -1).astype(np.int64)
    shapes_of_all = Shapes(
        prefixes=np.frombuffer(b"".join(prefixes) + bytes(8), dtype=np.uint8),
        prefix_ends=np.cumsum([len(prefix) for prefix in prefixes], dtype=np.int64),
        shape=np.array(shapes, dtype=np.int64),
        width=np.array([4 if group == "n32" else 8 for group in groups], dtype=np.int64),
        slot=slots,
        null_slot=np.maximum(null_slots, 0),
        low=np.array([low & _BITS for low, _ in bounds], dtype=np.uint64),
        span=np.array([(high - low) & _BITS for low, high in bounds], dtype=np.uint64),
        required=np.array([field.required for field in fields], dtype=bool),
    )
    places = tuple(
        ColumnPlace(field.name, group, slot, null_slot, field.kind.numpy)
        for field, group, slot, null_slot in zip(fields, groups, slots.tolist(), null_slots.tolist(), strict=True)
    )
    return Layout(fields, shapes_of_all, places, {**sizes, "nullable": sum(nullable)})


def _shape(field: Field) -> int:
    return _SHAPES.get(field.kind, NULLABLE if field.kind.optional else FIXED)


def _group(field: Field) -> str:
    if field.kind is Kind.LABEL:
        return "labels"
    if field.kind is Kind.BINS:
        return "sketches"
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return "texts"
    return "n32" if np.dtype(field.kind.numpy).itemsize == 4 else "n64"


def _slots(groups: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.array([groups[:index].count(group) for index, group in enumerate(groups)], dtype=np.int64)


def _bounds(field: Field) -> tuple[int, int]:
    """Least and greatest value; the kind's own range where the field does not say."""
    if not field.kind.numpy:
        return 0, 0
    own: Any = np.iinfo(np.dtype(field.kind.numpy))
    low = int(own.min) if field.low is None else field.low
    return low, int(own.max) if field.high is None else field.high
