"""What the summaries of machines say, on rows of windows that are there."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse import queries
from fleetpulse.dashboard.data import Data
from runtime.config import ClickHouseConfig
from schemas.limits import HOUR_MS, MINUTE_MS

pytestmark = [pytest.mark.integration, pytest.mark.tables]

AT_MS = time.time_ns() // 10**10 * 10_000
"""Now: rows of long ago would be gone by their TTL."""
SPAN = {"from_ms": AT_MS, "to_ms": AT_MS + MINUTE_MS}


@pytest.fixture
async def data(clickhouse_config: ClickHouseConfig) -> AsyncIterator[Data]:
    found = Data(clickhouse_config)
    yield found
    await found.close()


def put(clickhouse: Client, table: str, grouping: str, *rows: dict[str, Any]) -> None:
    """Partial rows of one window, each at a place of its own in the log."""
    for number, row in enumerate(rows):
        known = {"window_ms": AT_MS, "last_at_ms": AT_MS, "grouping": grouping, "event_count": 1, "log_offset": number}
        known |= {"origin": "measured"} | row
        clickhouse.insert(table, [list(known.values())], column_names=list(known))


async def test_links_that_lost_lanes_or_have_errors_are_listed(data: Data, clickhouse: Client) -> None:
    """The worst first; a whole link has no row, and neither has one of which nothing is known."""
    whole = {"host": "h", "pcie_width_min": 16, "pcie_width_max_max": 16, "pcie_generation_max": 5}
    put(
        clickhouse,
        "gpu_samples_partials",
        "gpu",
        whole | {"gpu_uuid": "whole", "pcie_replays_sum": 0, "nvlink_errors_sum": 0},
        whole | {"gpu_uuid": "errors", "pcie_replays_sum": 2, "nvlink_errors_sum": 5},
        whole | {"gpu_uuid": "narrow", "engine_id": "e", "pcie_width_min": 8},
        {"host": "h", "gpu_uuid": "unknown"},
    )

    rows = (await data.sql(queries.text("gpu_links"), SPAN, {})).records()

    assert [(row["gpu_uuid"], row["an_engine"], row["lanes_min"], row["lanes_possible"]) for row in rows] == [
        ("narrow", "e", 8, 16),
        ("errors", None, 16, 16),
    ]
    assert (rows[1]["replays"], rows[1]["link_errors"], rows[1]["generation"]) == (2, 5, 5)


async def test_a_process_that_one_thread_bounds_is_seen(data: Data, clickhouse: Client) -> None:
    """By name and engine: how many processors it used, and its busiest thread."""
    put(
        clickhouse,
        "host_processes_partials",
        "process",
        {
            "host": "h",
            "engine_id": "e",
            "process_name": "VLLM::EngineCore",
            "workload": "inference",
            "cpu_ppm_sum": 3_000_000,
            "cpu_ppm_count": 2,
            "cpu_thread_max_ppm_max": 998_000,
            "memory_rss_bytes_max": 2 * 10**9,
            "read_bytes_sum": 5_000_000,
            "write_bytes_sum": 0,
        },
    )

    (row,) = (await data.sql(queries.text("engine_processes"), SPAN, {})).records()

    assert row == {
        "host": "h",
        "engine_id": "e",
        "process_name": "VLLM::EngineCore",
        "workload": "inference",
        "processors_used": 1.5,
        "busiest_thread_pct": 99.8,
        "memory_max_gb": 2.0,
        "read_mb": 5.0,
        "write_mb": 0.0,
    }


async def test_a_host_shows_its_busiest_core_and_what_was_sent_again(data: Data, clickhouse: Client) -> None:
    """Beside the mean of all processors, which hides one that is saturated."""
    put(
        clickhouse,
        "host_samples_partials",
        "host",
        {
            "host": "h",
            "cpu_busy_ppm_sum": 100_000,
            "cpu_busy_ppm_count": 1,
            "cpu_core_busy_max_ppm_max": 997_000,
            "tcp_retransmits_sum": 3,
            "tcp_segments_out_sum": 200,
            "rdma_tx_bytes_sum": 7_000_000,
            "rdma_errors_sum": 4,
        },
    )

    (row,) = (await data.sql(queries.text("host_summary"), SPAN, {})).records()

    named = ("cpu_pct", "busiest_core_pct", "retransmits_pct", "rdma_tx_mb", "rdma_faults")
    assert {name: row[name] for name in named} == {
        "cpu_pct": 10.0,
        "busiest_core_pct": 99.7,
        "retransmits_pct": 1.5,
        "rdma_tx_mb": 7.0,
        "rdma_faults": 4,
    }


async def test_a_gpu_is_where_it_was_last_also_over_a_long_range(data: Data, clickhouse: Client) -> None:
    """Hours are rolled up once they are over: what is newer is in minutes and windows."""
    hour_ms = AT_MS // HOUR_MS * HOUR_MS - HOUR_MS
    old = {"window_ms": hour_ms, "last_at_ms": hour_ms + 1, "gpu_uuid": "g", "host": "h", "engine_id": "old"}
    columns = [*old, "grouping", "version"]
    clickhouse.insert("gpu_history_1h", [[*old.values(), "gpu", 1]], column_names=columns)
    put(clickhouse, "gpu_samples_partials", "gpu", {"gpu_uuid": "g", "host": "h", "engine_id": "new"})
    to_ms = AT_MS + 5_000  # within a minute: a whole one is read from its rollup, which is not filled

    given = {"from_ms": to_ms - 7 * HOUR_MS, "to_ms": to_ms, "gpu_uuid": "g"}
    rows = (await data.ask("gpu_identity", given, 7 * HOUR_MS)).records()

    assert [(row["engine_id"], row["heard_ms"]) for row in rows] == [("new", AT_MS), ("old", hour_ms + 1)]


async def test_gpus_of_an_engine_are_throttled_as_far_as_they_say(data: Data, clickhouse: Client) -> None:
    """One for half of its time; another does not say, and is not taken for one that never was."""
    same = {"host": "h", "engine_id": "e", "interval_ms_sum": 10_000}
    put(clickhouse, "gpu_samples_partials", "gpu", same | {"gpu_uuid": "a", "throttled_us_sum": 5_000_000})
    quiet = {"window_ms": AT_MS, "last_at_ms": AT_MS, "grouping": "gpu", "event_count": 1, "log_offset": 7}
    quiet |= {"origin": "measured", "gpu_uuid": "b"} | same
    clickhouse.insert("gpu_samples_partials", [list(quiet.values())], column_names=list(quiet))

    given = {**SPAN, "bucket_ms": MINUTE_MS, "engine_id": "e"}
    rows = (await data.ask("engine_gpus_over_time", given, MINUTE_MS)).records()

    assert [row["throttled"] for row in rows] == [0.5]
