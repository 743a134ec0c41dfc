"""The cost job on a real broker and database: events become bills, and kill -9 changes nothing of the table."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.config import ClickHouseConfig
from schemas.codec.build import block_from_rows
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC
from schemas.ddl.cost_views import LEVELS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS
from schemas.rows.costs import COSTS
from sinks.database import SinkDatabase
from sinks.landing import land_derived
from stream_jobs.costs.account import Prices
from stream_jobs.costs.step import CostStep
from stream_jobs.windows.step import WindowsStep
from tests.integration.job_rig import KILLS, JobRig, job_rig
from tests.integration.sink_rig import migrated
from tests.unit.stream_jobs.costs.cases import SOURCES, a_step, bills_of, emitted_rows, newest, price_of
from tests.unit.stream_jobs.windows.cases import BASE_MS, WINDOW_MS, a_commit, a_record, a_request, a_sample

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300 + 30 * KILLS)]

WINDOWS = 108
"""Eighteen minutes: the first become final."""


def events(window: int, draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Two GPUs of an engine, one that idles, one in training; requests of three tenants, some long, some failed."""
    at_ms = BASE_MS + window * WINDOW_MS
    engine = {"engine_id": "e-1", "placement_group": "g-1", "host": "h-1"}
    kinds = [
        ("g-1", engine),
        ("g-2", engine),
        ("g-3", {"host": "h-2"}),
        ("g-4", {"host": "h-2", "workload": "training"}),
    ]
    samples = [
        a_sample(
            at_ms + second * 1_000, gpu_uuid=gpu, gpu_model="H100", region="north", interval_ms=1_000,
            energy_mj=draw.randrange(100_000, 700_000), **who,
        )
        for gpu, who in kinds
        for second in range(10)
        if not (gpu == "g-2" and 20 <= window < 23)
    ]  # fmt: skip
    requests = [
        a_request(
            at_ms + draw.randrange(WINDOW_MS), request_id=f"{window}-{number}", tenant=draw.choice("abc"), model="m",
            status=draw.choice(("ok", "ok", "error")), e2e_us=draw.choice((2_000_000, 30_000_000, 600_000_000)),
            ttft_us=900_000, input_tokens=draw.randrange(1, 5_000), cached_tokens=0,
            output_tokens=draw.randrange(1, 900), **engine,
        )
        for number in range(draw.randrange(4))
    ]  # fmt: skip
    return {"gpu.samples": samples, "llm.requests": requests}


def partials(windows: int = WINDOWS) -> list[Record]:
    """What the windows job makes of the events: its records in the one partition of ``window.partials``."""
    step = WindowsStep(DEFAULT_LIMITS, {"window.partials": 1, "books": 1, "rejected": 1})
    draw, made = random.Random(7), list[Record]()
    states = {topic: step.new(topic, 0) for topic in SOURCES}
    numbers = dict.fromkeys(SOURCES, 0)
    for window in range(windows):
        for topic, rows in events(window, draw).items():
            changes = step.changes()
            if rows:
                at_ms = BASE_MS + (window + 1) * WINDOW_MS
                step.fold(states[topic], [a_record(topic, rows, offset=window, appended_ms=at_ms)], changes)
            now_ms = BASE_MS + (window + 1) * WINDOW_MS + 3_000
            commit = a_commit(topic, window, window + 1, number=numbers[topic], now_ms=now_ms, idle=True)
            outputs = step.rows(states[topic], changes, commit)
            numbers[topic] += len(outputs)
            made += [
                Record("window.partials", 0, len(made) + place, now_ms, None, one.value, one.headers)
                for place, one in enumerate(one for one in outputs if one.topic == "window.partials")
            ]
    return made


@pytest.fixture
async def job(kafka_bootstrap: str, tmp_path: Path) -> AsyncIterator[JobRig]:
    any_time = {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}  # the log is of another day
    async with job_rig("costs", kafka_bootstrap, tmp_path, any_time) as made:
        yield made


async def test_kill_9_changes_nothing_of_the_table_and_parts_add_up(
    job: JobRig, clickhouse: Any, clickhouse_config: ClickHouseConfig
) -> None:
    """From events through Kafka into ClickHouse: the table is the fold of the log, and every sum is its bill."""
    draw, records = random.Random(3), partials()
    step = a_step()
    state, changes = step.new("window.partials", 0), step.changes()
    step.fold(state, records, changes)
    expected = newest(emitted_rows(step.rows(state, changes, a_commit("window.partials"))))

    last = await job.send_while_killed(records, draw)
    version = max(row["version"] for row in expected.values())
    told = await job.settled(lambda told: any(row["version"] >= version for row in emitted_rows(told)))
    last.send(signal.SIGTERM)
    assert await last.ended() == 0

    bills = [one._replace(topic=COSTS_TOPIC) for one in told]
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        migrated(clickhouse)
        for _ in range(2):  # an answer that was lost: all of it comes again
            database.insert(land_derived(bills, {COSTS_TOPIC: "log"}, BASE_MS, DEFAULT_LIMITS).inserts)
    names = ", ".join(one.name for one in COSTS.fields)
    rows = clickhouse.query(f"SELECT {names} FROM costs").named_results()
    assert newest(bills_of_rows(rows)) == expected
    assert len(expected) > 50
    assert {row["final"] for row in expected.values()} == {0, 1}
    check_sums(clickhouse)


@pytest.mark.parametrize(("of_rows", "of_bills"), [(0, 0), (5, 1)], ids=["as many", "fewer partitions of costs"])
def test_bills_that_failed_are_listed_as_missing(
    clickhouse: Any, clickhouse_config: ClickHouseConfig, of_rows: int, of_bills: int
) -> None:
    """A minute without a bill, and one whose bill stayed as it was before the final one failed; no other."""
    failing: set[int] = {MINUTE_MS}

    def priced(gpu_model: str | None, region: str | None, minute_ms: int) -> Prices:
        if minute_ms - BASE_MS in failing:
            raise ValueError("no bill")
        return price_of(gpu_model, region, minute_ms)

    step, records = CostStep(DEFAULT_LIMITS, SOURCES, priced, "p1"), partials(WINDOWS + 6)
    state, told = step.new("window.partials", 0), list[Record]()
    early = next(place for place, one in enumerate(records) if one.timestamp_ms > BASE_MS + 3 * MINUTE_MS)
    for some in (records[:early], records[early:]):
        changes = step.changes()
        step.fold(state, some, changes)
        outputs = step.rows(state, changes, a_commit("window.partials"))
        told += [
            Record(COSTS_TOPIC, of_bills, len(told) + place, BASE_MS, None, one.value, one.headers)
            for place, one in enumerate(outputs)
        ]
        failing.add(0)
    with contextlib.closing(SinkDatabase(clickhouse_config)) as database:
        migrated(clickhouse)
        log_ids = {COSTS_TOPIC: "log", "window.partials": "log"}
        rows = [one._replace(partition=of_rows) for one in records]
        database.insert(land_derived([*rows, *told], log_ids, BASE_MS, DEFAULT_LIMITS).inserts)

    late = "SELECT toUnixTimestamp(minute) * 1000, placement_group, newest_offset, billed_offset FROM cost_late"
    found = {(minute_ms - BASE_MS, group): offsets for minute_ms, group, *offsets in clickhouse.query(late).result_rows}

    assert set(found) == {(minute_ms, group) for minute_ms in (0, MINUTE_MS) for group in ("g-1", "h-2")}
    assert [found[MINUTE_MS, group][1] for group in ("g-1", "h-2")] == [None, None]
    assert found[0, "h-2"][0] == found[0, "h-2"][1]


def bills_of_rows(rows: Any) -> list[dict[str, Any]]:
    return bills_of(block_from_rows(COSTS.fields, list(rows)))


def check_sums(clickhouse: Any) -> None:
    """Sums of parts are bills, of minutes hours and days, to the nano-dollar; in SQL."""
    bill = "sum(total_nusd), sum(energy_mj), sum(gpu_ms)"
    whole = clickhouse.query(f"SELECT {bill} FROM costs").result_rows[0]
    assert whole[0] > 10**9
    part = "sum(cost_nusd), sum(energy_mj), sum(gpu_ms)"
    odd = (
        "SELECT count() FROM costs WHERE arraySum(arrayMap(c -> ifNull(c, 0), part_cost_nusd)) != ifNull(total_nusd, 0)"
    )
    assert clickhouse.command(odd) == 0
    assert clickhouse.query(f"SELECT {part} FROM cost_parts").result_rows[0] == whole
    for level in LEVELS:
        assert clickhouse.query(f"SELECT {bill} FROM costs_{level}").result_rows[0] == whole
        assert clickhouse.query(f"SELECT {part} FROM cost_parts_{level}").result_rows[0] == whole
    for level in ("", *(f"_{one}" for one in LEVELS)):
        units = f"SELECT DISTINCT kind, amount_unit FROM cost_parts{level} WHERE amount IS NOT NULL"
        assert {*clickhouse.query(units).result_rows} == {
            ("prefill", "tokens"),
            ("decode", "tokens"),
            ("kv", "token-ms"),
        }
    parts = {row[0] for row in clickhouse.query("SELECT DISTINCT part FROM cost_parts").result_rows}
    # Requests that began before the first reading of a GPU have no price for that time.
    assert parts - {"__wasted__"} == {"request", "__overhead__", "__idle__", "__training__", "__unpriced__"}
    estimated = clickhouse.query("SELECT sum(estimated_gpu_ms) FROM costs").result_rows[0][0]
    assert estimated == 30_000
    assert clickhouse.command("SELECT count() FROM cost_late") == 0
    used = "SELECT sum(requests), sum(decode_tokens) FROM cost_lines"
    assert clickhouse.query(used).result_rows[0][0] > 100
