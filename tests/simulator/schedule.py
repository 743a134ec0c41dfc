"""One random schedule: load, trouble, calm, and the truth to compare with.

What a process raises and no trouble explains is a violation, even where a restart makes up for it."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.contract.record import Record
from schemas.errors import ContractError
from stream_jobs.runner.job import AnyStep, Job
from stream_jobs.runner.partitions import TopicPartition
from stream_jobs.runner.policy import CommitPolicy
from tests.simulator.client import Faults
from tests.simulator.cluster import DEPLOYMENT, Group, Parts, Worker
from tests.simulator.counting import OUT_TOPIC, CountingStep
from tests.simulator.edges import Edge
from tests.simulator.loop import StuckError, VirtualLoop
from tests.simulator.server import Server

SOURCE = "source"
PARTITIONS = 2
TROUBLE_S = 8.0
CALM_S = 120.0
STEPS_MAX = 400_000


@dataclass
class Rules:
    """What runs, and what may be switched off (see ``mutations``)."""

    step: Callable[..., AnyStep] = CountingStep
    parts: Parts = field(default_factory=Parts)
    edge: Callable[..., Edge] = Edge
    committed_only: bool = True
    offsets_may_vanish: bool = False
    log_may_be_cut: bool = False
    retention_passes: bool = False


@dataclass
class Outcome:
    """``violations`` are what must never be; ``ends`` count why processes ended."""

    seed: int
    violations: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    records: int = 0
    commits: int = 0
    blows: Counter[str] = field(default_factory=Counter)
    quarantines: Counter[str] = field(default_factory=Counter)
    """Of partitions that were quarantined at the end, by cause."""


def run_schedule(seed: int, rules: Rules | None = None, world_of: type[World] | None = None) -> Outcome:
    """Run the schedule of this seed to its end and judge it; ``world_of`` is the job to try, counting by default."""
    draw = random.Random(seed)
    loop = VirtualLoop(draw, STEPS_MAX)
    world = (world_of or World)(seed, draw, rules or Rules())
    collecting = gc.isenabled()
    gc.disable()  # it would close coroutines of killed processes at moments that depend on anything
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # coroutines of processes that were killed before they began
        try:
            loop.run_until_complete(world.run(loop))
        except StuckError as error:
            world.outcome.violations.append(f"stuck: {error}")
        else:
            world.outcome.violations += [f"a process raised {error}" for error in dict.fromkeys(loop.defects())]
        finally:
            loop.dispose()
            if collecting:
                gc.enable()
    return world.outcome


class World:
    """The counting job and its surroundings. A subclass tries another job by another source, edges, job and judge."""

    source = SOURCE
    outputs: tuple[TopicPartition, ...] = (TopicPartition(OUT_TOPIC, 0),)

    def __init__(self, seed: int, draw: random.Random, rules: Rules) -> None:
        self.draw = draw
        self.rules = rules
        self.outcome = Outcome(seed)
        self.server = Server()
        self.usual_rate = draw.choice((0.0, 0.002, 0.01))
        self.faults = Faults(self.usual_rate)
        self.places = [TopicPartition(self.source, partition) for partition in range(PARTITIONS)]
        self.group = Group(self.places, draw)
        self.damaged: set[TopicPartition] = set()
        """Partitions of which something is lost for good: they stand still; the others must go on."""
        self.lenient = False
        for place in self.places:
            self.server.log(place)

    async def run(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server.now_ms = lambda: int(loop.time() * 1_000)
        self._make()
        background = [loop.create_task(self._markers()), loop.create_task(self._supervise())]
        try:
            await self._trouble()
            await self._calm()
        finally:
            for task in background:
                task.cancel()
            self._note_quarantines()
            for worker in self.workers:
                worker.kill()
        self._judge()

    def _note_quarantines(self) -> None:
        for worker in self.workers:
            self.outcome.quarantines.update(worker.quarantined.values())

    def _make(self) -> None:
        draw = self.draw
        self.edges = [
            self._edge_class()(
                f"{n:032x}",
                self.source,
                PARTITIONS,
                self.server,
                draw,
                fault_rate=draw.choice((0.0, 0.1, 0.4)),
                poison_rate=draw.choice((0.0, 0.1)),
            )
            for n in range(2)
        ]
        job = self._job()
        self.workers = [
            Worker(f"w{n}", job, self.server, self._policy(), draw, self.faults, self._shell(), self.rules.parts)
            for n in range(draw.choice((1, 2, 2, 3)))
        ]
        for worker in self.workers:
            worker.start()

    def _edge_class(self) -> Callable[..., Edge]:
        return self.rules.edge

    def _job(self) -> Job:
        """The job; a later release may cope with what poisoned the first."""
        part_bytes = self.draw.choice((40, 400, 1 << 19))
        return Job.of(self.rules.step(part_bytes=part_bytes, lenient=self.lenient), [self.source])

    def _shell(self) -> str:
        return self.draw.choice(("bare", "threaded"))

    def _policy(self) -> CommitPolicy:
        draw = self.draw
        interval_ms = draw.choice((100, 500, 1_500))
        return CommitPolicy(
            interval_ms=interval_ms,
            due_interval_ms=50,
            idle_interval_ms=interval_ms,
            idle_after_ms=300,
            snapshot_interval_ms=draw.choice((200, 2_000)),
            snapshot_records=draw.choice((3, 1_000)),
            snapshot_pieces_per_commit=draw.choice((1, 8)),
            tick_ms=draw.choice((20, 100, 200)),
            fold_bytes_max=draw.choice((1, 30, 1 << 20)),
        )

    async def _markers(self) -> None:
        """The coordinator writes markers one by one, in any order, when it gets to it."""
        while True:
            for owner, place in self.server.markers():
                if self.draw.random() < 0.5:
                    self.server.write_marker(owner, place)
            await asyncio.sleep(self.draw.uniform(0.002, 0.05))

    async def _supervise(self) -> None:
        """Start what ended after two seconds, and let the group notice."""
        while True:
            await asyncio.sleep(self.draw.uniform(1.0, 3.0))
            started = [worker for worker in self.workers if not worker.up]
            for worker in started:
                worker.start()
            if started or self.draw.random() < 0.2 or not any(w.consumer and w.consumer.busy for w in self.workers):
                await asyncio.sleep(0.01)
                self.group.rebalance(self.workers)

    async def _trouble(self) -> None:
        ends_s = self.loop.time() + TROUBLE_S
        while self.loop.time() < ends_s:
            for edge in self.edges:
                if self.draw.random() < 0.5:
                    edge.spool()
                edge.send_some()
            if self.draw.random() < 0.13:
                self._blow()
            await asyncio.sleep(self.draw.uniform(0.05, 0.3))

    def _blow(self) -> None:
        blows = [
            self._kill,
            self._kill,
            self._freeze,
            self._freeze,
            self._rebalance,
            self._edge_restart,
            self._broker_restart,
            self._expire,
            self._compact,
            self._stop,
            self._deploy,
        ]
        if self.rules.offsets_may_vanish:
            blows.append(self._lose_offsets)
        if self.rules.log_may_be_cut:
            blows.append(self._cut_log)
        blow = self.draw.choice(blows)
        self.outcome.blows[blow.__name__.strip("_")] += 1
        blow()

    def _kill(self) -> None:
        self.draw.choice(self.workers).kill()

    def _stop(self) -> None:
        """SIGTERM: what was folded is committed."""
        self.draw.choice(self.workers).stop.set()

    def _deploy(self) -> None:
        """A new release everywhere, with other settings. All of the old one ends first: releases that differ in what
        makes ``fold`` raise must not take turns, since a record that was accepted cannot be rejected any more."""
        self.lenient = self.lenient or self.draw.random() < 0.5
        for worker in self.workers:
            worker.kill()
            worker.job, worker.policy = self._job(), self._policy()

    def _freeze(self) -> None:
        worker = self.draw.choice(self.workers)
        if not worker.up:
            return
        process = worker.process
        process.frozen = True
        if self.draw.random() < 0.5:  # its place is taken at once, so that it wakes up as a zombie
            worker.incarnation += 1
            twin = Worker(
                f"{worker.name}z{worker.incarnation}",
                worker.job,
                self.server,
                worker.policy,
                self.draw,
                self.faults,
                worker.shell,
                self.rules.parts,
            )
            twin.start()
            self.workers.append(twin)
        self.loop.call_later(self.draw.uniform(0.05, 12.0), self.loop.thaw, process)
        self.loop.call_later(0.05, self.group.rebalance, self.workers)

    def _rebalance(self) -> None:
        self.group.rebalance(self.workers)

    def _edge_restart(self) -> None:
        self.draw.choice(self.edges).restart()

    def _broker_restart(self) -> None:
        """Calls in flight fail, and for a second or two the group coordinator knows no offsets."""
        self.server.loading = True
        self.faults.rate = 0.3

        def back() -> None:
            self.faults.rate = self.usual_rate
            self.group.rebalance(self.workers)

        def loaded() -> None:
            self.server.loading = False

        self.loop.call_later(0.2, back)
        self.loop.call_later(self.draw.uniform(0.5, 2.5), loaded)

    def _expire(self) -> None:
        for owner in self.server.ended():
            self.server.expire(owner)

    def _compact(self) -> None:
        for place, log in self.server.logs.items():
            if place[0].startswith("state."):
                log.compact()

    def _lose_offsets(self) -> None:
        if self.server.group_offsets:
            group, place = self.draw.choice(sorted(self.server.group_offsets))
            del self.server.group_offsets[group, place]
            self.damaged.add(TopicPartition(*place))
            for worker in self.workers:  # the group was empty for long
                worker.kill()

    def _cut_log(self) -> None:
        """Retention takes records that nobody has read yet."""
        place = self.draw.choice(self.places)
        log = self.server.log(place)
        if log.end > log.begin + 4:
            log.begin = log.end - 2
            self.damaged.add(place)

    async def _calm(self) -> None:
        """No more trouble: everything has to come in."""
        self.faults.rate = self.usual_rate = 0.0
        self.server.loading = False
        for worker in self.workers:
            if worker.process.frozen:
                self.loop.thaw(worker.process)
        for edge in self.edges:
            edge.fault_rate = 0.0
        ends_s = self.loop.time() + CALM_S
        while self.loop.time() < ends_s:
            for edge in self.edges:
                edge.send_some()
            await asyncio.sleep(0.25)
            if self._all_told():
                break
        else:
            self.outcome.violations.append("not everything was told in time")
            return
        if self.rules.retention_passes:
            await self._outlive_the_log()

    async def _outlive_the_log(self) -> None:
        """All is quiet for long; then retention has taken every record, and everybody starts anew."""
        await asyncio.sleep(45.0)
        for place in self.places:
            log = self.server.log(place)
            log.begin = log.end
        for worker in self.workers:
            worker.ended_by.clear()
            worker.kill()
        await asyncio.sleep(12.0)
        lost = [str(error) for worker in self.workers for error in worker.ended_by if isinstance(error, ContractError)]
        lost += [f"{place} {cause}" for worker in self.workers for place, cause in worker.quarantined.items()]
        self.outcome.violations += [f"a quiet partition is lost: {what}" for what in lost[:1]]

    def _all_told(self) -> bool:
        if any(edge.waiting for edge in self.edges) or any(self.server.log(place).open for place in self.outputs):
            return False
        names = self.workers[0].job.names(DEPLOYMENT)
        offsets = self.server.group_offsets
        return not self.server.markers() and all(
            (self.server.log(place).end == self.server.log(place).begin and (names.group, place) not in offsets)
            or ((found := offsets.get((names.group, place))) is not None and found.offset == self.server.log(place).end)
            for place in self.places
            if place not in self.damaged
        )

    def _judge(self) -> None:
        outcome = self.outcome
        for worker in self.workers:
            outcome.ends.update(f"{type(error).__name__}" for error in worker.ended_by)
        outcome.records = sum(edge.spooled for edge in self.edges)
        self._judge_outputs()

    def _told(self, place: TopicPartition) -> Sequence[Record]:
        """What a reader of an output partition gets to see."""
        return self.server.log(place).read(0, 1 << 30, committed=self.rules.committed_only).records

    def _judge_outputs(self) -> None:
        outcome = self.outcome
        told = [json.loads(record.value or b"") for record in self._told(self.outputs[0])]
        outcome.commits = len(told)
        judge_books(told, outcome.violations, begin_anywhere=self.rules.log_may_be_cut)
        if not self.damaged:
            self._judge_sums(told)
        self._judge_idle(told)

    def _judge_sums(self, told: list[dict[str, Any]]) -> None:
        truth, sums = sum((edge.truth for edge in self.edges), Counter()), Counter[str]()
        for each in told:
            sums.update(each["sums"])
        sums.pop("poison", None)
        if sums != truth:
            self.outcome.violations.append(f"sums {dict(sums)} instead of {dict(truth)}")
        rejected, poisoned = sum(each["rejected"] for each in told), sum(edge.poisoned for edge in self.edges)
        counted = rejected + sum(each["accepted"] for each in told)
        if counted != self.outcome.records or rejected > poisoned:
            self.outcome.violations.append(f"{counted} of {self.outcome.records}, {rejected} of {poisoned} rejected")

    def _judge_idle(self, told: list[dict[str, Any]]) -> None:
        """Whoever claims to have read up to a moment has read what was appended until then."""
        for each in told:
            if each["idle"]:
                place = TopicPartition(self.source, int(each["source"].rpartition("/")[2]))
                entries = self.server.log(place).entries
                late = [
                    entry.record.offset
                    for entry in entries[each["to"] :]
                    if entry is not None and entry.record is not None and entry.record.timestamp_ms < each["now_ms"]
                ]
                if late:
                    self.outcome.violations.append(f"idle at {each['now_ms']} without having read {late[:3]}")


def judge_books(told: list[dict[str, Any]], violations: list[str], *, begin_anywhere: bool = False) -> None:
    """Offsets contiguous, numbers without gap, counts that add up, running totals that agree. ``begin_anywhere``: what
    was gone before the first commit is nobody's to miss."""
    offsets: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for each in told:
        source = each["source"]
        if begin_anywhere and source not in offsets:
            offsets[source] = each["from"]
        if each["from"] != offsets[source]:
            violations.append(f"{source}: from {each['from']} after {offsets[source]}")
        if each["number"] != numbers[source]:
            violations.append(f"{source}: number {each['number']} after {numbers[source]}")
        counted = each["accepted"] + each["duplicates"] + each["rejected"]
        if counted != each["to"] - each["from"]:
            violations.append(f"{source}: {counted} counted in [{each['from']}, {each['to']})")
        offsets[source], numbers[source] = each["to"], numbers[source] + 1
        totals[source] += sum(each["sums"].values())
        counts[source] += each["accepted"]
        if (each["total"], each["count"]) != (totals[source], counts[source]):
            violations.append(f"{source}: the state says {each['total']}, told was {totals[source]}")
