"""What of requests and GPUs is joined, by the query behind the page Pipeline and the doctor."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from fleetpulse.doctor.look_database import _measured_twice
from fleetpulse.queries.dashboard import query
from runtime.config import ClickHouseConfig
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store
from tests.unit.sinks.landing_cases import partials

pytestmark = [pytest.mark.integration, pytest.mark.tables]

MINUTES_MS = 600_000


def requests(window_ms: int, events: int, **labels: Any) -> list[dict[str, Any]]:
    """A series of the set by engine and its like of the set by service."""
    row = {"window_ms": window_ms, "event_count": events, "model": "m", "status": "ok", "origin": "measured"}
    place = {name: labels.pop(name, None) for name in ("engine_id", "placement_group", "host")}
    return [{**row, "grouping": "engine", **place}, {**row, "grouping": "service", **labels}]


def gpu(window_ms: int, uuid: str, **labels: Any) -> dict[str, Any]:
    row = {"window_ms": window_ms, "event_count": 10, "grouping": "gpu", "gpu_uuid": uuid, "host": "h1"}
    return {**row, "origin": "measured", "last_at_ms": window_ms, **labels}


def test_shares_of_requests_and_samples_that_are_joined(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Each counted once; who lacks it is named; idle and training GPUs need no engine."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    at_ms = now_ms - 60_000
    joined = {"engine_id": "e1", "placement_group": "e1", "host": "h1"}
    rows = [
        *requests(at_ms, 6, **joined, tenant="a"),
        *requests(at_ms, 3, engine_id="e9", placement_group="e9", host="h1", tenant="a"),
        *requests(at_ms + 10_000, 1, host="gw"),
    ]
    gpus = [
        gpu(at_ms, "G1", engine_id="e1", placement_group="e1", workload="inference"),
        gpu(at_ms, "G2", placement_group="h1"),
        gpu(at_ms, "G3", placement_group="h1", workload="idle"),
        gpu(at_ms, "G4", placement_group="h1", workload="training"),
        gpu(at_ms, "G5", placement_group="e1+e2", workload="inference"),
    ]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        store(database, [partials(rows, 1, "llm.requests"), partials(gpus, 1, "gpu.samples")], now_ms)

    sql, bounds = query("joins").at_levels(MINUTES_MS), {"from_ms": now_ms - MINUTES_MS, "to_ms": now_ms}
    found = clickhouse.query(sql, parameters=bounds).named_results()

    assert [tuple(row.values()) for row in found] == [
        ("requests", "GPUs", 10, 6, ["e9"]),
        ("requests", "engine", 10, 9, ["gw"]),
        ("requests", "tenant", 10, 9, ["m"]),
        ("GPU samples", "engine", 30, 20, ["h1"]),
    ]


def test_an_engine_that_the_agent_matched_with_no_gpu_is_not_joined(
    clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """Its group is its host, as that of GPUs there that name no engine: known by name, and the bill is idle all the
    same, also where the driver shows no process and the GPUs count as idle."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    at_ms = now_ms - 60_000
    rows = [
        *requests(at_ms, 6, engine_id="h1:8000", placement_group="h1", host="h1", tenant="a"),
        *requests(at_ms, 4, engine_id="h2:8000", placement_group="h2", host="h2", tenant="a"),
        *requests(at_ms, 2, engine_id="h3:8000", placement_group="h3", host="h3", tenant="a"),
    ]
    gpus = [
        gpu(at_ms, "G1", placement_group="h1", workload="idle"),
        gpu(at_ms, "G2", placement_group="h2") | {"host": "h2"},
        gpu(at_ms, "G3", engine_id="h3:8000", placement_group="h3", workload="inference") | {"host": "h3"},
    ]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        store(database, [partials(rows, 1, "llm.requests"), partials(gpus, 1, "gpu.samples")], now_ms)

    sql, bounds = query("joins").at_levels(MINUTES_MS), {"from_ms": now_ms - MINUTES_MS, "to_ms": now_ms}
    found = [tuple(row.values()) for row in clickhouse.query(sql, parameters=bounds).named_results()]

    assert found[0] == ("requests", "GPUs", 12, 2, ["h1:8000", "h2:8000"])


def test_names_without_room_are_shown_by_label(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Of a whole series, of one label of it, and whose; a series that has all its names is not shown."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))")) // 10_000 * 10_000
    at_ms = now_ms - 60_000
    other = "__other__"
    service = {"window_ms": at_ms, "grouping": "service", "status": "ok", "origin": "measured"}
    rows = [
        {**service, "event_count": 5, "tenant": "a", "model": other},
        {**service, "event_count": 2, "tenant": "b", "model": other, "slo_class": other},
        {**service, "event_count": 9, "tenant": "c", "model": "m"},
        {**service, "event_count": 4, "tenant": other, "model": other, "status": other, "origin": other},
    ]
    gpus = [gpu(at_ms, other), gpu(at_ms, "G1")]
    step = {"window_ms": at_ms, "grouping": "training", "origin": "measured", "last_at_ms": at_ms, "job": "sft"}
    steps = [{**step, "event_count": 3, "rank": other}, {**step, "event_count": 8, "rank": "0"}]
    process = {"window_ms": at_ms, "grouping": "process", "origin": other, "last_at_ms": at_ms, "host": other}
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        topics = ("llm.requests", "gpu.samples", "training.steps", "host.processes")
        of_each = (rows, gpus, steps, [{**process, "event_count": 1, "process_name": other}])
        store(database, [partials(one, 1, topic) for topic, one in zip(topics, of_each, strict=True)], now_ms)

    sql, bounds = query("pipeline_overflow").at_levels(MINUTES_MS), {"from_ms": now_ms - MINUTES_MS, "to_ms": now_ms}
    found = clickhouse.query(sql, parameters=bounds).named_results()

    assert [tuple(row.values()) for row in found] == [
        ("gpu", "gpu_uuid", 10, []),
        ("service", "model", 7, ["a", "b"]),
        ("service", "every label", 4, []),
        ("training", "rank", 3, []),
        ("service", "slo_class", 2, ["b"]),
        ("process", "every label", 1, []),
    ]


def test_requests_that_several_report_are_counted(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Under the id that an engine put its own around as well; the reports of one measurer are one request each, and
    what is older than three minutes is left alone."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    reports = [
        (1_000, "a-1", "proxy"), (1_000, "chatcmpl-a-1", "plugin"), (1_000, "a-2", "proxy"),
        (1_000, "cmpl-b-7-0", "plugin"), (1_000, "1_cmpl-b-7-0", "plugin"), (1_000, "cmpl-b-7", "sdk"),
        (1_000, "chatcmpl-c", "proxy"), (1_000, "c", "sdk"),
        (1_000, "e-1", "proxy"), (1_000, "embd-e-1-0", "plugin"), (1_000, "1_embd-e-1-0", "plugin"),
        (1_000, "resp_d", "sdk"), (1_000, "resp_d_0", "plugin"), (1_000, "resp_d_1", "plugin"),
        (1_000, "t-2", "proxy"), (1_000, "transcribe-t-2", "plugin"),
        (200_000, "old", "proxy"), (200_000, "old", "sdk"),
    ]  # fmt: skip
    rows = ", ".join(
        f"({now_ms - ago_ms}, {now_ms}, '{name}', 'm', 'ok', 'measured', '{by}', {at})"
        for at, (ago_ms, name, by) in enumerate(reports)
    )
    clickhouse.command(
        "INSERT INTO llm_requests (at_ms, appended_ms, request_id, model, status, origin, reported_by, row) "
        f"VALUES {rows}"
    )

    sql, bounds = query("joins").at_levels(MINUTES_MS), {"from_ms": now_ms - MINUTES_MS, "to_ms": now_ms}
    found = clickhouse.query(sql, parameters=bounds).named_results()

    assert [tuple(row.values()) for row in found] == [
        ("requests", "one report", 8, 3, ["plugin and proxy", "plugin and sdk"])
    ]


def test_hosts_that_two_agents_measure_are_found(clickhouse: Any) -> None:
    """At one time: an agent whose source is another after a restart measures alone."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    samples = [
        *(("twice", source, ago_ms) for source in ("a", "b") for ago_ms in (150_000, 100_000, 40_000)),
        *(("restarted", "c", ago_ms) for ago_ms in (150_000, 120_000)),
        *(("restarted", "d", ago_ms) for ago_ms in (90_000, 40_000)),
        *(("once", "e", ago_ms) for ago_ms in (150_000, 40_000)),
    ]
    rows = ", ".join(
        f"({now_ms - ago_ms}, {now_ms}, '{host}', '{source}', {at})"
        for at, (host, source, ago_ms) in enumerate(samples)
    )
    clickhouse.command(f"INSERT INTO host_samples (at_ms, appended_ms, host, source, row) VALUES {rows}")

    assert _measured_twice(clickhouse, now_ms) == ("twice",)
    clickhouse.command("DROP TABLE host_samples")
    assert _measured_twice(clickhouse, now_ms) is None
