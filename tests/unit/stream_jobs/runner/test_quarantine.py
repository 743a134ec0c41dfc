"""A damaged partition stops alone, is named, and comes back when somebody has reset it or its damage is mended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from runtime.counters import Counters
from runtime.health import Readiness
from schemas.contract.record import Record
from schemas.errors import PartitionError, UnavailableError
from stream_jobs.runner.job import Job
from stream_jobs.runner.partitions import Partitions, TopicPartition
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.ports import Committed
from stream_jobs.runner.quarantine import CAUSES
from tests.simulator.counting import CountingStep
from tests.unit.stream_jobs.runner.memory_broker import Clock

GOOD, BAD = TopicPartition("t", 0), TopicPartition("t", 1)
POLICY = CommitPolicy(quarantine_look_ms=2_000, quarantine_examine_ms=30_000)
CUT = PartitionError("log_cut", "t/1: the log begins too late")


class Owner:
    """Raises what the test put there for its partition."""

    position, committed, done_to, number, output_bytes = 7, 7, 7, 0, 0
    found: Committed | None = Committed(7, "v1")
    acquires: dict[int, Exception]
    feeds: dict[int, Exception]
    commits: dict[int, Exception]
    stopped: list[int]

    def __init__(self, step: Any, source: Any, *_: Any) -> None:
        self.source = source
        self.progressed = lambda: None

    async def acquire(self) -> int:
        if self.source.partition in self.acquires:
            raise self.acquires[self.source.partition]
        return 7

    examine = acquire

    async def feed(self, records: list[Record]) -> None:
        if self.source.partition in self.feeds:
            raise self.feeds[self.source.partition]

    def wants_commit(self) -> bool:
        return False

    def seems_idle(self) -> bool:
        return False

    async def commit(self) -> bool:
        if self.source.partition in self.commits:
            raise self.commits[self.source.partition]
        return False

    async def stop(self) -> None:
        self.stopped.append(self.source.partition)


class Asked:
    """A broker that is asked for committed offsets and leaders alone."""

    offset: Committed | None = Owner.found
    error: Exception | None = None

    def __init__(self) -> None:
        self.leaderless = set[tuple[str, int]]()

    async def has_leader(self, topic: str, partition: int) -> bool:
        if self.error is not None:
            raise self.error
        return (topic, partition) not in self.leaderless

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        if self.error is not None:
            raise self.error
        return self.offset


class Stage:
    """Two partitions of a process, and time that is set by hand."""

    def __init__(self) -> None:
        self.owner = type("TestOwner", (Owner,), {"acquires": {}, "feeds": {}, "commits": {}, "stopped": []})
        kind = type("TestPartitions", (Partitions,), {"Owner": self.owner})
        self.clock, self.counters, self.readiness, self.broker = Clock(), Counters(), Readiness(), Asked()
        job = Job.of(CountingStep(), ["t"])
        self.names = job.names("d")
        self.partitions = kind(job, self.broker, self.names, POLICY, self.clock, self.counters, self.readiness)
        self.again = 0
        self.partitions.again = self._again

    def _again(self) -> None:
        self.again += 1

    async def assigned(self) -> dict[TopicPartition, int] | None:
        found = await self.partitions.assign([GOOD, BAD])
        self.partitions.install()
        return found

    async def committed(self, partition: TopicPartition) -> None:
        """A commit of the partition has come to its end."""
        owner = self.partitions.live[partition]
        await self.partitions._commit(partition, owner, owner.commit)

    async def looked(self, seconds: float) -> int:
        """How often it was wished to acquire again, after this time and a look."""
        self.clock.now_s += seconds
        self.partitions._look()
        for _ in range(10):
            await asyncio.sleep(0)
        return self.again

    def gauge(self) -> dict[tuple[str, ...], float]:
        found = [line for line in self.counters.render().decode().splitlines() if "job_quarantined{" in line]
        return {(line.split("cause=")[1].split('"')[1],): float(line.split()[-1]) for line in found}


async def test_the_others_of_an_assignment_go_live() -> None:
    """The damaged one has no position to seek to, and its producer is stopped."""
    stage = Stage()
    stage.owner.acquires[1] = CUT

    assert await stage.assigned() == {GOOD: 7}

    assert list(stage.partitions.live) == [GOOD]
    assert stage.partitions.quarantined == {BAD}
    assert stage.owner.stopped == [1]
    assert not stage.partitions.fatal.done()


async def test_a_quarantined_partition_is_named_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """By readiness, which keeps the process in service, by a gauge with the cause, and by one line of the log."""
    stage = Stage()
    stage.owner.acquires[1] = CUT

    with caplog.at_level(logging.ERROR):
        await stage.assigned()
        await stage.assigned()

    assert stage.readiness.why() is None
    assert stage.readiness.noted() == "partition t/1 is quarantined (log_cut): t/1: the log begins too late"
    assert stage.gauge() == {("log_cut",): 1.0}
    assert [record.message for record in caplog.records] == ["partition quarantined; the others go on"]
    assert vars(caplog.records[0])["runbook"].endswith("#a-quarantined-partition")


async def test_what_is_found_damaged_while_it_is_live_stops_alone() -> None:
    """The others are fed and commit; no error ends the process."""
    stage = Stage()
    await stage.assigned()
    stage.owner.feeds[1] = CUT
    record = Record("t", 1, 7, 0, None, b"", ())

    await stage.partitions.feed("t", 1, stage.partitions.generation, [record])
    await stage.partitions.feed("t", 0, stage.partitions.generation, [record._replace(partition=0)])

    assert list(stage.partitions.live) == [GOOD]
    assert stage.owner.stopped == [1]
    assert not stage.partitions.fatal.done()


async def test_a_partition_that_was_reset_is_acquired_again() -> None:
    """Its committed offset is another than the one its owner knew; the look costs one request."""
    stage = Stage()
    stage.owner.acquires[1] = CUT
    await stage.assigned()

    wishes = [await stage.looked(1), await stage.looked(1.5)]
    stage.broker.offset = Committed(9, "v1")
    wishes.append(await stage.looked(1))
    wishes.append(await stage.looked(1.5))

    assert wishes == [0, 0, 0, 1]
    stage.owner.acquires.clear()
    assert await stage.assigned() == {GOOD: 7, BAD: 7}
    assert stage.partitions.quarantined == frozenset()
    assert stage.readiness.noted() is None
    assert stage.gauge() == {("log_cut",): 0.0}


async def test_a_look_that_begins_once_its_partition_was_revoked_finds_nothing() -> None:
    """Nor does it raise: a rebalance may come between the two."""
    stage = Stage()
    stage.owner.acquires[1] = CUT
    await stage.assigned()
    stage.clock.now_s += 2.5

    stage.partitions._look()
    looks = list(stage.partitions._looks)
    await stage.partitions.revoke()

    assert await asyncio.gather(*looks) == [None]
    assert stage.again == 0


@pytest.mark.parametrize("cause", ["offset_lost", "log_recreated"])
async def test_a_partition_whose_offset_went_is_acquired_again_once_it_has_one(cause: str) -> None:
    """A reset has made it."""
    stage = Stage()
    stage.owner.acquires[1] = PartitionError(cause, "t/1: its offset is gone")
    stage.owner.found, stage.broker.offset = None, None
    await stage.assigned()

    wishes = [await stage.looked(2.5)]
    stage.broker.offset = Committed(9, "v1")
    wishes.append(await stage.looked(2.5))

    assert wishes == [0, 1]


async def test_damage_that_is_mended_is_found_by_itself_ever_less_often() -> None:
    """A state topic that has grown needs no reset. One that has not is looked at after 30 s, 60 s, 120 s."""
    stage = Stage()
    stage.owner.acquires[1] = PartitionError("no_state_partition", "t/1: too few")
    await stage.assigned()
    examined: list[float] = []
    stage.owner.examine = lambda self: examined.append(stage.clock.now_s) or Owner.acquire(self)

    for _ in range(300):
        await stage.looked(1)

    assert examined == [30.0, 90.0, 210.0]
    stage.owner.acquires.clear()
    assert [await stage.looked(149), await stage.looked(3)] == [0, 1]


async def test_what_was_found_while_live_waits_for_a_reset() -> None:
    """Acquiring it would succeed, and then it would be found again, at the cost of all others."""
    stage = Stage()
    await stage.assigned()
    stage.owner.feeds[1] = CUT
    await stage.partitions.feed("t", 1, stage.partitions.generation, [Record("t", 1, 7, 0, None, b"", ())])

    assert [await stage.looked(1_000) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("of", ["source", "state"])
async def test_a_partition_without_leader_stops_alone_and_comes_back_with_one(of: str) -> None:
    """That of the log or of the state; the outcome of the commit is looked up by who acquires it next. Its offset
    stays, and nobody resets it."""
    stage = Stage()
    topic = "t" if of == "source" else stage.names.state_topic("t")
    await stage.assigned()
    stage.owner.commits[1] = UnavailableError("commit of t/1 made no progress for 20000 ms")
    stage.broker.leaderless.add((topic, 1))

    await stage.committed(BAD)
    await stage.committed(GOOD)

    assert (list(stage.partitions.live), stage.owner.stopped) == ([GOOD], [1])
    assert stage.gauge() == {("no_leader",): 1.0}
    assert f"partition 1 of {topic} has no leader" in str(stage.readiness.noted())
    assert not stage.partitions.fatal.done()
    wishes = [await stage.looked(2.5), await stage.looked(2.5)]
    stage.broker.leaderless.clear()
    assert [*wishes, await stage.looked(1), await stage.looked(1.5)] == [0, 0, 0, 1]


async def test_a_leader_that_nobody_can_tell_of_is_looked_for_again() -> None:
    """All partitions of the process are acquired again only when there is one."""
    stage = Stage()
    await stage.assigned()
    stage.owner.commits[1] = UnavailableError("commit failed")
    stage.broker.leaderless.add(BAD)
    await stage.committed(BAD)

    stage.broker.leaderless.clear()
    stage.broker.error = UnavailableError("away")
    asked = await stage.looked(2.5)
    stage.broker.error = None

    assert (asked, await stage.looked(2.5)) == (0, 1)


@pytest.mark.parametrize("error", [None, UnavailableError("no answer")], ids=["it has a leader", "nobody answers"])
async def test_a_kafka_that_is_away_is_no_damage_of_a_partition(error: Exception | None) -> None:
    """The process ends, and starts again."""
    stage = Stage()
    await stage.assigned()
    stage.owner.commits[1], stage.broker.error = UnavailableError("commit failed"), error

    await stage.committed(BAD)

    assert stage.partitions.quarantined == frozenset()
    with pytest.raises(UnavailableError, match="commit failed"):
        stage.partitions.fatal.result()


async def test_a_look_that_gets_no_answer_is_made_again() -> None:
    """It ends nothing."""
    stage = Stage()
    stage.owner.acquires[1] = CUT
    await stage.assigned()
    stage.broker.error, stage.broker.offset = UnavailableError("away"), Committed(9, "v1")

    assert await stage.looked(3) == 0
    assert not stage.partitions.fatal.done()
    stage.broker.error = None
    assert await stage.looked(3) == 1


async def test_revoked_partitions_are_nobodys_quarantine() -> None:
    """Their next owner finds out for itself."""
    stage = Stage()
    stage.owner.acquires[1] = CUT
    await stage.assigned()

    await stage.partitions.revoke()

    assert stage.partitions.quarantined == frozenset()
    assert stage.readiness.noted() is None


def test_every_cause_says_what_it_means() -> None:
    """And is one word, to be a label."""
    assert all(cause.isidentifier() and meaning for cause, meaning in CAUSES.items())
