"""From sums to blocks: rows in their one canonical order, one block per target partition.

Order: target partition, window, grouping set, then the labels by their bytes (null first). So equal sums give equal
bytes, wherever batches were cut. Everything is done by whole columns; the only work per series is its target, once in
its life, and per word in use its place in the order. Sums are put in order one target at a time, so that beside them
there is never more than one target's share of copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Numbers
from schemas.contract.placement import first_known, join_key, place
from schemas.rows.tables import DEFINITION_VERSION
from stream_jobs.windows import bin_kernels
from stream_jobs.windows.histograms import Ready
from stream_jobs.windows.kernels import (
    DIFFERENCE_CELLS,
    EVENT_COUNT,
    GAUGE_CELLS,
    LAST_AT,
    SKETCH_CELLS,
    SKETCH_FROM,
    UNKNOWN,
)
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import Codes, Series, SeriesTable
from stream_jobs.windows.sums import Segment, Sums, bins_part

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a segment in canonical order. ``codes[d]`` index ``words[d]``, which rise and begin with null.

    ``sets`` are numbers of grouping sets; ``bins[h]`` is (ends, keys, counts) of the h-th histogram. Cells stay in the
    sums: row ``r`` has line ``lines[r]`` of those of its set.
    """

    targets: npt.NDArray[np.int32]
    windows: Whole
    sets: Whole
    lines: Whole
    codes: list[npt.NDArray[np.int64]]
    words: list[list[bytes | None]]
    bins: list[Bins]


def blocks_of(plan: Plan, segment: Segment, partitions: int) -> Iterator[tuple[int, Block]]:
    """Each target partition that gets rows of partials, rising, with their block."""
    if segment.rows == 0:
        return
    rows = _ordered(plan, segment, partitions)
    bounds = np.searchsorted(rows.targets, np.arange(partitions + 1)).tolist()
    for target, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            yield target, _block(plan, segment, rows, start, stop)


def _ordered(plan: Plan, segment: Segment, partitions: int) -> Rows:
    sums = segment.sums
    for table in segment.series.tables:
        _place_series(segment.series, table, partitions)
    codes, words = _canonical_codes(plan, segment)
    targets = np.concatenate([part.table.targets[part.row_series[: part.rows]] for part in sums])
    windows = np.concatenate([part.row_windows[: part.rows] for part in sums])
    sets = np.concatenate([np.full(part.rows, number, np.int64) for number, part in enumerate(sums)])
    lines = np.concatenate([np.arange(part.rows) for part in sums])
    keys = [(targets.astype(np.int64), partitions), (windows, 1 << 45), (sets, len(plan.sets))]
    keys += [(line, len(known)) for line, known in zip(codes, words, strict=True)]
    order = np.lexsort(packed(keys)[::-1])
    return Rows(
        targets=targets[order],
        windows=windows[order],
        sets=sets[order],
        lines=lines[order],
        codes=[line[order] for line in codes],
        words=words,
        bins=_ordered_bins(plan, segment, order),
    )


def packed(keys: list[tuple[Whole, int]]) -> list[Whole]:
    """Fewer sort keys of the same order: neighbours share a 63-bit number while their sizes fit."""
    packed: list[Whole] = []
    room = 0
    for key, size in keys:
        if size <= room:
            packed[-1] = packed[-1] * size + key
            room //= size
        else:
            packed.append(key)
            room = (1 << 62) // size
    return packed


def _place_series(series: Series, table: SeriesTable, partitions: int) -> None:
    """Find the target of every series that has none yet."""
    first, stop = table.targets_known, table.count
    if first == stop:
        return
    words = [series.words[position].words for position in table.positions.tolist()]
    lines = table.lines[first:stop].tolist()
    grouping = table.grouping
    if grouping.placed_by == "placement_group":
        names = [name for name in ("placement_group", "host") if name in grouping.dimensions]
        columns = [grouping.dimensions.index(name) for name in names]
        keys = (first_known([words[c][line[c]] for c in columns]) for line in lines)
    else:
        name = grouping.name.encode()
        keys = (join_key([name, *(w[code] for w, code in zip(words, line, strict=True))]) for line in lines)
    targets: dict[bytes, int] = {}
    table.targets[first:stop] = [
        targets[key] if key in targets else targets.setdefault(key, place(key, partitions)) for key in keys
    ]
    table.targets_known = stop


def _canonical_codes(plan: Plan, segment: Segment) -> tuple[list[Whole], list[list[bytes | None]]]:
    """Per dimension the codes of all rows into the sorted words in use."""
    sums = segment.sums
    codes, words = [], []
    for position in range(len(plan.dimensions)):
        parts = [_dimension(part, position) for part in sums]
        line = np.concatenate(parts)
        codes_sorted, words_sorted = compacted(line, segment.series.words[position].words)
        codes.append(codes_sorted)
        words.append(words_sorted)
    return codes, words


def _dimension(part: Sums, position: int) -> Codes:
    columns = np.flatnonzero(part.table.positions == position)
    if len(columns) == 0:
        return np.zeros(part.rows, np.int32)
    return part.table.lines[part.row_series[: part.rows], columns[0]]


def compacted(codes: npt.NDArray[np.int32] | Whole, words: list[bytes | None]) -> tuple[Whole, list[bytes | None]]:
    """The same labels with only the words in use, null first and the others rising."""
    used = np.zeros(len(words), np.bool_)
    used[codes] = True
    used[0] = False
    numbers = np.flatnonzero(used)
    found = [words[number] or b"" for number in numbers.tolist()]
    order = sorted(range(len(found)), key=found.__getitem__)
    ranks = np.zeros(len(words), np.int64)
    ranks[numbers[order]] = np.arange(1, len(found) + 1)
    return ranks[codes], [None, *(found[place] for place in order)]


def _ordered_bins(plan: Plan, segment: Segment, order: Whole) -> list[Bins]:
    """Bins of all rows by histogram, in the order of the rows."""
    if not plan.histograms:
        return []
    firsts, events = _grouped(segment)
    histograms = segment.histograms
    return [
        *(_values_merged(order, firsts, events, found) for found in histograms.values()),
        *(_ready_merged(order, firsts, events, ready, len(segment.sums)) for ready in histograms.ready),
    ]


def _grouped(segment: Segment) -> tuple[Whole, Whole]:
    """The events of every row, of all grouping sets: those of row ``r`` are ``events[firsts[r]:firsts[r + 1]]``."""
    lines = [np.concatenate(part.lines) for part in segment.sums]
    bases = np.cumsum([0, *(part.rows for part in segment.sums)]).tolist()
    firsts = np.zeros(segment.rows + 1, np.int64)
    for line, base in zip(lines, bases, strict=False):
        bin_kernels.count_events(line, base, firsts[1:])
    np.cumsum(firsts, out=firsts)
    cursors, events = firsts[:-1].copy(), np.empty(firsts[-1], np.int64)
    for line, base in zip(lines, bases, strict=False):
        bin_kernels.group_events(line, base, cursors, events)
    return firsts, events


def _values_merged(order: Whole, firsts: Whole, events: Whole, found: npt.NDArray[np.int16]) -> Bins:
    ends, keys, counts = _room(order, len(events))
    bins = bin_kernels.merge_values(order, firsts, events, found, ends, keys, counts)
    return Bins(ends, keys[:bins], counts[:bins])


def _ready_merged(order: Whole, firsts: Whole, events: Whole, ready: Ready, sets: int) -> Bins:
    ends, keys, counts = _room(order, ready.pairs * sets)
    bins = bin_kernels.merge_kept(order, firsts, events, ready.ends, ready.keys, ready.less_one, ends, keys, counts)
    return Bins(ends, keys[:bins], counts[:bins])


def _room(order: Whole, bins_max: int) -> tuple[Whole, npt.NDArray[np.int16], npt.NDArray[np.uint64]]:
    """Ends, keys and counts; what is not written to costs no memory."""
    return np.empty(len(order), np.int64), np.empty(bins_max, np.int16), np.empty(bins_max, np.uint64)


def _cells(plan: Plan, segment: Segment, rows: Rows, start: int, stop: int) -> Whole:
    """The cells of rows ``[start, stop)``: one line per cell."""
    if len(segment.sums) == 1:
        return np.ascontiguousarray(segment.sums[0].cells[rows.lines[start:stop]].T)
    found = np.empty((plan.cells, stop - start), np.int64)
    for number, part in enumerate(segment.sums):
        own = np.flatnonzero(rows.sets[start:stop] == number)
        found[:, own] = part.cells[rows.lines[start + own]].T
    return found


def _block(plan: Plan, segment: Segment, rows: Rows, start: int, stop: int) -> Block:
    cells = _cells(plan, segment, rows, start, stop)
    columns: dict[str, Column] = {
        "window_ms": Numbers(rows.windows[start:stop]),
        "event_count": Numbers(cells[EVENT_COUNT].view(np.uint64)),
        "last_at_ms": Numbers(cells[LAST_AT]),
        "definition_version": Numbers(np.full(stop - start, DEFINITION_VERSION, np.uint32)),
    }
    base = SKETCH_FROM
    for field in plan.sketches:
        columns |= _spread(field.name, cells[base : base + SKETCH_CELLS])
        base += SKETCH_CELLS
    for field in plan.gauges:
        columns |= _spread(field.name, cells[base : base + SKETCH_CELLS])
        columns[f"{field.name}_last"] = _known(cells[base + SKETCH_CELLS], cells[base + SKETCH_CELLS] != UNKNOWN)
        base += GAUGE_CELLS
    for field in plan.differences + plan.computed:
        columns[f"{field.name}_sum"] = _known(cells[base + 1], cells[base] > 0)
        base += DIFFERENCE_CELLS
    columns |= _labels(plan, rows, start, stop)
    for name, bins in zip(plan.histograms, rows.bins, strict=True):
        columns[name] = bins_part(bins, start, stop)
    return Block(stop - start, columns)


def _spread(name: str, cells: Whole) -> dict[str, Column]:
    count, total, least, greatest = cells[:SKETCH_CELLS]
    known = count > 0
    return {
        f"{name}_count": Numbers(count.view(np.uint64)),
        f"{name}_sum": Numbers(total),
        f"{name}_min": _known(least, known),
        f"{name}_max": _known(greatest, known),
    }


def _known(values: Whole, known: npt.NDArray[np.bool_]) -> Numbers:
    values[~known] = 0
    return Numbers(values, known)


def _labels(plan: Plan, rows: Rows, start: int, stop: int) -> dict[str, Column]:
    names: list[bytes | None] = [None, *(grouping.name.encode() for grouping in plan.sets)]
    columns: dict[str, Column] = {"grouping": Labels(*compacted(rows.sets[start:stop] + 1, names))}
    for name, codes, words in zip(plan.dimensions, rows.codes, rows.words, strict=True):
        columns[name] = Labels(*compacted(codes[start:stop], words))
    for name in plan.unkept_dimensions:
        columns[name] = Labels(np.zeros(stop - start, np.int64), [None])
    return columns


def part_of(block: Block, start: int, stop: int) -> Block:
    """Rows ``[start, stop)`` of a block of partials."""
    columns: dict[str, Column] = {}
    for name, column in block.columns.items():
        if isinstance(column, Numbers):
            known = None if column.known is None else column.known[start:stop]
            columns[name] = Numbers(column.values[start:stop], known)
        elif isinstance(column, Labels):
            columns[name] = Labels(*compacted(column.codes[start:stop], column.words))
        else:
            assert isinstance(column, Bins)
            columns[name] = bins_part(column, start, stop)
    return Block(stop - start, columns)
