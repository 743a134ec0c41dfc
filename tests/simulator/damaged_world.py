"""Damage to one partition at a time, and somebody who resets what is quarantined, now and then what is not.

The truth is the log with all that was ever in it: every commit must say what folding its offsets gives, from the state
that the resets before it declared; offsets that no commit covers must be declared missing.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from schemas.contract.record import Output
from schemas.errors import ConfigError, FleetpulseError
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.partitions import Partitions, TopicPartition
from stream_jobs.runner.reset import Known, Reset, Resetting
from stream_jobs.step import Commit
from tests.simulator.client import SimBroker, Wire
from tests.simulator.cluster import DEPLOYMENT, NoCounters, Parts, SimClock
from tests.simulator.counting import OUT_TOPIC, CountingStep
from tests.simulator.loop import CURRENT, Process, VirtualLoop
from tests.simulator.mutations import Mutation
from tests.simulator.schedule import Rules, World

RESET_RATE = 0.5
"""Of looks at quarantined partitions."""
AT_WILL_RATE = 0.02
"""Of looks at all the others."""


def declare(reset: Reset, commit: Commit) -> list[Output]:
    """Books of a reset: all of it, though nothing may be missing."""
    told = {
        "reset": [reset.counted_to, reset.to],
        "missing": reset.missing,
        "forgotten": reset.forgotten,
        "source": f"{commit.topic}/{commit.partition}",
    }
    return [Output(OUT_TOPIC, 0, None, json.dumps(told).encode(), ())]


class DamagedWorld(World):
    """The counting job. ``resetting`` carries out resets."""

    resetting: type[Resetting] = Resetting

    async def run(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.operators: list[Process] = []
        operating = loop.create_task(self._operate())
        try:
            await super().run(loop)
        finally:
            operating.cancel()
            for process in self.operators:
                process.dead = True

    def _blow(self) -> None:
        if self.draw.random() < 0.3:
            self.draw.choice((self._cut_log, self._cut_log, self._lose_offsets))()
        super()._blow()

    def _cut_log(self) -> None:
        """Retention takes read and unread records."""
        log = self.server.log(self.draw.choice(self.places))
        if log.end > log.begin:
            log.begin = self.draw.randrange(log.begin + 1, log.end + 1)
            self.outcome.blows["cut_log"] += 1

    def _lose_offsets(self) -> None:
        if self.server.group_offsets:
            del self.server.group_offsets[self.draw.choice(sorted(self.server.group_offsets))]
            self.outcome.blows["lose_offset"] += 1

    # who resets

    async def _operate(self) -> None:
        """Look at the workers, as a person would; a reset may be killed, or two may meet."""
        while True:
            await asyncio.sleep(self.draw.uniform(0.3, 2.0))
            ill = sorted({place for worker in self.workers for place in worker.quarantined})
            self.outcome.quarantines["seen"] += bool(ill)
            if ill and self.draw.random() < RESET_RATE:
                self._reset(self.draw.choice(ill))
            elif self.faults.rate and self.draw.random() < AT_WILL_RATE:
                self._reset(self.draw.choice(self.places))

    def _reset(self, place: TopicPartition) -> None:
        process = Process(f"operator.{len(self.operators)}")
        self.operators.append(process)
        context = contextvars.copy_context()
        context.run(CURRENT.set, process)
        self.loop.create_task(self._carry_out(place, process), context=context)
        if self.faults.rate and self.draw.random() < 0.3:
            self.loop.call_later(self.draw.uniform(0.0, 1.0), setattr, process, "dead", True)

    async def _carry_out(self, place: TopicPartition, process: Process) -> None:
        worker = self.workers[0]
        broker = worker.parts.broker(Wire(self.server, self.draw, self.faults, process))
        names, to = worker.job.names(DEPLOYMENT), self.draw.choice(("earliest", "latest"))
        step, source = worker.job.steps[place.topic], worker.job.source(*place)
        owner = self.resetting(step, source, broker, names, worker.policy, SimClock(), NoCounters())  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(20):
                await owner.carry_out(await owner.plan(to, partial(self._books_end, broker, place)), declare)
            self.outcome.blows["reset"] += 1
        except (FleetpulseError, TimeoutError) as error:
            self.outcome.blows[f"reset: {type(error).__name__}"] += 1
            if isinstance(error, ConfigError):
                self.outcome.violations.append(f"a reset to {to} was refused: {error}")

    async def _books_end(self, broker: SimBroker, place: TopicPartition) -> int | None:
        """Where the books end: to be seen once no transaction hides a part of them."""
        log = self.server.log(self.outputs[0])
        end = await broker.wire.call(lambda: log.end)
        while await broker.end_offset(*self.outputs[0]) < end:
            await broker.pause()
        told = [json.loads(record.value or b"") for record in self._told(self.outputs[0])]
        ends = [
            each["reset"][1] if "reset" in each else each["to"]
            for each in told
            if each["source"] == f"{place.topic}/{place.partition}"
        ]
        return ends[-1] if ends else None

    # the judge

    def _judge_outputs(self) -> None:
        told = [json.loads(record.value or b"") for record in self._told(self.outputs[0])]
        self.outcome.commits = len(told)
        for place in self.places:
            own = [each for each in told if each["source"] == f"{place.topic}/{place.partition}"]
            Truth(self, place).compare(own)


class TailCutWorld(DamagedWorld):
    """Fetches are slow, and retention takes all that was not fetched yet."""

    def _make(self) -> None:
        self.faults.slow_rate = 0.2
        super()._make()

    def _cut_log(self) -> None:
        log = self.server.log(self.draw.choice(self.places))
        log.begin = log.end
        self.outcome.blows["cut_log"] += 1

    def _blow(self) -> None:
        self._cut_log()

    async def _calm(self) -> None:
        self.faults.slow_rate = 0.02
        await super()._calm()


class Truth:
    """Folds the log of a partition as its commits say they did."""

    def __init__(self, world: DamagedWorld, place: TopicPartition) -> None:
        self._step = CountingStep(lenient=True)
        self._entries = world.server.log(place).entries
        self._place = place
        self._violations = world.outcome.violations
        self._states = [self._dumped(self._step.new(*place))]
        self._offset = 0
        self._number = -1

    def _dumped(self, state: Any) -> list[bytes]:
        return self._step.dump(state)

    def _state(self, offset: int) -> Any:
        return self._step.load(*self._place, self._states[offset])

    def _fold(self, state: Any, start: int, stop: int) -> Any:
        """The changes; the state before each offset is remembered."""
        changes = self._step.changes()
        for offset in range(start, stop):
            entry = self._entries[offset]
            assert entry is not None
            assert entry.record is not None
            self._step.fold(state, [entry.record], changes)
            del self._states[offset + 1 :]
            self._states.append(self._dumped(state))
        return changes

    def compare(self, told: Sequence[dict[str, Any]]) -> None:
        """What was gone before the first of them is nobody's to miss."""
        if told:
            self._offset = told[0]["reset"][0] if "reset" in told[0] else told[0]["from"]
            self._replace(self._offset, self._state(0))
        for each in told:
            (self._reset if "reset" in each else self._commit)(each)

    def _says(self, what: str) -> None:
        self._violations.append(f"{self._place.partition}: {what}")

    def _commit(self, each: dict[str, Any]) -> None:
        start, stop = each["from"], each["to"]
        if start != self._offset:
            self._says(f"from {start} after {self._offset}")
            return
        if each["number"] <= self._number:
            self._says(f"number {each['number']} after {self._number}")
        state = self._state(start)
        changes = self._fold(state, start, stop)
        self._offset, self._number = stop, each["number"]
        sums = Counter(each["sums"])
        sums.pop("poison", None)
        changes.sums.pop("poison", None)
        found = (sums, each["accepted"] + each["rejected"], each["duplicates"], each["total"])
        if found != (changes.sums, changes.accepted, changes.duplicates, state.total):
            self._says(f"[{start}, {stop}) gave {found}, not {changes} and {state.total}")

    def _reset(self, each: dict[str, Any]) -> None:
        counted, to = each["reset"]
        if counted != self._offset or to < counted or (each["missing"] is None) is (to > counted):
            self._says(f"reset {each} after {self._offset}")
            return
        if each["forgotten"]:
            start, stop = each["forgotten"]
            self._fold(self._state(start), stop, stop)
            self._replace(stop, self._state(start))
            self._fold(self._state(stop), stop, counted)
        for offset in range(counted, to):
            self._replace(offset + 1, self._state(offset))
        self._offset = to

    def _replace(self, offset: int, state: Any) -> None:
        del self._states[offset:]
        while len(self._states) < offset:
            self._states.append(self._states[-1])
        self._states.append(self._dumped(state))


# the rules, each with a way to switch it off


class _AllOrNothing(Partitions):
    async def _acquire(self, owner: PartitionOwner, progressed: Any) -> Any:
        owner.progressed = progressed
        return await owner.acquire()

    async def _set_apart(self, owner: PartitionOwner, error: Any) -> None:
        self.fail(error)


class _CutForMarkers(PartitionOwner):
    """Takes what it does not find for markers."""

    async def _end_read_to(self) -> int | None:
        end = await self._broker.end_offset(self.source.topic, self.source.partition)
        batch = await (await self._broker.reader(self.source.topic, self.source.partition, self._position)).poll()
        return None if batch.records else end


class _Unfenced(Resetting):
    """With an id of its own."""

    async def _fence(self) -> None:
        producer: Any = self._producer
        producer._id += "-reset"
        await super()._fence()


class _LooksOnce(Resetting):
    async def _demand_unchanged(self, planned: Known) -> None: ...


class _CountsAgain(Resetting):
    def _where(self, to: str, counted: int, begin: int, end: int) -> int:
        return begin if to == "earliest" else end


class _Undeclared(Resetting):
    async def carry_out(self, reset: Reset, declare: Any) -> None:
        await super().carry_out(reset, lambda reset, commit: [] if reset.missing else declare(reset, commit))


class _BeginsNew(Resetting):
    """Without the state of the last snapshot."""

    async def _rebuild_state(self, reset: Reset) -> None:
        self._state = self._step.new(self.source.topic, self.source.partition)
        self._position = reset.to


def _by(name: str, resetting: type[Resetting]) -> type[DamagedWorld]:
    return type(name, (DamagedWorld,), {"resetting": resetting})


MUTATIONS = (
    Mutation(
        "all or nothing",
        "a partition whose log, offset or snapshot is damaged stops alone",
        "it ends the process, and with it all others",
        Rules(parts=Parts(partitions=_AllOrNothing), log_may_be_cut=True),
        seen_by=49,
    ),
    Mutation(
        "a cut log is markers",
        "an idle partition was read to its end only if its log still holds all since its position",
        "what is not found is taken for markers",
        Rules(parts=Parts(partitions=type("Mutated", (Partitions,), {"Owner": _CutForMarkers}))),
        world=TailCutWorld,
        seen_by=27,
    ),
    Mutation(
        "reset without a fence",
        "a reset's transaction has the transactional id of the partition's owner",
        "it has one of its own",
        Rules(),
        world=_by("Unfenced", _Unfenced),
        seen_by=9,
    ),
    Mutation(
        "planned and not looked again",
        "a reset looks at offset, snapshots and books again once it has fenced the owner",
        "what was planned before is carried out",
        Rules(),
        world=_by("LooksOnce", _LooksOnce),
        seen_by=83,
    ),
    Mutation(
        "counted again",
        "a reset goes on at what was counted or behind it",
        "it goes on where the log begins",
        Rules(),
        world=_by("CountsAgain", _CountsAgain),
        seen_by=9,
    ),
    Mutation(
        "hole undeclared",
        "what a reset leaves out is written into the books, in the same transaction",
        "it is left out in silence",
        Rules(),
        world=_by("Undeclared", _Undeclared),
        seen_by=2,
    ),
    Mutation(
        "state thrown away",
        "a reset keeps the state of the last snapshot and of what the log still has behind it",
        "it begins with a new one",
        Rules(),
        world=_by("BeginsNew", _BeginsNew),
        seen_by=2,
    ),
)
