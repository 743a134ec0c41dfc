"""The dashboard's catalogue against the real tables, and its access to them: limits, failures, recovery."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse import queries
from fleetpulse.dashboard import console
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.queries.dashboard import Query, Value, covered, names, query, read
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS

pytestmark = [pytest.mark.integration, pytest.mark.tables]

NOW_MS = 1_760_000_000_000
SPANS_MS = (10 * MINUTE_MS, HOUR_MS, DAY_MS, 90 * DAY_MS)
HOSTILE = "'; DROP TABLE llm_requests; -- <script>"
QUIET_MIN = 33
IDENTIFIERS = {"bins": "ttft_us_bins", "total": "power_mw_sum", "known": "power_mw_count", "dimension": "host"}
OF_TYPES: dict[str, Value] = {"String": HOSTILE, "Int64": 1, "UInt8": 1, "UInt32": 5, "UInt64": 5, "Float64": 1.0}


def values_for(found: Query) -> dict[str, Value]:
    """A value for every place: hostile texts, small numbers, known columns."""
    arrays: dict[str, Value] = {
        "Array(String)": [HOSTILE],
        "Array(Nullable(String))": [HOSTILE, None],
        "Array(Nullable(Int64))": [None],
    }
    of_types = OF_TYPES | arrays
    return {
        name: IDENTIFIERS.get(name, "host") if kind == "Identifier" else of_types[kind]
        for name, kind in found.parameters.items()
        if name not in found.sources
    }


@pytest.fixture
async def data(clickhouse_config: ClickHouseConfig) -> AsyncIterator[Data]:
    async with contextlib.aclosing(_Closing(clickhouse_config)) as found:
        yield found.data


class _Closing:
    def __init__(self, config: ClickHouseConfig) -> None:
        self.data = Data(config)

    async def aclose(self) -> None:
        await self.data.close()


async def test_every_query_runs_at_every_level_with_hostile_texts(data: Data, clickhouse: Client) -> None:
    """On tables that are there; what is bound stays a text, and nothing is gone afterwards."""
    tables = "SELECT count() FROM system.tables WHERE database = currentDatabase()"
    before = clickhouse.query(tables).result_rows

    for name in names():
        found = query(name)
        for span_ms in SPANS_MS if found.sources else SPANS_MS[:1]:
            given = values_for(found) | {"from_ms": NOW_MS - span_ms, "to_ms": NOW_MS, "bucket_ms": MINUTE_MS}
            answer = await data.ask(name, given, span_ms)
            assert len(answer.rows) <= found.rows_max

    assert clickhouse.query(tables).result_rows == before
    assert data.trouble is None


async def test_whole_hours_and_what_lies_around_them_add_up(data: Data, clickhouse: Client) -> None:
    """A request a minute: whatever the range, as many as it has minutes; nothing is missed or counted twice."""
    now_ms = time.time_ns() // 1_000_000  # rows of long ago would be gone by their TTL
    start_ms = now_ms - now_ms % HOUR_MS - DAY_MS
    for level, width_ms in (("1m", MINUTE_MS), ("1h", HOUR_MS)):
        clickhouse.command(
            f"INSERT INTO llm_requests_rollup_{level} (window_ms, grouping, tenant, model, status, event_count)"
            f" SELECT {start_ms} + number * {width_ms}, 'service', 'a', 'm', 'error', {width_ms // MINUTE_MS}"
            f" FROM numbers({3 * HOUR_MS // width_ms})"
        )
    anything: dict[str, Value] = {**dict.fromkeys(("cluster", "region", "model", "tenant", "search"), ""), "top": 5}

    for from_min, to_min in [(0, 180), (10, 170), (59, 61), (60, 120), (61, 119), (0, 60), (119, 121), (30, 31)]:
        span: dict[str, Value] = {"from_ms": start_ms + from_min * MINUTE_MS, "to_ms": start_ms + to_min * MINUTE_MS}
        for name in ("models", "tenants", "tenant_errors"):
            answer = await data.ask(name, {**anything, **span}, 6 * HOUR_MS)
            assert [row["requests"] for row in answer.records()] == [to_min - from_min], (name, from_min, to_min)


async def test_totals_of_tenants_are_of_all_and_not_of_the_listed(data: Data, clickhouse: Client) -> None:
    """How many there are, and what their requests cost, stands beside the biggest few."""
    at_ms = _yesterday_ms()
    clickhouse.command(
        "INSERT INTO llm_requests_rollup_1m (window_ms, grouping, tenant, model, status, event_count)"
        f" SELECT {at_ms}, 'service', toString(number), 'm', 'ok', 2 FROM numbers(250)"
    )
    span: dict[str, Value] = {"from_ms": at_ms, "to_ms": at_ms + HOUR_MS, "bucket_ms": HOUR_MS}
    anything: dict[str, Value] = dict.fromkeys(("cluster", "region", "model", "tenant"), "")

    listed = (await data.ask("tenants", {**anything, **span, "top": 200}, HOUR_MS)).records()
    flow = (await data.ask("requests_over_time", {**anything, **span}, HOUR_MS)).records()

    assert (len(listed), {row["tenants"] for row in listed}) == (200, {250})
    assert sum(row["requests"] for row in flow) == 500


def fill_windows(clickhouse: Client, topic: str, grouping: str, from_ms: int, windows: int) -> None:
    """So many windows of 10 s in a row, each with 4,200 events."""
    clickhouse.command(
        f"INSERT INTO {topic}_partials (window_ms, last_at_ms, grouping, event_count, log_offset)"
        f" SELECT {from_ms} + 10000 * number AS at, at, '{grouping}', 4200, number FROM numbers({windows})"
    )


async def test_a_range_that_nobody_chose_begins_with_the_first_event(data: Data, clickhouse: Client) -> None:
    """Three minutes after it these three are shown; before it, and when it is long ago, all of the range."""
    now_ms = time.time_ns() // 10**6 // MINUTE_MS * MINUTE_MS
    span = TimeRange(now_ms - HOUR_MS, now_ms)

    before = await data.since_first_event(span)
    data._answers.clear()
    fill_windows(clickhouse, "llm_requests", "service", now_ms - 3 * MINUTE_MS, 18)
    young = await data.since_first_event(span)
    later = TimeRange(now_ms + HOUR_MS, now_ms + 2 * HOUR_MS)
    old = await data.since_first_event(later)

    assert (before, young, old) == (span, TimeRange(now_ms - 3 * MINUTE_MS, now_ms), later)


async def test_minutes_around_a_range_say_where_data_lies(data: Data, clickhouse: Client) -> None:
    """Of the range's own first minute on, whatever its second, and windows of which no minute stands yet; other kinds
    have none."""
    begin_ms = time.time_ns() // 10**6 // DAY_MS * DAY_MS - DAY_MS
    for minute in (40, 70, 100, 140):
        at_ms = begin_ms + minute * MINUTE_MS
        clickhouse.command(
            "INSERT INTO llm_requests_rollup_1m (window_ms, grouping, event_count, version)"
            f" SELECT arrayJoin([{at_ms}]), arrayJoin(['service', 'service_engine']), 1, 1"
        )

    young_ms = begin_ms + 150 * MINUTE_MS + 10_000
    clickhouse.command(
        f"INSERT INTO gpu_samples_partials (window_ms, grouping, event_count) VALUES ({young_ms}, 'gpu', 1)"
    )

    answer = await data.ask("data_ends", {"from_ms": begin_ms + 100 * MINUTE_MS + 59_999}, MINUTE_MS)

    found = {kind: values for kind, *values in answer.rows}
    assert found.pop("requests") == [begin_ms + minute * MINUTE_MS for minute in (40, 70, 100, 140)]
    assert found.pop("GPU readings") == [None, None, young_ms, young_ms]
    assert {*map(tuple, found.values())} == {(None,) * 4}


@pytest.mark.parametrize(
    ("bursts", "covered_s"),
    [
        pytest.param([(30, 6)], 60, id="a minute in the middle of an hour"),
        pytest.param([(30, 6), (QUIET_MIN, 6)], 240, id="two minutes, and a quiet gap between them"),
        pytest.param([(10, 6), (50, 6)], 120, id="two minutes, and an outage between them"),
        pytest.param([(60, 360)], 3_600, id="all of it"),
        pytest.param([], 0, id="nothing"),
    ],
)
async def test_rates_are_of_the_time_with_data(
    data: Data, clickhouse: Client, bursts: list[tuple[int, int]], covered_s: int
) -> None:
    """Whatever reports counts; each burst is (minutes before the end, windows), hosts alone at ``QUIET_MIN``."""
    now_ms = time.time_ns() // 10**10 * 10_000
    for ago_min, windows in bursts:
        topic, grouping = ("host_samples", "host") if ago_min == QUIET_MIN else ("llm_requests", "service")
        fill_windows(clickhouse, topic, grouping, now_ms - ago_min * MINUTE_MS, windows)
    given: dict[str, Value] = {"from_ms": now_ms - HOUR_MS, "to_ms": now_ms}

    (found,) = (await data.ask("covered", given, HOUR_MS)).records()
    rates = (await data.sql(queries.text("throughput_by_model"), given, {})).records()

    assert found["covered_ms"] == 1_000 * covered_s
    requests = sum(4_200 * windows for ago_min, windows in bursts if ago_min != QUIET_MIN)
    assert [row["requests_per_s"] for row in rates] == ([round(requests / covered_s, 1)] if requests else [])


async def test_what_is_covered_does_not_depend_on_the_range(data: Data, clickhouse: Client) -> None:
    """Seven minutes two days ago, and five hours yesterday: hours between hours with data, minutes at their ends."""
    now_ms = time.time_ns() // 10**6 // HOUR_MS * HOUR_MS
    bursts = ((now_ms - 2 * DAY_MS + 50 * MINUTE_MS, 7), (now_ms - DAY_MS - 20 * MINUTE_MS, 300))
    for begin_ms, minutes in bursts:
        for level, width_ms in (("1m", MINUTE_MS), ("1h", HOUR_MS)):
            first_ms = begin_ms // width_ms * width_ms
            clickhouse.command(
                f"INSERT INTO host_samples_rollup_{level} (window_ms, grouping, host) SELECT {first_ms} + number *"
                f" {width_ms}, 'host', 'h' FROM numbers({-(-(begin_ms + minutes * MINUTE_MS - first_ms) // width_ms)})"
            )

    async def covered_min(from_ms: int, to_ms: int) -> float:
        span_ms = to_ms - from_ms
        (found,) = (await data.ask(covered(span_ms), {"from_ms": from_ms, "to_ms": to_ms}, span_ms)).records()
        return found["covered_ms"] / MINUTE_MS

    assert await covered_min(now_ms - 30 * DAY_MS, now_ms) == 307
    assert await covered_min(now_ms - 2 * DAY_MS + HOUR_MS, now_ms - 7) == 300
    assert await covered_min(now_ms - DAY_MS, now_ms) == 280
    assert await covered_min(now_ms - DAY_MS, now_ms - DAY_MS + 2 * HOUR_MS) == 120
    assert await covered_min(now_ms - 12 * HOUR_MS, now_ms) == 0


async def test_sums_over_a_fleet_do_not_wrap(data: Data, clickhouse: Client) -> None:
    """1,000 GPUs of 288 GB, read ten times a second for an hour, 39.8 % of their memory in use."""
    start_ms = _yesterday_ms()
    memory_bytes = 288 * 10**9 * 100
    clickhouse.command(
        "INSERT INTO gpu_samples_partials (window_ms, grouping, host, gpu_uuid, gpu_model, event_count, log_row,"
        " memory_used_bytes_sum, memory_total_bytes_sum)"
        f" SELECT {start_ms} + 10000 * intDiv(number, 1000), 'gpu', 'h', toString(number % 1000), 'B300', 100, number,"
        f" {memory_bytes * 398 // 1000}, {memory_bytes} FROM numbers(360000)"
    )
    span: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + HOUR_MS, "bucket_ms": HOUR_MS}
    filters = dict.fromkeys(("cluster", "region", "host", "gpu_model"), "")

    (fleet,) = (await data.ask("fleet_over_time", {**filters, **span}, 10 * MINUTE_MS)).records()
    (summary,) = (await data.sql(queries.text("gpu_summary"), span, {})).records()

    assert (fleet["gpus"], fleet["memory"]) == (1_000, pytest.approx(0.398))
    assert summary["memory_pct"] == 39.8


@pytest.mark.parametrize("told_by", ["whole GPUs", "MIG devices"])
async def test_a_gpu_counts_once_with_its_mig_devices(data: Data, clickhouse: Client, told_by: str) -> None:
    """Eight GPUs of 400 W and 80 GB, half in use, cut in seven devices each, and one of 20 GB that is whole."""
    start_ms, gb = _yesterday_ms(), 10**9
    whole = told_by == "whole GPUs"
    cut, device = "concat('GPU-', toString(number))", "concat('MIG-', toString(number))"
    parent, power, no_power = "concat('GPU-', toString(intDiv(number, 7)))", "1, 5000000", "0, NULL"
    for place, (uuid, of, count, used_gb, total_gb, power_mw, known) in enumerate(
        (
            (cut, "NULL", 8, 40 * whole, 80 * whole, 400_000, power),
            (device, parent, 56, 5, 10, 0, no_power),
            ("'GPU-idle'", "NULL", 1, 0, 20 * whole, 100_000, power),
        )
    ):
        clickhouse.command(
            "INSERT INTO gpu_samples_partials (window_ms, grouping, host, gpu_uuid, parent_uuid, gpu_model,"
            " event_count, log_partition, log_row, memory_used_bytes_sum, memory_total_bytes_sum, interval_ms_sum,"
            " power_mw_sum, power_mw_count, throttled_us_sum)"
            f" SELECT {start_ms}, 'gpu', 'h', {uuid}, {of}, 'B300', 1, {place}, number, {used_gb * gb},"
            f" {total_gb * gb}, 10000, {power_mw}, {known} FROM numbers({count})"
        )
    span: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + HOUR_MS, "bucket_ms": HOUR_MS}
    filters = dict.fromkeys(("cluster", "region", "host", "gpu_model"), "")

    (fleet,) = (await data.ask("fleet_over_time", {**filters, **span}, 10 * MINUTE_MS)).records()
    (summary,) = (await data.sql(queries.text("gpu_summary"), span, {})).records()

    memory = 8 * 40 / (8 * 80 + 20) if whole else 0.5
    assert (fleet["gpus"], fleet["power_w"], fleet["throttled"]) == (9, pytest.approx(3_300), pytest.approx(0.5))
    assert fleet["memory"] == pytest.approx(memory)
    assert (summary["gpus"], summary["memory_pct"]) == (9, round(100 * memory, 1))


@pytest.mark.parametrize("rolled_min", [None, 5], ids=["an hour that is not rolled up", "an hour of which a part is"])
async def test_what_came_in_the_running_hour_is_listed(data: Data, clickhouse: Client, rolled_min: int | None) -> None:
    """Though its row of an hour, or of a day, is computed when that is over; what was there before the range is not."""
    hour_ms = _yesterday_ms() + 7 * HOUR_MS
    hours = [(hour_ms - HOUR_MS, hour_ms - 1, "GPU-old", "old")]
    if rolled_min is not None:
        hours.append((hour_ms, hour_ms + rolled_min * MINUTE_MS, "GPU-still", "still"))
    minutes = [
        (hour_ms + minute * MINUTE_MS, name) for minute in range(20) for name in ("still", "new")[: 1 + minute // 9]
    ]
    for table, of_table in (
        ("1h", hours),
        ("1m", [(at_ms, at_ms + 59_000, f"GPU-{name}", name) for at_ms, name in minutes]),
    ):
        rows = [[at_ms, last_ms, "gpu", uuid, f"host-{name}", 1] for at_ms, last_ms, uuid, name in of_table]
        columns = ["window_ms", "last_at_ms", "grouping", "gpu_uuid", "host", "event_count"]
        clickhouse.insert(f"gpu_samples_rollup_{table}", rows, column_names=columns)
    filters = dict.fromkeys(("cluster", "host", "gpu_model", "search"), "")
    asked: dict[str, Value] = {**filters, "to_ms": hour_ms + 20 * MINUTE_MS, "top": 50}

    async def listed(name: str, length_ms: int, **more: Value) -> list[str]:
        given = {**asked, "from_ms": hour_ms + 20 * MINUTE_MS - length_ms, **more}
        return sorted(row["gpu_uuid"] for row in (await data.ask(name, given, length_ms)).records())

    async def hosts(name: str, length_ms: int, **more: Value) -> set[str]:
        given = {**asked, "from_ms": hour_ms + 20 * MINUTE_MS - length_ms, **more}
        rows = (await data.ask(name, given, length_ms)).records()
        return {row.get("name") or row["value"] for row in rows if row.get("kind", "host") == "host"}

    assert await listed("gpus", 15 * MINUTE_MS) == ["GPU-new", "GPU-still"]
    assert await listed("gpus", 2 * HOUR_MS) == ["GPU-new", "GPU-old", "GPU-still"]
    for length_ms in (HOUR_MS, 30 * DAY_MS):
        everything = {"host-new", "host-old", "host-still"}
        assert await hosts("names", length_ms, parts=["host-"]) == everything
        assert await hosts("values_of_gpus", length_ms, dimension="host") == everything


async def test_a_mig_device_says_of_which_gpu_it_is_a_part(data: Data, clickhouse: Client) -> None:
    """A page counts it with that GPU."""
    start_ms, devices = _yesterday_ms(), [("GPU-1", None), ("MIG-1", "GPU-1")]
    columns = ["window_ms", "last_at_ms", "grouping", "gpu_uuid", "parent_uuid", "host", "event_count"]
    rows = [[start_ms, start_ms, "gpu", uuid, of, "h", 1] for uuid, of in devices]
    clickhouse.insert("gpu_samples_rollup_1m", rows, column_names=columns)
    filters = dict.fromkeys(("cluster", "host", "gpu_model", "search"), "")
    given: dict[str, Value] = {**filters, "from_ms": start_ms, "to_ms": start_ms + MINUTE_MS, "top": 5}

    listed = (await data.ask("gpus", given, MINUTE_MS)).records()

    assert [(row["gpu_uuid"], row["part_of_gpu"]) for row in listed] == devices


async def test_what_an_engine_serves_is_of_all_its_models(data: Data, clickhouse: Client) -> None:
    """One after the other they are no more than one; at one time they add up."""
    start_ms = _yesterday_ms()
    _two_models(clickhouse, start_ms)
    filters = dict.fromkeys(("cluster", "region", "host", "model", "search"), "")
    given: dict[str, Value] = {**filters, "from_ms": start_ms, "to_ms": start_ms + MINUTE_MS, "top": 5}

    found = (await data.ask("engines", given, MINUTE_MS)).records()

    assert [(row["engine_id"], row["running"], row["tokens_per_s"]) for row in found] == [
        ("both", pytest.approx(16), pytest.approx(2_000)),
        ("then", pytest.approx(8), pytest.approx(1_000)),
    ]
    assert [row["a_model"] for row in found][1] == "b"
    assert found[0]["a_model"] == "b"  # of two that it was heard of as late, always the same


async def test_a_point_of_an_engine_is_of_all_its_models(data: Data, clickhouse: Client) -> None:
    """Also where it changed its model inside the point."""
    start_ms = _yesterday_ms()
    _two_models(clickhouse, start_ms)
    span: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + MINUTE_MS, "bucket_ms": MINUTE_MS}
    filters = dict.fromkeys(("cluster", "region", "host", "model", "engine_id"), "")
    measured = ("running", "waiting", "generated_per_s")

    points = (await data.ask("engines_over_time", {**filters, **span, "top": 5}, MINUTE_MS)).records()
    alone = [
        (await data.ask("engine_over_time", {**span, "engine_id": name}, MINUTE_MS)).records()
        for name in ("both", "then")
    ]

    assert [(row["name"], *(row[one] for one in measured)) for row in points] == [
        ("both", 16, 4, 2_000),
        ("then", 8, 2, 1_000),
    ]
    assert [[row[one] for one in (*measured, "running_max", "covered_for_ms")] for (row,) in alone] == [
        [16, 4, 2_000, 18, MINUTE_MS],
        [8, 2, 1_000, 9, MINUTE_MS],
    ]


async def test_the_kv_cache_in_use_is_the_same_of_one_engine_and_among_others(data: Data, clickhouse: Client) -> None:
    """On the page and on Grafana's board: the mean of a point, not its peak."""
    start_ms = _yesterday_ms()
    row = {"window_ms": start_ms, "grouping": "engine_sample", "engine_id": "e", "model": "m", "last_at_ms": start_ms,
           "event_count": 10, "running_sum": 80, "running_count": 10, "interval_ms_sum": 10_000,
           "kv_used_ppm_sum": 2_000_000, "kv_used_ppm_count": 10, "kv_used_ppm_max": 900_000}  # fmt: skip
    clickhouse.insert("engine_samples_partials", [[*row.values()]], column_names=[*row])
    span: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + MINUTE_MS, "bucket_ms": MINUTE_MS}
    filters = dict.fromkeys(("cluster", "region", "host", "model"), "")

    (alone,) = (await data.ask("engine_over_time", {**span, "engine_id": "e"}, MINUTE_MS)).records()
    (among,) = (
        await data.ask("engines_over_time", {**filters, **span, "engine_id": "", "top": 5}, MINUTE_MS)
    ).records()

    assert alone["kv_used"] == among["kv_used"] == pytest.approx(0.2)


def _two_models(clickhouse: Client, start_ms: int) -> None:
    """A minute of two engines that serve two models: one after the other, and both at one time."""
    served = [("then", window, "a" if window < 3 else "b") for window in range(6)]
    served += [("both", window, model) for window in range(6) for model in ("a", "b")]
    columns = ["window_ms", "grouping", "engine_id", "model", "last_at_ms", "log_offset"]
    same = {"event_count": 10, "running_sum": 80, "running_count": 10, "running_max": 9, "waiting_sum": 20,
            "waiting_count": 10, "generation_tokens_sum": 10_000, "interval_ms_sum": 10_000}  # fmt: skip
    rows = [
        [at_ms := start_ms + 10_000 * window, "engine_sample", engine, model, at_ms, number, *same.values()]
        for number, (engine, window, model) in enumerate(served)
    ]
    clickhouse.insert("engine_samples_partials", rows, column_names=[*columns, *same])


async def test_a_day_of_one_gpu_does_not_wrap(data: Data, clickhouse: Client) -> None:
    """NVLink at 150 GB/s: the bytes of a day fit Int64, a thousand times as many do not."""
    start_ms = _yesterday_ms()
    clickhouse.command(
        "INSERT INTO gpu_history_1h (window_ms, grouping, gpu_uuid, nvlink_tx_bytes_sum, interval_ms_sum)"
        f" SELECT {start_ms} + {HOUR_MS} * number, 'gpu', 'GPU-7', {150 * 10**9 * 3_600}, {HOUR_MS} FROM numbers(24)"
    )
    given: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + DAY_MS, "bucket_ms": DAY_MS}

    (one,) = (await data.ask("gpu_signals", {**given, "gpu_uuid": "GPU-7"}, 30 * DAY_MS)).records()

    assert one["nvlink_tx"] == 150e9


async def test_a_gpu_is_throttled_for_a_share_of_the_time_of_which_that_is_known(
    data: Data, clickhouse: Client
) -> None:
    """Half of the hours that say it, a quarter of the one that says it of all but the power limit; the last says
    nothing."""
    start_ms = _yesterday_ms()
    throttled = [(500 * HOUR_MS, 250 * HOUR_MS), (500 * HOUR_MS, None), (None, None)]
    hours = [[start_ms + HOUR_MS * number, *each] for number, each in enumerate(throttled)]
    columns = ["window_ms", "throttled_us_sum", "throttled_fault_us_sum", "grouping", "gpu_uuid", "interval_ms_sum"]
    clickhouse.insert("gpu_history_1h", [[*hour, "gpu", "GPU-8", HOUR_MS] for hour in hours], column_names=columns)
    given: dict[str, Value] = {"from_ms": start_ms, "to_ms": start_ms + DAY_MS, "bucket_ms": DAY_MS}

    (one,) = (await data.ask("gpu_signals", {**given, "gpu_uuid": "GPU-8"}, 30 * DAY_MS)).records()

    assert (one["throttled"], one["throttled_fault"]) == (0.5, 0.25)


def _yesterday_ms() -> int:
    now_ms = time.time_ns() // 1_000_000  # rows of long ago would be gone by their TTL
    return now_ms - now_ms % DAY_MS - DAY_MS


async def test_equal_questions_share_an_answer(data: Data) -> None:
    """Twenty people on one page cost what one does."""
    given: dict[str, Value] = {"from_ms": 0, "to_ms": NOW_MS, "id": "x", "near_ms": 0}

    first, second = [await data.ask("request", given, HOUR_MS) for _ in range(2)]

    assert first is second


async def test_a_query_that_takes_too_long_is_stopped_and_says_what_to_do(data: Data) -> None:
    """By the server, in a sentence for people."""
    with pytest.raises(FleetpulseError, match="choose a shorter range"):
        await data.sql(
            "SELECT count() FROM numbers(1e15) WHERE NOT ignore(sipHash64(number))", {}, {"max_execution_time": 1}
        )


async def test_a_statement_ends_on_the_server_when_its_page_is_gone(stack: Any) -> None:
    """Its connection is dropped, and the server stops reading: half a minute of it was left."""
    mark = f"gone_{time.monotonic_ns()}"
    rows = "numbers(1900000000) WHERE NOT ignore(sipHash128(number))"
    slow = f"SELECT count() AS {mark} FROM {rows} SETTINGS max_threads = 1"
    running = asyncio.ensure_future(console.table(stack.clickhouse_reader, slow, {}))

    def under_way(count: int) -> bool:
        """Whether so many are, within a quarter of the time after which the server would end it anyway."""
        until_s = time.monotonic() + console.SECONDS_MAX / 4
        like = f"query LIKE '%{mark}%' AND query NOT LIKE '%system.processes%'"
        with contextlib.closing(connect(stack.clickhouse)) as client:
            while time.monotonic() < until_s:
                if int(client.command(f"SELECT count() FROM system.processes WHERE {like}")) == count:
                    return True
                time.sleep(0.1)
        return False

    assert await asyncio.to_thread(under_way, 1)
    running.cancel()
    assert await asyncio.to_thread(under_way, 0)
    assert running.cancelled()


async def test_values_of_the_console_arrive_as_they_were_written(stack: Any) -> None:
    """Whatever they hold; in lists, which have quotes, as SQL has them."""
    odd, listed = "C:\\new\t'x'\n\\N", r"['it\'s', 'a\\b']"

    found = await console.table(
        stack.clickhouse_reader, "SELECT {odd:String}, {listed:Array(String)}", {"odd": odd, "listed": listed}
    )

    assert found.rows == ((odd, ["it's", "a\\b"]),)


@pytest.mark.parametrize(("ending", "rows"), [("csv", 100), ("parquet", 10_000_000)])
async def test_a_file_that_fails_has_the_servers_words(stack: Any, ending: str, rows: int) -> None:
    """Not the rows that were written before it, nor that the connection was cut."""
    sql = f"SELECT number, throwIf(number = {rows * 3 // 10}) FROM numbers({rows}) SETTINGS max_threads = 1"
    with pytest.raises(FleetpulseError, match=r"^Code: 395\. DB::Exception: .*\)$"):
        await console.file(stack.clickhouse_reader, f"{sql}, max_block_size = {rows // 10}", {}, ending)


async def test_a_sum_of_money_is_a_number_in_a_parquet_file(stack: Any) -> None:
    """As a decimal: 128 bits are raw bytes there. The order of rows, nulls and values of places stay."""
    sql = "SELECT sum(toInt128(number)) AS nusd, nullIf(nusd, 3) AS b, {c:UInt8} AS c FROM numbers(4) GROUP BY number"

    found = await console.file(stack.clickhouse_reader, f"{sql} ORDER BY nusd DESC;", {"c": 7}, "parquet")

    assert pq.read_table(io.BytesIO(found)).to_pylist() == [
        {"nusd": Decimal(n), "b": None if n == 3 else Decimal(n), "c": 7} for n in (3, 2, 1, 0)
    ]


async def test_a_query_that_brings_too_much_is_stopped(data: Data) -> None:
    """Nothing floods a browser."""
    found = read("q", "-- Many.\n-- rows: 10\nSELECT number FROM numbers(11)")

    with pytest.raises(FleetpulseError, match="more to show than fits"):
        await data.sql(found.sql, {}, found.settings())


async def test_what_clickhouse_rejects_is_reported_by_its_first_line(data: Data) -> None:
    """And is no reason to try again."""
    with pytest.raises(FleetpulseError, match="ClickHouse rejected this") as rejected:
        await data.sql("SELECT nothing_like_this", {}, {})
    assert not rejected.value.retriable


async def test_the_dashboard_comes_back_with_clickhouse(
    clickhouse_config: ClickHouseConfig, unused_tcp_port: int
) -> None:
    """While it is away every question says so at once; afterwards the same object answers."""
    away = clickhouse_config.model_copy(update={"url": f"http://127.0.0.1:{unused_tcp_port}"})
    data = Data(away)
    given: dict[str, Value] = {"from_ms": 0, "to_ms": NOW_MS, "id": "x", "near_ms": 0}

    with pytest.raises(UnavailableError, match="ClickHouse unavailable"):
        await data.ask("request", given, HOUR_MS)
    assert data.trouble is not None
    data.login = clickhouse_config
    answer = await data.ask("request", given, HOUR_MS)
    await data.close()

    assert answer.rows == ()
    assert data.trouble is None
