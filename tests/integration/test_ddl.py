"""Tables and views on a real ClickHouse: they can be made, say what they are, and readers may only read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from fleetpulse import queries
from fleetpulse.migrate.run import migrate
from fleetpulse.queries import dashboard
from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from fleetpulse.queries.scope import scoped
from fleetpulse.sql.database import Database
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract import alert_commands
from schemas.contract.alerts import Alert, encode
from schemas.contract.record import Record
from schemas.contract.topics import ALERT_COMMANDS
from schemas.ddl.merging import LEVELS
from schemas.ddl.stored import LANDED
from schemas.ddl.views import FLEET_NOW, view_name
from schemas.events.event_types import GPU_EVENTS, LLM_REQUESTS
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import DAY_MS
from schemas.rows.tables import ALERT_HISTORY, EXEMPLARS
from sinks.database import SinkDatabase
from sinks.landing import Insert
from tests.integration.cost_rows import land_events
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import derived, partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

VIEWS = [view_name(one, level) for one in GROUPING_SETS for level in (None, *(each.name for each in LEVELS))]


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Iterator[SinkDatabase]:
    with contextlib.closing(SinkDatabase(clickhouse_config)) as found:
        yield found


@pytest.fixture
def reader(stack: Any) -> Iterator[Any]:
    """The reader's login; it may see the installation's own database alone."""
    migrate(stack.kafka, stack.clickhouse)
    with contextlib.closing(connect(stack.clickhouse_reader)) as found:
        yield found


def test_every_column_says_what_it_is(database: SinkDatabase, clickhouse: Any) -> None:
    """Also the columns of views, as the server itself tells them; what only fills a table says it there."""
    filling = "SELECT name FROM system.tables WHERE engine = 'MaterializedView'"
    silent = (
        "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND comment = ''"
        f" AND table NOT IN ({filling})"
    )

    assert clickhouse.query(silent).result_rows == []
    assert clickhouse.command("SELECT count() FROM system.tables WHERE database = currentDatabase()") > 50


def test_raw_and_partial_rows_are_packed_as_told(database: SinkDatabase, clickhouse: Any) -> None:
    """The server took the codecs of numbers and sketches and the settings of parts."""
    codecs = "SELECT table, name, compression_codec FROM system.columns WHERE database = currentDatabase()"
    found = {(table, name): codec for table, name, codec in clickhouse.query(codecs).result_rows}
    made = clickhouse.command("SHOW CREATE TABLE llm_requests_partials")

    assert found["llm_requests", "e2e_us"] == found["llm_requests_partials", "e2e_us_sum"] == "CODEC(T64, LZ4)"
    assert found["gpu_samples", "power_mw"] == found["gpu_samples_partials", "power_mw_sum"] == "CODEC(ZSTD(1))"
    assert found["llm_requests", "itl_bins"] == found["llm_requests_partials", "ttft_us_bins"] == "CODEC(T64, ZSTD(1))"
    assert found["gpu_samples", "at_ms"] == "CODEC(Delta(8), ZSTD(1))"
    assert "min_bytes_for_wide_part = 67108864" in made
    assert "vertical_merge_algorithm_min_rows_to_activate = 8192" in made
    assert "merge_max_block_size = 65536" in made
    assert re.search(r"auto_statistics_types = \\*'\\*'", made)


def test_the_reader_reads_every_view_and_writes_nothing(reader: Any) -> None:
    """People's queries cannot change or leak anything: no insert, no drop, no file, no address."""
    for view in (*VIEWS, FLEET_NOW):
        reader.query(f"SELECT * FROM {view} LIMIT 1")

    for forbidden in (
        "INSERT INTO books (topic) VALUES ('x')",
        "DROP TABLE books",
        "TRUNCATE TABLE books",
        "CREATE TABLE t (x UInt8) ENGINE = Memory",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString', 'x String')",
    ):
        with pytest.raises(DatabaseError):
            reader.command(forbidden)


def test_every_query_of_the_catalogue_runs(database: SinkDatabase, clickhouse: Any) -> None:
    """On the real tables, with rows in them."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    row = {"window_ms": now_ms, "last_at_ms": now_ms, "event_count": 2, "host": "h", "model": "m", "origin": "measured"}
    for topic, grouping in (("llm.requests", "service"), ("llm.requests", "engine"), ("gpu.samples", "gpu")):
        store(database, [partials([{**row, "grouping": grouping, "status": "error"}], 1, topic)], now_ms)
    store(database, [partials([{**row, "grouping": "host"}], 1, "host.samples")], now_ms)
    store(database, [partials([{**row, "grouping": "engine_sample"}], 1, "engine.samples")], now_ms)
    store(database, [partials([{**row, "grouping": "process"}], 1, "host.processes")], now_ms)
    store_evidence(database, now_ms, row)
    bounds = {"from_ms": now_ms - 60_000, "to_ms": now_ms + 10_000}
    bounds |= {"before_from_ms": 0, "before_to_ms": now_ms - 60_000, "metric": "requests", "model": "", "tenant": ""}
    bounds |= {"bins": "ttft_us_bins", "quantile": 0.99}
    elsewhere = {"idle_gpus", "slowest_requests", "requests_lost"}  # bills, raw requests
    elsewhere |= {"latency_rise", "starved_gpus"}  # whole minutes

    for name in (name for name in queries.names() if not name.startswith(("cost_", "request_"))):
        if name in elsewhere:
            continue
        assert clickhouse.query(queries.text(name), parameters=bounds).result_rows, name


def test_every_query_of_the_sdk_s_page_runs(database: SinkDatabase, clickhouse: Any) -> None:
    """As it stands there, on steps of two ranks and on a metric."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    row = {"window_ms": now_ms, "last_at_ms": now_ms, "event_count": 2, "host": "h", "origin": "measured"}
    steps = [{**row, "grouping": "training", "job": "sft", "rank": rank} for rank in ("0", "1")]
    store(database, [partials(steps, 1, "training.steps")], now_ms)
    store(
        database,
        [partials([{**row, "grouping": "custom", "metric": "batcher_queue_depth"}], 1, "custom.metrics")],
        now_ms,
    )
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "sdk.md").read_text()
    found = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)

    assert [len(clickhouse.query(text).result_rows) for text in found] == [2, 1]


def store_evidence(database: SinkDatabase, now_ms: int, row: dict[str, Any]) -> None:
    """An open alert, a silence, an exemplar, a fault of a GPU and a request of its engine."""
    silence = alert_commands.encode(alert_commands.Command("mute", "s-1", {"host": "h"}, now_ms, now_ms + 1))
    store(database, [Record(ALERT_COMMANDS, 0, 5, now_ms, None, silence, ())], now_ms)
    gpu_row = {**row, "gpu_uuid": "GPU-1", "engine_id": "e1"}
    store(database, [partials([{**gpu_row, "grouping": "gpu", "nvlink_errors_sum": 1}], 2, "gpu.samples")], now_ms)
    fault = {**gpu_row, "grouping": "gpu_event", "kind": "xid", "severity": "critical"}
    store(database, [partials([fault], 3, "gpu.events")], now_ms)
    event = {"at_ms": now_ms, "host": "h", "origin": "measured", "engine_id": "e1"}
    request = {**event, "model": "m", "status": "error", "itl_bins": {}, "request_id": "r"}
    land_events(database, LLM_REQUESTS, [request])
    land_events(database, GPU_EVENTS, [{**event, "gpu_uuid": "GPU-1", "kind": "xid", "severity": "critical"}])
    example = {"window_ms": now_ms, "metric": "ttft", "value_us": 5, "model": "m", "request_id": "r"}
    store(database, [derived(EXEMPLARS, [example], "window.partials", 4)], now_ms)
    database.insert([alert_insert(now_ms, 0)])


def alert_insert(now_ms: int, offset: int, **change: Any) -> Insert:
    """A transition as the sink would land it."""
    base = {"fingerprint": "f" * 16, "transition": "opened", "number": 1, "rule": "gpu_hot", "severity": "warning"}
    times = {"at_ms": now_ms, "opened_ms": now_ms, "since_ms": now_ms - 20_000}
    alert = Alert(**{**base, **times, "summary": "hot", "advice": "", "labels": {"host": "h"}, "value": 91.5, **change})
    fields = LANDED[ALERT_HISTORY.schema].fields
    row = {name: value for name, value in asdict(alert).items() if name in {field.name for field in fields}}
    log = {"log_id": "l", "log_partition": 0, "log_offset": offset, "log_row": 0}
    block = block_from_rows(fields, [{**row, **log, "record": encode(alert).decode()}])
    return Insert("alerts", tuple(field.name for field in fields), native.pieces(fields, block), 1)


def test_alerts_are_shown_with_what_their_records_say(database: SinkDatabase, clickhouse: Any) -> None:
    """A transition that was told twice is shown once; null stays null, labels are a map."""
    now_ms = 1_800_000_000_000
    over = {"transition": "resolved", "number": 2, "resolved_ms": now_ms + 5_000, "value": None}
    database.insert([alert_insert(now_ms, offset, **change) for offset, change in enumerate(({}, {}, over))])
    columns = "transition, value, baseline, labels, members, resolved_ms, transition_id, toString(opened)"

    found = clickhouse.query(f"SELECT {columns} FROM alert_history ORDER BY number").result_rows

    opened, key = "2027-01-15 08:00:00.000", f"{'f' * 16}-{now_ms}"
    assert found == [
        ("opened", 91.5, None, {"host": "h"}, 0, None, f"{key}-1", opened),
        ("resolved", None, None, {"host": "h"}, 0, now_ms + 5_000, f"{key}-2", opened),
    ]


def test_an_open_alert_is_found_by_what_it_is_about_now(
    database: SinkDatabase, clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Opened before the range it is open still; what it was about before another cause was likelier is no matter."""
    now_ms = 1_800_000_000_000
    began = {"opened_ms": now_ms - 50 * DAY_MS, "at_ms": now_ms - 50 * DAY_MS, "labels": {"model": "m"}}
    moved = {**began, "transition": "updated", "number": 2, "at_ms": now_ms - 9 * DAY_MS, "labels": {"host": "h"}}
    over = {"fingerprint": "e" * 16, "opened_ms": now_ms - DAY_MS}
    changes = (began, moved, {**over, "labels": {"model": "m"}}, {**over, "transition": "resolved", "number": 2})
    database.insert([alert_insert(now_ms - 5, offset, **change) for offset, change in enumerate(changes)])
    bounds = {"from_ms": now_ms - DAY_MS, "to_ms": now_ms}

    with contextlib.closing(Database(clickhouse_config)) as reader:
        found = {
            (name, held): [
                (row["fingerprint"][0], row.get("lasted_s"))
                for row in reader.sql(scoped(queries.text(name), [held]), bounds | {held: value}).records()
            ]
            for name in ("open_alerts", "alert_history")
            for held, value in (("host", "h"), ("model", "m"))
        }

    assert found["open_alerts", "host"] == [("f", None)]
    assert found["open_alerts", "model"] == found["alert_history", "model"] == []
    assert [fingerprint for fingerprint, _ in found["alert_history", "host"]] == ["e", "f"]


def rows_of_page(reader: Database, name: str, to_ms: int, **more: int) -> list[dict[str, Any]]:
    """What a query of the dashboard finds of the day before."""
    given = {**dict.fromkeys(dashboard.STANDARD, ""), "from_ms": to_ms - DAY_MS, "to_ms": to_ms, **more}
    query = dashboard.query(name)
    return reader.sql(query.at_levels(DAY_MS, given), query.values(given, DAY_MS)).records()


def test_the_page_has_the_alerts_that_were_open_before_its_range(
    database: SinkDatabase, clickhouse_config: ClickHouseConfig
) -> None:
    """As ``alert_history`` of ``fleetpulse ask``: with no transition in it; one that was over before is none of it."""
    now_ms = 1_800_000_000_000
    began = {"opened_ms": now_ms - 9 * DAY_MS, "at_ms": now_ms - 9 * DAY_MS}
    over = [
        {**began, "fingerprint": "e" * 16, "transition": kind, "number": n}
        for n, kind in enumerate(("opened", "resolved"), 1)
    ]
    new = {"fingerprint": "d" * 16, "at_ms": now_ms - 10, "opened_ms": now_ms - 10}
    database.insert([alert_insert(now_ms - 5, offset, **change) for offset, change in enumerate((began, *over, new))])

    with contextlib.closing(Database(clickhouse_config)) as reader:
        rows = rows_of_page(reader, "alerts_history", now_ms)

    assert [(row["fingerprint"][0], row["transitions"], row["ended_ms"]) for row in rows] == [
        ("d", 1, None),
        ("f", 0, None),
    ]


def test_an_alert_of_a_budget_of_a_year_is_open_to_its_end(
    database: SinkDatabase, clickhouse_config: ClickHouseConfig
) -> None:
    """Published once, 300 days ago; one that was resolved since is over, also where it was told twice."""
    now_ms = 1_800_000_000_000
    long_ago = {"at_ms": now_ms - 300 * DAY_MS, "opened_ms": now_ms - 300 * DAY_MS}
    over = [
        {**long_ago, "fingerprint": "e" * 16, "at_ms": now_ms - days * DAY_MS, "transition": kind, "number": number}
        for number, days, kind in ((1, 300, "opened"), (2, 200, "resolved"), (2, 200, "resolved"))
    ]
    database.insert([alert_insert(now_ms, offset, **change) for offset, change in enumerate((long_ago, *over))])

    with contextlib.closing(Database(clickhouse_config)) as reader:
        bounds = {"from_ms": now_ms - DAY_MS, "to_ms": now_ms}
        found = {
            "open_alerts": reader.sql(queries.text("open_alerts"), bounds).records(),
            "alerts_open": rows_of_page(reader, "alerts_open", now_ms, kept_ms=ALERTS_KEPT_MS),
            "alerts_history": rows_of_page(reader, "alerts_history", now_ms),
        }

    assert sorted((name, row["fingerprint"][0]) for name, rows in found.items() for row in rows) == [
        (name, "f") for name in sorted(found)
    ]


def test_an_alert_that_an_event_opened_late_is_open(
    database: SinkDatabase, clickhouse_config: ClickHouseConfig
) -> None:
    """A GPU was lost again before its alert was resolved, and its host could not say so until long after."""
    now_ms = 1_800_000_000_000
    before = {"opened_ms": now_ms - 3_600_000, "at_ms": now_ms - 3_600_000}
    over = {**before, "transition": "resolved", "number": 2, "at_ms": now_ms - 1_500_000}
    late = {"opened_ms": now_ms - 1_800_000, "at_ms": now_ms - 1_800_000}
    database.insert([alert_insert(now_ms, offset, **change) for offset, change in enumerate((before, over, late))])

    with contextlib.closing(Database(clickhouse_config)) as reader:
        bounds = {"from_ms": now_ms - DAY_MS, "to_ms": now_ms}
        since = {"from_ms": now_ms - 60_000, "to_ms": now_ms}
        found = {
            "open_alerts": reader.sql(queries.text("open_alerts"), bounds).records(),
            "alert_history": reader.sql(queries.text("alert_history"), since).records(),
            "alerts_open": rows_of_page(reader, "alerts_open", now_ms, kept_ms=ALERTS_KEPT_MS),
        }

    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(found, 1)
    assert [row["opened_ms"] for row in found["alerts_open"]] == [late["opened_ms"]]


def gpu(now_ms: int, **change: Any) -> dict[str, Any]:
    row = {"window_ms": now_ms, "last_at_ms": now_ms, "event_count": 1, "grouping": "gpu", "gpu_uuid": "GPU-1"}
    return {**row, "host": "h1", "cluster": "c", "origin": "measured", **change}


def test_fleet_now_shows_the_latest_state_nulls_included(database: SinkDatabase, clickhouse: Any) -> None:
    """A GPU whose engine is gone has no engine; what was never measured is null; state of host and engine beside it."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    samples = [
        gpu(now_ms - 20_000, engine_id="e1", workload="inference", util_gpu_pct_last=90, power_mw_last=5),
        gpu(now_ms, util_gpu_pct_last=3),
        gpu(now_ms, gpu_uuid="GPU-2", engine_id="e2", power_mw_last=7),
        gpu(now_ms - 3_600_000, gpu_uuid="GPU-gone"),
    ]
    host = {**gpu(now_ms), "grouping": "host", "cpu_busy_ppm_last": 250_000}
    engine = {**gpu(now_ms), "grouping": "engine_sample", "engine_id": "e2", "model": "m", "running_last": 4}
    store(database, [partials(samples, 1, "gpu.samples")], now_ms)
    store(database, [partials([host], 1, "host.samples"), partials([engine], 1, "engine.samples")], now_ms)

    found = list(clickhouse.query(f"SELECT * FROM {FLEET_NOW} ORDER BY gpu_uuid").named_results())

    assert [row["gpu_uuid"] for row in found] == ["GPU-1", "GPU-2"]
    one, two = found
    assert one["power_mw"] is None
    assert (one["engine_id"], one["workload"], one["util_gpu_pct"], one["model"]) == (None, None, 3, None)
    assert (two["engine_id"], two["power_mw"], two["temperature_c"], two["model"]) == ("e2", 7, None, "m")
    assert (one["host_cpu_busy_ppm"], two["host_cpu_busy_ppm"]) == (250_000, 250_000)
    assert (one["engine_running"], two["engine_running"]) == (None, 4)
