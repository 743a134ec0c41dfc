"""The table of ``fleetpulse size``: costs of the results that benches keep, made again whenever one of them is kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from schemas.contract.topics import SOURCE_TOPICS

SOURCES = ("size", "live", "cost")
"""Results that the table is made of."""
_BESIDE = ("usage", "gpu_shares")
_OF_REQUESTS = ("exemplars", "exemplars_slowest_1h")
"""Kept as long as raw rows."""
_LEVELS = ("1m", "1h", "1d")


def write(results: Path, table: Path) -> None:
    """Make the table of the results in this folder. Raises OSError where one of them is missing."""
    found = {name: orjson.loads((results / f"{name}.json").read_bytes()) for name in SOURCES}
    table.write_bytes(orjson.dumps(costs_of(**found), option=orjson.OPT_INDENT_2) + b"\n")


def costs_of(size: Mapping[str, Any], live: Mapping[str, Any], cost: Mapping[str, Any]) -> dict[str, Any]:
    """As ``fleetpulse.plan.size.Costs``. Of ``live`` the largest fleet that kept up counts."""
    carried = max((one for one in live["tried"] if one["keeps_up"]), key=lambda one: one["gpus"])
    per_event_us = {name: 1e6 * cores / carried["events_per_s"] for name, cores in carried["cores"].items()}
    memory, events = size["job_memory"], size["events"]
    gpu_s = size["gpus"] * size["seconds"]
    return {
        "measured": [_measured(one) for one in (size, live, cost)],
        "gpus": carried["gpus"],
        "events_per_s": carried["events_per_s"],
        "events_per_gpu_s": {topic: count / gpu_s for topic, count in events.items() if topic != "llm.requests"},
        "windows_us": per_event_us["jobs"],
        **{f"{name}_us": per_event_us[name] for name in ("sink", "kafka", "clickhouse")},
        "finals_us": None,
        "alerts_us": None,
        "cost_cores_per_gpu": (cost["fold_s_per_minute"] + cost["rows_s_per_minute"]) / 60 / cost["gpus"],
        "value_bytes": size["value_bytes_per_event"],
        "kafka_bytes": size["kafka_bytes_per_event"],
        "kafka_derived_bytes": sum(size["kafka_derived_bytes_per_event"].values()),
        **_tables(size),
        "worker_bytes": memory["start_bytes"],
        "bytes_per_series": (memory["resident_bytes"] - memory["start_bytes"]) / memory["series"],
        "memory_bytes": {name: one for name, one in carried["memory_peak_bytes"].items() if name != "jobs"}
        | {"costs": cost["memory_peak_bytes"]},
    }


def _tables(size: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes of raw rows by event, of partial rows by GPU and second, of rollups by GPU and bucket. The run lies within
    one day and mostly one hour: the level of the fewest rows has one bucket."""
    tables, gpus = size["clickhouse"], size["gpus"]
    raw = {topic.name: topic.name.replace(".", "_") for topic in SOURCE_TOPICS if topic.name in size["events"]}
    partials = [name for name in tables if name.endswith("_partials") or name in _BESIDE]
    rollups = dict.fromkeys(_LEVELS, 0.0)
    series = 0
    kept = {topic: tables[name]["bytes"] / tables[name]["rows"] for topic, name in raw.items()}
    kept["llm.requests"] += sum(tables[name]["bytes"] for name in _OF_REQUESTS) / size["events"]["llm.requests"]
    for name, one in tables.items():
        stem, _, level = name.rpartition("_")
        if level in rollups and name not in _OF_REQUESTS:
            rows = min(other["rows"] for title, other in tables.items() if title.rpartition("_")[0] == stem)
            rollups[level] += one["bytes"] / one["rows"] * rows / gpus if one["rows"] else 0.0
            series += rows if level == "1d" else 0
    return {
        "raw_bytes": kept,
        "partials_bytes_per_gpu_s": sum(tables[name]["bytes"] for name in partials) / (gpus * size["seconds"]),
        "rollup_bytes_per_gpu": rollups,
        "series_per_gpu": series / gpus,
    }


def _measured(result: Mapping[str, Any]) -> dict[str, Any]:
    every = {**result, **result["machine"]}
    return {name: every[name] for name in ("command", "at", "processor", "cores", "commit")}
