"""Merging exemplars: unite, and keep the greatest of every (engine, model) and metric again.

The slowest are those with the greatest (value, request id), the failed those with the greatest request id; a value that
is not known is less than any. Order of what is kept: engine, model, metric (null first), the greatest first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block, Column, Labels, Numbers, Texts
from schemas.codec.native import concat
from schemas.rows.tables import EXEMPLARS, EXEMPLARS_MAX
from stream_jobs.finals.merge import Merged, groups_of, sorted_labels

Whole = npt.NDArray[np.int64]

_LENGTH_MAX = 128
"""Ids are shorter; longer ones would take too much room."""


def merge_exemplars(blocks: Sequence[Block]) -> Merged:
    """All rows of ``blocks``, which must be some and of one window, but for those that others are greater than."""
    block = concat(EXEMPLARS.fields, blocks)
    labels = [sorted_labels(block.labels(name)) for name in ("engine_id", "model", "metric")]
    groups = groups_of(labels, block.rows)
    group_of = np.empty(block.rows, np.int64)
    group_of[groups.order] = np.repeat(np.arange(len(groups)), np.diff(groups.firsts))
    metric = labels[2]
    trace, request = _ranks(block.texts("trace_id")), _ranks(block.texts("request_id"))
    order = np.lexsort((-trace, -request, _places(block, metric), group_of))
    rank = np.arange(block.rows) - groups.firsts[group_of[order]]
    most = np.array([0 if word is None else EXEMPLARS_MAX.get(word.decode(), 0) for word in metric.words])
    kept = order[rank < most[metric.codes[order]]]
    return Merged(Block(len(kept), {name: _picked(column, kept) for name, column in block.columns.items()}), kept)


def _places(block: Block, metric: Labels) -> Whole:
    """The greater the value, the lower; the same for all that failed, whose order is that of their ids."""
    value = block.numbers("value_us")
    known = value.values if value.known is None else np.where(value.known, value.values, -1)
    is_failed = np.array([word == b"failed" for word in metric.words])[metric.codes]
    return np.where(is_failed, 0, -known)


def _ranks(column: Texts) -> Whole:
    """Numbers that compare as the texts do. All texts are filled up with zeros to the longest, as numpy wants them;
    where that makes two equal, the shorter is less. Texts of unusual length are compared one by one."""
    lengths = np.diff(column.ends, prepend=0)
    longest = int(lengths.max(initial=1))
    if longest > _LENGTH_MAX:
        texts = _texts(column)
        places = {text: place for place, text in enumerate(sorted(set(texts)))}
        return np.array([places[text] for text in texts], np.int64)
    room = np.zeros((len(lengths), longest), np.uint8)
    room[np.arange(longest) < lengths[:, None]] = np.frombuffer(column.data, np.uint8)
    texts_filled = room.view(f"S{longest}").ravel()
    order = np.lexsort((lengths, texts_filled))
    line, sizes, ranks = texts_filled[order], lengths[order], np.zeros(len(order), np.int64)
    ranks[order[1:]] = np.cumsum((line[1:] != line[:-1]) | (sizes[1:] != sizes[:-1]))
    return ranks


def _texts(column: Texts) -> list[bytes]:
    ends = column.ends.tolist()
    return [column.data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _picked(column: Column, rows: Whole) -> Column:
    """These rows of a column, in this order."""
    if isinstance(column, Numbers):
        return Numbers(column.values[rows], None if column.known is None else column.known[rows])
    if isinstance(column, Labels):
        found = sorted_labels(column)
        return sorted_labels(Labels(found.codes[rows], found.words))
    assert isinstance(column, Texts)
    texts = _texts(column)
    picked = [texts[row] for row in rows.tolist()]
    ends = np.cumsum([len(text) for text in picked], dtype=np.int64)
    return Texts(b"".join(picked), ends, None if column.known is None else column.known[rows])
