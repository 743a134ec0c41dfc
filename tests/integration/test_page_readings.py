"""Lists and charts of an engine's GPUs and processes, and of a request's moment, are what single readings say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fleetpulse.queries import dashboard
from fleetpulse.queries.dashboard import STANDARD, Value
from fleetpulse.queries.written_out import written_out
from lab.oracle.value import percentile
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from tests.integration.answer_rows import Row
from tests.integration.oracle_rig import Asked, filled, insert_raw
from tests.tables import Tables

pytestmark = pytest.mark.integration

ENGINE = "h/0"
SPANS_MS = (5 * MINUTE_MS, 2 * HOUR_MS, 2 * DAY_MS)
"""Of windows, of minutes between windows, of hours between both."""


@pytest.fixture(scope="module")
def asked(_tables: Tables) -> Iterator[Asked]:
    with filled(_tables) as found:
        held = [
            {"at_ms": found.now_ms - 1_000 * ago, "host": "h", "gpu_uuid": "GPU-1", "pid": pid, "origin": "measured",
             "engine_id": ENGINE, "process_name": "vllm", "memory_bytes": pid * (9 - ago), "sm_util_pct": 10 * ago}
            for pid in (7, 8)
            for ago in (1, 3)
        ]  # fmt: skip
        found.readings["gpu.processes"] = held
        insert_raw(found.client, "gpu_processes", held)
        yield found


def rows_of(asked: Asked, name: str, span_ms: int, **more: Value) -> list[Row]:
    """As the page sends it, one point as wide as all time."""
    query, to_ms = dashboard.query(name), asked.now_ms
    given: dict[str, Value] = {**dict.fromkeys(STANDARD, ""), "from_ms": to_ms - span_ms, "to_ms": to_ms, "top": 100}
    values = query.values({**given, "bucket_ms": to_ms, **more}, span_ms)
    return asked(written_out(query.at_levels(span_ms, values)), values)


def within(asked: Asked, topic: str, span_ms: int, **named: str) -> list[Row]:
    """Readings whose window begins in the range, with these labels."""
    first_ms = -(-(asked.now_ms - span_ms) // 10_000) * 10_000
    return [
        row
        for row in asked.readings[topic]
        if first_ms <= row["at_ms"] and all(row[name] == value for name, value in named.items())
    ]


def mean(rows: list[Row], name: str) -> Any:
    return pytest.approx(sum(row[name] for row in rows) / len(rows))


@pytest.mark.parametrize("span_ms", SPANS_MS)
def test_gpus_of_an_engine_are_its_readings(asked: Asked, span_ms: int) -> None:
    """Memory is the newest."""
    readings = within(asked, "gpu.samples", span_ms, engine_id=ENGINE)
    listed = {row["gpu_uuid"]: row for row in rows_of(asked, "engine_gpus", span_ms, engine_id=ENGINE)}

    assert set(listed) == {row["gpu_uuid"] for row in readings}
    for uuid, row in listed.items():
        own = [one for one in readings if one["gpu_uuid"] == uuid]
        newest = max(own, key=lambda one: one["at_ms"])
        assert (100 * row["busy"], 1_000 * row["power_w"]) == (mean(own, "util_gpu_pct"), mean(own, "power_mw"))
        assert row["temperature_max_c"] == max(one["temperature_c"] for one in own)
        assert row["memory_used_bytes"] == newest["memory_used_bytes"]


@pytest.mark.parametrize("span_ms", SPANS_MS)
def test_processes_are_their_readings(asked: Asked, span_ms: int) -> None:
    """Processors as a mean, the busiest thread as the most; charts by engine."""
    listed = {row["engine_id"]: row for row in rows_of(asked, "process_load", span_ms)}
    charted = {row["name"]: row["busiest_thread"] for row in rows_of(asked, "threads_over_time", span_ms)}

    assert set(listed) == set(charted) == {"h/0", "i/0"}
    for engine, row in listed.items():
        own = within(asked, "host.processes", span_ms, engine_id=engine)
        busiest = max(one["cpu_thread_max_ppm"] for one in own) / 1e6
        assert (1e6 * row["cores"], row["busiest_thread"], charted[engine]) == (mean(own, "cpu_ppm"), busiest, busiest)
        assert row["memory_max_bytes"] == max(one["memory_rss_bytes"] for one in own)


def test_who_held_memory_is_as_it_was_last(asked: Asked) -> None:
    """Those with most first."""
    rows = rows_of(asked, "processes", MINUTE_MS)

    assert [(row["pid"], row["held_bytes"], row["held_max_bytes"], row["sm_share"]) for row in rows] == [
        (8, 64, 64, 0.2), (7, 56, 56, 0.2),
    ]  # fmt: skip


def test_a_request_is_among_the_readings_of_its_moment(asked: Asked) -> None:
    """Second by second, as they came."""
    engine = rows_of(asked, "request_engine", MINUTE_MS, engine_id=ENGINE)
    gpus = rows_of(asked, "request_gpus", MINUTE_MS, engine_id=ENGINE)
    begin_ms = asked.now_ms - MINUTE_MS

    def readings(topic: str) -> list[Row]:
        return [one for one in asked.readings[topic] if one["engine_id"] == ENGINE and one["at_ms"] >= begin_ms]

    assert len(engine) > 1
    assert engine == picked(sorted(readings("engine.samples"), key=lambda one: one["at_ms"]), engine[0])
    assert gpus == picked(sorted(readings("gpu.samples"), key=lambda one: (one["gpu_uuid"], one["at_ms"])), gpus[0])


def picked(readings: list[Row], like: Mapping[str, Any]) -> list[Row]:
    return [{name: one.get(name) for name in like} for one in readings]


def test_usual_latency_is_of_each_hour(asked: Asked) -> None:
    """Percentile 95 of the requests of every hour that begins in the range, by hour of the day."""
    hours: dict[int, list[int]] = {}
    for row in asked("SELECT at_ms, ttft_us FROM llm_requests FINAL WHERE verdict = 'accepted'", {}):
        if row["ttft_us"] is not None and row["at_ms"] // HOUR_MS * HOUR_MS >= asked.now_ms - 2 * DAY_MS:
            hours.setdefault(row["at_ms"] // HOUR_MS, []).append(row["ttft_us"])
    by_hour: dict[int, list[list[int]]] = {}
    for hour, waits in hours.items():
        by_hour.setdefault(hour % 24, []).append(sorted(waits))

    rows = rows_of(asked, "latency_baseline", 2 * DAY_MS, bins="ttft_us_bins")
    assert {row["hour"]: len(row["hours"]) for row in rows} == {hour: len(each) for hour, each in by_hour.items()}
    for row in rows:
        bounds = [percentile(waits, 0.95) for waits in by_hour[row["hour"]]]
        assert all(any(one.holds(value) for one in bounds) for value in row["hours"])
        assert all(any(one.holds(value) for value in row["hours"]) for one in bounds)
