"""``bench scale``: the same load with ever more workers and partitions: what an event costs, how late finals are.

A second of every host's events is made before, and sent again each second at the time that it is, as its hosts would:
only times and identities change. All four jobs and the sink run as in production, on two cores. Processor time is that
from the first record until all of it was folded, by all processes of a kind, over the events that were sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fleetpulse.commands.progress import Progress
from fleetpulse.services.processes import Command, Processes
from lab.bench import cpu, live
from lab.bench.alerting import Seen, finals_s, follow
from lab.bench.feed import Message, Sender, end_offsets, message, send_all, senders
from lab.bench.stand import Stand, free_port, fresh_stand, is_ready, metric, page, until
from lab.bench.workload import FLEET, GPUS_PER_HOST, Emission, Workload
from runtime.clock import SystemClock
from runtime.config import Config
from schemas.codec.block import Block, Numbers
from schemas.contract.headers import NATIVE
from schemas.contract.topics import (
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    BY_NAME,
    COSTS_TOPIC,
    STATE_TOPICS,
    WINDOW_FINALS,
    WINDOW_PARTIALS,
    partitions_of,
)
from schemas.errors import FleetpulseError
from schemas.rows.finals import FinalsHeaders
from schemas.rows.finals import decode as headers_of

CORES = 2
PROCESS_SHARE_MAX = 0.10
"""Processor time of an event may grow by this from one layout to the next."""
_OUTPUTS = (WINDOW_PARTIALS, BOOKS_TOPIC, WINDOW_FINALS, COSTS_TOPIC, ALERTS_TOPIC)
_READY_WITHIN_S = 300.0
_DRAIN_S = 20.0
"""The last windows are final by then: 2 s out of order, a commit of each job, and the wait for idle partitions."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``workers`` of the windows, finals and cost job each; partitions of each source topic, and of their partials."""

    workers: int
    sources: int
    partials: int

    @property
    def partitions(self) -> dict[str, int]:
        """As the configuration takes them. Costs are read by the finals job as partials are."""
        return {**dict.fromkeys(FLEET.topics, self.sources), WINDOW_PARTIALS: self.partials}


LAYOUTS = (Layout(1, 4, 4), Layout(4, 16, 16), Layout(16, 64, 64))


@dataclass(slots=True)
class Run:
    """What one layout showed."""

    layout: Layout
    events: int = 0
    late_s: float = 0.0
    """How far the load itself was behind at most."""
    wall_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    records: float = 0.0
    grown: Counter[str] = field(default_factory=Counter)
    finals_s: list[float] = field(default_factory=list)
    windows: int = 0


def measure(
    data_dir: Path | None, gpus: int, minutes: float, seed: int, workers_max: int, progress: Progress
) -> dict[str, Any]:
    """Every layout of at most so many workers, one after the other, each on a stack of its own."""
    runs = []
    for layout in LAYOUTS:
        if layout.workers <= workers_max:
            with fresh_stand(data_dir, progress.say, partitions=layout.partitions) as stand:
                runs.append(asyncio.run(_run(stand, layout, gpus, round(60 * minutes), seed, progress)))
    return report(runs, gpus, minutes)


def report(runs: Sequence[Run], gpus: int, minutes: float) -> dict[str, Any]:
    """Plain data; ``growth`` of a layout is its processor time of an event over that of the one before. A layout in
    which windows never became final has no right to a price."""
    found: list[dict[str, Any]] = []
    for run in runs:
        per_million = {name: 1e6 * spent / run.events for name, spent in sorted(run.cpu_s.items())}
        jobs = sum(value for name, value in per_million.items() if name not in ("kafka", "clickhouse"))
        outputs = sum(run.grown[topic] for topic in _OUTPUTS)
        delays = sorted(run.finals_s)
        before = found[-1]["cpu_s_per_million"] if found else None
        total = sum(per_million.values())
        found.append(
            {
                "layout": run.layout,
                "events": run.events,
                "load_late_s_max": run.late_s,
                "cpu_s_per_million": total,
                "cpu_s_per_million_of_jobs": jobs,
                "cpu_s_per_million_by_process": per_million,
                "cores": sum(run.cpu_s.values()) / run.wall_s,
                "records_per_s": run.records / run.wall_s,
                "markers_per_s": (outputs - run.records) / run.wall_s,
                "state_offsets_per_s": sum(run.grown[topic.name] for topic in STATE_TOPICS) / run.wall_s,
                "windows": len(delays),
                "windows_expected": run.windows,
                "finals_p99_s": float(np.quantile(delays, 0.99, method="higher")) if delays else None,
                "growth": None if before is None else total / before - 1,
            }
        )
    is_whole = all(one["windows"] >= one["windows_expected"] for one in found)
    within = is_whole and all(one["growth"] is None or one["growth"] <= PROCESS_SHARE_MAX for one in found)
    return {"gpus": gpus, "minutes": minutes, "cores_used": CORES, "runs": found, "within": within}


async def _run(stand: Stand, layout: Layout, gpus: int, seconds: int, seed: int, progress: Progress) -> Run:
    run, topics = Run(layout), _topics(layout)
    ports: list[int] = []
    with Processes(stand.log_dir) as processes:
        with progress.task(f"starting {3 * layout.workers + 2} processes"):
            for command in _commands(stand, layout, ports):
                processes.start(command)
            for name in processes.names():
                pid = processes.pid(name)
                assert pid is not None
                cpu.pin(pid, set(cpu.cores()[:CORES]))
            await asyncio.to_thread(_until_ready, ports, processes)
        load = load_of(gpus, seed)
        before, cpu_before = await end_offsets(stand.config.kafka, topics), live.cpu_s(stand, processes)
        records, begun_s, begun_ms = _records(ports), time.monotonic(), SystemClock().now_ms()
        seen = Seen(begun_ms=begun_ms)
        observing = asyncio.create_task(_follow_finals(stand.config, seen, layout.partials))
        title = f"{layout.workers} workers, {layout.sources} and {layout.partials} partitions"
        with progress.task(title) as on_progress:
            await _send(stand.config, load, layout, seconds, run, on_progress)
            await asyncio.sleep(_DRAIN_S)
        observing.cancel()
        await asyncio.gather(observing, return_exceptions=True)
        demand_alive(processes)
        run.wall_s, run.records = time.monotonic() - begun_s, _records(ports) - records
        for name, spent in live.cpu_s(stand, processes).items():
            run.cpu_s[name.partition("-")[0]] += spent - cpu_before.get(name, 0.0)
        for (topic, number), end in (await end_offsets(stand.config.kafka, topics)).items():
            run.grown[topic] += end - before[topic, number]
    run.finals_s, run.windows = finals_s(seen, begun_ms + 10_000, begun_ms + 1_000 * seconds), (seconds - 10) // 10
    return run


def _topics(layout: Layout) -> dict[str, int]:
    names = [*_OUTPUTS, *(topic.name for topic in STATE_TOPICS)]
    return {name: partitions_of(BY_NAME[name], layout.partitions) for name in names}


def _commands(stand: Stand, layout: Layout, ports: list[int]) -> Iterator[Command]:
    numbered = [(job, number) for job in ("windows", "finals", "costs") for number in range(layout.workers)]
    for job, number in (*numbered, ("alerts", 0)):
        ports.append(free_port())
        words = ("jobs", job, "--name", f"bench-{job}-{number}", "--health-port", str(ports[-1]))
        yield Command(f"{job}-{number}", words, stand.environment)
    yield Command("sink", ("sink", "--rollups"), stand.environment)


def _until_ready(ports: Sequence[int], processes: Processes) -> None:
    def ready() -> bool:
        processes.tend()
        return all(is_ready(port, 10.0) for port in ports)

    until(ready, _READY_WITHIN_S, lambda: f"not every job is ready in {_READY_WITHIN_S:.0f} s", every_s=1.0)


def demand_alive(processes: Processes) -> None:
    """Raise ``FleetpulseError`` where a process has ended: what it did not do would look like processor time saved."""
    for name in processes.names():
        if processes.pid(name) is None:
            raise FleetpulseError(f"{name} ended while it was measured:\n{processes.tail(name)}")


def _records(ports: Sequence[int]) -> float:
    """Records that all jobs have written in transactions so far."""
    return sum(metric(page(port, "metrics"), "job_output_records") for port in ports)


def load_of(gpus: int, seed: int) -> list[Emission]:
    """One second of all hosts."""
    profile = replace(FLEET, name="scale", hosts=gpus // GPUS_PER_HOST)
    (step,) = Workload(profile, seed).steps(0, 1)
    return step


def at(emission: Emission, now_ms: int) -> Emission:
    """The same events, at this second; times within it stay."""
    columns: dict[str, Any] = dict(emission.block.columns)
    times = columns["at_ms"]
    assert isinstance(times, Numbers)
    columns["at_ms"] = replace(times, values=times.values % 1_000 + now_ms)
    return replace(emission, block=Block(emission.block.rows, columns))


async def _send(
    config: Config, load: Sequence[Emission], layout: Layout, seconds: int, run: Run, on_progress: Any
) -> None:
    """Every second all of the load, until so many have passed; the next one waits where the brokers are slow."""
    sender, begun_s, begun_ms = Sender("scale"), time.monotonic(), SystemClock().now_ms() // 1_000 * 1_000
    fed: dict[str, Any] = {}
    async with senders(config.kafka) as producers:
        for number in range(seconds):
            await asyncio.sleep(max(0.0, begun_s + number + 1 - time.monotonic()))
            run.late_s = max(run.late_s, time.monotonic() - begun_s - number - 1)
            source = _messages(load, sender, layout.partitions, begun_ms + 1_000 * number)
            await send_all(producers, source, 10, fed, lambda _events: None)
            on_progress(number + 1, seconds)
    run.events = sum(one.events for one in fed.values())


def _messages(
    load: Sequence[Emission], sender: Sender, partitions: Mapping[str, int], now_ms: int
) -> Iterator[Message]:
    for emission in load:
        yield message(at(emission, now_ms), NATIVE, sender, partitions[emission.topic])


async def _follow_finals(config: Config, seen: Seen, upstreams: int) -> None:
    def take(now_ms: int, record: Any) -> None:
        headers = headers_of(tuple(record.headers), f"{record.topic}@{record.offset}")
        if isinstance(headers, FinalsHeaders):
            seen.finals(now_ms, headers, upstreams)

    await follow(config, WINDOW_FINALS, take)
