"""The windows job in a process of its own, as production hosts it, and what it costs to read topics to their end.

The process notes its CPU time when its first partition is assigned, so that imports and the loading of compiled code
(which ``bench lifecycle`` measures) are not counted as throughput.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
from aiokafka import TopicPartition

from fleetpulse.services.processes import end_with_parent
from lab.bench import cpu
from lab.bench.feed import OnProgress, Sender, end_offsets, message, until_committed
from lab.bench.stand import OUTPUTS, Stand, until
from lab.bench.workload import PROFILES, Workload
from runtime.bounded_fetch import bound_fetches
from runtime.clock import SystemClock
from runtime.config import KafkaConfig, load
from runtime.kafka_clients import make_consumer, started
from runtime.logs import configure
from runtime.process import leave
from schemas.contract.headers import CONTENT_TYPES
from schemas.contract.record import Record
from schemas.contract.topics import BY_NAME, WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from schemas.limits import DEFAULT_LIMITS, Limits
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import EXEMPLARS
from schemas.rows.usage import USAGE
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.process import run_process
from stream_jobs.step import Commit
from stream_jobs.windows.changes import State
from stream_jobs.windows.step import WindowsStep


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """``partitions`` are those of the output topics; ``note`` and ``profile`` (cProfile's) are files to write."""

    shell: str
    core: int
    data_dir: str
    deployment: str
    workload: str
    topics: list[str]
    partitions: dict[str, int]
    note: str
    profile: str | None = None

    def text(self) -> str:
        """The argument of the worker."""
        return orjson.dumps(asdict(self)).decode()


class NotedStep(WindowsStep):
    """The windows step; when its first state is made it notes the CPU time and the memory so far."""

    def __init__(self, limits: Limits, partitions: Mapping[str, int], note: Path, profiler: cProfile.Profile | None):
        super().__init__(limits, partitions)
        self._note = note
        self._profiler = profiler

    def new(self, topic: str, partition: int) -> State:
        if not self._note.exists():
            memory = cpu.memory_bytes(os.getpid())["resident_bytes"]
            write_whole(self._note, f"{time.process_time()!r} {memory}")
            if self._profiler is not None:
                self._profiler.enable()
        return super().new(topic, partition)


def write_whole(path: Path, text: str) -> None:
    """Write a file that others wait for: it is there whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.replace(path)


def warm(workload: str, topics: list[str], partitions: Mapping[str, int]) -> None:
    """Fold and emit one record of every topic and format, so that all compiled code is loaded."""
    step = WindowsStep(DEFAULT_LIMITS, partitions)
    now_ms = SystemClock().now_ms() // 1_000 * 1_000
    steps = Workload(PROFILES[workload], 0).steps(now_ms, 1)
    first = {emission.topic: emission for emission in next(steps)}
    for topic in topics:
        state, changes = step.new(topic, 0), step.changes()
        for offset, content_type in enumerate(CONTENT_TYPES):
            one = message(first[topic], content_type, Sender(content_type), 1)
            step.fold(state, [Record(topic, 0, offset, now_ms + 1_000, one.key, one.value, one.headers)], changes)
        step.rows(state, changes, Commit(topic, 0, 0, len(CONTENT_TYPES), 0, now_ms, False))
        step.load(topic, 0, step.dump(state))


_WITHIN_S = 600.0
_STARTS_WITHIN_S = 240.0
"""Compiled code that is not cached yet takes its time."""
_BESIDE = {table.schema.encode() for table in (EXEMPLARS, USAGE, SHARES)}
Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class JobRun:
    """CPU and wall clock from the first partition assigned to the last commit; where its partial rows stand."""

    shell: str
    cpu_s: float
    wall_s: float
    start_cpu_s: float
    memory: dict[str, int]
    start_memory_bytes: int
    partials: dict[tuple[str, int], tuple[int, int]]
    """By topic and partition: the offsets [from, to) of what this run wrote."""


def run_job(
    stand: Stand,
    shell: str,
    core: int,
    workload: str,
    topics: Sequence[str],
    ends: Offsets,
    on_progress: OnProgress,
    profile: Path | None = None,
) -> JobRun:
    """Start the worker, wait until it has committed everything, and stop it. ``profile``: where its cProfile goes."""
    kafka, log, note = stand.config.kafka, stand.log_dir / f"job-{shell}.log", stand.log_dir / "job-begun"
    options = WorkerOptions(
        shell=shell,
        core=core,
        data_dir=str(stand.data_dir),
        deployment=f"bench{time.time_ns()}",
        workload=workload,
        topics=list(topics),
        partitions={name: BY_NAME[name].partitions for name in OUTPUTS} | Counter(topic for topic, _ in ends),
        note=str(note),
        profile=None if profile is None else str(profile),
    )
    outputs = {WINDOW_PARTIALS: options.partitions[WINDOW_PARTIALS]}
    first = asyncio.run(end_offsets(kafka, outputs))
    note.unlink(missing_ok=True)
    with log.open("ab") as file:
        command = [sys.executable, "-m", "lab.bench.job", options.text()]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        failure = f"the job was assigned no partition within {_STARTS_WITHIN_S:.0f} s"
        until(lambda: note.exists() or process.poll() is not None, _STARTS_WITHIN_S, lambda: failure, every_s=0.01)
        begun_s = time.monotonic()
        group = f"{options.deployment}-windows"
        alive = lambda: process.poll() is None  # noqa: E731
        asyncio.run(until_committed(kafka, group, ends, _WITHIN_S, on_progress, alive))
        wall_s, total_s = time.monotonic() - begun_s, cpu.cpu_s(process.pid)
        memory = cpu.memory_bytes(process.pid)
    except FleetpulseError as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise FleetpulseError(f"{error}; the end of its log:\n{tail}") from error
    finally:
        cpu.stop(process)
    last = asyncio.run(end_offsets(kafka, outputs))
    start_s, start_memory = note.read_text().split()
    written = {place: (first[place], last[place]) for place in last}
    return JobRun(options.shell, total_s - float(start_s), wall_s, float(start_s), memory, int(start_memory), written)


async def read_partials(
    kafka: KafkaConfig, written: Mapping[tuple[str, int], tuple[int, int]]
) -> dict[str, list[bytes]]:
    """The blocks of partial rows between these offsets, by source topic."""
    found: dict[str, list[bytes]] = {}
    async with started(make_consumer(kafka, max_partition_fetch_bytes=16 << 20)) as consumer:
        left = {TopicPartition(*place): stop for place, (start, stop) in written.items() if start < stop}
        consumer.assign(list(left))
        for place in left:
            consumer.seek(place, written[place.topic, place.partition][0])
        while left:
            fetched = await consumer.getmany(*left, timeout_ms=500)
            for place, messages in fetched.items():
                for message in messages:
                    headers = dict(message.headers)
                    if message.value and message.offset < left[place] and headers["schema"] not in _BESIDE:
                        source = headers["source-topic"].decode()
                        found.setdefault(source, []).append(message.value)
            left = {place: stop for place, stop in left.items() if await consumer.position(place) < stop}
    return found


def main(text: str) -> int:
    """Run the job until SIGTERM."""
    end_with_parent()
    configure("bench-job")
    options = WorkerOptions(**orjson.loads(text))
    os.sched_setaffinity(0, {options.core})
    config = load({"data_dir": options.data_dir, "kafka.deployment": options.deployment})
    bound_fetches(config.limits)
    warm(options.workload, options.topics, options.partitions)
    assert threading.current_thread() is threading.main_thread()
    profiler = cProfile.Profile() if options.profile else None
    step = NotedStep(config.limits, options.partitions, Path(options.note), profiler)
    try:
        kafka, written = config.kafka, {name: options.partitions[name] for name in OUTPUTS}
        return run_process(
            options.shell, step, options.topics, kafka, CommitPolicy(), worker="bench", partitions=written
        )
    finally:
        if profiler is not None and options.profile is not None:
            profiler.disable()
            profiler.dump_stats(options.profile)


if __name__ == "__main__":
    leave(main(sys.argv[1]))
