"""Latency by concurrency: the view and the page's query against a count by hand.

Covers schemas.ddl.concurrency_view.
"""

from __future__ import annotations

from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.queries.dashboard import STANDARD, Value
from runtime.config import ClickHouseConfig
from schemas.limits import HOUR_MS
from schemas.sketch import value_of
from tests.unit.sinks.landing_cases import NOW_MS

pytestmark = [pytest.mark.integration, pytest.mark.tables]

START_MS = NOW_MS // HOUR_MS * HOUR_MS
FAST, SLOW = 320, 416
"""Bins: 1,024 us and 8,192 us."""


def _fill(clickhouse: Client) -> None:
    """Engine a: a window with 1 running, one with 7 (of two models: 4 and 3), one idle. Engine b reports no batch."""
    windows = [(0, "a", "m", 10, 10), (1, "a", "m", 40, 10), (1, "a", "n", 30, 10), (2, "a", "m", 0, 10),
               (0, "c", "m", 80, 10)]  # fmt: skip
    for number, (window, engine, model, total, count) in enumerate(windows):
        clickhouse.command(
            "INSERT INTO engine_samples_partials (window_ms, grouping, engine_id, model, event_count, running_sum,"
            f" running_count, log_offset) VALUES ({START_MS + 10_000 * window}, 'engine_sample', '{engine}', '{model}',"
            f" {count}, {total}, {count}, {number})"
        )
    requests = [(0, "a", "ok", 5, FAST), (1, "a", "ok", 20, SLOW), (1, "a", "error", 2, FAST), (1, "b", "ok", 9, FAST)]
    for number, (window, engine, status, count, place) in enumerate(requests):
        clickhouse.command(
            "INSERT INTO llm_requests_partials (window_ms, grouping, engine_id, model, status, event_count,"
            " output_tokens_sum, e2e_us_bins, log_offset)"
            f" VALUES ({START_MS + 10_000 * window}, 'engine', '{engine}', 'm', '{status}', {count}, {10 * count},"
            f" map({place}, {count}), {number})"
        )


async def _asked(config: ClickHouseConfig, **held: str) -> list[dict[str, Any]]:
    """Rows of the page's query of the hour, for what is ``held``."""
    given: dict[str, Value] = {**dict.fromkeys(STANDARD, ""), **held, "from_ms": START_MS, "to_ms": START_MS + HOUR_MS}
    data = Data(config)
    try:
        return (await data.ask("latency_by_concurrency", {**given, "grain_ms": 10_000}, HOUR_MS)).records()
    finally:
        await data.close()


async def test_the_page_and_the_view_say_what_was_counted(
    clickhouse: Client, clickhouse_config: ClickHouseConfig
) -> None:
    """One at once: 5 requests of 1 ms in a window. Seven (8): 20 good of 8 ms and 2 failed. An engine without a batch,
    and one without requests, are not there; an idle window is nobody's."""
    _fill(clickhouse)

    rows = await _asked(clickhouse_config)
    view = clickhouse.query(
        "SELECT at_once, sum(requests), sum(failed), round(max(running)), fp_quantile_linear(0.5, sumMap(e2e_us_bins))"
        " FROM latency_by_concurrency WHERE model = 'm' GROUP BY at_once ORDER BY at_once"
    ).result_rows

    found = [(row["at_once"], row["engines"], row["requests"], row["failed_requests"]) for row in rows]
    assert found == [(1, 1, 5, 0), (8, 1, 22, 2)]
    assert [row["requests_per_s"] for row in rows] == [0.5, 2.2]
    assert [row["output_tokens_per_s"] for row in rows] == [5.0, 20.0]
    for row, place in zip(rows, (FAST, SLOW), strict=True):
        assert row["e2e_us"][0] == pytest.approx(value_of(place))
        assert row["ttft_us"] == []
    assert [one[:4] for one in view] == [(1, 5, 0, 1.0), (8, 22, 2, 7.0)]
    assert [one[4] for one in view] == [row["e2e_us"][0] for row in rows]


async def test_good_requests_are_those_answered_in_full(
    clickhouse: Client, clickhouse_config: ClickHouseConfig
) -> None:
    """Of 137: 20 good, 2 failed, 5 aborted, 110 the client's fault."""
    clickhouse.command(
        "INSERT INTO engine_samples_partials (window_ms, grouping, engine_id, model, event_count, running_sum,"
        f" running_count, log_offset) VALUES ({START_MS}, 'engine_sample', 'a', 'm', 10, 40, 10, 0)"
    )
    ends = [("ok", "NULL", 20), ("error", "'engine_lost'", 2), ("aborted", "NULL", 5), ("error", "'client'", 110)]
    for number, (status, kind, count) in enumerate(ends):
        clickhouse.command(
            "INSERT INTO llm_requests_partials (window_ms, grouping, engine_id, model, status, error_kind, event_count,"
            f" log_offset) VALUES ({START_MS}, 'engine', 'a', 'm', '{status}', {kind}, {count}, {number})"
        )

    (row,) = await _asked(clickhouse_config)

    assert [row[name] for name in ("requests", "failed_requests", "ok_requests")] == [137, 2, 20]


async def test_of_many_windows_some_are_read(clickhouse: Client, clickhouse_config: ClickHouseConfig) -> None:
    """500 engines for 100 windows, one request each: beyond 40,000 rows every second window counts, in rates too."""
    labels = f"{START_MS} + 10000 * intDiv(number, 500) AS window_ms, concat('e', toString(number % 500)) AS engine_id"
    clickhouse.command(
        "INSERT INTO engine_samples_partials (window_ms, engine_id, grouping, model, event_count, running_sum,"
        f" running_count, log_offset) SELECT {labels}, 'engine_sample', 'm', 10, 40, 10, number FROM numbers(50000)"
    )
    clickhouse.command(
        "INSERT INTO llm_requests_partials (window_ms, engine_id, grouping, model, status, event_count,"
        f" output_tokens_sum, log_offset) SELECT {labels}, 'engine', 'm', 'ok', 1, 7, number FROM numbers(50000)"
    )

    (all_engines,) = await _asked(clickhouse_config)
    (one,) = await _asked(clickhouse_config, engine_id="e7")

    counted = ("of_windows", "engines", "engine_windows", "requests", "requests_per_s", "output_tokens_per_s")
    assert [all_engines[name] for name in counted] == [2, 500, 25_000, 25_000, 0.1, 0.7]
    assert [one[name] for name in counted] == [1, 1, 100, 100, 0.1, 0.7]
