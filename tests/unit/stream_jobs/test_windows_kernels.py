"""The compiled loops against plain numpy, and that each is compiled for one form of its input only."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas import sketch
from schemas.tables import PARTIALS
from stream_jobs.windows import bin_kernels, kernels
from stream_jobs.windows.merge import merge_rows
from stream_jobs.windows.warm import compiled, warm
from stream_jobs.windows.watermark import announced_ms, watermark_ms
from tests.unit.stream_jobs.windows_cases import (
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
    out = np.empty((1, len(values)), np.int32)
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


@given(st.dictionaries(st.integers(-1, 1_016), st.integers(1, 9), min_size=0, max_size=200), st.integers(0, 40))
def test_bins_come_out_rising_however_many(found: dict[int, int], others: int) -> None:
    """Few bins are sorted by insertion, many through a line: both give them rising with their counts."""
    keys = np.array([*found, *range(others)], np.int16)
    counts = np.array([*found.values(), *([1] * others)], np.uint64)
    bin_kernels.sort_bins(np.array([len(found), len(keys)], np.int64), keys, counts)

    expected = sorted(found.items()) + [(key, 1) for key in range(others)]
    assert list(zip(keys.tolist(), counts.tolist(), strict=True)) == expected


def test_a_table_numbers_as_many_rows_as_its_keys_can_hold() -> None:
    """The key of the last bin of the last row fits 32 bits."""
    for histograms in (1, 5, 12):
        row, bits = bin_kernels.rows_max(histograms) - 1, bin_kernels.histogram_bits(histograms)

        assert histograms <= 1 << bits
        assert (((row << bits | histograms - 1) << 10) | sketch.BIN_MAX + 1) < 2**32
    assert bin_kernels.rows_max(5) == 2**19


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
