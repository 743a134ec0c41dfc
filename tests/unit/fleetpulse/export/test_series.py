from __future__ import annotations

import re

import pytest

from fleetpulse import queries
from fleetpulse.export.series import COLUMNS, Collected

NAMES = ("window_ms", "cluster", "host", "engine_id", "model", "running", "waiting", "kv_used", "preemptions_per_s")
NAMES = (*NAMES, "generation_tokens_per_s")


def of(name: str, **labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"__name__": name, **labels}.items()))


def test_a_row_is_a_sample_of_each_figure_that_is_known() -> None:
    """At the window's end, under the labels that are known; what is null or no number is no sample."""
    collected = Collected(100)

    collected.add(
        "windows_by_engine",
        NAMES,
        [(10_000, None, "h", "e", "m", 3.0, 0, None, float("nan"), 12), (20_000, None, "h", "e", "m", 4, 1, 0.5, 0, 9)],
    )

    labels = {"host": "h", "engine_id": "e", "model": "m"}
    assert collected.series == {
        of("fleetpulse_window_engine_requests_running", **labels): [(20_000, 3.0), (30_000, 4.0)],
        of("fleetpulse_window_engine_requests_waiting", **labels): [(20_000, 0.0), (30_000, 1.0)],
        of("fleetpulse_window_engine_kv_cache_used_ratio", **labels): [(30_000, 0.5)],
        of("fleetpulse_window_engine_preemptions_per_second", **labels): [(30_000, 0.0)],
        of("fleetpulse_window_engine_generation_tokens_per_second", **labels): [(20_000, 12.0), (30_000, 9.0)],
    }
    assert (collected.samples, collected.dropped) == (8, 0)


def test_a_percentile_is_a_quantile() -> None:
    """One metric, told apart by a label."""
    names = ("window_ms", "model", *COLUMNS["windows_by_model"])
    values = {"ttft_p50_s": 0.25, "ttft_p99_s": 1.5}
    collected = Collected(100)

    collected.add("windows_by_model", names, [(0, "m", *(values.get(name) for name in names[2:]))])

    ttft = "fleetpulse_model_ttft_seconds"
    assert collected.series == {
        of(ttft, model="m", quantile="0.5"): [(10_000, 0.25)],
        of(ttft, model="m", quantile="0.99"): [(10_000, 1.5)],
    }


def test_series_are_bounded() -> None:
    """Those that are there go on; samples of more are dropped and counted."""
    collected = Collected(1)

    collected.add("windows_by_engine", NAMES, [(0, "c", "h", "e", "m", 1, 1, None, None, None)] * 2)

    assert (len(collected.series), collected.samples, collected.dropped) == (1, 2, 2)


def test_series_are_those_of_windows() -> None:
    """Oldest first, each sample once, whatever the order of queries."""
    collected = Collected(100)
    at = (None, "h", "e", "m", 1, None, None, None, None)

    collected.add("windows_by_engine", NAMES, [(20_000, *at), (30_000, *at)])
    collected.add("windows_by_model", ("window_ms", "model", *COLUMNS["windows_by_model"]), [(0, "m", 2, *[None] * 11)])

    running = of("fleetpulse_window_engine_requests_running", host="h", engine_id="e", model="m")
    assert list(collected.windows()) == [
        {of("fleetpulse_model_requests_per_second", model="m"): [(10_000, 2.0)]},
        {running: [(30_000, 1.0)]},
        {running: [(40_000, 1.0)]},
    ]


@pytest.mark.parametrize("query", COLUMNS)
def test_every_figure_is_a_column_of_its_query(query: str) -> None:
    """And every other column a label, but the window."""
    answer = queries.text(query).partition("\nFROM")[0]
    named = re.findall(r" AS (\w+)", answer)

    assert set(COLUMNS[query]) == set(named)
