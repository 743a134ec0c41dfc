"""What a copy lacks, and which rollups are to be computed again. Servers are compared in tests/integration."""

from __future__ import annotations

from fleetpulse.repair.plan import Copied, dirty, lacking, tables_of
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS

KEYS = {
    "gpu_samples_rollup_1m": "window_ms",
    "llm_requests": "source, boot, seq, row",
    "token_costs": "owner, minute_ms",
}
COLUMNS = {
    "gpu_samples_rollup_1m": ("window_ms",),
    "llm_requests": ("at_ms", "row"),
    "token_costs": ("owner", "version"),
}


def test_hours_that_are_missing_or_differ_are_lacking() -> None:
    """Not those that the target alone has: they are another repair, the other way round."""
    assert lacking({0: (3, 7, 0), 1: (3, 7, 0), 2: (3, 8, 0)}, {1: (3, 7, 0), 2: (3, 9, 0), 3: (1, 1, 0)}) == [0, 2]


def test_what_is_computed_from_others_is_copied_last() -> None:
    """And raw events by their own time, by which they are sorted."""
    found = tables_of(DEFAULT_LIMITS, KEYS, COLUMNS)

    assert [(one.table, one.time) for one in found] == [
        ("llm_requests", "at_ms"),
        ("token_costs", "minute_ms"),
        ("gpu_samples_rollup_1m", "window_ms"),
    ]


def test_a_newer_bill_under_the_same_key_is_a_difference() -> None:
    """Hours are compared by the versions of their rows, too."""
    bills = Copied("token_costs", "minute_ms", "owner", ("owner", "version"))

    assert "sum(version)" in bills.contents(0, HOUR_MS)
    assert "toUInt64(0)" in Copied("books", "committed_ms", "log_id", ("log_id",)).contents(0, HOUR_MS)


def test_rollups_of_copied_partial_rows_are_computed_again() -> None:
    """Every minute of the hour, of what has rollups."""
    found = list(dirty("llm_requests_partials", [HOUR_MS]))

    assert (found[0], found[-1], len(found)) == (
        ("llm.requests", HOUR_MS),
        ("llm.requests", 2 * HOUR_MS - 60_000),
        60,
    )
    assert list(dirty("usage", [HOUR_MS])) == []


def test_what_producers_wrote_since_is_a_difference() -> None:
    """Their rows are one for each spool whatever they say; the clock's skew is that of the row inserted last."""
    books = Copied("producer_books", "at_ms", "source, boot", ("source", "boot", "events", "clock_skew_ms"))

    assert "tuple(source, boot, events)" in books.contents(0, HOUR_MS)


def test_a_bucket_in_which_the_span_begins_is_compared() -> None:
    """A day's rollup, of an hour in the day; all other rows are those of the span."""
    days, rows = (Copied(name, "window_ms", "k", ("k",)) for name in ("token_costs_rollup_1d", "token_costs"))
    from_ms = 3 * DAY_MS + 5 * HOUR_MS

    assert f"window_ms >= {3 * DAY_MS} AND window_ms < {from_ms + HOUR_MS}" in days.contents(from_ms, from_ms + HOUR_MS)
    assert f"window_ms >= {from_ms} " in rows.contents(from_ms, from_ms + HOUR_MS)


def test_raw_events_are_in_the_span_by_when_they_were_appended() -> None:
    """Their own time may be any, as a sender's clock says it: by that, rows outside the span would never be copied."""
    (events,) = (one for one in tables_of(DEFAULT_LIMITS, KEYS, COLUMNS) if one.table == "llm_requests")

    assert "intDiv(at_ms, 3600000)" in events.contents(0, HOUR_MS)
    assert f"WHERE appended_ms >= 0 AND appended_ms < {HOUR_MS}" in events.contents(0, HOUR_MS)
    assert f"WHERE at_ms >= 0 AND at_ms < {HOUR_MS}" in events.rows(0)
