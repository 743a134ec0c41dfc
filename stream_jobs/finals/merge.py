"""Many blocks of partial rows of one window into one: a row per grouping set and series, in canonical order.

Order: grouping set by name, then the labels in wire order by their bytes, null first. The rules are those of
``schemas.ddl.merging``: counts, sums and bins add, min and max take the extreme, ``_last`` comes from the row with the
greatest last time, of several the greatest known one, null where none of those knows it. Whole numbers throughout, so
equal rows give equal bytes, in whatever order and cut they came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.native import concat
from schemas.fields import Kind
from schemas.rows.tables import EXEMPLARS, EXEMPLARS_MAX, EXEMPLARS_OF_CLIENT, Table
from stream_jobs.finals import kernels
from stream_jobs.windows import bin_kernels
from stream_jobs.windows.emit import compacted, packed

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Merged:
    """``newest`` is for each row of ``block`` the last of the input rows that went into it."""

    block: Block
    newest: Whole


@dataclass(frozen=True, slots=True)
class Groups:
    """Input rows by what they are about: group ``g`` is ``order[firsts[g]:firsts[g + 1]]``, rising."""

    order: Whole
    firsts: Whole

    def __len__(self) -> int:
        return len(self.firsts) - 1


def merge(table: Table, blocks: Sequence[Block]) -> Merged:
    """All rows of ``blocks``, which must be some and of one window; for tables of ``schemas.rows.tables.PARTIALS``."""
    block = concat(table.fields, blocks)
    assert block.rows > 0, "nothing to merge"
    names = [field.name for field in table.fields if field.kind is Kind.LABEL]
    labels = {name: sorted_labels(block.labels(name)) for name in names}
    groups = groups_of(list(labels.values()), block.rows)
    heads = groups.order[groups.firsts[:-1]]
    at, all_known = _values(block.numbers("last_at_ms")), np.ones(block.rows, np.bool_)
    columns: dict[str, Column] = {}
    for field in table.fields:
        name, column = field.name, block.columns[field.name]
        if isinstance(column, Labels):
            columns[name] = Labels(labels[name].codes[heads], labels[name].words)
        elif isinstance(column, Bins):
            columns[name] = _bins(column, groups)
        else:
            columns[name] = _numbers(name, block.numbers(name), groups, at, all_known)
    return Merged(Block(len(groups), columns), groups.order[groups.firsts[1:] - 1])


def sorted_labels(column: Labels) -> Labels:
    """The same labels by sorted words, so that codes compare as the words do; null first."""
    return Labels(*compacted(column.codes, column.words))


def groups_of(labels: Sequence[Labels], rows: int) -> Groups:
    """Rows of equal labels together, groups in the order of the (sorted) labels."""
    return groups_by([(column.codes.astype(np.int64), len(column.words)) for column in labels], rows)


def groups_by(columns: Sequence[tuple[Whole, int]], rows: int) -> Groups:
    """The same of columns of whole numbers, each with the number that all of its own are below; of some rows."""
    keys = packed(list(columns))
    order = np.lexsort(keys[::-1])
    begins = np.zeros(rows, np.bool_)
    begins[0] = True
    for key in keys:
        line = key[order]
        begins[1:] |= line[1:] != line[:-1]
    return Groups(order, np.append(np.flatnonzero(begins), rows))


def _values(column: Numbers) -> Whole:
    """The numbers as signed ones of 64 bits; sums of unsigned ones are the same bits."""
    values = column.values
    return values.view(np.int64) if values.itemsize == 8 else values.astype(np.int64)


def _numbers(name: str, column: Numbers, groups: Groups, at: Whole, all_known: Mask) -> Numbers:
    out, out_known = np.empty(len(groups), np.int64), np.empty(len(groups), np.bool_)
    known = all_known if column.known is None else column.known
    if name.endswith("_last"):
        kernels.latest(groups.order, groups.firsts, at, _values(column), known, out, out_known)
    else:
        _loop_of(name)(groups.order, groups.firsts, _values(column), known, out, out_known)
    dtype = column.values.dtype
    values = out.view(dtype) if dtype.itemsize == 8 else out.astype(dtype)
    return Numbers(values, None if column.known is None else out_known)


def _loop_of(name: str) -> Callable[..., None]:
    """By the end of a column's name, as ``schemas.ddl.merging`` has it."""
    if name.endswith(("_count", "_sum")):
        return kernels.add
    return kernels.least if name.endswith("_min") else kernels.greatest


def _bins(column: Bins, groups: Groups) -> Bins:
    ends = np.empty(len(groups), np.int64)
    keys, counts = np.empty(len(column.keys), np.int16), np.empty(len(column.keys), np.uint64)
    every = np.arange(len(groups))
    used = bin_kernels.merge_ready(
        every, groups.firsts, groups.order, column.ends, column.keys, column.counts, ends, keys, counts
    )
    return Bins(ends, keys[:used].copy(), counts[:used].copy())


_LENGTH_MAX = 128
"""Ids are shorter; longer ones would take too much room."""


def merge_exemplars(blocks: Sequence[Block]) -> Merged:
    """All rows of ``blocks``, which must be some and of one window, but for those that others are greater than: the
    greatest of every (engine, model) and metric stay. The slowest are those with the greatest (value, request id), the
    failed those that failed on our side, with the greatest request id, then what was aborted or the client's fault; a
    value that is not known is less than any. Order: engine, model, metric (null first), the greatest first."""
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
    """The greater the value, the lower. Of those that did not end well the ones that failed on our side come first, for
    the rest their order is that of their ids."""
    value = block.numbers("value_us")
    known = value.values if value.known is None else np.where(value.known, value.values, -1)
    is_failed = np.array([word == b"failed" for word in metric.words])[metric.codes]
    aborted, client = (
        np.array([word == at.encode() for word in block.labels(name).words], np.bool_)[block.labels(name).codes]
        for name, at in EXEMPLARS_OF_CLIENT.items()
    )
    return np.where(is_failed, aborted | client, -known)


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
