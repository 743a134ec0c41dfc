"""Rows of everything that people ask about, and the tables that they stand in: requests, bills, readings of machines,
events, alerts, books, actions. A window of readings holds one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.ddl import book_rollups
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import sets_of
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS
from schemas.sketch import bin_of
from tests.integration.cost_rows import BEGIN_MS, ROWS, usage_row
from tests.integration.request_rows import fill, fill_bills, requests

Row = dict[str, Any]
FAULTY = "f/0"
TTFT_MOST_US, E2E_MOST_US = 400_000, 6_000_000
"""Objectives of both classes."""
H100 = "NVIDIA H100 80GB HBM3"


@dataclass(frozen=True, slots=True)
class Rows:
    """By kind; ``until_ms``: all of it is before."""

    until_ms: int
    requests: list[Row]
    bills: list[Row]
    usage: list[Row]
    readings: dict[str, list[Row]]
    events: dict[str, list[Row]]
    alerts: list[Row]
    books: list[Row]
    actions: list[Row]


def fill_all(client: Any, until_ms: int) -> Rows:
    """All of it, in its tables, with their rollups."""
    chance = random.Random(7)
    fault_ms = until_ms - 6 * MINUTE_MS + 1_234
    asked = requests(until_ms) + _lost(chance, fault_ms)
    for number, row in enumerate(asked):
        row["tpot_us"] = None if number % 4 == 0 else chance.randrange(5_000, 50_000)
        row.update(judged(row, ("interactive", "batch", None)[number % 3]))
    minutes = [until_ms // MINUTE_MS * MINUTE_MS - ago_ms for ago_ms in (25 * HOUR_MS, 3 * HOUR_MS, 5 * MINUTE_MS)]
    bills = [{**row, "minute_ms": minute + row["minute_ms"] - BEGIN_MS} for minute in minutes for row in ROWS]
    usage = [
        {**usage_row(0, chance.randrange(2_000), 1 + chance.randrange(500)), "window_ms": minute, "engine_id": "h/1"}
        for minute in range(until_ms - 15 * MINUTE_MS, until_ms, MINUTE_MS)
    ]
    found = Rows(
        until_ms, asked, bills, usage, _readings(chance, until_ms), _events(fault_ms, until_ms), _alerts(until_ms),
        _books(chance, until_ms), _actions(until_ms),
    )  # fmt: skip
    fill(client, asked)
    fill_bills(client, minutes)
    for topic, rows in found.readings.items():
        _read(client, topic, rows)
    for table, rows in {**found.events, "alerts": found.alerts, "books": found.books, "actions": found.actions}.items():
        insert(client, table, rows)
    insert(client, "usage", usage)
    for level in LEVELS:
        buckets = tuple({level.bucket_of(row["committed_ms"]) for row in found.books})
        client.command(book_rollups.insert(level, buckets))
    return found


def insert(client: Any, table: str, rows: Sequence[Row]) -> None:
    """Rows into a table, each at an offset of its own."""
    names = sorted({name for row in rows for name in row})
    listed = [[*(row.get(name) for name in names), number] for number, row in enumerate(rows)]
    place = "seq" if table in ("gpu_events", "engine_events") else "log_offset"
    client.insert(table, listed, column_names=[*names, place])


def _read(client: Any, topic: str, rows: Sequence[Row]) -> None:
    """Readings as windows of one, with their rollups."""
    named = "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
    kinds = dict(client.query(named, parameters={"table": PARTIALS[topic].name}).result_rows)
    made = []
    for row in rows:
        window: Row = {
            "window_ms": row["at_ms"] // WINDOW_MS * WINDOW_MS, "grouping": sets_of(topic)[0].name, "event_count": 1,
            "last_at_ms": row["at_ms"],
        }  # fmt: skip
        for name, value in row.items():
            if name in kinds:
                window[name] = value
            parts = {f"{name}_{one}": value for one in ("sum", "min", "max", "last")} | {f"{name}_count": 1}
            if value is not None:
                window |= {part: one for part, one in parts.items() if part in kinds}
            if f"{name}_bins" in kinds:
                window[f"{name}_bins"] = {int(bin_of(np.array([value]))[0]): 1}
        made.append(window)
    names = {name for window in made for name in window}
    empty = {name: {} if "Map" in kinds[name] else 0 for name in names if "Nullable" not in kinds[name]}
    made = [{**empty, **window} for window in made]
    insert(client, PARTIALS[topic].name, made)
    for level in LEVELS:
        buckets = tuple({level.bucket_of(row["at_ms"]) for row in rows})
        client.command(rollup_insert(BY_TOPIC[topic], level, buckets))


def judged(row: Row, slo_class: str | None) -> Row:
    """What the objectives make of a request of a class."""
    missed = (row["ttft_us"] or 0) > TTFT_MOST_US or row["e2e_us"] > E2E_MOST_US
    left_out = row["error_kind"] == "client" or (row["status"] == "aborted" and not missed)
    counts = slo_class is not None and not left_out
    good = counts and row["status"] == "ok" and not missed
    tokens = row["input_tokens"] + row["output_tokens"]
    return {
        "slo_class": slo_class, "judged_requests": int(counts), "good_requests": int(good),
        "good_tokens": tokens if good else 0,
    }  # fmt: skip


def _lost(chance: random.Random, fault_ms: int) -> list[Row]:
    """Requests of an engine that is lost and comes back: well before, lost for a minute and a half, well again."""
    found = []
    for number in range(150):
        at_ms = fault_ms - 60_000 + 2_000 * number
        dark = 0 < at_ms - fault_ms < 90_000
        kind = chance.choice(["engine_lost", "network", "engine_lost", "server", "client"]) if dark else None
        found.append(
            {"at_ms": at_ms, "model": "m", "tenant": chance.choice("abc"), "host": "f", "engine_id": FAULTY,
             "status": "error" if dark else chance.choice(["ok", "ok", "ok", "aborted"]), "error_kind": kind,
             "ttft_us": None if dark else chance.randrange(10_000, 90_000), "queue_us": None,
             "e2e_us": chance.randrange(200_000, 9_000_000), "input_tokens": chance.randrange(900), "cached_tokens": 0,
             "output_tokens": chance.randrange(200)}
        )  # fmt: skip
    return found


def _readings(chance: random.Random, until_ms: int) -> dict[str, list[Row]]:
    """One of each machine in each of the last sixty windows, and an hour of a day ago."""
    found: dict[str, list[Row]] = {}
    times = [until_ms - 1 - WINDOW_MS * number for number in range(60)]
    times += [until_ms - 24 * HOUR_MS + WINDOW_MS * number + 5 for number in range(30)]
    for at_ms in times:
        for number in range(4):
            engine, host = (f"h/{number % 2}" if number < 3 else None), ("h", "i")[number // 3]
            named = {"at_ms": at_ms, "host": host, "origin": "measured"}
            found.setdefault("gpu.samples", []).append(
                {**named, "engine_id": engine, "gpu_uuid": f"GPU-{number}", "region": "eu",
                 "gpu_model": H100 if number else "L40S", "util_gpu_pct": chance.randrange(101),
                 "power_mw": chance.randrange(90_000, 700_000), "temperature_c": chance.randrange(30, 90),
                 "memory_used_bytes": chance.randrange(10**10), "memory_total_bytes": 8 * 10**10,
                 "energy_mj": chance.randrange(1_000_000), "interval_ms": 10_000, "power_limit_mw": 700_000,
                 "dram_active_ppm": chance.randrange(10**6) if number else None, "pcie_width": 16 - 8 * (number == 1),
                 "pcie_width_max": 16, "pcie_generation": 5, "pcie_replays": chance.randrange(3) * (number == 2),
                 "nvlink_errors": 0, "clock_sm_mhz": chance.randrange(900, 2_000),
                 "throttled_us": chance.randrange(10**7) if number else 0,
                 "throttled_fault_us": at_ms % 10**6 if number > 1 else None}
            )  # fmt: skip
        for host in ("h", "i"):
            named = {"at_ms": at_ms, "host": host, "origin": "measured"}
            found.setdefault("host.samples", []).append(
                {**named, "cpu_busy_ppm": chance.randrange(10**6), "cpu_core_busy_max_ppm": chance.randrange(10**6),
                 "load_1m_milli": chance.randrange(9_000), "memory_used_bytes": chance.randrange(10**11),
                 "memory_total_bytes": 2 * 10**11, "interval_ms": 10_000, "network_rx_bytes": at_ms % 10**9,
                 "network_errors": at_ms // WINDOW_MS % 3,
                 "network_tx_bytes": chance.randrange(10**9), "tcp_retransmits": chance.randrange(50),
                 "tcp_segments_out": chance.randrange(50, 90_000), "rdma_tx_bytes": chance.randrange(10**8),
                 "rdma_errors": chance.randrange(2), "disk_write_bytes": chance.randrange(10**8)}
            )  # fmt: skip
            found.setdefault("host.processes", []).append(
                {**named, "engine_id": f"{host}/0", "process_name": "vllm", "workload": "inference",
                 "cpu_ppm": chance.randrange(4 * 10**6), "cpu_thread_max_ppm": chance.randrange(10**6),
                 "memory_rss_bytes": chance.randrange(10**11), "read_bytes": chance.randrange(10**8),
                 "write_bytes": chance.randrange(10**8)}
            )  # fmt: skip
            found.setdefault("training.steps", []).append(
                {**named, "job": "j", "rank": host, "model": "t", "step_us": chance.randrange(10**5, 10**6),
                 "loss_micro": chance.randrange(10**6), "samples": 64, "tokens": 4_096,
                 "checkpoint_age_ms": chance.randrange(10**6)}
            )  # fmt: skip
        for engine in ("h/0", "h/1"):
            found.setdefault("engine.samples", []).append(
                {"at_ms": at_ms, "host": "h", "origin": "measured", "engine_id": engine, "model": "m",
                 "model_version": "1", "precision": "fp8", "engine_kind": "vllm", "running": chance.randrange(64),
                 "waiting": chance.randrange(9), "kv_used_ppm": chance.randrange(10**6), "interval_ms": 10_000,
                 "generation_tokens": chance.randrange(9_000), "preemptions": chance.randrange(3),
                 "prompt_tokens": chance.randrange(9_000), "prefix_hit_tokens": chance.randrange(900)}
            )  # fmt: skip
    return found


def _events(fault_ms: int, until_ms: int) -> dict[str, list[Row]]:
    """A fault of two signs and a recovery, one a day ago of a GPU without an engine; versions and a mark."""
    same = {"verdict": "accepted", "source": "s", "boot": 1, "row": 0}
    gpu = {**same, "host": "f", "engine_id": FAULTY, "gpu_uuid": "GPU-f", "severity": "critical"}
    signs: list[Row] = [
        {**gpu, "at_ms": fault_ms, "kind": "xid", "code": 79},
        {**gpu, "at_ms": fault_ms + 400, "kind": "gpu_lost", "code": None},
        {**gpu, "at_ms": fault_ms + 95_000, "kind": "gpu_found", "code": None, "severity": "info"},
        {**gpu, "at_ms": until_ms - 20 * HOUR_MS, "kind": "xid", "code": 48, "engine_id": None, "gpu_uuid": "GPU-z"},
    ]
    engine = {**same, "host": "h", "model": "m", "gpu_uuids": []}
    changes: list[Row] = [
        {**engine, "at_ms": until_ms - 5 * MINUTE_MS + 10, "kind": "changed", "engine_id": "h/0", "model_version": "2"},
        {**engine, "at_ms": until_ms - 5 * MINUTE_MS + 20, "kind": "changed", "engine_id": "h/1", "model_version": "2"},
        {**engine, "at_ms": until_ms - 9 * HOUR_MS, "kind": "changed", "engine_id": "h/1", "model_version": "1"},
        {**engine, "at_ms": until_ms - 8 * HOUR_MS, "kind": "marked", "engine_id": None, "model_version": None},
        {**engine, "at_ms": until_ms - 7 * HOUR_MS, "kind": "running", "engine_id": "h/0", "model_version": "1"},
    ]
    found = {"gpu_events": signs, "engine_events": changes}
    return {name: [{**row, "appended_ms": row["at_ms"]} for row in rows] for name, rows in found.items()}


def _alerts(until_ms: int) -> list[Row]:
    """One that is over, one that is open since a day, one that opened lately; the last transition says how they are."""
    found = []
    for number, (severity, opened_ago_ms, over_ago_ms) in enumerate(
        [("warning", 20 * HOUR_MS, 19 * HOUR_MS), ("info", 9 * HOUR_MS, None), ("critical", 4 * MINUTE_MS, None)]
    ):
        opened_ms = until_ms - opened_ago_ms
        ends = [("opened", opened_ms, None), ("updated", opened_ms + 60_000, None)]
        if over_ago_ms is not None:
            ends.append(("resolved", until_ms - over_ago_ms, until_ms - over_ago_ms))
        for nth, (transition, at_ms, resolved_ms) in enumerate(ends, 1):
            record = {"value": 0.5 * nth, "unit": "s", "labels": {"host": "h"}, "members": [{}] * nth}
            found.append(
                {"at_ms": at_ms, "opened_ms": opened_ms, "since_ms": opened_ms - 30_000, "resolved_ms": resolved_ms,
                 "number": nth, "fingerprint": f"{number:016x}", "transition": transition, "rule": f"rule_{number}",
                 "severity": severity, "summary": f"{transition} {number}", "record": json.dumps(record)}
            )  # fmt: skip
    return found


def _books(chance: random.Random, until_ms: int) -> list[Row]:
    return [
        {"committed_ms": until_ms - 1 - (number % 20) * 47_000 - (number // 90) * 4 * HOUR_MS, "partition": 0,
         "offset_from": 10 * number, "offset_to": 10 * number + 10, "boot": 1,
         "verdict": chance.choice([0, 0, 0, 1, 2, 3, 4]),
         "records": 1, "events": chance.randrange(1, 900), "job": "windows",
         "topic": chance.choice(["llm.requests", "gpu.samples"]), "source": chance.choice(["s", None])}
        for number in range(400)
    ]  # fmt: skip


def _actions(until_ms: int) -> list[Row]:
    return [
        {"at_ms": until_ms - ago_ms, "until_ms": None if number else until_ms, "action": "silence", "done_by": "me",
         "about": "rule=x", "reason": f"because {number}", "action_id": f"a{number}", "record": "{}"}
        for number, ago_ms in enumerate((3 * MINUTE_MS, 5 * HOUR_MS, 40 * HOUR_MS))
    ]  # fmt: skip
