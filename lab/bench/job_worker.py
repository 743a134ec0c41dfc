"""The windows job in a process of its own, as production hosts it, with one addition: it notes when it begins.

Run as ``python -m lab.bench.job_worker OPTIONS`` where OPTIONS is the JSON of ``WorkerOptions``. The note is
the CPU time of the process at the moment the first partition is assigned, so that imports and the loading of
compiled code (which ``bench lifecycle`` measures) are not counted as throughput; fetching, folding, committing and
emitting all are.
"""

from __future__ import annotations

import cProfile
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from fleetpulse.services.processes import end_with_parent
from lab.bench.cpu import memory_bytes
from lab.bench.feed import Sender, message
from lab.bench.workload import PROFILES, Workload
from runtime.bounded_fetch import bound_fetches
from runtime.clock import SystemClock
from runtime.config import load
from runtime.logs import configure
from schemas.contract.headers import CONTENT_TYPES
from schemas.contract.record import Record
from schemas.limits import DEFAULT_LIMITS, Limits
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
            memory = memory_bytes(os.getpid())["resident_bytes"]
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
        return run_process(
            options.shell,
            step,
            options.topics,
            config.kafka,
            CommitPolicy(),
            worker="bench",
            outputs=options.partitions,
        )
    finally:
        if profiler is not None and options.profile is not None:
            profiler.disable()
            profiler.dump_stats(options.profile)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
