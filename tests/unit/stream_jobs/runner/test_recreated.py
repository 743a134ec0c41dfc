"""A topic is deleted and made again while a job reads it: what was folded of the old one is committed, of the new one
nothing is."""

from __future__ import annotations

import pytest

from schemas.contract.record import Record
from schemas.errors import PartitionError
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.ports import Batch
from tests.simulator.counting import CountingStep, encode
from tests.unit.stream_jobs.runner.memory_broker import Memory, Reader, Scene

PAUSE_S = PROMPT_POLICY.idle_after_ms / 1_000
INTERVAL_S = PROMPT_POLICY.snapshot_interval_ms / 1_000


def one(seq: int) -> Record:
    value, headers = encode("k", 1, "s", 0, seq, (0, 0))
    return Record("source", 0, 0, 0, None, value, headers)


class Asked(Memory):
    """Counts how often the id of the topic was looked up."""

    asked = 0

    async def topic_id(self, topic: str) -> str | None:
        self.asked += 1
        return await super().topic_id(topic)


async def live() -> tuple[Scene, PartitionOwner]:
    """An owner that has committed four records."""
    scene = Scene(CountingStep(), memory=Asked())
    scene.memory.topic_ids["source"] = "first"
    owner = await scene.owner()
    for seq in range(4):
        await owner.feed([scene.log.add(one(seq))])
    assert await owner.commit()
    return scene, owner


def made_anew(scene: Scene, records: int) -> None:
    scene.memory.topic_ids["source"] = "another"
    scene.log.records, scene.log.begin, scene.log.end = [], 0, 0
    for seq in range(10, 10 + records):
        scene.log.add(one(seq))


async def commits_without_a_pause(scene: Scene, owner: PartitionOwner, records: int) -> int:
    """How many of so many commits of a record each wrote something."""
    commits = 0
    for seq in range(20, 20 + records):
        scene.clock.now_s += PAUSE_S / 2
        await owner.feed([scene.log.add(one(seq))])
        commits += await owner.commit()
    return commits


@pytest.mark.parametrize("pause_s", [PAUSE_S, INTERVAL_S], ids=["after a pause", "an interval later"])
async def test_records_of_the_new_log_are_not_committed(pause_s: float) -> None:
    """It holds more than was counted already: by their offsets its records are the next ones."""
    scene, owner = await live()
    before = scene.memory.offset
    made_anew(scene, 6)
    scene.clock.now_s += pause_s
    await owner.feed(scene.log.records[4:])

    with pytest.raises(PartitionError, match="its id is another") as raised:
        await owner.commit()

    assert raised.value.cause == "log_recreated"
    assert scene.memory.offset == before


async def test_without_a_pause_it_is_noticed_within_a_snapshot_interval() -> None:
    """Records come without end."""
    scene, owner = await live()
    made_anew(scene, 4)

    with pytest.raises(PartitionError, match="its id is another"):
        await commits_without_a_pause(scene, owner, 100)

    assert scene.clock.now_s <= INTERVAL_S


async def test_the_id_is_not_looked_up_at_each_commit() -> None:
    """But once an interval, while records come."""
    scene, owner = await live()
    assert isinstance(scene.memory, Asked)
    asked, commits = scene.memory.asked, int(2 * INTERVAL_S / (PAUSE_S / 2))

    assert await commits_without_a_pause(scene, owner, commits) == commits

    assert scene.memory.asked - asked == 2


@pytest.mark.parametrize("id_now", ["first", "second", "third"])
async def test_an_offset_that_went_with_its_topic_is_no_lost_offset(id_now: str) -> None:
    """The newest snapshot says of which topic it is; one of before the last recreation may stand there still."""
    scene, owner = await live()
    await owner.stop()
    state = scene.memory.log("state.counting.source")
    for record in list(state.records):
        headers = [(name, b"second" if name == "topic-id" else value) for name, value in record.headers]
        state.add(record._replace(headers=tuple(headers)))
    scene.memory.offset, scene.memory.topic_ids["source"] = None, id_now

    with pytest.raises(PartitionError) as raised:
        await scene.owner()

    assert raised.value.cause == ("offset_lost" if id_now == "second" else "log_recreated")


async def test_what_was_folded_since_the_last_commit_of_a_log_that_is_gone_is_committed() -> None:
    """The new one ends before it, so that it cannot be of that. Nothing is missing when somebody resets."""
    scene, owner = await live()
    await owner.feed([scene.log.add(one(4)), scene.log.add(one(5))])
    made_anew(scene, 5)
    scene.clock.now_s += INTERVAL_S

    with pytest.raises(PartitionError, match="its id is another") as raised:
        await owner.commit()

    assert raised.value.cause == "log_recreated"
    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == 6
    assert owner.found == scene.memory.offset
    with pytest.raises(PartitionError, match="its id is another, that of the snapshot first"):
        await scene.owner()


async def test_what_may_be_of_either_log_is_named() -> None:
    """By its offsets."""
    scene, owner = await live()
    await owner.feed([scene.log.add(one(4)), scene.log.add(one(5))])
    made_anew(scene, 6)
    scene.clock.now_s += INTERVAL_S

    with pytest.raises(PartitionError, match=r"at offsets \[4, 6\) and is not of the new log is in no window"):
        await owner.commit()

    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == 4


class Slow(Memory):
    """Gives one record at a time."""

    async def reader(self, topic: str, partition: int, offset: int) -> Reader:
        return OneByOne(self.log(topic, partition), offset)


class OneByOne(Reader):
    async def poll(self) -> Batch:
        found = [record for record in self.log.records if record.offset >= self.offset][:1]
        self.offset += 1
        return Batch(found, self.offset)


async def test_to_look_for_a_snapshot_is_progress() -> None:
    """However long the state topic is: the limit is of the time without any."""
    scene = Scene(CountingStep(), memory=Slow())
    before = await scene.owner()
    for seq in range(4):
        await before.feed([scene.log.add(one(seq))])
        await before._commit(scene.clock.now_ms(), whole=True)
    await before.stop()
    scene.memory.offset = None
    seen: list[int] = []
    owner = PartitionOwner(scene.step, before.source, scene.memory, before._names, PROMPT_POLICY, scene.clock)
    owner.progressed = lambda: seen.append(1)

    with pytest.raises(PartitionError, match="has no committed offset"):
        await owner.acquire()

    assert len(seen) == scene.memory.log("state.counting.source").end >= 4


async def test_what_was_folded_of_a_log_is_kept_where_the_new_one_is_shorter() -> None:
    """Its records stand before what was counted: nothing of them was folded."""
    scene, owner = await live()
    await owner.feed([scene.log.add(one(4))])
    made_anew(scene, 2)
    scene.clock.now_s += INTERVAL_S

    with pytest.raises(PartitionError) as raised:
        await owner.feed(scene.log.records[:1])

    assert raised.value.cause == "log_short"
    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == 5
    with pytest.raises(PartitionError, match="its id is another, that of the snapshot first"):
        await scene.owner()
