"""The copies of rollups sorted by GPU hold what the rollups hold, whatever is computed again."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from fleetpulse.queries.dashboard import query
from runtime.config import ClickHouseConfig
from schemas.ddl import gpu_history
from schemas.ddl.merging import LEVELS, rollup_table
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

HOUR_MS = 3_600_000


def same(clickhouse: Any, level: str) -> int:
    """Rows of a level, asserted to be those of the rollup."""
    names = "window_ms, host, gpu_uuid, engine_id, power_mw_sum, power_mw_count, energy_mj_sum, last_at_ms, version"

    def rows(table: str) -> list[Any]:
        return list(clickhouse.query(f"SELECT {names} FROM {table} FINAL ORDER BY ALL").result_rows)

    assert rows(gpu_history.table_of(level)) == rows(rollup_table(gpu_history.GPU, level))
    return len(rows(gpu_history.table_of(level)))


def test_one_gpu_over_time_is_what_the_rollups_say_also_after_late_rows(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Each minute and hour of two GPUs; a late row replaces both."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    hour_ms = now_ms // HOUR_MS * HOUR_MS - 3 * HOUR_MS
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        notebook, rollups = Notebook(database), Rollups(database, RollupSettings(settle_ms=0, again_ms=0))
        for offset, at_ms in enumerate((0, 60_000, HOUR_MS, 60_000)):
            rows = [
                {"window_ms": hour_ms + at_ms, "grouping": "gpu", "host": "h", "gpu_uuid": uuid, "engine_id": "e",
                 "event_count": 1, "last_at_ms": hour_ms + at_ms, "power_mw_count": 1, "power_mw_sum": 7 + offset}
                for uuid in ("GPU-1", "GPU-2")
            ]  # fmt: skip
            notebook.note(LEVELS[0], store(database, [partials(rows, offset, "gpu.samples")], now_ms).dirty)
            while rollups.run_pass():
                pass
        assert (same(clickhouse, "1m"), same(clickhouse, "1h")) == (6, 4)

    found = query("gpu_signals")
    given = {"gpu_uuid": "GPU-1", "from_ms": hour_ms, "to_ms": hour_ms + HOUR_MS, "bucket_ms": 1}
    points = list(clickhouse.query(found.at_levels(HOUR_MS), found.values(given, HOUR_MS)).named_results())
    assert [(row["at_ms"] - hour_ms, row["power_w"]) for row in points] == [(0, 0.007), (60_000, 0.009)]
