"""The pipeline under chaos: its processes, and what each blow does to them."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetpulse import stack
from fleetpulse.services.jobs_and_sink import JOBS, partitions_of
from fleetpulse.services.processes import Command, Processes
from lab.bench.stand import free_port, is_ready, metric, page
from lab.chaos.schedule import Blow, Step
from runtime.config import Config
from runtime.local_stack import node_name
from schemas.errors import FleetpulseError

TICK_S = 0.2
UP_WITHIN_S = 20.0
CLUSTER_DOWN_S = 4.0
"""So long a broker or shard is gone after a kill: longer than a broker's session, so that others lead its
partitions."""
READY_WITHIN_S = 60.0
"""So long who was started is waited for where something is to follow; then it follows all the same."""
WORKS_WITHIN_S = 180.0
"""So long a part that is to be hit at work is waited for: the sink works once the jobs do."""
STORM_WORKERS, STORM_GAP_S = 3, 1.5
GROWING = ("gpu.samples", "llm.requests", "engine.samples", "books")
"""Topics that may grow while jobs run, each by ``GROWN_BY`` partitions at a time."""
GROWN_BY = 2
MIGRATED_WITHIN_S = 120.0
STOP_PRODUCER_S = 60.0
HOT_MS = 600_000
"""Finals are emitted again for longer than any part is gone, so that the newest of each is whole; an owner that takes
over folds so much again."""
FAULT_EVERY_S, FAULT_LASTS_S, FAULTS = 60, 20, 60
WAS_DOWN = " (was down)"
"""Behind the name of what was done to who was not there."""
PRODUCER, SINK, SECOND = "producer", "sink", "jobs-second"
COMMITTED = {PRODUCER: "edge_records_sent", SINK: "sink_inserts"}
"""What a process counts once it has something done for good; a job, ``job_commits``."""


def job_name(number: int) -> str:
    """The first worker of a job, by its place in ``JOBS``, from 1."""
    return f"jobs-{JOBS[number - 1]}"


def faults(every_s: int = FAULT_EVERY_S, gpus: int = 1) -> list[dict[str, object]]:
    """A GPU is lost and found again, the next of so many every so often, for an hour since each start of the producer:
    alerts open and resolve."""
    begins = range(FAULT_LASTS_S, FAULT_LASTS_S + FAULTS * FAULT_EVERY_S, every_s)
    return [
        {"kind": "gpu_lost", "field": "gpu", "value": f"gpu-000:{1 + number % gpus}"}
        | {"from_s": begin, "to_s": begin + FAULT_LASTS_S}
        for number, begin in enumerate(begins)
    ]


@dataclass(slots=True)
class Stage:
    """``jobs``: how many of ``JOBS`` run. ``down_s``: how long a node is gone after a kill."""

    folder: Path
    config: Config
    processes: Processes
    say: Callable[[str], None]
    jobs: int = 1
    down_s: float = 0.0
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Of topics that have grown."""
    ports: dict[str, int] = field(default_factory=dict)
    """Where workers, the sink and the producer say whether they are ready."""
    thaw_at_s: dict[str, float] = field(default_factory=dict)
    """When who is frozen goes on."""
    done: Counter[str] = field(default_factory=Counter)
    at_work: Counter[str] = field(default_factory=Counter)
    """Of what was done the kills that hit a part that worked: it had committed since its last start."""

    @property
    def environment(self) -> dict[str, str]:
        """With it a child finds this stack, and topics as they are."""
        found = {"FLEETPULSE_DATA_DIR": str(self.folder), "FLEETPULSE_LIMITS__HOT_MS": str(HOT_MS)}
        return found | ({"FLEETPULSE_PARTITIONS": json.dumps(dict(self.partitions))} if self.partitions else {})

    def begin(self, gpus: int, seed: int) -> None:
        """Start jobs, sink and the simulated fleet; its spool is open when this returns."""
        file = self.folder / "faults.json"
        file.write_text(json.dumps(faults()))
        simulate = ("simulate", "--gpus", str(gpus), "--load", "azure", "--speed", "60", "--seed", str(seed))
        places = ("--spool", str(self.folder / "spool"), "--truth", str(self.folder / "truth"), "--faults", str(file))
        for number in range(1, self.jobs + 1):
            self._start_worker(job_name(number), JOBS[number - 1])
        self._start(SINK, "sink")
        self._start(PRODUCER, *simulate, *places)
        self.until_ready(PRODUCER)

    def _start_worker(self, name: str, job: str = "windows") -> None:
        self._start(name, "jobs", job, "--name", name)

    def _start(self, name: str, *words: str) -> None:
        self.ports[name] = free_port()
        self.processes.start(Command(name, (*words, "--health-port", str(self.ports[name])), self.environment))

    def until_ready(self, *names: str) -> None:
        """Wait until all say that they are, for ``READY_WITHIN_S`` at most."""
        until_s = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < until_s and not all(is_ready(self.ports[name]) for name in names):
            self.pass_time(TICK_S)

    def pass_time(self, seconds: float) -> None:
        """Children that died are started again, and who is frozen goes on when it is time."""
        until_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s:
            self.processes.tend()
            for name in [name for name, at_s in self.thaw_at_s.items() if now_s >= at_s]:
                self._thaw(name)
            time.sleep(TICK_S)

    def until_thawed(self) -> None:
        """Wait until nobody is frozen."""
        if self.thaw_at_s:
            self.pass_time(max(0.0, max(self.thaw_at_s.values()) - time.monotonic()) + TICK_S)

    def works(self, name: str) -> bool:
        """Whether a process is ready and has committed since its start."""
        port = self.ports[name]
        try:
            return is_ready(port) and metric(page(port, "metrics", 1.0), COMMITTED.get(name, "job_commits")) > 0
        except OSError:
            return False

    def _until_works(self, name: str) -> bool:
        until_s = time.monotonic() + WORKS_WITHIN_S
        while not self.works(name):
            if time.monotonic() >= until_s:
                return False
            self.pass_time(TICK_S)
        return True

    def strike(self, step: Step) -> None:
        """Do it, and count it as done."""
        self.say(step.blow.value)
        match step.blow:
            case Blow.KILL_PRODUCER:
                hit = self._kill(PRODUCER, step)
            case Blow.KILL_JOB:
                hit = self._kill(job_name(step.node), step)
            case Blow.KILL_SINK:
                hit = self._kill(SINK, step)
            case Blow.KILL_KAFKA:
                hit = self._kill_part(node_name(stack.KAFKA, step.node), step)
            case Blow.KILL_CLICKHOUSE:
                hit = self._kill_part(node_name(stack.CLICKHOUSE, step.node), step)
            case Blow.DOUBLE_WORKER | Blow.SINGLE_WORKER:
                hit = self._change_crew(join=step.blow is Blow.DOUBLE_WORKER)
            case Blow.FREEZE_WORKER:
                hit = self._freeze(job_name(step.node), step.lasts_s)
            case Blow.FREEZE_KAFKA:
                hit = self._freeze(node_name(stack.KAFKA, step.node), step.lasts_s)
            case Blow.FREEZE_CLICKHOUSE:
                hit = self._freeze(node_name(stack.CLICKHOUSE, step.node), step.lasts_s)
            case Blow.ROLL_WORKERS:
                hit = self._roll()
            case Blow.GROW_TOPICS:
                hit = self._grow()
            case Blow.REBALANCE_STORM:
                hit = self._storm()
        self.done[step.blow.value if hit else step.blow.value + WAS_DOWN] += 1

    def _freeze(self, name: str, seconds: float) -> bool:
        """Stop a worker or a part of the stack for a while."""
        self.thaw_at_s[name] = time.monotonic() + seconds
        return self._signal(name, signal.SIGSTOP)

    def _thaw(self, name: str) -> None:
        if self.thaw_at_s.pop(name, None) is not None:
            self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> bool:
        if name in self.processes.names():
            return self.processes.signal(name, number)
        return stack.signal_part(self.folder, name, number)

    def _thaw_parts(self) -> None:
        for frozen in [frozen for frozen in self.thaw_at_s if frozen not in self.processes.names()]:
            self._thaw(frozen)

    def _kill(self, name: str, step: Step) -> bool:
        """Kill a child that is up; wait for its restart where an earlier blow hit it."""
        worked = self._until_works(name) if step.at_work else self.works(name)
        for _ in range(int(UP_WITHIN_S / TICK_S)):
            if self.processes.signal(name, signal.SIGKILL):
                self.at_work[step.blow.value] += worked
                return True
            self.pass_time(TICK_S)
            worked = self.works(name)
        raise FleetpulseError(f"{name} does not come back; the end of its log:\n{self.processes.tail(name)}")

    def _kill_part(self, name: str, step: Step) -> bool:
        """Kill a broker or a shard and start it again, until it answers: one that is there works. Others that are
        frozen go on first: too few of them are no cluster, and none that comes back would be let in."""
        hit = stack.kill(self.folder, name) is not None
        self.at_work[step.blow.value] += hit
        self.pass_time(self.down_s)
        self._thaw_parts()
        stack.start_part(self.folder, name)
        return hit

    def _change_crew(self, *, join: bool) -> bool:
        if join:
            self._start_worker(SECOND)
            return True
        return self.processes.strike_off(SECOND)

    def _roll(self) -> bool:
        """Stop every worker and the sink and start them again, one after the other, as soon as the last is ready."""
        for name in self.processes.names():
            if name != PRODUCER:
                self._restart(name)
                self.until_ready(name)
        return True

    def _restart(self, name: str, within_s: float = STOP_PRODUCER_S) -> None:
        self.thaw_at_s.pop(name, None)
        command = replace(self.processes.command(name), environment=self.environment)
        self.processes.stop(name, within_s=within_s)
        self.processes.start(command)

    def _grow(self) -> bool:
        """As docs/how-to/operations.md says: migrate, then restart workers and sink, and who sends last."""
        self._thaw_parts()
        counts = partitions_of(self.config) | dict(self.partitions)
        self.partitions = {topic: counts[topic] + GROWN_BY for topic in GROWING}
        self.processes.start(Command("migrate", ("migrate",), self.environment, restart=False))
        until_s = time.monotonic() + MIGRATED_WITHIN_S
        while self.processes.pid("migrate") is not None and time.monotonic() < until_s:
            self.pass_time(TICK_S)
        self.processes.stop("migrate")
        if self.processes.exit_code("migrate") != 0:
            raise FleetpulseError(f"topics do not grow; the end of the log:\n{self.processes.tail('migrate')}")
        self._roll()
        self._restart(PRODUCER)
        return True

    def _storm(self) -> bool:
        """More workers of the windows job join one after the other; once all have, they leave, every other one by
        kill -9."""
        names = [f"jobs-storm-{number}" for number in range(1, STORM_WORKERS + 1)]
        for name in names:
            self._start_worker(name)
            self.pass_time(STORM_GAP_S)
        self.until_ready(*names)
        for number, name in enumerate(names):
            if number % 2:
                self.processes.stop(name)
            else:
                self.processes.strike_off(name)
            self.pass_time(STORM_GAP_S)
        return True
