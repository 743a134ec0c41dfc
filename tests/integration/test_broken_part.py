"""A part of a real ClickHouse whose files are damaged: it is named, and what the runbook says mends it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetpulse.doctor.facts import PartFacts
from fleetpulse.doctor.look_database import look_at_database
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig
from runtime.runbook import Cause, cause_of
from schemas.ddl.merging import LEVELS
from schemas.errors import BrokenPartError
from schemas.limits import HOUR_MS
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

TABLE, OTHER = "gpu_samples_partials", "llm.requests"
COUNTED = "SELECT sum(event_count) FROM {table:Identifier} FINAL"


@pytest.fixture
def database(clickhouse_config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        yield database


def counted(clickhouse: Any, table: str) -> int:
    ((found,),) = clickhouse.query(COUNTED, parameters={"table": table}).result_rows
    return int(found)


def parts(clickhouse: Any, table: str) -> list[tuple[str, str]]:
    """Name and folder of what a table has, as it was inserted."""
    wanted = {"table": table, "database": clickhouse.database}
    sql = "SELECT name, path FROM system.parts WHERE table = {table:String} AND database = {database:String} AND active"
    return list(clickhouse.query(f"{sql} ORDER BY min_block_number", parameters=wanted).result_rows)


def break_part(clickhouse: Any, table: str) -> str:
    """Empty the marks of the table's first part, as a disk without room leaves them. Its name."""
    name, folder = parts(clickhouse, table)[0]
    for file in Path(folder).glob("*mrk*"):
        os.truncate(file, 0)
    clickhouse.command("SYSTEM DROP MARK CACHE")
    return name


def seen(config: ClickHouseConfig) -> tuple[PartFacts, ...]:
    return look_at_database(config, None, SystemClock(), within_s=20.0).broken


def test_rollups_name_a_broken_part_and_go_on_when_it_is_out_and_its_rows_are_back(
    clickhouse: Any, clickhouse_config: ClickHouseConfig, database: SinkDatabase
) -> None:
    """What needs no broken part is computed meanwhile; afterwards every row counts once."""
    now_ms = SystemClock().now_ms()
    window_ms = now_ms // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    notebook, rollups = Notebook(database), Rollups(database, RollupSettings(settle_ms=0, again_ms=0))
    clickhouse.command(f"SYSTEM STOP MERGES {TABLE}")
    row = {"window_ms": window_ms, "grouping": "gpu", "gpu_uuid": "g"}
    records = [partials([row | {"event_count": number}], number, "gpu.samples") for number in (1, 2)]
    other = partials([{"window_ms": window_ms, "grouping": "service", "event_count": 5, "model": "m"}], 3, OTHER)
    notebook.note(LEVELS[0], store(database, [other], now_ms).dirty)
    for record in records:
        notebook.note(LEVELS[0], store(database, [record], now_ms).dirty)
    part, table = break_part(clickhouse, TABLE), f"{clickhouse_config.database}.{TABLE}"

    with pytest.raises(BrokenPartError, match=f"part {part} of {table} is broken") as raised:
        rollups.run_pass()
    meanwhile = counted(clickhouse, "llm_requests_rollup_1m")
    named = seen(clickhouse_config)
    clickhouse.command(f"ALTER TABLE {table} DETACH PART '{part}'")
    lacking, quiet = counted(clickhouse, TABLE), seen(clickhouse_config)
    for record in records:  # as the topics still hold both, and the group was set back
        notebook.note(LEVELS[0], store(database, [record], now_ms).dirty)
    while rollups.run_pass():
        pass

    assert cause_of(raised.value) is Cause.PART
    assert named == (PartFacts(table, part, "CORRUPTED_DATA", detached=False),)
    assert (meanwhile, lacking, quiet) == (5, 2, ())
    assert counted(clickhouse, TABLE) == counted(clickhouse, "gpu_samples_rollup_1m") == 3


def test_a_part_that_clickhouse_takes_out_at_a_start_is_named_until_it_is_dropped(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Nothing fails then, and rows are missing."""
    table = f"{clickhouse_config.database}.readings"
    clickhouse.command(f"CREATE TABLE {table} (at_ms Int64) ENGINE = MergeTree ORDER BY at_ms")
    clickhouse.command(f"INSERT INTO {table} VALUES (1)")
    part = break_part(clickhouse, "readings")
    clickhouse.command(f"DETACH TABLE {table}")
    clickhouse.command(f"ATTACH TABLE {table}")
    named = seen(clickhouse_config)

    clickhouse.command(f"ALTER TABLE {table} DROP DETACHED PART '{named[0].part}' SETTINGS allow_drop_detached = 1")

    assert named == (PartFacts(table, f"broken-on-start_{part}", "broken-on-start", detached=True),)
    assert int(clickhouse.command(f"SELECT count() FROM {table}")) == 0
    assert seen(clickhouse_config) == ()
    clickhouse.command(f"DROP TABLE {table} SYNC")
