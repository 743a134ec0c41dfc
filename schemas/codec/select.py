"""Rows of a block by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Lists, Numbers, Texts

Mask = npt.NDArray[np.bool_]


def select(block: Block, keep: Mask) -> Block:
    """The rows where ``keep`` (bool, one per row) holds, in order; the block itself when that is all of them."""
    assert len(keep) == block.rows
    if keep.all():
        return block
    rows = int(keep.sum())
    return Block(rows, {name: _column(column, keep) for name, column in block.columns.items()})


def _column(column: Column, keep: Mask) -> Column:
    match column:
        case Numbers(values, known):
            return Numbers(values[keep], None if known is None else known[keep])
        case Labels(codes, words):
            return Labels(codes[keep], words)
        case Texts(data, ends, known):
            ends_kept, inside = _spans(ends, keep)
            kept = np.frombuffer(data, np.uint8)[inside].tobytes()
            return Texts(kept, ends_kept, None if known is None else known[keep])
        case Bins(ends, keys, counts):
            ends_kept, inside = _spans(ends, keep)
            return Bins(ends_kept, keys[inside], counts[inside])
        case Lists(ends, items):
            ends_kept, inside = _spans(ends, keep)
            kept_items = _column(items, inside)
            assert isinstance(kept_items, Numbers | Labels)
            return Lists(ends_kept, kept_items)


def _spans(ends: npt.NDArray[Any], keep: Mask) -> tuple[npt.NDArray[np.int64], Mask]:
    """Ends of the kept spans, and which elements lie in them."""
    lengths = np.asarray(np.diff(ends.astype(np.int64), prepend=0), np.int64)
    return np.cumsum(lengths[keep]), np.repeat(keep, lengths)
