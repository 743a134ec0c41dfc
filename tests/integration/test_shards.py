"""Two ClickHouse servers as shards of a cluster give what one server gives, whatever came twice and through whom."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import orjson
import pytest

from fleetpulse.doctor.look_database import look_at_database
from fleetpulse.migrate import tables
from runtime.clickhouse_clients import connect
from runtime.clock import SystemClock
from runtime.config import ClickHouseConfig
from runtime.local_stack import READER
from schemas.ddl import cost_rollups
from schemas.ddl.billed_views import NAMES, OF_BILLS, column
from schemas.ddl.merging import LEVELS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import GROUPED
from sinks.database import SinkDatabase
from sinks.rollup import Notebook, Rollups, RollupSettings
from tests.integration.shard_rig import servers
from tests.integration.test_extremes import ROWS, asked, fill

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

COMPUTED = "dirty_windows|migrations|_rollup_|gpu_history|slowest_1h"
"""What is not inserted, but computed from other rows."""
SEEN = {"fleet_now": "* EXCEPT (age_ms)"}
SEEN |= {
    NAMES[lists.stem]: ", ".join(
        [*(column(lists, one) for one in lists.labels), *(f"sum({column(lists, one)})" for one in lists.sums)]
    )
    for lists in cost_rollups.ALL
}
"""Columns of a view that do not depend on when it is read; without an entry all."""
RANGES = {
    "fault_impact": "(from_ms = 0, to_ms = 4000000000000)",
    "gpu_coverage": "(from_ms = 0, to_ms = 4000000000000)",
    "covered_time": "(from_ms = 0, to_ms = 4000000000000)",
    "slow_requests": "(from_ms = 0, to_ms = 4000000000000)",
    "who_changed": "(from_ms = 0, to_ms = 4000000000000, before_from_ms = 0, before_to_ms = 0)",
    **dict.fromkeys(OF_BILLS, "(from_ms = 0, to_ms = 4000000000000, bucket_ms = 86400000) GROUP BY ALL"),
}
"""What a view with parameters is read with."""


READ = """
SELECT name, engine = 'View' FROM system.tables WHERE database = currentDatabase()
AND engine != 'MaterializedView' AND name NOT IN ('migrations', 'dirty_windows')
"""


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClickHouseConfig, list[ClickHouseConfig]]]:
    """One server by itself and two shards, all with rows of every table: the shards were given each row twice."""
    with servers(tmp_path_factory.mktemp("shards")) as (one, shards):
        for config in (one, *shards):
            migrated(config)
        now_ms = to_ms_of(one)
        for config in (one, *shards):
            with contextlib.closing(connect(config)) as client:
                fill(client, now_ms, 1, COMPUTED)
        for config in (one, shards[1]):
            rolled(config, now_ms)
        yield one, shards
        for config in (one, *shards):
            client_of(config).close()
        client_of.cache_clear()


def migrated(config: ClickHouseConfig) -> None:
    with tables.connect(config) as client:
        names = tables.names_of(config)
        tables.carry_out(client, names, tables.plan(client, names, DEFAULT_LIMITS).steps)


def to_ms_of(config: ClickHouseConfig) -> int:
    with contextlib.closing(connect(config)) as client:
        return int(client.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000


def rolled(config: ClickHouseConfig, to_ms: int) -> None:
    """All rollups, computed from what was inserted."""
    with contextlib.closing(SinkDatabase(config)) as database:
        first_ms = (to_ms - ROWS * WINDOW_MS) // MINUTE_MS * MINUTE_MS
        topics = [*(each.topic for each in GROUPED), "books", "costs"]
        buckets = [(topic, at_ms) for topic in topics for at_ms in range(first_ms, to_ms + 1, MINUTE_MS)]
        Notebook(database).note(LEVELS[0], buckets)
        rollups = Rollups(database, RollupSettings(settle_ms=0, buckets_per_pass_max=1_000))
        while rollups.run_pass():
            pass


def lines(config: ClickHouseConfig, sql: str, bound: dict[str, Any] | None = None) -> list[bytes]:
    """The rows of an answer in some order, as JSON."""
    return sorted(client_of(config).raw_query(sql, parameters=bound or {}, fmt="JSONCompactEachRow").splitlines())


@cache
def client_of(config: ClickHouseConfig) -> Any:
    """A client that stays open: making one takes longer than most answers."""
    return connect(config)


def people(config: ClickHouseConfig) -> ClickHouseConfig:
    """The read-only login of the same server, with all its limits: what people and pages read by."""
    return config.model_copy(update={"user": READER})


def test_a_migrated_cluster_needs_nothing(logins: tuple[ClickHouseConfig, list[ClickHouseConfig]]) -> None:
    """A second migration, through either server, finds all as it should be."""
    for config in (logins[0], *logins[1]):
        with tables.connect(config) as client:
            assert tables.plan(client, tables.names_of(config), DEFAULT_LIMITS).empty


def test_the_doctor_sees_the_tables_of_both_shards(logins: tuple[ClickHouseConfig, list[ClickHouseConfig]]) -> None:
    """Through either server: their TTLs, and rows of each."""
    _, shards = logins
    for config in shards:
        facts = look_at_database(config, None, SystemClock(), within_s=60)
        assert facts.servers_error is None
        assert facts.live is not None
        assert len(facts.servers) == len(shards)
        for one in facts.servers.values():
            assert {name: table.ttl for name, table in one.tables.items()} == {
                name: table.ttl for name, table in facts.live.tables.items()
            }
            assert one.tables["llm_requests_partials"].rows > 0


def test_rows_are_on_both_shards_once(logins: tuple[ClickHouseConfig, list[ClickHouseConfig]]) -> None:
    """Each shard has some; what came through both servers met its copy."""
    one, shards = logins
    counted = "SELECT count() FROM llm_requests_partials{} FINAL"
    on_each = [int(lines(config, counted.format("_local"))[0][1:-1]) for config in shards]

    assert all(on_each)
    assert [sum(on_each)] == [int(lines(one, counted.format(""))[0][1:-1])]


def test_every_view_is_that_of_one_server(logins: tuple[ClickHouseConfig, list[ClickHouseConfig]]) -> None:
    """To the last byte, for people and through either server; rollups and what materialized views copy, too."""
    one, shards = logins
    different, filled = [], 0
    for line in lines(one, READ):
        name, is_view = orjson.loads(line)
        sql = f"SELECT {SEEN.get(name, '*')} FROM {name}{RANGES.get(name, '') if is_view else ' FINAL'}"
        expected = lines(one, sql)
        filled += bool(expected)
        different += [(name, number) for number, each in enumerate(map(people, shards)) if lines(each, sql) != expected]

    assert filled > 100
    assert different == []


def test_every_query_answers_as_on_one_server(logins: tuple[ClickHouseConfig, list[ClickHouseConfig]]) -> None:
    """All of the catalogue, joins and subqueries among them, for people."""
    one, shards = logins
    to_ms = to_ms_of(one)
    reader = people(shards[0])
    different = [
        name for name, sql, bound in asked(to_ms) if lines(reader, sql, dict(bound)) != lines(one, sql, dict(bound))
    ]

    assert different == []
