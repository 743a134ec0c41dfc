"""Let the windows job read topics to their end in a process of its own, and count what that costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiokafka import TopicPartition

from lab.bench import cpu
from lab.bench.feed import OnProgress, end_offsets, until_committed
from lab.bench.job_worker import WorkerOptions
from runtime.config import Config, KafkaConfig
from runtime.kafka_clients import make_consumer, started
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import EXEMPLARS
from schemas.rows.usage import USAGE

_WITHIN_S = 600.0
_STARTS_WITHIN_S = 240.0
"""Compiled code that is not cached yet takes its time."""
_STOPS_WITHIN_S = 15.0
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


def run_job(config: Config, options: WorkerOptions, ends: Offsets, log: Path, on_progress: OnProgress) -> JobRun:
    """Start the worker, wait until it has committed everything, and stop it."""
    outputs = {WINDOW_PARTIALS: options.partitions[WINDOW_PARTIALS]}
    first = asyncio.run(end_offsets(config.kafka, outputs))
    note = Path(options.note)
    note.unlink(missing_ok=True)
    with log.open("ab") as file:
        command = [sys.executable, "-m", "lab.bench.job_worker", options.text()]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        _wait_for(note, process, log)
        begun_s = time.monotonic()
        group = f"{options.deployment}-windows"
        alive = lambda: process.poll() is None  # noqa: E731
        asyncio.run(until_committed(config.kafka, group, ends, _WITHIN_S, on_progress, alive))
        wall_s, total_s = time.monotonic() - begun_s, cpu.cpu_s(process.pid)
        memory = cpu.memory_bytes(process.pid)
    except FleetpulseError as error:
        raise FleetpulseError(f"{error}; the end of its log:\n{_tail(log)}") from error
    finally:
        _stop(process)
    last = asyncio.run(end_offsets(config.kafka, outputs))
    start_s, start_memory = note.read_text().split()
    written = {place: (first[place], last[place]) for place in last}
    return JobRun(options.shell, total_s - float(start_s), wall_s, float(start_s), memory, int(start_memory), written)


def _wait_for(note: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end_s = time.monotonic() + _STARTS_WITHIN_S
    while not note.exists():
        if process.poll() is not None or time.monotonic() > end_s:
            raise FleetpulseError(f"the job was assigned no partition within {_STARTS_WITHIN_S:.0f} s")
        time.sleep(0.01)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


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
