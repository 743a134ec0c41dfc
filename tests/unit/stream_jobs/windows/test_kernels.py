"""The compiled loops against plain numpy, and that each is compiled for one form of its input only."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import sketch
from schemas.rows.tables import PARTIALS
from stream_jobs.windows import bin_kernels, kernels
from stream_jobs.windows.warm import compiled, warm
from stream_jobs.windows.watermark import announced_ms, watermark_ms
from tests.merged_rows import merge_rows
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    expected,
    fold_all,
)


def bins_of(values: list[int]) -> list[int]:
    out = np.empty((1, len(values)), np.int16)
    bin_kernels.bins_of(np.array([values], np.int64), out)
    return out[0].tolist()


def test_bins_agree_with_the_grid_around_every_bound() -> None:
    """On, before and after each bound of the grid the bin is that of ``schemas.sketch``."""
    bounds = sketch.BOUNDS
    values = np.unique(np.concatenate((bounds - 1, bounds, bounds + 1)))

    assert bins_of(values.tolist()) == sketch.bin_of(values).tolist()


@given(st.lists(st.integers(0, 2**45), min_size=1))
def test_bins_agree_with_the_grid(values: list[int]) -> None:
    """Any whole number falls into the bin that ``schemas.sketch`` says, those above the greatest into the last."""
    assert bins_of(values) == sketch.bin_of(np.array(values, np.int64)).tolist()


def test_unknown_and_refused_values_have_no_bin() -> None:
    """Null and negative values (of rows that were refused) are not counted."""
    assert bins_of([int(kernels.UNKNOWN), -1, 0]) == [bin_kernels.NO_BIN, bin_kernels.NO_BIN, sketch.ZERO_BIN]


ROWS = st.lists(st.lists(st.integers(-1, 1_016) | st.just(bin_kernels.NO_BIN), max_size=40), min_size=1, max_size=5)


@given(ROWS, st.randoms(use_true_random=False))
def test_bins_of_values_come_out_rising_however_many(rows: list[list[int]], random: Any) -> None:
    """Few values of a row are entered in order, many through a line: both give rising bins with their counts."""
    order, firsts, events = grouped([len(row) for row in rows], random)
    found = np.full(len(events), bin_kernels.NO_BIN, np.int16)
    found[events] = [key for row in rows for key in row]
    ends, keys, counts = np.empty(len(rows), np.int64), np.empty(len(found), np.int16), np.empty(len(found), np.uint64)
    stop = bin_kernels.merge_values(order, firsts, events, found, ends, keys, counts)

    wanted = [Counter(key for key in rows[row] if key != bin_kernels.NO_BIN) for row in order]
    assert bins_by_row(ends, keys[:stop], counts[:stop]) == [sorted(row.items()) for row in wanted]


READY = st.dictionaries(st.integers(-1, 1_016), st.integers(1, 2**32), max_size=40)


@pytest.mark.parametrize(
    ("merge", "missing", "dtype"),
    [(bin_kernels.merge_ready, 0, np.uint64), (bin_kernels.merge_kept, 1, np.uint32)],
    ids=["counts", "one less"],
)
@given(rows=st.lists(st.lists(READY, max_size=4), min_size=1, max_size=4), random=st.randoms(use_true_random=False))
def test_ready_made_bins_add_up(
    merge: Any, missing: int, dtype: Any, rows: list[list[dict[int, int]]], random: Any
) -> None:
    """A row's bins are the sums of its events' bins, rising; events of other rows leave nothing behind. Counts are
    those told, as merged rows hold them, or one less, as a segment does."""
    order, firsts, events = grouped([len(row) for row in rows], random)
    by_event = dict(zip(events.tolist(), [event for row in rows for event in row], strict=True))
    pairs = [sorted(by_event[event].items()) for event in range(len(events))]
    event_ends = np.cumsum([len(event) for event in pairs], dtype=np.int64)
    event_keys = np.array([key for event in pairs for key, _ in event], np.int16)
    held = np.array([count - missing for event in pairs for _, count in event], dtype)
    ends, keys, counts = np.empty(len(rows), np.int64), np.empty_like(event_keys), np.empty(len(held), np.uint64)
    stop = merge(order, firsts, events, event_ends, event_keys, held, ends, keys, counts)

    wanted = [sum((Counter(event) for event in rows[row]), Counter[int]()) for row in order]
    assert bins_by_row(ends, keys[:stop], counts[:stop]) == [sorted(row.items()) for row in wanted]


def grouped(sizes: list[int], random: Any) -> tuple[Any, Any, Any]:
    """Rows in some order, and their events, which came in some order: what the loops take."""
    order, events = list(range(len(sizes))), list(range(sum(sizes)))
    random.shuffle(order)
    random.shuffle(events)
    return np.array(order, np.int64), np.cumsum([0, *sizes], dtype=np.int64), np.array(events, np.int64)


def bins_by_row(ends: Any, keys: Any, counts: Any) -> list[list[tuple[int, int]]]:
    pairs = list(zip(keys.tolist(), counts.tolist(), strict=True))
    return [pairs[start:stop] for start, stop in pairwise([0, *ends.tolist()])]


@given(st.lists(st.integers(-1, 3), max_size=30), st.lists(st.integers(-1, 2), max_size=30))
def test_events_are_grouped_by_row_in_their_order(first: list[int], second: list[int]) -> None:
    """The rows of the second grouping set are numbered behind those of the first; events of no row are left out."""
    ends = np.zeros(7, np.int64)
    lines = [np.array(first, np.int64), np.array(second, np.int64)]
    for line, base in zip(lines, (0, 4), strict=True):
        bin_kernels.count_events(line, base, ends)
    cursors = np.cumsum(ends) - ends
    events = np.empty(ends.sum(), np.int64)
    for line, base in zip(lines, (0, 4), strict=True):
        bin_kernels.group_events(line, base, cursors, events)

    wanted = [[i for i, found in enumerate(first) if found == row] for row in range(4)]
    wanted += [[i for i, found in enumerate(second) if found == row] for row in range(3)]
    assert [part.tolist() for part in np.split(events, np.cumsum(ends)[:-1])] == wanted


def test_warming_compiles_everything_that_folding_uses() -> None:
    """After ``warm`` no fold compiles anything: the first record of a live job waits for no compiler."""
    warm()
    before = compiled()
    step = a_step()
    for topic, event in (("llm.requests", a_request(itl_bins={1: 2})), ("gpu.samples", a_sample(workload="idle"))):
        state, changes = fold_all(step, [a_record(topic, [event, {**event, "at_ms": BASE_MS + 9}])], topic)
        step.rows(state, changes, a_commit(topic))
        step.load(topic, 0, step.dump(state))

    assert compiled() == before
    assert set(before.values()) == {1}


def test_merging_does_not_depend_on_order_or_grouping() -> None:
    """Partial rows merged in any order, in any groups, are the rows of all events."""
    table = PARTIALS["gpu.samples"]
    events = [a_sample(BASE_MS + n % 3, power_mw=[None, 5, 3][n % 3], energy_mj=[None, n][n % 2]) for n in range(8)]
    rows = [row for event in events for row in expected("gpu.samples", [event])]
    halves = [*merge_rows(table, rows[4:]).values(), *merge_rows(table, rows[:4]).values()]

    assert merge_rows(table, halves) == merge_rows(table, rows) == merge_rows(table, rows[::-1])


def test_the_watermark_trails_by_the_lateness_and_never_lies_below_nothing() -> None:
    """Progress minus lateness; 0 before there is any."""
    assert [watermark_ms(progress, 10) for progress in (0, 9, 10, 11)] == [0, 0, 0, 1]
    assert [announced_ms(50, 10, now, True) for now in (49, 50, 51)] == [40, 40, 41]
    assert announced_ms(50, 10, 99, False) == 40
