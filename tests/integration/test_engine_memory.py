"""Memory of an engine's GPUs by holder, on real tables: every part once, together the GPU's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands import vram
from fleetpulse.queries.dashboard import query
from fleetpulse.sql.database import Database
from runtime.config import ClickHouseConfig, Config
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store_raw
from tests.integration.test_ddl import store
from tests.unit.sinks.landing_cases import partials
from tests.unit.stream_jobs.windows.cases import a_record

pytestmark = [pytest.mark.integration, pytest.mark.tables]

GIB = 2**30
HELD = ("engine_bytes", "weight_bytes", "kv_cache_bytes", "rest_bytes", "others_bytes", "unattributed_bytes")


@pytest.fixture
def now_ms(clickhouse: Any) -> int:
    return int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig, now_ms: int) -> Iterator[Database]:
    """Two GPUs: one of an engine alone, as its samples say; one it shares, as its registration says."""
    common = {"host": "h", "origin": "measured"}
    window = {
        **common,
        "grouping": "gpu",
        "window_ms": now_ms - 20_000,
        "last_at_ms": now_ms - 15_000,
        "event_count": 1,
    }
    used = [("GPU-1", 70, "e"), ("GPU-2", 76, None), ("GPU-9", 5, "other")]
    windows = [
        {**window, "gpu_uuid": gpu, "engine_id": engine, "memory_used_bytes_last": size * GIB,
         "memory_total_bytes_max": 80 * GIB}
        for gpu, size, engine in used
    ]  # fmt: skip
    processes = [
        (now_ms - 40_000, 1, "GPU-1", "e", 1), (now_ms - 10_000, 1, "GPU-1", "e", 69),
        (now_ms - 10_000, 2, "GPU-2", "e", 60), (now_ms - 10_000, 3, "GPU-2", None, 15),
    ]  # fmt: skip
    model = {"precision": "bf16", "model": "llama-3.1-8b-instruct", "gpu_uuids": "GPU-1,GPU-2"}
    events = [
        (now_ms - 30_000, "registered", {"weight_bytes": 80 * GIB, "kv_cache_bytes": 36 * GIB, **model}),
        (now_ms - 20_000, "marked", {"message": "a mark knows nothing of it"}),
    ]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as sink:
        store(sink, [partials(windows, 1, "gpu.samples")], now_ms)
        rows = [
            {**common, "at_ms": at, "pid": pid, "gpu_uuid": gpu, "engine_id": engine, "memory_bytes": size * GIB}
            for at, pid, gpu, engine, size in processes
        ]
        store_raw(sink, [a_record("gpu.processes", rows, appended_ms=now_ms)], now_ms)
        rows = [{**common, "at_ms": at, "engine_id": "e", "kind": kind, **more} for at, kind, more in events]
        store_raw(sink, [a_record("engine.events", rows, appended_ms=now_ms)], now_ms)
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


def memory(database: Database, engine: str, to_ms: int) -> dict[str, dict[str, Any]]:
    found = query("engine_memory")
    bound = found.values({"engine_id": engine, "from_ms": to_ms - 600_000, "to_ms": to_ms}, 600_000)
    return {row["gpu_uuid"]: row for row in database.sql(found.at_levels(600_000), bound).records()}


def test_memory_is_split_by_holder(database: Database, now_ms: int) -> None:
    """The last reading of processes, half of the weights on each of two GPUs; nothing twice, nothing left."""
    rows = memory(database, "e", now_ms)

    found = {gpu: [row[name] // GIB for name in HELD] for gpu, row in rows.items()}
    assert found == {"GPU-1": [69, 40, 18, 11, 0, 1], "GPU-2": [60, 40, 18, 2, 15, 1]}
    for row in rows.values():
        parts = ("weight_bytes", "kv_cache_bytes", "rest_bytes", "others_bytes", "unattributed_bytes", "free_bytes")
        assert sum(row[name] for name in parts) == row["total_bytes"] == 80 * GIB


def test_what_nobody_says_is_null(database: Database, now_ms: int) -> None:
    """An engine without a registration or processes: what its GPU uses, no holder."""
    (row,) = memory(database, "other", now_ms).values()

    assert (row["used_bytes"], row["free_bytes"], row["of_gpus"]) == (5 * GIB, 75 * GIB, 1)
    assert [row[name] for name in HELD] == [None] * len(HELD)
    assert memory(database, "nobody", now_ms) == {}


def test_the_command_shows_the_estimate_beside(
    database: Database, clickhouse_config: ClickHouseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of 8.03e9 parameters of two bytes on each GPU; a person gets the same as a table."""
    monkeypatch.setattr("runtime.config.load", lambda *_: Config(clickhouse=clickhouse_config))

    found = CliRunner().invoke(app, ["vram", "--engine", "e", "--json"])
    shown = CliRunner().invoke(app, ["vram", "--engine", "e"])
    nothing = CliRunner().invoke(app, ["vram", "--engine", "nobody"])

    assert [row["estimated_weight_bytes"] for row in json.loads(found.stdout)] == [8_030_000_000] * 2
    assert all(label.strip() in shown.stdout for label in vram._HELD)
    assert "no GPU of nobody" in nothing.stderr
