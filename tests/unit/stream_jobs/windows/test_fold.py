"""The fold of events into additive rows, against brute force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.limits import Limits
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    Row,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    expected,
    fold_all,
    merged,
    partials,
)

REQUESTS, SAMPLES = "llm.requests", "gpu.samples"
MANY_WINDOWS = st.integers(BASE_MS - 25_000, BASE_MS + 4_000)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


durations = maybe(st.sampled_from((0, 1, 2, 999, 1_000, 3_599_999_999, 3_600_000_000)) | st.integers(0, 10**7))
labels = maybe(st.sampled_from(("a", "b", "ü", "", "__other__")))
bins = st.dictionaries(st.integers(-1, 1_016), st.integers(1, 3) | st.just(2**32), max_size=6)
requests = st.builds(
    a_request,
    MANY_WINDOWS,
    ttft_us=durations,
    tpot_us=durations,
    e2e_us=durations,
    queue_us=durations,
    input_tokens=maybe(st.sampled_from((0, 256, 257, 1_024, 65_536, 65_537))),
    output_tokens=maybe(st.integers(0, 1_000)),
    host=st.sampled_from(("h1", "h2")),
    tenant=labels,
    engine_id=labels,
    status=st.sampled_from(("ok", "error")),
    itl_bins=bins,
)
samples = st.builds(
    a_sample,
    MANY_WINDOWS,
    util_gpu_pct=maybe(st.integers(0, 100)),
    power_mw=maybe(st.integers(0, 10**7)),
    temperature_c=maybe(st.integers(-100, 300)),
    memory_used_bytes=maybe(st.integers(0, 2**44)),
    energy_mj=maybe(st.integers(0, 2**44)),
    gpu_uuid=st.sampled_from(("g1", "g2")),
    workload=maybe(st.sampled_from(("idle", "training"))),
)
batches = st.lists(st.lists(requests, min_size=1, max_size=4), min_size=1, max_size=8)
sample_batches = st.lists(st.lists(samples, min_size=1, max_size=4), min_size=1, max_size=8)


def records_of(topic: str, batches: list[list[Row]]) -> list[Any]:
    return [a_record(topic, rows, offset, BASE_MS + 5_000) for offset, rows in enumerate(batches)]


@given(batches)
@settings(max_examples=60, deadline=None)
def test_request_rows_equal_brute_force(batches: list[list[Row]]) -> None:
    """Every sum, extreme, bin and label of request partials is what counting one by one gives."""
    step = a_step()
    state, changes = fold_all(step, records_of(REQUESTS, batches), REQUESTS)

    assert merged(REQUESTS, partials(step, state, changes)) == expected(REQUESTS, [e for b in batches for e in b])


@given(sample_batches)
@settings(max_examples=60, deadline=None)
def test_sample_rows_equal_brute_force(batches: list[list[Row]]) -> None:
    """Gauges keep count, sum, min, max and last, differences their sum, null where nothing was known."""
    step = a_step()
    state, changes = fold_all(step, records_of(SAMPLES, batches), SAMPLES)

    assert merged(SAMPLES, partials(step, state, changes)) == expected(SAMPLES, [e for b in batches for e in b])


@given(batches, st.data())
@settings(max_examples=40, deadline=None)
def test_where_batches_are_cut_changes_no_byte(batches: list[list[Row]], data: st.DataObject) -> None:
    """The outputs and the state after any cutting of the records are byte for byte those of one fold."""
    records = records_of(REQUESTS, batches)
    cut = data.draw(st.lists(st.integers(0, len(records)), max_size=4).map(sorted))
    step = a_step(Limits(series_max=2, label_cardinality_max=2))
    state, changes = fold_all(step, records, REQUESTS)
    parts, parts_changes = step.new(REQUESTS, 0), step.changes()
    for start, stop in zip([0, *cut], [*cut, len(records)], strict=True):
        step.fold(parts, records[start:stop], parts_changes)

    assert step.rows(parts, parts_changes, a_commit(REQUESTS)) == step.rows(state, changes, a_commit(REQUESTS))
    assert step.dump(parts) == step.dump(state)


@given(batches, st.data())
@settings(max_examples=40, deadline=None)
def test_commits_between_records_change_no_sum(batches: list[list[Row]], data: st.DataObject) -> None:
    """Rows of many commits merge to the rows of one, whatever fell where."""
    records = records_of(REQUESTS, batches)
    cut = data.draw(st.lists(st.integers(0, len(records)), max_size=4).map(sorted))
    step = a_step(Limits(series_max=3))
    state, changes = fold_all(step, records, REQUESTS)
    whole = partials(step, state, changes)
    parts, rows = step.new(REQUESTS, 0), []
    for start, stop in zip([0, *cut], [*cut, len(records)], strict=True):
        fresh = step.changes()
        step.fold(parts, records[start:stop], fresh)
        rows += partials(step, parts, fresh)

    assert merged(REQUESTS, rows) == merged(REQUESTS, whole)


@given(sample_batches, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_any_order_of_records_gives_the_same_rows(batches: list[list[Row]], random: Any) -> None:
    """Within the limits on names the order of arrival leaves no trace in the rows, not even in their bytes."""
    records = records_of(SAMPLES, batches)
    shuffled = list(records)
    random.shuffle(shuffled)
    step = a_step()
    state, changes = fold_all(step, records, SAMPLES)
    other, other_changes = fold_all(step, shuffled, SAMPLES)

    assert step.rows(other, other_changes, a_commit(SAMPLES)) == step.rows(state, changes, a_commit(SAMPLES))


def test_last_is_the_greatest_value_of_the_latest_moment() -> None:
    """Of several events at the row's latest time the greatest known value is kept; older ones never are."""
    step = a_step()
    rows = [
        a_sample(BASE_MS + 5, power_mw=7, util_gpu_pct=99),
        a_sample(BASE_MS + 9, power_mw=3),
        a_sample(BASE_MS + 9, power_mw=5),
        a_sample(BASE_MS + 1, power_mw=100),
    ]
    state, changes = fold_all(step, [a_record(SAMPLES, rows)], SAMPLES)
    (row,) = partials(step, state, changes)

    assert (row["last_at_ms"], row["power_mw_last"], row["util_gpu_pct_last"]) == (BASE_MS + 9, 5, None)
    assert (row["util_gpu_pct_max"], row["power_mw_max"]) == (99, 100)


@pytest.mark.parametrize(
    ("at_ms", "window_ms"), [(BASE_MS, BASE_MS), (BASE_MS + 9_999, BASE_MS), (BASE_MS - 1, BASE_MS - 10_000)]
)
def test_windows_hold_their_start_and_not_their_end(at_ms: int, window_ms: int) -> None:
    """A window is [start, start + 10 s)."""
    step = a_step()
    state, changes = fold_all(step, [a_record(SAMPLES, [a_sample(at_ms)])], SAMPLES)

    assert [row["window_ms"] for row in partials(step, state, changes)] == [window_ms]


def test_bin_counts_above_32_bits_are_exact() -> None:
    """Ready-made bins with huge counts add up without loss, also where a count starts beyond 32 bits."""
    step = a_step()
    rows = [a_request(itl_bins={5: 2**32 - 1, 6: 2**32}) for _ in range(3)] + [a_request(itl_bins={5: 1, 6: 2})]
    state, changes = fold_all(step, [a_record(REQUESTS, rows)], REQUESTS)

    assert merged(REQUESTS, partials(step, state, changes)) == expected(REQUESTS, rows)


def test_many_series_and_many_bins_make_room() -> None:
    """Tables grow as rows, bins and series come, without losing any."""
    step = a_step()
    events = [
        a_request(BASE_MS + n, ttft_us=n * 977, e2e_us=n, tenant=f"t{n % 700}", itl_bins={n % 1_000: n + 1})
        for n in range(2_000)
    ]
    records = [a_record(REQUESTS, events[n : n + 500], n, BASE_MS + 3_000) for n in range(0, 2_000, 500)]
    state, changes = fold_all(step, records, REQUESTS)

    assert merged(REQUESTS, partials(step, state, changes)) == expected(REQUESTS, events)
