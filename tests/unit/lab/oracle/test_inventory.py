"""Counting GPUs that should report."""

from __future__ import annotations

from lab.oracle.bills import Bill
from lab.oracle.inventory import HOUR_MS, KEPT, MINUTE_MS, coverage, read
from lab.oracle.machines import Sample


def sample(gpu: str, at_ms: int, interval_ms: int = 60_000) -> Sample:
    return Sample(at_ms, gpu, "x", 1, 1, 1, 1, region="eu", interval_ms=interval_ms)


def test_a_gpu_is_silent_from_its_last_reading_on_for_a_day() -> None:
    """Minutes before the newest of all count; the first reading of a GPU begins it."""
    others = [sample("a", minute * MINUTE_MS + 55_000) for minute in range(10)]
    found = coverage(read([*others, sample("b", 2 * MINUTE_MS + 20_000, 20_000)]), [], 0, HOUR_MS)

    assert found["inventory_gpu_ms", "all"] == (9 + 7) * MINUTE_MS
    assert found["silent_gpu_ms", "gpu_model=x"] == 6 * MINUTE_MS + 40_000
    assert found["reporting_gpu_ms", "all"] == 9 * MINUTE_MS + 20_000


def test_what_was_read_more_than_a_day_ago_is_of_no_inventory() -> None:
    """And a range without a reading near it has none."""
    found = read([sample("a", 0), *(sample("b", minute * MINUTE_MS) for minute in (0, KEPT + 9))])

    assert coverage(found, [], (KEPT + 1) * MINUTE_MS, (KEPT + 20) * MINUTE_MS) == {}
    assert coverage(found, [], 9 * KEPT * MINUTE_MS, 10 * KEPT * MINUTE_MS) == {}


def test_readings_that_cover_all_but_ten_seconds_of_an_hour_leave_nothing_silent() -> None:
    """Minutes alone would say that the last one ends early."""
    short = [sample("a", minute * MINUTE_MS + 55_000) for minute in range(59)] + [sample("a", HOUR_MS - 15_000, 50_000)]
    found = coverage(read([*short, sample("a", HOUR_MS + 5)]), [], 0, HOUR_MS)

    assert found["silent_gpu_ms", "all"] == 0


def test_silence_costs_what_an_hour_of_the_type_was_billed_at_last() -> None:
    """GPU and host; a bill without a price does not count, and what is billed counts before the newest minute."""
    rows = read([sample("a", 0, 0), sample("b", 61 * MINUTE_MS)])
    bills = [
        Bill(0, "engine", "e", HOUR_MS, region="eu", gpu_model="x", gpu_nusd=50, host_nusd=10),
        Bill(MINUTE_MS, "engine", "e", HOUR_MS, region="eu", gpu_model="x", gpu_nusd=1, unpriced_gpu_ms=1),
        Bill(70 * MINUTE_MS, "engine", "e", 9, region="eu", gpu_model="x"),
    ]
    found = coverage(rows, bills, 0, 2 * HOUR_MS)

    assert found["unobserved_nusd", "gpu_model=x"] == 60 + 1
    assert found["billed_gpu_ms", "all"] == 2 * HOUR_MS
