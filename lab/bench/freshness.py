"""``bench freshness``: from a window's end until all its rows answer to SQL.

An observer queries several times a second how many events of every recent window and grouping set the database holds;
the first moment at which a window held what it holds in the end is its freshness. Windows covered in part are left out.
In the end the books have to be exact: a window that lacks rows has no freshness.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fleetpulse.commands.progress import Progress
from fleetpulse.reconcile.compare import reconcile
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from lab.bench import cpu, live
from lab.bench.stand import Stand, fresh_stand
from runtime.clock import SystemClock
from schemas.events.grouping import sets_of
from schemas.limits import WINDOW_MS
from schemas.rows.tables import PARTIALS

QUERY_EVERY_S = 0.15
TAIL_S = 15.0
LOOK_BACK_MS = 5 * WINDOW_MS
_TOPICS = ("llm.requests", "gpu.samples", "engine.samples")

Key = tuple[str, int]
"""Grouping set and start of the window."""


@dataclass(slots=True)
class Seen:
    """When a window first held how many events."""

    steps: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)

    def note(self, now_ms: int, key: Key, events: int) -> None:
        """An answer that was complete at ``now_ms``."""
        steps = self.steps.setdefault(key, [])
        if not steps or events > steps[-1][1]:
            steps.append((now_ms, events))

    def delays_ms(self, from_ms: int, to_ms: int, lateness_ms: int = 0) -> dict[Key, int]:
        """Per window wholly inside ``[from_ms, to_ms)``: when its last rows were there, after its end and lateness."""
        return {
            key: steps[-1][0] - (key[1] + WINDOW_MS + lateness_ms)
            for key, steps in self.steps.items()
            if from_ms <= key[1] and key[1] + WINDOW_MS <= to_ms
        }


def measure(data_dir: Path | None, hosts: int, seconds: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Run it; delays in seconds."""
    with fresh_stand(data_dir, progress.say) as stand, live.pipeline(stand, progress, jobs=JOBS) as processes:
        processes.start(live.fleet(stand, hosts, seconds, seed))
        spent_s = cpu.cpu_s(stand.clickhouse_pid)
        with progress.task(f"{hosts * live.GPUS_PER_HOST:,} GPUs for {seconds} s") as on_progress:
            seen, from_ms, to_ms = _observe(stand, processes, seconds, lambda done: on_progress(done, seconds))
        spent_s = cpu.cpu_s(stand.clickhouse_pid) - spent_s
        with progress.task("settling the books"):
            books = reconcile(stand.config.kafka, stand.config.clickhouse, wait_s=live.SETTLE_WITHIN_S)
        with closing(Database(stand.config.reading)) as database:
            _look(database, seen, from_ms)  # what came when nobody looked at its window any more was not fresh
    found = seen.delays_ms(from_ms, to_ms)
    by_grouping: dict[str, list[int]] = {}
    for (grouping, _), delay_ms in sorted(found.items()):
        by_grouping.setdefault(grouping, []).append(delay_ms)
    return {
        "gpus": hosts * live.GPUS_PER_HOST,
        "seconds": seconds,
        **_summary(found.values(), p50_s=0.5, max_s=1.0),
        "queried_every_s": QUERY_EVERY_S,
        "clickhouse_cpu_s": spent_s,
        "by_grouping": {name: _summary(own, p50_s=0.5, max_s=1.0) for name, own in by_grouping.items()},
        "books": books.as_dict(),
    }


def _summary(delays_ms: Collection[int], **quantiles: float) -> dict[str, float | None]:
    """How many windows, and quantiles of their delays in seconds; None without any."""
    delays_s = np.array(list(delays_ms)) / 1_000
    at = {name: float(np.quantile(delays_s, q, method="higher")) for name, q in quantiles.items() if len(delays_s)}
    return {"windows": len(delays_s), **dict.fromkeys(quantiles), **at}


def _observe(
    stand: Stand, processes: Processes, seconds: int, on_progress: Callable[[int], None]
) -> tuple[Seen, int, int]:
    """What was seen until the tail is over, and the time that the fleet covers wholly."""
    seen = Seen()
    ended_s: float | None = None
    starts: list[int] = []
    with closing(Database(stand.config.reading)) as database:
        while ended_s is None or time.monotonic() - ended_s < TAIL_S:
            begun_s = time.monotonic()
            _look(database, seen, SystemClock().now_ms() - LOOK_BACK_MS)
            if ended_s is None and live.ended_well(processes, "simulate"):
                ended_s = begun_s
            starts = [key[1] for key in seen.steps]
            on_progress(int((max(starts) - min(starts)) / 1_000) if starts else 0)
            processes.tend()
            time.sleep(max(0.0, QUERY_EVERY_S - (time.monotonic() - begun_s)))
    return seen, min(starts) + WINDOW_MS, max(starts)  # the first and the last window are only partly covered


def _look(database: Database, seen: Seen, from_ms: int) -> None:
    """Note what windows from then on have now."""
    clock = SystemClock()
    for row in database.sql(question(from_ms)).rows:
        seen.note(clock.now_ms(), (str(row[0]), int(row[1])), int(row[2]))


def question(from_ms: int) -> str:
    return " UNION ALL ".join(
        f"SELECT grouping, window_ms, sum(event_count) FROM {PARTIALS[topic].name} FINAL"
        f" WHERE window_ms >= {from_ms} GROUP BY grouping, window_ms"
        for topic in _TOPICS
        if sets_of(topic)
    )
