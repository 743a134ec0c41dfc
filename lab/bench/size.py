"""``bench size``: bytes per event on the wire, in Kafka and in ClickHouse by table; the job's memory at 100,000 series.

A simulated fleet sends for a while; then everything is settled, and disks are measured.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.sql.database import Database
from lab.bench import live
from lab.bench.feed import end_offsets, fill, fresh_topics, messages, value_bytes
from lab.bench.job import run_job
from lab.bench.stand import Stand, fresh_stand, until
from lab.bench.workload import SERIES, Workload
from runtime.clock import SystemClock
from schemas.contract.headers import NATIVE
from schemas.contract.topics import SOURCE_TOPICS, state_topic
from schemas.errors import FleetpulseError
from schemas.rows.tables import GROUPED, PARTIALS

_SETTLE_S = 60.0
_QUIET_S = 4.0
_ALONE = dict.fromkeys(SERIES.topics, 1)


def measure(data_dir: Path | None, hosts: int, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Run both; bytes per event by place."""
    with fresh_stand(data_dir, progress.say) as stand:
        sizes = _sizes(stand, hosts, seconds, seed, progress)
        with progress.task(f"the job's memory at {2 * SERIES.hosts * SERIES.gpus_per_host:,} series"):
            memory = _memory(stand, seed)
    return {**sizes, "job_memory": memory}


def _sizes(stand: Stand, hosts: int, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    with live.pipeline(stand, progress) as processes:
        processes.start(live.fleet(stand, hosts, seconds, seed))
        with progress.task(f"{hosts * live.GPUS_PER_HOST:,} GPUs for {seconds} s"):
            until(lambda: live.ended_well(processes, "simulate"), inf, str)
        with progress.task("settling"):
            books = reconcile(stand.config.kafka, stand.config.clickhouse, wait_s=_SETTLE_S)
            time.sleep(_QUIET_S)  # background merges end
    if not books.exact:
        raise FleetpulseError(f"the books are not exact:\n{books.text()}")
    return _report(stand, books, hosts, seconds)


def _report(stand: Stand, books: Report, hosts: int, seconds: int) -> dict[str, Any]:
    events = {topic.topic: topic.produced for topic in books.topics if topic.produced}
    with closing(Database(stand.config.clickhouse)) as database:
        tables, wire = _tables(database), _wire(database)
    kafka = _kafka_bytes(stand.data_dir / "kafka" / "log")
    total = sum(events.values())
    return {
        "gpus": hosts * live.GPUS_PER_HOST,
        "seconds": seconds,
        "events": events,
        "value_bytes_per_event": _value_bytes(stand),
        "kafka_bytes_per_event": {topic: kafka.get(topic, 0) / count for topic, count in events.items()},
        "kafka_derived_bytes_per_event": {
            name: size / total
            for name, size in sorted(kafka.items())
            if name not in events and not name.startswith("_")
        },
        "clickhouse": {
            name: {"rows": rows, "bytes": size, "uncompressed_bytes": raw, "bytes_per_event": size / total}
            for name, rows, size, raw in tables
        },
        "clickhouse_bytes_per_event": sum(size for _, _, size, _ in tables) / total,
        "partial_rows_per_event": wire,
    }


def _value_bytes(stand: Stand) -> dict[str, float]:
    """Values before compression, per event, by source topic."""
    return asyncio.run(value_bytes(stand.config.kafka, tuple(topic.name for topic in SOURCE_TOPICS)))


def _tables(database: Database) -> list[tuple[str, int, int, int]]:
    question = (
        "SELECT table, sum(rows), sum(bytes_on_disk), sum(data_uncompressed_bytes) FROM system.parts"
        " WHERE active AND database = currentDatabase() GROUP BY table ORDER BY 3 DESC"
    )
    return [(str(row[0]), int(row[1]), int(row[2]), int(row[3])) for row in database.sql(question).rows]


def _wire(database: Database) -> dict[str, float]:
    """Partial rows per event, by grouping set: what the job's emission weighs."""
    found: dict[str, float] = {}
    for event in GROUPED:
        name = PARTIALS[event.topic].name
        rows = database.sql(f"SELECT grouping, count() / sum(event_count) FROM {name} GROUP BY grouping").rows
        found |= {str(grouping): float(share) for grouping, share in rows}
    return found


def _kafka_bytes(folder: Path) -> dict[str, int]:
    """Bytes of log segments by topic."""
    found: dict[str, int] = {}
    for segment in folder.glob("*-*/*.log"):
        topic = segment.parent.name.rpartition("-")[0]
        found[topic] = found.get(topic, 0) + segment.stat().st_size
    return found


def _memory(stand: Stand, seed: int) -> dict[str, Any]:
    topic = SERIES.topics[-1]
    kafka = stand.config.kafka
    partitions = dict.fromkeys((topic, state_topic("windows", topic)), 1)
    asyncio.run(fresh_topics(kafka, partitions))
    now_ms = SystemClock().now_ms() // 1_000 * 1_000 - 1_000
    source = (
        one
        for first in (0, SERIES.hosts)
        for one in messages(Workload(SERIES, seed, first), now_ms, 1, NATIVE, _ALONE, f"m{first}")
        if one.topic == topic
    )
    fed = asyncio.run(fill(kafka, source, 100, lambda _done: None))
    ends = asyncio.run(end_offsets(kafka, {topic: 1}))
    run = run_job(stand, "bare", 0, SERIES.name, [topic], ends, lambda _done, _all: None)
    return {"series": fed[topic].events, **run.memory, "start_bytes": run.start_memory_bytes}
