"""From rows of finals to rows per series of a rule: one grouping set, some rows of it, merged by some of its labels.

What comes out has the columns of the view and the same rules of merging (``schemas.ddl.merging``), so that it can
be merged again: the 10 s parts of a longer window are projected one by one and brought together at its end. Whole
numbers and bins alone: the order of rows and of parts changes nothing but the order of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec import native
from schemas.codec.block import Bins, Block, Column, Labels, Numbers
from schemas.events.grouping import OTHER
from schemas.fields import Field, Kind, Role
from schemas.rows.tables import PARTIALS
from stream_jobs.insight import group_kernels as kernels
from stream_jobs.insight.frame import Mask, Whole
from stream_jobs.insight.lexicon import Lexicon
from stream_jobs.rules.model import Where
from stream_jobs.windows.bin_kernels import merge_ready

EVENTS = "event_count"
LATEST_AT = "last_at_ms"

_LEAST = np.iinfo(np.int64).min


def match_name(match: Where) -> str:
    """Name of the column that counts the events which match."""
    return f"match:{match.dimension}{' not' if match.negated else ''} in {match.one_of!r}"


@dataclass(frozen=True)
class View:
    """What is needed of a topic: rows of ``grouping`` where all of ``where`` hold, by ``by``.

    ``columns`` are names of its partials columns, ``matches`` conditions whose events are counted apart. Slots are
    left out because the table of fields is kept.
    """

    topic: str
    grouping: str
    by: tuple[str, ...]
    where: tuple[Where, ...] = ()
    columns: tuple[str, ...] = (EVENTS,)
    matches: tuple[Where, ...] = ()

    @property
    def key(self) -> tuple[str, str, tuple[str, ...], tuple[Where, ...]]:
        """What two views must share to be computed as one."""
        return self.topic, self.grouping, self.by, self.where

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """Columns of what comes out, in order: numbers, labels, bins."""
        known = {field.name: field for field in PARTIALS[self.topic].fields}
        picked = [field for name, field in known.items() if name in self.columns]
        counts = [Field(match_name(match), Kind.UINT64, Role.DIFFERENCE, "", "events") for match in self.matches]
        numbers = [field for field in picked if field.kind is not Kind.BINS]
        bins = [field for field in picked if field.kind is Kind.BINS]
        return (*numbers, *counts, *(known[name] for name in self.by), *bins)


def project(view: View, block: Block) -> Block:
    """Rows of ``block`` (columns of the topic's partials) that ``view`` asks for, one per distinct value of ``by``."""
    rows = _rows(view, block)
    given = {name: block.labels(name) for name in view.by}
    columns = {name: block.columns[name] for name in view.columns}
    for match in view.matches:
        columns[match_name(match)] = _matching(block, match)
    return _merged(view, Groups(rows, list(given.values())), {**columns, **given})


def merge(view: View, parts: Sequence[Block]) -> Block:
    """Projected rows of several parts of a window as one."""
    if len(parts) == 1:
        return parts[0]
    whole = native.concat(view.fields, _alike(view, parts))
    rows = np.arange(whole.rows, dtype=np.int64)
    return _merged(view, Groups(rows, [whole.labels(name) for name in view.by]), whole.columns)


def _alike(view: View, parts: Sequence[Block]) -> list[Block]:
    """The parts with labels over the lexicons of the last one, where it has some."""
    wanted = {name: words for name in view.by if isinstance(words := parts[-1].labels(name).words, Lexicon)}
    return [Block(part.rows, {**part.columns, **_recoded(part, wanted)}) for part in parts]


def _recoded(part: Block, wanted: Mapping[str, Lexicon]) -> dict[str, Column]:
    return {
        name: Labels(lexicon.take(column.words)[column.codes], lexicon)
        for name, lexicon in wanted.items()
        if (column := part.labels(name)).words is not lexicon
    }


def holds(where: Where, words: Sequence[bytes | None]) -> Mask:
    """For each word whether the condition holds."""
    wanted = {None if word is None else word.encode() for word in where.one_of}
    return np.array([(word in wanted) != where.negated for word in words], dtype=np.bool_)


class Groups:
    """Which of the chosen rows have equal labels. ``count`` groups; ``of[i]`` is that of ``rows[i]``."""

    def __init__(self, rows: Whole, labels: Sequence[Labels]) -> None:
        self.rows = rows
        self.codes = codes_of(labels, rows)
        of, firsts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        self.count = kernels.group_rows(self.codes, an_index(len(rows)), of, firsts)
        self.of, self.firsts = of, firsts[: self.count]

    @property
    def single(self) -> bool:
        """True when every group is one row: then nothing needs adding up."""
        return self.count == len(self.rows)

    @cached_property
    def members(self) -> tuple[Whole, Whole]:
        """First place of each group (one more at the end) and the rows behind one another."""
        firsts, members = np.zeros(self.count + 1, np.int64), np.empty(len(self.rows), np.int64)
        kernels.spread(self.of, self.rows, firsts, members)
        return firsts, members


def an_index(lines: int) -> Whole:
    """An empty index with room for so many lines."""
    return np.full(1 << max(4, (2 * lines).bit_length()), kernels.NOWHERE, np.int64)


def codes_of(labels: Sequence[Labels], rows: Whole) -> npt.NDArray[np.int32]:
    """Codes of rows, (rows, dimensions)."""
    out = np.empty((len(rows), len(labels)), np.int32)
    for place, column in enumerate(labels):
        out[:, place] = column.codes[rows]
    return out


def _rows(view: View, block: Block) -> Whole:
    """Rows that count. ``__other__`` is no series: what stands for all beyond the limit has no baseline."""
    keep = _matched(block.labels("grouping"), Where("grouping", (view.grouping,)))
    for where in (*view.where, *(Where(name, (OTHER,), negated=True) for name in view.by)):
        keep &= _matched(block.labels(where.dimension), where)
    return np.flatnonzero(keep)


def _matched(column: Labels, where: Where) -> Mask:
    if isinstance(column.words, Lexicon):
        found = np.zeros(len(column.codes), np.bool_)
        for word in where.one_of:
            found |= column.codes == column.words.code(word)
        return ~found if where.negated else found
    return holds(where, column.words)[column.codes]


def _matching(block: Block, match: Where) -> Numbers:
    """Events of rows where the condition holds, 0 elsewhere."""
    events = block.numbers(EVENTS).values
    return Numbers(np.where(_matched(block.labels(match.dimension), match), events, np.uint64(0)))


def _merged(view: View, groups: Groups, columns: Mapping[str, Column]) -> Block:
    at = columns.get(LATEST_AT)
    merged: dict[str, Column] = {}
    for field in view.fields:
        column = columns[field.name]
        match column:
            case Labels():
                place = view.by.index(field.name)
                merged[field.name] = _used_words(groups.codes[groups.firsts, place], column.words)
            case Bins():
                merged[field.name] = _merged_bins(groups, column)
            case Numbers():
                merged[field.name] = _merged_numbers(field, groups, column, at)
    return Block(groups.count, merged)


def _used_words(codes: npt.NDArray[np.int32], words: Sequence[bytes | None]) -> Labels:
    """The column with only the words in use, null first; codes of a lexicon stay as they are."""
    if isinstance(words, Lexicon):
        return Labels(codes, words)
    used = np.zeros(len(words), np.bool_)
    used[codes] = True
    used[0] = False
    numbers = np.flatnonzero(used)
    places = np.zeros(len(words), np.int32)
    places[numbers] = np.arange(1, len(numbers) + 1, dtype=np.int32)
    return Labels(places[codes], [None, *(words[number] for number in numbers.tolist())])


def _merged_numbers(field: Field, groups: Groups, column: Numbers, at: Column | None) -> Numbers:
    if groups.single:
        known = None if column.known is None else column.known[groups.rows]
        return Numbers(column.values[groups.rows], known)
    values = plain(column.values, np.int64)
    known = np.empty(0, np.bool_) if column.known is None else plain(column.known, np.bool_)
    out, seen = np.zeros(groups.count, np.int64), np.zeros(groups.count, np.bool_)
    if field.name.endswith("_last"):
        assert isinstance(at, Numbers)
        newest = np.full(groups.count, _LEAST, np.int64)
        kernels.latest(groups.rows, groups.of, plain(at.values, np.int64), values, known, out, seen, newest)
    elif field.name == LATEST_AT or field.name.endswith(("_min", "_max")):
        sign = 1 if field.name.endswith("_min") else -1
        kernels.least(groups.rows, groups.of, values, known, sign, out, seen)
    else:
        kernels.add_up(groups.rows, groups.of, values, known, out, seen)
    return Numbers(out.astype(field.kind.numpy, copy=False), None if seen.all() else seen)


def _merged_bins(groups: Groups, column: Bins) -> Bins:
    ends, keys = plain(column.ends, np.int64), plain(column.keys, np.int16)
    counts = plain(column.counts, np.uint64)
    firsts, members = groups.members
    lengths = np.diff(ends, prepend=0)
    room = int(lengths[groups.rows].sum())
    out_keys, out_counts = np.empty(room, np.int16), np.empty(room, np.uint64)
    out_ends = np.empty(groups.count, np.int64)
    order = np.arange(groups.count, dtype=np.int64)
    used = merge_ready(order, firsts, members, ends, keys, counts, out_ends, out_keys, out_counts)
    return Bins(out_ends, out_keys[:used].copy(), out_counts[:used].copy())


def plain(values: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """As the compiled loops want it: of one type, contiguous, aligned, writable; no copy where it is so already.

    Numbers of 64 bits keep their bits: sums of ours stay far below 2^63.
    """
    if values.dtype.itemsize == np.dtype(dtype).itemsize and values.dtype.kind in "iu":
        values = values.view(dtype)
    return np.require(values, dtype, ["C", "A", "W"])
