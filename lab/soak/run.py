"""Run a soak on a stack of its own: load, jobs, sink; look at everything at even distances; judge."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from aiokafka.errors import KafkaError

from fleetpulse.commands.progress import Progress
from fleetpulse.queries import dashboard as catalogue
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Processes
from lab.bench import live
from lab.bench.dashboard_queries import AROUND_MS, values_of
from lab.bench.stand import Stand, fresh_stand
from lab.soak.judge import HOUR_S, Line, Sample, lines, load_per_s
from runtime.clickhouse_clients import connect
from runtime.clock import SystemClock
from runtime.config import Config
from schemas.limits import MINUTE_MS

SAMPLES = 120
"""Over the whole soak, unless they would come more often than every ``EVERY_S_MIN``."""
EVERY_S_MIN = 5.0
QUERIES_EVERY = 3
"""Samples from one look at the dashboard's queries to the next."""
QUERY_RANGE_MS, QUERY_END_AGO_MS = 5 * MINUTE_MS, MINUTE_MS
SETTLE_WITHIN_S = 180.0
STOP_WITHIN_S = 60.0


@dataclass(slots=True)
class Soak:
    """What a soak showed. ``stopped_s``: somebody ended it after so long."""

    hosts: int
    seconds: int
    samples: list[Sample] = field(default_factory=list)
    restarts: dict[str, int] = field(default_factory=dict)
    books: Report | None = None
    stopped_s: float | None = None
    refused: dict[str, str] = field(default_factory=dict)
    """Queries of the dashboard that failed, with the reason."""

    @property
    def lines(self) -> list[Line]:
        """Every amount with its verdict."""
        return lines(self.samples, self.seconds, self.restarts)

    @property
    def load_share(self) -> float | None:
        """Of the records that such a fleet sends those that came, behind the start-up; None where that was not seen."""
        per_s = load_per_s(self.samples, self.seconds)
        return None if per_s is None else per_s / (live.RECORDS_PER_HOST_S * self.hosts)

    @property
    def loaded(self) -> bool:
        """Whether the fleet sent what it should: what does not grow under less proves nothing."""
        return self.load_share is not None and self.load_share >= live.LOAD_SHARE_MIN

    @property
    def notes(self) -> list[str]:
        """What is wrong beside the lines."""
        found = [f"query {name} failed: {why}" for name, why in self.refused.items()]
        if not self.loaded:
            share = "an unknown part" if self.load_share is None else f"{self.load_share:.0%}"
            found.append(f"the fleet sent {share} of its records each second")
        return found

    @property
    def holds(self) -> bool:
        """Whether nothing grew in the whole time under the whole load, and the books are exact."""
        exact = self.books is not None and self.books.exact
        ran = self.stopped_s is None and self.loaded and any(line.holds for line in self.lines)
        return ran and exact and not self.refused and all(line.holds is not False for line in self.lines)

    def as_dict(self) -> dict[str, Any]:
        return {
            "gpus": self.hosts * live.GPUS_PER_HOST,
            "seconds": self.seconds,
            "stopped_s": self.stopped_s,
            "holds": self.holds,
            "load_share": self.load_share,
            "lines": [line.as_dict() for line in self.lines],
            "refused": self.refused,
            "books": None if self.books is None else self.books.as_dict(),
            "samples": self.samples,
        }


def run_soak(*, hours: float, hosts: int, seed: int, data_dir: Path | None, progress: Progress) -> Soak:
    """The whole soak on a fresh stack. Ctrl-C ends it early: what was seen until then is judged, and it does not
    hold."""
    soak = Soak(hosts, round(hours * HOUR_S))
    with (
        fresh_stand(data_dir, progress.say, folder="soak") as stand,
        live.pipeline(stand, progress, jobs=JOBS) as processes,
    ):
        _soak(stand, processes, soak, seed, progress)
    return soak


def _soak(stand: Stand, processes: Processes, soak: Soak, seed: int, progress: Progress) -> None:
    begun_s = time.monotonic()
    processes.start(live.fleet(stand, soak.hosts, soak.seconds, seed))
    try:
        with progress.task(f"{soak.hosts * live.GPUS_PER_HOST:,} GPUs for {soak.seconds:,} s") as on_progress:
            asyncio.run(_watch(stand, processes, soak, on_progress))
    except KeyboardInterrupt:
        soak.stopped_s = time.monotonic() - begun_s
        progress.say(f"stopping after {soak.stopped_s:.0f} s; the books follow")
    soak.restarts = {name: processes.restarts(name) for name in processes.names()}
    processes.stop("simulate", within_s=STOP_WITHIN_S)
    with progress.task("settling the books"):
        soak.books = reconcile(
            stand.config.kafka,
            stand.config.clickhouse,
            wait_s=SETTLE_WITHIN_S,
            limits=stand.config.limits,
            while_waiting=processes.tend,
        )


@dataclass(frozen=True, slots=True)
class _Clients:
    """``people`` read what pages show; the server's own tables are for the writer alone."""

    people: Any
    writer: Any

    @classmethod
    def of(cls, config: Config) -> _Clients:
        return cls(connect(config.reading), connect(config.clickhouse))

    def close(self) -> None:
        self.people.close()
        self.writer.close()


async def _watch(stand: Stand, processes: Processes, soak: Soak, on_progress: Any) -> None:
    every_s, begun_s = max(EVERY_S_MIN, soak.seconds / SAMPLES), time.monotonic()
    with contextlib.closing(_Clients.of(stand.config)) as clients:
        async with live.Watcher(stand.config, JOBS) as watcher:
            while not live.ended_well(processes, "simulate"):
                at_s = time.monotonic() - begun_s
                ask = len(soak.samples) % QUERIES_EVERY == 0
                with contextlib.suppress(KafkaError):  # on a machine that is too busy to answer a look is left out
                    reading = await watcher.read(at_s)
                    soak.samples.append(_sample(stand, processes, clients, reading, soak.refused if ask else None))
                while time.monotonic() - begun_s < at_s + every_s:
                    processes.tend()
                    on_progress(int(time.monotonic() - begun_s), soak.seconds)
                    await asyncio.sleep(0.5)


def _sample(
    stand: Stand, processes: Processes, clients: _Clients, reading: live.Reading, refused: dict[str, str] | None
) -> Sample:
    """``refused`` None: without the queries of the dashboard."""
    known = {name: psutil.Process(pid) for name, pid in live.pids(stand, processes).items()}
    memory = {name: process.memory_full_info() for name, process in known.items()}
    files, disk_bytes = on_disk(stand.data_dir)
    parts = "SELECT count() FROM system.parts WHERE active AND database = currentDatabase()"
    return Sample(
        at_s=reading.at_s,
        memory_bytes={name: one.pss for name, one in memory.items()},
        resident_bytes={name: one.rss for name, one in memory.items()},
        open_files={name: process.num_fds() for name, process in known.items()},
        lag=reading.lag,
        ends=reading.ends,
        parts=int(clients.writer.query(parts).result_rows[0][0]),
        files=files,
        disk_bytes=disk_bytes,
        query_p95_ms=None if refused is None else query_p95_ms(clients.people, refused),
    )


def on_disk(folder: Path) -> tuple[int, int]:
    """How many files are below a folder, and their bytes. What is removed meanwhile is left out."""
    files = size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += (Path(path) / name).stat().st_size
                files += 1
    return files, size


def query_p95_ms(client: Any, refused: dict[str, str]) -> float:
    """Every query of the dashboard once, as pages ask it, over the same length of time up to a minute ago."""
    to_ms = (SystemClock().now_ms() - QUERY_END_AGO_MS) // AROUND_MS * AROUND_MS
    took_ms = []
    for query in map(catalogue.query, catalogue.names()):
        bound: Mapping[str, Any] = values_of(query, to_ms - QUERY_RANGE_MS, to_ms)
        sql, begun_s = query.at_levels(QUERY_RANGE_MS, bound), time.perf_counter()
        try:
            client.query(sql, parameters=bound, settings=query.settings())
        except Exception as error:  # of the driver's many: a query that fails is a result, and shown as one
            refused[query.name] = str(error).splitlines()[0][:200]
        took_ms.append(1_000 * (time.perf_counter() - begun_s))
    return float(np.percentile(took_ms, 95))
