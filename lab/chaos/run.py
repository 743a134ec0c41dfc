"""Run a schedule of blows against a pipeline of its own, then let the books and the truth judge."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.processes import Command, Processes
from fleetpulse.sql.database import Database
from lab.chaos.compare import DIFFERENCES_SHOWN_MAX, Comparison, compare
from lab.chaos.schedule import Blow, Step, schedule
from lab.simulator.truth_file import read_truth
from runtime.config import Config, load
from runtime.local_stack import node_name
from schemas.errors import FleetpulseError

WARM_UP_S = 10.0
SETTLE_WITHIN_S = 120.0
STOP_AFTER_S, STOPS_MAX = 5.0, 5
"""So long the producer runs before it is stopped, and so often that is tried, each time twice as long, until it has
ended by itself."""
TICK_S = 0.2
UP_WITHIN_S = 20.0
CLUSTER = 3, 2
"""Brokers and shards."""
CLUSTER_DOWN_S = 4.0
"""So long one of them is gone after a kill: longer than a broker's session, so that others lead its partitions."""
_ONE, _TWO = "jobs-one", "jobs-two"


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """What was done and what came of it."""

    seed: int
    blows: Mapping[str, int]
    seconds: float
    books: Report
    comparison: Comparison

    @property
    def exact(self) -> bool:
        """Whether the books and the truth both agree with the tables."""
        return self.books.exact and self.comparison.exact

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
            "differences": [str(one) for one in self.comparison.differences[:DIFFERENCES_SHOWN_MAX]],
            "books": self.books.as_dict(),
        }

    def text(self) -> str:
        """For people."""
        lines = [f"{name}: {count}" for name, count in self.blows.items()]
        lines.append(
            f"compared {self.comparison.cells:,} sums and {self.comparison.percentiles:,} percentiles with the truth"
        )
        lines.append(f"lost {self.comparison.lost}, doubled {self.comparison.doubled}")
        lines += [str(one) for one in self.comparison.differences[:DIFFERENCES_SHOWN_MAX]]
        lines.append(self.books.text())
        lines.append("exact" if self.exact else "NOT exact")
        return "\n".join(lines)


@dataclass(slots=True)
class _Stage:
    folder: Path
    config: Config
    processes: Processes
    say: Callable[[str], None]
    down_s: float = 0.0
    thaw_at_s: dict[str, float] = field(default_factory=dict)
    """When who is frozen goes on."""
    done: Counter[str] = field(default_factory=Counter)


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
            stage = _Stage(folder, config, processes, say, CLUSTER_DOWN_S if cluster else 0.0)
            _begin(stage, gpus, seed)
            for step in schedule(kills, seed, brokers, shards):
                _pass_time(stage, step.gap_s)
                _strike(stage, step)
            books = _settle(stage)
            comparison = compare(Database(config.reading), read_truth(stage.folder / "truth", _records(config)))
    finally:
        stack.down(folder)
    report = ChaosReport(seed, dict(stage.done), time.monotonic() - begun_s, books, comparison)
    if report.exact:
        shutil.rmtree(folder)
    return report


def _begin(stage: _Stage, gpus: int, seed: int) -> None:
    environment = {"FLEETPULSE_DATA_DIR": str(stage.folder)}
    simulate = ("simulate", "--gpus", str(gpus), "--load", "azure", "--speed", "60", "--seed", str(seed))
    places = ("--spool", str(stage.folder / "spool"), "--truth", str(stage.folder / "truth"))
    for command in (
        Command(_ONE, ("jobs", "windows", "--name", _ONE), environment),
        Command("sink", ("sink",), environment),
        Command("producer", (*simulate, *places), environment),
    ):
        stage.processes.start(command)
    _pass_time(stage, WARM_UP_S)


def _pass_time(stage: _Stage, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < until_s:
        stage.processes.tend()
        for name in [name for name, at_s in stage.thaw_at_s.items() if now_s >= at_s]:
            _thaw(stage, name)
        time.sleep(TICK_S)


def _freeze(stage: _Stage, name: str, seconds: float) -> bool:
    """Stop a worker or a part of the stack for a while."""
    stage.thaw_at_s[name] = time.monotonic() + seconds
    return _signal(stage, name, signal.SIGSTOP)


def _thaw(stage: _Stage, name: str) -> None:
    if stage.thaw_at_s.pop(name, None) is not None:
        _signal(stage, name, signal.SIGCONT)


def _signal(stage: _Stage, name: str, number: signal.Signals) -> bool:
    if name == _ONE:
        return stage.processes.signal(name, number)
    return stack.signal_part(stage.folder, name, number)


def _kill_part(stage: _Stage, name: str) -> bool:
    """Kill a broker or a shard and start it again. Others that are frozen go on first: too few of them are no cluster,
    and none that comes back would be let in."""
    hit = stack.kill(stage.folder, name) is not None
    _pass_time(stage, stage.down_s)
    for frozen in [frozen for frozen in stage.thaw_at_s if frozen != _ONE]:
        _thaw(stage, frozen)
    stack.start_part(stage.folder, name)
    return hit


def _strike(stage: _Stage, step: Step) -> None:
    stage.say(step.blow.value)
    match step.blow:
        case Blow.KILL_PRODUCER:
            hit = _kill(stage, "producer")
        case Blow.KILL_JOB:
            hit = _kill(stage, _ONE)
        case Blow.KILL_SINK:
            hit = _kill(stage, "sink")
        case Blow.KILL_KAFKA:
            hit = _kill_part(stage, node_name(stack.KAFKA, step.node))
        case Blow.KILL_CLICKHOUSE:
            hit = _kill_part(stage, node_name(stack.CLICKHOUSE, step.node))
        case Blow.DOUBLE_WORKER | Blow.SINGLE_WORKER:
            hit = _change_crew(stage, join=step.blow is Blow.DOUBLE_WORKER)
        case Blow.FREEZE_WORKER:
            hit = _freeze(stage, _ONE, step.lasts_s)
        case Blow.FREEZE_KAFKA:
            hit = _freeze(stage, node_name(stack.KAFKA, step.node), step.lasts_s)
        case Blow.FREEZE_CLICKHOUSE:
            hit = _freeze(stage, node_name(stack.CLICKHOUSE, step.node), step.lasts_s)
    stage.done[step.blow.value if hit else f"{step.blow.value} (was down)"] += 1


def _kill(stage: _Stage, name: str) -> bool:
    """Kill a child that is up; wait for its restart where an earlier blow hit it."""
    for _ in range(int(UP_WITHIN_S / TICK_S)):
        if stage.processes.signal(name, signal.SIGKILL):
            return True
        _pass_time(stage, TICK_S)
    raise FleetpulseError(f"{name} does not come back; the end of its log:\n{stage.processes.tail(name)}")


def _change_crew(stage: _Stage, *, join: bool) -> bool:
    if join:
        environment = {"FLEETPULSE_DATA_DIR": str(stage.folder)}
        stage.processes.start(Command(_TWO, ("jobs", "windows", "--name", _TWO), environment))
        return True
    return stage.processes.strike_off(_TWO)


def _settle(stage: _Stage) -> Report:
    """Stop the load, keep everything else alive until the books agree or the wait is over."""
    stage.say("settling")
    if stage.thaw_at_s:
        _pass_time(stage, max(0.0, max(stage.thaw_at_s.values()) - time.monotonic()) + TICK_S)
    _stop_producer(stage)
    return reconcile(
        stage.config.kafka, stage.config.clickhouse, wait_s=SETTLE_WITHIN_S, while_waiting=stage.processes.tend
    )


def _stop_producer(stage: _Stage) -> None:
    """Let the producer end by itself, with its books sent: one that was killed a moment ago, and is stopped before it
    has opened its spool, would take them with it."""
    processes = stage.processes
    command = processes.command("producer")
    for attempt in range(STOPS_MAX):
        _pass_time(stage, STOP_AFTER_S * 2**attempt)
        is_up = processes.pid("producer") is not None
        processes.stop("producer", within_s=60.0)
        ended = processes.exit_code("producer")
        if is_up and ended == 0:
            return
        if not is_up or ended != -signal.SIGTERM:
            break  # it did not come back, had to be killed, or failed: starting it again would hide that
        processes.start(command)  # it was ended before it could listen to the signal
    raise FleetpulseError(
        f"the producer did not come back, or does not end well; the end of its log:\n{processes.tail('producer')}"
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
