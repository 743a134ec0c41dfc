"""``bench live``: a whole simulated fleet in real time on this machine, all jobs and raw tables included.

The fleet *keeps up* when the simulator is punctual, lag (in seconds of input) is flat, readers of derived records are
no more than two windows behind, no service has ended, and the books are exact at the end. With ``search`` smaller
fleets follow until one keeps up (then a larger one between the two).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median
from typing import Any, Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Command, Processes
from lab.bench import cpu
from lab.bench.stand import Stand, fresh_stand, until
from runtime.config import Config
from runtime.kafka_clients import make_admin, make_consumer, stop_client
from schemas.contract.topics import SOURCE_TOPICS, TOPICS, WINDOW_FINALS, WINDOW_PARTIALS
from schemas.errors import FleetpulseError
from schemas.limits import SECOND_MS, WINDOW_MS

GPUS_PER_HOST = 8
REQUESTS_PER_HOST_S = 40.0
RECORDS_PER_HOST_S = 3
"""GPU samples, requests, and the readings of the two engines."""
SETTLE_WITHIN_S = 60.0
LAG_S_MAX = 8.0
"""More than this much input not committed, in the second half of a run, is not keeping up; commits come every 5 s."""
LAG_RISE_MAX = 0.05
"""Seconds of lag that may be added per second, in the second half."""
LAG_WOBBLE_S = 1.0
"""A rise that adds less than this over the whole second half is the rhythm of fetches and commits."""
DERIVED_LAG_S_MAX = 2 * WINDOW_MS / SECOND_MS
"""Of derived records a window's come together: who reads them has one to read when it is punctual."""
LOAD_SHARE_MIN = 0.97
"""Of the records that a fleet sends: with fewer who keeps up with them proves nothing."""
_READY_WITHIN_S = 300.0
_SEARCH_STEP = 156


@dataclass(frozen=True, slots=True)
class Reading:
    """One second: records of the source topics; by reader those that it has not committed, and all of its topics."""

    at_s: float
    records: int
    lag: dict[str, int]
    ends: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Run:
    """What a run showed."""

    hosts: int
    seconds: int
    readings: list[Reading] = field(default_factory=list)
    cpu_s: dict[str, float] = field(default_factory=dict)
    memory_bytes: dict[str, int] = field(default_factory=dict)
    wall_s: float = 0.0
    books: Report | None = None
    settled_s: float = 0.0
    simulator_late_s: float = 0.0
    ended: dict[str, int] = field(default_factory=dict)
    """How often each service did, which should not."""

    @property
    def records_per_s(self) -> float:
        """Records that the fleet sends each second, over the source topics and the derived ones."""
        moved = [one for one in self.readings if one.records]
        if len(moved) < 2:
            return 0.0
        return (moved[-1].records - moved[0].records) / (moved[-1].at_s - moved[0].at_s)


def measure(data_dir: Path | None, hosts: int, seconds: int, seed: int, progress: Progress) -> Run:
    """One run on a stack of its own."""
    with fresh_stand(data_dir, progress.say) as stand:
        return _run(stand, hosts, seconds, seed, progress)


def _run(stand: Stand, hosts: int, seconds: int, seed: int, progress: Progress) -> Run:
    run = Run(hosts, seconds)
    with pipeline(stand, progress, jobs=JOBS) as processes:
        before, begun_s = cpu_s(stand, processes), time.monotonic()
        processes.start(fleet(stand, hosts, seconds, seed))
        with progress.task(f"{hosts * GPUS_PER_HOST:,} GPUs for {seconds} s") as on_progress:
            asyncio.run(_watch(stand, processes, run, on_progress))
        run.wall_s = time.monotonic() - begun_s
        run.cpu_s = {name: spent - before.get(name, 0.0) for name, spent in run.cpu_s.items()}
        running = pids(stand, processes)
        run.memory_bytes = {name: cpu.memory_bytes(pid)["resident_peak_bytes"] for name, pid in running.items()}
        run.simulator_late_s = _finish_simulator(processes, run)
        with progress.task("settling the books"):
            settle_s = time.monotonic()
            run.books = reconcile(stand.config.kafka, stand.config.clickhouse, wait_s=SETTLE_WITHIN_S)
            run.settled_s = time.monotonic() - settle_s
        run.ended = ends(processes)
    return run


@contextlib.contextmanager
def pipeline(
    stand: Stand, progress: Progress, *, rollups: bool = True, jobs: Sequence[str] = ("windows",)
) -> Iterator[Processes]:
    """The jobs and the sink, as in production: members of their groups, and stopped at the end. The windows job is
    ``jobs``, the others ``jobs-finals`` and so on."""
    with Processes(stand.log_dir) as processes:
        with progress.task("starting the jobs (Faust) and the sink"):
            sink = ("sink", "--rollups" if rollups else "--no-rollups")
            for job in jobs:
                name = "jobs" if job == "windows" else f"jobs-{job}"
                processes.start(Command(name, ("jobs", job, "--name", "bench-worker"), stand.environment))
            processes.start(Command("sink", sink, stand.environment))
            asyncio.run(_until_ready(stand.config, processes, jobs))
        yield processes


def fleet(stand: Stand, hosts: int, seconds: int, seed: int, *more: str) -> Command:
    """The simulated fleet: per host and second 8 GPU samples and 40 requests, as two records."""
    arguments = (
        "simulate", "--load", "bulk", "--gpus", str(hosts * GPUS_PER_HOST), "--rate", str(REQUESTS_PER_HOST_S),
        "--seconds", str(seconds), "--seed", str(seed), "--spool", str(stand.data_dir / "spool-fleet"), *more,
    )  # fmt: skip
    return Command("simulate", arguments, stand.environment, restart=False)


def cpu_s(stand: Stand, processes: Processes) -> dict[str, float]:
    """CPU time so far of every process that runs, Kafka and ClickHouse among them. What has ended is not
    there: look now and then, and keep what was seen last."""
    return {name: cpu.cpu_s(pid) for name, pid in pids(stand, processes).items()}


def pids(stand: Stand, processes: Processes) -> dict[str, int]:
    """Process ids of all that runs, Kafka and ClickHouse among them."""
    found = {name: processes.pid(name) for name in processes.names()}
    found |= {"kafka": stand.kafka_pid, "clickhouse": stand.clickhouse_pid}
    return {name: pid for name, pid in found.items() if pid is not None}


def _finish_simulator(processes: Processes, run: Run) -> float:
    """Wait until the fleet has sent everything; seconds that it took longer than its own time."""
    begun_s = time.monotonic()
    until(
        lambda: ended_well(processes, "simulate"),
        4 * run.seconds,
        lambda: f"the simulator does not end:\n{processes.tail('simulate')}",
    )
    return time.monotonic() - begun_s


def ended_well(processes: Processes, name: str) -> bool:
    """Whether a process has ended. Raises ``FleetpulseError`` where it failed."""
    code = processes.exit_code(name)
    if code:
        raise FleetpulseError(f"{name} failed:\n{processes.tail(name)}")
    return code == 0


def ends(processes: Processes) -> dict[str, int]:
    """How often each service has ended: those that were started again, and those that are down. Not the fleet, which
    ends by itself."""
    services = [name for name in processes.names() if name != "simulate"]
    return {name: processes.restarts(name) + (processes.pid(name) is None) for name in services}


async def _until_ready(config: Config, processes: Processes, jobs: Sequence[str]) -> None:
    """All readers are members of their groups; idle commits of the job show that it is live."""
    end_s = time.monotonic() + _READY_WITHIN_S
    async with Watcher(config, jobs) as watcher:
        while not await watcher.all_stable():
            for name in processes.names():
                if processes.exit_code(name) is not None:
                    raise FleetpulseError(f"{name} ended before it began:\n{processes.tail(name)}")
            if time.monotonic() > end_s:
                raise FleetpulseError(f"job and sink are not ready after {_READY_WITHIN_S:.0f} s")
            await asyncio.sleep(0.3)


async def _watch(stand: Stand, processes: Processes, run: Run, on_progress: Any) -> None:
    begun_s = time.monotonic()
    first_s: float | None = None
    async with Watcher(stand.config, JOBS) as watcher:
        while True:
            at_s = time.monotonic()
            reading = await watcher.read(at_s - begun_s)
            run.readings.append(reading)
            if first_s is None and reading.records:
                first_s = at_s
            run.cpu_s |= cpu_s(stand, processes)  # what has ended has no clock any more
            on_progress(int(at_s - (first_s or at_s)), run.seconds)
            processes.tend()
            over = first_s is not None and at_s - first_s >= run.seconds
            if over or processes.exit_code("simulate") is not None:
                return
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - at_s)))


class Watcher:
    """Log ends and committed offsets of the pipeline's readers: ``jobs``, and the sink's two."""

    def __init__(self, config: Config, jobs: Sequence[str] = ("windows",)) -> None:
        self._kafka = config.kafka
        deployment = config.kafka.deployment
        sources = tuple(topic.name for topic in SOURCE_TOPICS)
        of_jobs = {"windows": sources, "alerts": (WINDOW_FINALS,)}
        self.readers = {
            **{job: (f"{deployment}-{job}", of_jobs.get(job, (WINDOW_PARTIALS,))) for job in jobs},
            "raw sink": (f"{deployment}-raw", sources),
            "sink": (f"{deployment}-sink", (WINDOW_PARTIALS,)),
        }
        self._places = [TopicPartition(t.name, p) for t in TOPICS for p in range(t.partitions)]
        self._consumer: Any = None
        self._admin: Any = None

    async def __aenter__(self) -> Self:
        self._consumer = make_consumer(self._kafka)
        self._admin = make_admin(self._kafka)
        await self._consumer.start()
        await self._admin.start()
        self._consumer.assign(self._places)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await stop_client(self._consumer.stop)
        await self._admin.close()

    async def all_stable(self) -> bool:
        """Whether every reader's group has members and has settled."""
        try:
            return all([await self.members(reader) for reader in self.readers])
        except KafkaError:
            return False

    async def members(self, reader: str) -> int | None:
        """How many members a reader's group has, None while it has not settled."""
        group = self.readers[reader][0]
        answer = (await self._admin.describe_consumer_groups([group]))[0].groups[0]
        return len(answer[5]) if answer[2] in ("Stable", "Empty") else None

    async def committed(self, reader: str) -> dict[tuple[str, int], int]:
        """Committed offsets of a reader by topic and partition; 0 where there is none."""
        group, topics = self.readers[reader]
        try:
            found = await self._admin.list_consumer_group_offsets(group)
        except KafkaError:
            found = {}
        places = [place for place in self._places if place.topic in topics]
        return {(at.topic, at.partition): max(0, found[at].offset) if at in found else 0 for at in places}

    async def read(self, at_s: float) -> Reading:
        """What every reader has yet to read, in records."""
        ends = await self._consumer.end_offsets(self._places)
        lag, last = {}, {}
        for name in self.readers:
            done = await self.committed(name)
            last[name] = sum(ends[TopicPartition(*place)] for place in done)
            lag[name] = last[name] - sum(done.values())
        sources = self.readers["windows"][1]
        return Reading(at_s, sum(end for place, end in ends.items() if place.topic in sources), lag, last)


def verdict(run: Run) -> dict[str, Any]:
    """Whether the fleet keeps up, and the numbers it follows from."""
    late = [one for one in run.readings if one.at_s >= run.readings[-1].at_s / 2]
    per_s = run.records_per_s or 1.0
    source_lag = {name: [one.lag[name] / per_s for one in late] for name in ("windows", "raw sink")}
    span_s = max(late[-1].at_s - late[0].at_s, 1.0)
    rise = {name: _rise([one.at_s for one in late], lags) for name, lags in source_lag.items()}
    expected = RECORDS_PER_HOST_S * run.hosts
    produced = 0 if run.books is None else sum(topic.produced for topic in run.books.topics)
    rises = any(slope > LAG_RISE_MAX and slope * span_s > LAG_WOBBLE_S for slope in rise.values())
    flat = not rises and all(max(lags) <= LAG_S_MAX for lags in source_lag.values())
    punctual = per_s >= LOAD_SHARE_MIN * expected and run.simulator_late_s <= LAG_S_MAX
    derived = {name: _derived_lag_s(run, late, name) for name in late[0].lag if name not in source_lag}
    derived_read = all(lag_s is None or lag_s <= DERIVED_LAG_S_MAX for lag_s in derived.values())
    ended = {name: count for name, count in run.ended.items() if count}
    exact = run.books is not None and run.books.exact
    return {
        "gpus": run.hosts * GPUS_PER_HOST,
        "hosts": run.hosts,
        "seconds": run.seconds,
        "keeps_up": flat and derived_read and punctual and exact and not ended,
        "lag_flat": flat,
        "derived_read": derived_read,
        "services_ended": ended,
        "simulator_punctual": punctual,
        "books_exact": exact,
        "records_per_s": per_s,
        "records_per_s_expected": expected,
        "events_per_s": produced / run.seconds,
        "lag_s_max": {name: max(lags) for name, lags in source_lag.items()},
        "lag_rise_s_per_s": rise,
        "observed_s": span_s,
        "derived_records_lag_max": {
            name: max(one.lag[name] for one in late) for name in late[0].lag if name not in source_lag
        },
        "derived_lag_s": derived,
        "cores": {name: spent / run.wall_s for name, spent in run.cpu_s.items()},
        "cores_total": sum(run.cpu_s.values()) / run.wall_s,
        "cpu_s": run.cpu_s,
        "memory_peak_bytes": run.memory_bytes,
        "settled_s": run.settled_s,
        "books": None if run.books is None else run.books.as_dict(),
    }


def _derived_lag_s(run: Run, late: Sequence[Reading], name: str) -> float | None:
    """Median of the lag of a reader of derived records, in seconds of what came since the fleet began; None without
    any."""
    moved = [one for one in run.readings if one.records]
    came = moved[-1].ends.get(name, 0) - moved[0].ends.get(name, 0) if moved else 0
    if not came:
        return None
    return median(one.lag[name] for one in late) * (moved[-1].at_s - moved[0].at_s) / came


def _rise(at_s: list[float], lags: list[float]) -> float:
    """Slope of the least-squares line, seconds of lag per second."""
    return linear_regression(at_s, lags).slope if len(at_s) >= 3 else 0.0


def search(data_dir: Path | None, hosts: int, seconds: int, seed: int, progress: Progress) -> list[dict[str, Any]]:
    """Runs of ever better guesses, the last one that keeps up is the answer; the first has all ``hosts``."""
    tried: list[dict[str, Any]] = []

    def keeps_up(count: int) -> bool:
        found = verdict(measure(data_dir, count, seconds, seed, progress))
        tried.append(found)
        progress.say(f"{found['gpus']:,} GPUs: {'keeps up' if found['keeps_up'] else 'does not keep up'}")
        return bool(found["keeps_up"])

    good, bad = 0, hosts
    if keeps_up(hosts):
        return tried
    guess = hosts // 2
    while guess - good >= _SEARCH_STEP // 2 and guess >= _SEARCH_STEP // 2:
        if keeps_up(guess):
            good = guess
        else:
            bad = guess
        guess = (good + bad) // 2
    return tried
