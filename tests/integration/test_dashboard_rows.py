"""Rows of the dashboard's queries: which request a link means, what a filter leaves, how many alerts there are."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from clickhouse_connect.driver.client import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from fleetpulse.queries.dashboard import STANDARD, Value
from runtime.config import ClickHouseConfig
from schemas.limits import HOUR_MS, MINUTE_MS

pytestmark = [pytest.mark.integration, pytest.mark.tables]

AT_MS = time.time_ns() // 10**6 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
"""Rows of long ago would be gone by their TTL."""
SPAN_MS = 10 * MINUTE_MS


@pytest.fixture
async def data(clickhouse_config: ClickHouseConfig) -> AsyncIterator[Data]:
    found = Data(clickhouse_config)
    try:
        yield found
    finally:
        with contextlib.suppress(OSError):
            await found.close()


def given(**values: Value) -> dict[str, Value]:
    """The range, and no filter but these."""
    span: dict[str, Value] = {"from_ms": AT_MS, "to_ms": AT_MS + SPAN_MS, "bucket_ms": SPAN_MS}
    return {**dict.fromkeys(STANDARD, ""), **span, **values}


@pytest.mark.parametrize(("near_min", "first"), [(1, 1), (4, 3), (9, 8)])
async def test_a_link_leads_to_the_request_at_its_moment(
    data: Data, clickhouse: Client, near_min: int, first: int
) -> None:
    """Of several with one id the nearest; those that only share it as the id of their trace come behind."""
    rows = [("a", "NULL", 1), ("a", "NULL", 3), ("a", "NULL", 8), ("b", "'a'", 4), ("c", "'c'", 4)]
    for number, (request, trace, minute) in enumerate(rows):
        clickhouse.command(
            "INSERT INTO llm_requests (at_ms, appended_ms, request_id, trace_id, model, status, origin, reported_by,"
            f" row) VALUES ({AT_MS + minute * MINUTE_MS}, {AT_MS}, '{request}', {trace}, 'm', 'ok', 'measured', 'edge',"
            f" {number})"
        )

    answer = await data.ask("request", given(id="a", near_ms=AT_MS + near_min * MINUTE_MS), SPAN_MS)

    found = [(row["request_id"], (row["at_ms"] - AT_MS) // MINUTE_MS, row["matches"]) for row in answer.records()]
    assert found[0] == ("a", first, 4)
    assert found[-1] == ("b", 4, 4)


async def test_what_is_chosen_holds_for_charts_too(data: Data, clickhouse: Client) -> None:
    """Metrics of applications and ranks of a job, by host and by cluster."""
    for number, (host, cluster) in enumerate((("h1", "c1"), ("h2", "c2"))):
        labels = f"{AT_MS}, {AT_MS}, '{host}', '{cluster}', 1, {number}"
        names = "window_ms, last_at_ms, host, cluster, event_count, log_offset"
        clickhouse.command(
            f"INSERT INTO custom_metrics_partials ({names}, grouping, metric, value_micro_sum, value_micro_count)"
            f" VALUES ({labels}, 'custom', 'm', 1000000, 1)"
        )
        clickhouse.command(
            f"INSERT INTO training_steps_partials ({names}, grouping, job, rank, step_us_sum, step_us_count)"
            f" VALUES ({labels}, 'training', 'j', '{number}', 5, 1)"
        )

    for chosen, ranks, hosts in (({}, 2, 2), ({"host": "h1"}, 1, 1), ({"cluster": "c2"}, 1, 1), ({"host": "h3"}, 0, 0)):
        of_job = given(job="j", names=["0", "1"], top=5, **chosen)
        of_metric = given(metric="m", service="", **chosen)
        counts = [
            len((await data.ask(name, values, SPAN_MS)).rows)
            for name, values in (
                ("training_ranks", of_job),
                ("training_over_time", of_job),
                ("custom_over_time", of_metric),
            )
        ]
        assert counts == [ranks, ranks, hosts], chosen


async def test_what_is_named_is_found_among_many_that_hold_its_name(data: Data, clickhouse: Client) -> None:
    """The page of one engine, or one job, looks its own row up, and a list ends somewhere."""
    for number, name in enumerate(("a-node-1", "node-1", "node-10")):
        names = "window_ms, last_at_ms, event_count, log_offset"
        labels = f"{AT_MS}, {AT_MS + 1_000 * (number != 1)}, 1, {number}"
        clickhouse.command(
            f"INSERT INTO engine_samples_partials ({names}, grouping, engine_id, model, interval_ms_sum)"
            f" VALUES ({labels}, 'engine_sample', '{name}', 'm', 1000)"
        )
        clickhouse.command(
            f"INSERT INTO training_steps_partials ({names}, grouping, job, rank, step_us_sum, step_us_count)"
            f" VALUES ({labels}, 'training', '{name}', '0', 5, 1)"
        )

    (engine,) = (await data.ask("engines", given(search="node-1", top=1), SPAN_MS)).records()
    (job,) = (await data.ask("training", given(search="node-1", top=1), SPAN_MS)).records()
    listed = (await data.ask("engines", given(search="", top=5), SPAN_MS)).records()

    assert (engine["engine_id"], job["job"]) == ("node-1", "node-1")
    assert [row["engine_id"] for row in listed] == ["a-node-1", "node-1", "node-10"]


async def test_the_pace_of_training_leaves_out_a_step_of_unknown_time(data: Data, clickhouse: Client) -> None:
    """As the first of a process is: nobody knows how long its samples and tokens took."""
    clickhouse.command(
        "INSERT INTO training_steps_partials (window_ms, last_at_ms, grouping, job, rank, event_count, step_us_sum,"
        " step_us_count, samples_sum, tokens_sum)"
        f" VALUES ({AT_MS}, {AT_MS}, 'training', 'j', '0', 3, 1000000, 2, 96, 300)"
    )

    for name in ("training", "training_ranks", "training_over_time"):
        (row,) = (await data.ask(name, given(job="j", names=["0"], search="j", top=5), SPAN_MS)).records()
        assert (row["samples_per_s"], row["tokens_per_s"]) == (pytest.approx(64), pytest.approx(200)), name


async def test_services_of_one_metric_are_series_of_their_own(data: Data, clickhouse: Client) -> None:
    """On one host, too; all that report it where no service is chosen."""
    for number, service in enumerate(("a", "b")):
        clickhouse.command(
            "INSERT INTO custom_metrics_partials (window_ms, last_at_ms, host, service, event_count, log_offset,"
            " grouping, metric, value_micro_sum, value_micro_count)"
            f" VALUES ({AT_MS}, {AT_MS}, 'h', '{service}', 1, {number}, 'custom', 'm', {1_000_000 * (number + 1)}, 1)"
        )

    every, one = [
        [(row["of_service"], row["level"]) for row in (await data.ask("custom_over_time", asked, SPAN_MS)).records()]
        for asked in (given(metric="m", service=""), given(metric="m", service="b"))
    ]
    assert (every, one) == ([("a", 1), ("b", 2)], [("b", 2)])


async def test_gpus_beyond_the_rows_are_counted(data: Data, clickhouse: Client) -> None:
    """20,000 have a row."""
    clickhouse.command(
        "INSERT INTO gpu_samples_partials (window_ms, last_at_ms, host, gpu_uuid, grouping, event_count, log_offset)"
        f" SELECT {AT_MS}, {AT_MS}, 'h', toString(number), 'gpu', 1, number FROM numbers(20010)"
    )

    of_busy = given(total="util_gpu_pct_sum", known="util_gpu_pct_count")
    rows = (await data.ask("fleet_gpus", of_busy, MINUTE_MS)).records()
    assert (len(rows), {row["gpus_known"] for row in rows}) == (20_000, {20_010})


async def test_alerts_beyond_the_rows_are_counted(data: Data, clickhouse: Client) -> None:
    """1,500 are open, a tenth of them silenced, 1,000 have a row: the worst."""
    clickhouse.command(
        "INSERT INTO alerts (fingerprint, transition, number, rule, severity, summary, at_ms, opened_ms, since_ms,"
        " record, log_id, log_partition, log_offset, log_row)"
        f" SELECT toString(number), 'opened', 1, 'r', if(number < 1200, 'critical', 'info'), 's', {AT_MS}, {AT_MS},"
        f" {AT_MS}, if(number % 10 = 0, '{{\"muted_until_ms\": {AT_MS + HOUR_MS}}}', '{{}}'), 'l', 0, number, 0"
        " FROM numbers(1500)"
    )

    waiting = (await data.ask("alerts_open", given(kept_ms=ALERTS_KEPT_MS), SPAN_MS)).records()
    past = (await data.ask("alerts_history", given(), SPAN_MS)).records()

    counts = {tuple(row[f"{name}_alerts"] for name in ("critical", "warning", "info", "silenced")) for row in waiting}
    assert (len(waiting), counts) == (1_000, {(1_080, 0, 270, 150)})
    assert {row["severity"] for row in waiting} == {"critical"}
    assert (len(past), {(row["alerts_known"], row["alerts_transitioned"]) for row in past}) == (1_000, {(1_500, 1_500)})


async def test_a_gpu_is_throttled_for_a_share_of_the_time_of_which_that_is_known(
    data: Data, clickhouse: Client
) -> None:
    """On the map; for its verdict by anything but the power limit. Time without such a reading is not time without
    it."""
    for number, (throttled, fault) in enumerate((("5000000", "2000000"), ("NULL", "NULL"), ("5000000", "NULL"))):
        clickhouse.command(
            "INSERT INTO gpu_samples_partials (window_ms, last_at_ms, host, gpu_uuid, event_count, log_offset,"
            " grouping, throttled_us_sum, throttled_fault_us_sum, interval_ms_sum)"
            f" VALUES ({AT_MS + 10_000 * number}, {AT_MS}, 'h', 'g', 1, {number}, 'gpu', {throttled}, {fault}, 10000)"
        )

    columns = given(total="throttled_us_sum", known="interval_ms_sum")
    (row,) = (await data.ask("fleet_gpus", columns, MINUTE_MS)).records()
    assert (row["value"], row["throttled_us"]) == (500, 10_000_000)
    assert (row["throttled_fault_us"], row["covered_ms"]) == (2_000_000, 10_000)
