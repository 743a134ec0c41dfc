"""``bench throughput``: what the windows job costs per event, beside its yardsticks, in one run.

The workload is written once to fresh topics; then, in turns (the machine's speed changes while we measure): the
``orjson.loads`` loop, ClickHouse's own Kafka engine, the job in each shell. What is measured is bound to the last core,
the broker has the others. CPU-seconds count all threads, user and system. Ratios are of medians.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from fleetpulse.commands.progress import Progress
from lab.bench import compare, cpu, peer
from lab.bench.feed import FORMATS, Fed, end_offsets, fill, fresh_topics, messages
from lab.bench.job import JobRun, read_partials, run_job
from lab.bench.peer import Peer, PeerRun
from lab.bench.stand import Stand, partitions_of
from lab.bench.workload import PROFILES, Profile, Workload
from runtime.clock import SystemClock
from schemas.codec import wire
from schemas.contract.headers import JSON_COLUMNS
from schemas.contract.topics import BY_NAME
from schemas.events.event_types import BY_TOPIC

BLOCK_ROWS = (65_536, 262_144)
"""Block sizes that the engine is tried with; its best counts."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure. ``seconds`` of event time; None is the profile's own."""

    profile: str
    format: str = "native"
    against: str | None = None
    shells: tuple[str, ...] = ("bare",)
    seconds: int | None = None
    records_per_batch: int = 1
    times: int = 3
    seed: int = 1
    cprofile: Path | None = None


@dataclass(slots=True)
class Measured:
    """Everything that was run, in order."""

    fed: dict[str, Fed]
    calibrations: list[Calibration]
    peers: dict[str, list[PeerRun]]
    jobs: dict[str, list[JobRun]]
    comparisons: list[compare.Comparison]

    @property
    def events(self) -> int:
        """Events that each side reads."""
        return sum(fed.events for fed in self.fed.values())


def measure(stand: Stand, options: Options, progress: Progress) -> dict[str, Any]:
    """Run it all; the result as plain data."""
    profile = PROFILES[options.profile]
    now_ms = SystemClock().now_ms() // 1_000 * 1_000
    texts, events = sample(Workload(profile, options.seed), now_ms)
    fed = _fill(stand, profile, options, now_ms, progress)
    measured = Measured(fed, [], {}, {shell: [] for shell in options.shells}, [])
    ends = asyncio.run(end_offsets(stand.config.kafka, {t: BY_NAME[t].partitions for t in profile.topics}))
    engine = Peer(stand.config, stand.clickhouse_pid, profile.topics) if options.against else None
    try:
        for turn in range(options.times):
            measured.calibrations.append(calibrate(texts, events, cpu.job_core()))
            if engine is not None:
                _run_peers(engine, measured, options, ends, progress, first=turn == 0)
            for shell in options.shells:
                with progress.task(f"windows job, {shell} shell, run {turn + 1}") as on_progress:
                    job = run_job(
                        stand, shell, cpu.job_core(), profile.name, profile.topics, ends, on_progress, options.cprofile
                    )
                measured.jobs[shell].append(job)
        if engine is not None:
            with progress.task("comparing the results of both sides"):
                measured.comparisons = _compare(stand, engine, profile, measured, options)
    finally:
        if engine is not None:
            engine.close()
    return report(options, profile, measured)


def _fill(stand: Stand, profile: Profile, options: Options, now_ms: int, progress: Progress) -> dict[str, Fed]:
    seconds = options.seconds or profile.seconds
    partitions = partitions_of(profile.topics)
    kafka, content_type = stand.config.kafka, FORMATS[options.format]
    asyncio.run(fresh_topics(kafka, partitions))
    workload = Workload(profile, options.seed)
    source = messages(workload, now_ms - seconds * 1_000, seconds, content_type, partitions, f"{now_ms}")
    total = seconds * profile.events_per_s
    with progress.task(f"writing {total:,} events to fresh topics") as on_progress:
        return asyncio.run(fill(kafka, source, options.records_per_batch, lambda done: on_progress(done, total)))


def _run_peers(
    engine: Peer, measured: Measured, options: Options, ends: Any, progress: Progress, *, first: bool
) -> None:
    """Lean and same work, each with the block size that was cheapest the first time."""
    for work in ("lean", "same"):  # the comparison looks at what the last one left
        tried = {run.options.block_rows: run.cpu_s for run in measured.peers.get(work, [])[: len(BLOCK_ROWS)]}
        for block_rows in BLOCK_ROWS if first else (min(tried, key=lambda rows: tried[rows]),):
            chosen = peer.Options(work=work, format=options.format, block_rows=block_rows)
            with progress.task(f"ClickHouse's Kafka engine, {work} work, blocks of {block_rows:,}") as on_progress:
                run = engine.run(chosen, ends, core=cpu.job_core(), on_progress=on_progress)
            measured.peers.setdefault(work, []).append(run)


def _compare(
    stand: Stand, engine: Peer, profile: Profile, measured: Measured, options: Options
) -> list[compare.Comparison]:
    found: list[compare.Comparison] = []
    for shell in options.shells:
        blocks = asyncio.run(read_partials(stand.config.kafka, measured.jobs[shell][-1].partials))
        for topic in profile.topics:
            engine.insert(compare.ours_table(topic), compare.ours_ddl(topic), blocks.get(topic, []))
        found = compare.compare(engine.query, profile.topics)
    return found


def report(options: Options, profile: Profile, measured: Measured) -> dict[str, Any]:
    """Numbers per event, ratios, and what they stand on."""
    events = measured.events
    orjson_us = median(one.us_per_event for one in measured.calibrations)
    peers = {work: 1e6 * _best(runs) / events for work, runs in measured.peers.items()}
    jobs = {shell: 1e6 * median(run.cpu_s for run in runs) / events for shell, runs in measured.jobs.items()}
    return {
        "profile": profile,
        "format": options.format,
        "records_per_batch": options.records_per_batch,
        "events": events,
        "fed": measured.fed,
        "series": {one.grouping: one.windows_and_series for one in measured.comparisons},
        "orjson_us_per_event": orjson_us,
        "clickhouse_us_per_event": peers,
        "job_us_per_event": jobs,
        "job_events_per_cpu_s": {shell: 1e6 / us for shell, us in jobs.items()},
        "ratio_to_orjson": {shell: orjson_us / us for shell, us in jobs.items()},
        "ratio_to_clickhouse": {shell: {work: cost / us for work, cost in peers.items()} for shell, us in jobs.items()},
        "faust_to_bare": jobs["bare"] / jobs["faust"] if {"bare", "faust"} <= set(jobs) else None,
        "compared_equal": measured.comparisons,
        "calibrations": measured.calibrations,
        "runs": {"clickhouse": measured.peers, "job": measured.jobs},
    }


def _best(runs: list[PeerRun]) -> float:
    """The median of the runs with the block size that costs the engine least."""
    by_size: dict[int, list[float]] = {}
    for run in runs:
        by_size.setdefault(run.options.block_rows, []).append(run.cpu_s)
    return min(median(costs) for costs in by_size.values())


_EVENTS_MIN = 60_000
_TIMES = 7


@dataclass(frozen=True, slots=True)
class Calibration:
    """Events, records and bytes looped over, and the median CPU time per event."""

    events: int
    records: int
    json_bytes: int
    us_per_event: float


def sample(workload: Workload, from_ms: int) -> tuple[list[bytes], int]:
    """Records of the workload as columnar JSON, whole seconds of it, and how many events they hold."""
    texts: list[bytes] = []
    events = 0
    for step in workload.steps(from_ms, workload.profile.seconds):
        for emission in step:
            texts.append(wire.encode(JSON_COLUMNS, BY_TOPIC[emission.topic].fields, emission.block))
            events += emission.block.rows
        if events >= _EVENTS_MIN:
            break
    return texts, events


def calibrate(texts: list[bytes], events: int, core: int) -> Calibration:
    """Loop over the records on one core, several times."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        taken_s = [_loop(texts) for _ in range(_TIMES)]
    finally:
        os.sched_setaffinity(0, before)
    return Calibration(events, len(texts), sum(map(len, texts)), 1e6 * median(taken_s) / events)


def _loop(texts: list[bytes]) -> float:
    begun_s = time.thread_time()
    for text in texts:
        orjson.loads(text)
    return time.thread_time() - begun_s
