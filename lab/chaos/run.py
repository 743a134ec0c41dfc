"""Run a schedule of blows against a pipeline of its own, then let the books and the truth judge."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from lab.chaos.compare import DIFFERENCES_SHOWN_MAX, Comparison, compare, stored
from lab.chaos.outcomes import outcomes
from lab.chaos.schedule import KILLS, schedule
from lab.chaos.stage import CLUSTER_DOWN_S, PRODUCER, WAS_DOWN, Stage
from lab.simulator.truth import Truth
from lab.simulator.truth_file import Cut, cut_of, read_lives, truth_of
from runtime.config import Config, load
from schemas.errors import FleetpulseError

WARM_UP_S = 10.0
SETTLE_WITHIN_S = 120.0
FOLLOW_WITHIN_S, FOLLOW_EVERY_S = 900.0, 5.0
"""So long finals, bills and alerts may take after the books agree. A bill is emitted again 30 s after it was, and a
window waits half a minute for a source that is silent."""
STOP_AFTER_S, STOPS_MAX = 5.0, 5
"""So long the producer runs before it is stopped, and so often that is tried, each time twice as long, until it has
ended by itself."""
CLUSTER = 3, 2
"""Brokers and shards."""
AT_WORK_SHARE_MIN = 1 / 3
"""Of the kills of each part: so many have to hit one that has committed since its start. Half of them wait for that."""


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What was done and what came of it. ``outcomes``: finals, bills and alerts, where all jobs ran. ``cut``: records
    of the truth that the producer's books lack. ``at_work``: of the kills those that hit a part that worked."""

    seed: int
    blows: Mapping[str, int]
    seconds: float
    books: Report
    comparison: Comparison
    outcomes: Mapping[str, Comparison] = field(default_factory=dict)
    cut: Cut = field(default_factory=Cut)
    at_work: Mapping[str, int] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """Whether the books and the truth both agree with the tables, and all that follows from them, no more of the
        truth was cut than kills explain, enough of those hit a part that worked, and none one that had ended by
        itself."""
        agree = self.books.exact and all(one.exact for one in self._compared)
        return agree and not self.cut.beyond and not self._too_few and not self._in_vain

    @property
    def _too_few(self) -> list[str]:
        """Kills of which too few hit a part that worked."""
        return [name for name, hit in self.at_work.items() if hit < AT_WORK_SHARE_MIN * self.blows.get(name, 0)]

    @property
    def _in_vain(self) -> list[str]:
        """Kills that found nobody: who is killed is started again until it answers, so it had ended by itself."""
        return [name for blow in KILLS if (name := blow.value + WAS_DOWN) in self.blows]

    @property
    def _compared(self) -> tuple[Comparison, ...]:
        return self.comparison, *self.outcomes.values()

    @property
    def _differences(self) -> list[str]:
        return [str(of) for one in self._compared for of in one.differences[:DIFFERENCES_SHOWN_MAX]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "blows": dict(self.blows),
            "seconds": round(self.seconds, 1),
            "exact": self.exact,
            "books_exact": self.books.exact,
            "cells_compared": self.comparison.cells,
            "percentiles_compared": self.comparison.percentiles,
            "lost": self.comparison.lost,
            "doubled": self.comparison.doubled,
            "at_work": dict(self.at_work),
            "cut_records": self.cut.records,
            "cut_beyond_last_steps": self.cut.beyond,
            "outcomes": {
                name: {"exact": one.exact, "compared": one.cells, "lost": one.lost, "doubled": one.doubled}
                for name, one in self.outcomes.items()
            },
            "differences": self._differences,
            "books": self.books.as_dict(),
        }

    def text(self) -> str:
        lines = [f"{name}: {count}" for name, count in self.blows.items()]
        lines += [f"{name}: {hit} hit one that had committed since its start" for name, hit in self.at_work.items()]
        lines += [f"{name}: too few of them" for name in self._too_few]
        lines += [f"{name}: it had ended by itself" for name in self._in_vain]
        lines.append(
            f"compared {self.comparison.cells:,} sums and {self.comparison.percentiles:,} percentiles with the truth"
        )
        lines.append(f"lost {self.comparison.lost}, doubled {self.comparison.doubled}")
        lines.append(
            f"records that a killed producer had not spooled yet: {self.cut.records - self.cut.beyond};"
            f" spooled and gone: {self.cut.beyond}"
        )
        lines += [
            f"{name}: compared {one.cells:,}, lost {one.lost}, doubled {one.doubled}"
            for name, one in self.outcomes.items()
        ]
        lines += self._differences
        lines.append(self.books.text())
        lines.append("exact" if self.exact else "NOT exact")
        return "\n".join(lines)


def run_chaos(
    *, kills: int, seed: int, gpus: int, data_dir: Path | None, say: Callable[[str], None], cluster: bool = False
) -> ChaosReport:
    """Start a stack of its own below the data folder, of several brokers and shards for ``cluster``; strike, settle,
    judge. Raises when a part does not come back."""
    begun_s = time.monotonic()
    folder = load({"data_dir": data_dir}).data_dir / "chaos" / f"{'cluster-' if cluster else ''}seed-{seed}"
    brokers, shards = CLUSTER if cluster else (1, 1)
    if folder.exists():
        stack.down(folder)
        shutil.rmtree(folder)
    try:
        config = bring_up(folder, say, brokers=brokers, shards=shards)
        with Processes(folder / "processes") as processes:
            stage = Stage(folder, config, processes, say)
            if cluster:
                stage.jobs, stage.down_s = len(JOBS), CLUSTER_DOWN_S
            stage.begin(gpus, seed)
            stage.pass_time(WARM_UP_S)
            for step in schedule(kills, seed, brokers, shards, stage.jobs):
                stage.pass_time(step.gap_s)
                stage.strike(step)
            books = _settle(stage)
            database = Database(config.reading, consistent=True)
            records = _records(config)
            lives = read_lives(stage.folder / "truth")
            truth, cut = truth_of(lives, records), cut_of(lives, records)
            comparison = compare(lambda grouping: stored(database, grouping), truth)
            followed = _follow(stage, database, truth) if cluster else {}
    finally:
        stack.down(folder)
    report = ChaosReport(
        seed, dict(stage.done), time.monotonic() - begun_s, books, comparison, followed, cut, dict(stage.at_work)
    )
    if report.exact:
        shutil.rmtree(folder)
    return report


def _settle(stage: Stage) -> Report:
    """Stop the load, keep everything else alive until the books agree or the wait is over."""
    stage.say("settling")
    stage.until_thawed()
    _stop_producer(stage)
    return reconcile(
        stage.config.kafka, stage.config.clickhouse, wait_s=SETTLE_WITHIN_S, while_waiting=stage.processes.tend
    )


def _follow(stage: Stage, database: Database, truth: Truth) -> Mapping[str, Comparison]:
    """Keep jobs and sink alive until finals, bills and alerts agree or the wait is over."""
    stage.say("waiting for finals, bills and alerts")
    config = stage.config.model_copy(update={"partitions": dict(stage.partitions)})
    until_s = time.monotonic() + FOLLOW_WITHIN_S
    while True:
        found = outcomes(config, database, truth)
        if all(one.exact for one in found.values()) or time.monotonic() > until_s:
            return found
        stage.pass_time(FOLLOW_EVERY_S)


def _stop_producer(stage: Stage) -> None:
    """Let the producer end by itself, with its books sent: one that was killed a moment ago, and is stopped before it
    has opened its spool, would take them with it."""
    processes = stage.processes
    command = processes.command(PRODUCER)
    for attempt in range(STOPS_MAX):
        stage.until_ready(PRODUCER)
        stage.pass_time(STOP_AFTER_S * 2**attempt)
        is_up = processes.pid(PRODUCER) is not None
        processes.stop(PRODUCER, within_s=60.0)
        ended = processes.exit_code(PRODUCER)
        if is_up and ended == 0:
            return
        if not is_up or ended != -signal.SIGTERM:
            break  # it did not come back, had to be killed, or failed: starting it again would hide that
        processes.start(command)  # it was ended before it could listen to the signal
    raise FleetpulseError(
        f"the producer did not come back, or does not end well; the end of its log:\n{processes.tail(PRODUCER)}"
    )


def _records(config: Config) -> dict[tuple[str, int], dict[str, int]]:
    """Records per (source, boot) and topic in the producers' own books."""
    rows = Database(config.reading).sql(
        "SELECT source, boot, topic, max(records) AS records FROM producer_books GROUP BY source, boot, topic"
    )
    books: dict[tuple[str, int], dict[str, int]] = {}
    for row in rows.records():
        books.setdefault((row["source"], int(row["boot"])), {})[row["topic"]] = int(row["records"])
    return books
