"""The exact answer of ``bench peers``, and how far a side's rows are from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from lab.bench.peers_answers import (
    COLUMNS,
    GROUPING,
    LEVELS,
    Row,
    events_by_window,
    exact,
    judge,
    quantile_error,
    row,
    table,
    wrong_of_ours,
)

SERIES = tuple("a" for _ in GROUPING.dimensions)
OTHER = ("b", *SERIES[1:])


def record(*events: tuple[int, str, int | None]) -> bytes:
    """NDJSON of events: time, first dimension, latency."""
    labels = dict.fromkeys(GROUPING.dimensions[1:], "a")
    rows = [
        {"at_ms": at_ms, GROUPING.dimensions[0]: name, **labels, "ttft_us": value, "output_tokens": 2}
        for at_ms, name, value in events
    ]
    return b"".join(orjson.dumps(one) + b"\n" for one in rows)


TRUTH = exact(
    [record((10_000, "a", 30), (19_999, "a", 10)), record((12_000, "b", None), (20_000, "a", 7))], 10_000, 20_000
)
RIGHT = [Row((10_000, SERIES), 2, 2, 40, 4, (20.0, 29.0, 29.8)), Row((10_000, OTHER), 1, 0, 0, 2, (None, None, None))]


def test_the_truth_holds_the_windows_that_are_asked_for() -> None:
    """[from, to): an event at the end belongs to the next window."""
    assert [(one.events, one.tokens, one.values) for one in TRUTH.values()] == [(2, 4, [10, 30]), (1, 2, [])]
    assert events_by_window(TRUTH) == {10_000: 3}


def test_the_right_rows_are_equal() -> None:
    """Rows of other windows are not asked for."""
    verdict = judge(TRUTH, [*RIGHT, replace(RIGHT[0], key=(20_000, SERIES))], 0.0)

    assert verdict.equal
    assert (verdict.windows, verdict.series, verdict.events, verdict.quantiles) == (1, 2, 3, 3)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(RIGHT[:1], (1, 0, 0, 0), id="a series is missing"),
        pytest.param([replace(RIGHT[0], events=1), RIGHT[1]], (1, 0, 0, 0), id="an event is missing"),
        pytest.param([replace(RIGHT[0], events=5), RIGHT[1]], (0, 3, 0, 0), id="events are doubled"),
        pytest.param([*RIGHT, Row((10_000, ("c", *SERIES[1:])), 4, 0, 0, 0, ())], (0, 4, 0, 0), id="a foreign series"),
        pytest.param([replace(RIGHT[0], total=41), RIGHT[1]], (0, 0, 1, 0), id="a sum is wrong"),
        pytest.param([replace(RIGHT[0], tokens=3), RIGHT[1]], (0, 0, 1, 0), id="tokens are wrong"),
        pytest.param([replace(RIGHT[0], events=1), *RIGHT], (0, 0, 0, 1), id="the last of two rows counts"),
    ],
)
def test_every_difference_is_counted(rows: list[Row], found: tuple[int, int, int, int]) -> None:
    """Events lost and doubled, series with wrong sums, rows that replaced one."""
    verdict = judge(TRUTH, rows, 0.0)

    assert (verdict.lost, verdict.doubled, verdict.wrong_sums, verdict.repeated) == found
    assert verdict.equal is (found[:3] == (0, 0, 0))


def test_a_quantile_beyond_the_side_s_own_error_is_not_equal() -> None:
    """Within it, it is."""
    far = [replace(RIGHT[0], quantiles=(20.0, 30.6, 30.0)), RIGHT[1]]

    assert judge(TRUTH, far, 0.02).equal
    assert not judge(TRUTH, far, 0.019).equal
    assert not judge(TRUTH, [replace(RIGHT[0], quantiles=(None, 29.0, 29.0)), RIGHT[1]], 0.02).equal


@pytest.mark.parametrize("q", LEVELS)
@pytest.mark.parametrize("method", ["lower", "higher", "linear", "nearest"])
def test_any_definition_between_the_two_ranks_has_no_error(q: float, method: str) -> None:
    """Numpy has them all."""
    values = sorted(int(value) for value in np.random.default_rng(1).lognormal(9, 1, 57))

    assert quantile_error(values, q, float(np.quantile(values, q, method=method))) < 1e-12  # type: ignore[call-overload]


def test_a_row_is_read_as_programs_write_it() -> None:
    """Without values there are no quantiles; SQL has no sum then either."""
    written = {"window_ms": 10_000, "series": list(SERIES), "events": 2, "count": 2, "total": 40, "tokens": 4}

    assert row(orjson.dumps(written | {"quantiles": [20.0, 29.0, 29.8]})) == RIGHT[0]
    nothing = row(orjson.dumps(written | {"count": 0, "total": None, "quantiles": None}))
    assert (nothing.total, nothing.quantiles) == (0, (None, None, None))


def test_the_table_says_nothing_of_what_was_not_run() -> None:
    """One line for each side."""
    burst = {"cpu_s_per_million": 8.0, "times_ours": 1.0, "memory_peak_bytes": 2**21, "equal": True}
    killed = {"lost": 0, "doubled": 3, "repeated": 2, "resumed_s": 4.5}
    fresh = {"p50_s": 1.0, "max_s": 2.0}

    lines = table({"ours": burst, "theirs": burst | {"freshness": fresh, "killed": killed}})

    assert lines[0] == ("ours", 8.0, 1.0, 2.0, None, None, True, None, None, None, None)
    assert lines[1][4:] == (1.0, 2.0, True, 0, 3, 2, 4.5)
    assert {len(one) for one in lines} == {len(COLUMNS)}


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        pytest.param({}, [], id="nothing was killed"),
        pytest.param({"killed": {"lost": 0, "doubled": 0, "repeated": 3, "wrong_sums": 0}}, [], id="nothing was lost"),
        pytest.param({"killed": {"lost": 1, "doubled": 0, "wrong_sums": 0}}, ["fleetpulse, Native"], id="lost"),
        pytest.param({"killed": {"lost": 0, "doubled": 1, "wrong_sums": 0}}, ["fleetpulse, Native"], id="doubled"),
        pytest.param({"killed": {"lost": 0, "doubled": 0, "wrong_sums": 1}}, ["fleetpulse, Native"], id="a wrong sum"),
        pytest.param({"equal": False}, ["fleetpulse, Native"], id="not the answer"),
    ],
)
def test_ours_has_to_give_the_exact_answer_also_after_a_kill(ours: dict[str, object], wrong: list[str]) -> None:
    """Others may be wrong: that is what is measured of them."""
    others = {"equal": False, "killed": {"lost": 5, "doubled": 5, "wrong_sums": 5}}

    assert wrong_of_ours({"fleetpulse, Native": {"equal": True} | ours, "plain Faust": others}) == wrong
