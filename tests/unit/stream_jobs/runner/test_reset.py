"""Resets of one partition: what they cost is said beforehand, and nothing is counted twice."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from runtime.counters import Counters
from schemas.contract.record import Record
from schemas.errors import ConfigError, ContractError, PartitionError
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.ports import Committed
from stream_jobs.runner.reset import Books, Reset, Resetting, describe
from tests.simulator.counting import OUT_TOPIC, CountingStep, encode
from tests.simulator.damaged_world import declare
from tests.unit.stream_jobs.runner.memory_broker import Scene


def one(seq: int) -> Record:
    value, headers = encode("k", 1, "s", 0, seq, (0, 0))
    return Record("source", 0, 0, 0, None, value, headers)


def resetting(scene: Scene) -> Resetting:
    source, names = Source("source", 0), Names("d", scene.step.name)
    return Resetting(scene.step, source, scene.memory, names, PROMPT_POLICY, scene.clock, Counters())


async def no_books() -> int | None:
    return None


async def books_end(scene: Scene) -> int | None:
    """Where what the job told of its commits ends."""
    return max((each["to"] for each in told(scene)), default=None)


async def reset(scene: Scene, to: str, books: Books = no_books) -> Reset:
    owner = resetting(scene)
    plan = await owner.plan(to, books)
    await owner.carry_out(plan, declare)
    return plan


async def counted(scene: Scene, records: int, first_seq: int = 0) -> None:
    """So many records were folded and committed, with one snapshot after the first of them."""
    owner = await scene.owner()
    for seq in range(first_seq, first_seq + records):
        await owner.feed([scene.log.add(one(seq))])
        await owner.commit()
    await owner.stop()


def cut(scene: Scene, begin: int) -> None:
    scene.log.begin = begin
    scene.log.end = max(scene.log.end, begin)
    scene.log.records = [record for record in scene.log.records if record.offset >= begin]


def told(scene: Scene) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in scene.memory.log(OUT_TOPIC).records]


async def test_a_log_cut_behind_the_committed_offset_goes_on_there() -> None:
    """Nothing is missing: what retention took had been counted; only the state has lost it."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    cut(scene, 3)
    with pytest.raises(PartitionError, match="needs it from 1, and 4 was committed"):
        await scene.owner()

    done = await reset(scene, "earliest")

    assert (done.cause, done.to, done.missing, done.forgotten) == ("log_cut", 4, None, (1, 3))
    scene.log.add(one(4))
    owner = await scene.owner()
    await owner.commit()
    assert sum(each.get("accepted", 0) for each in told(scene)) == 5
    assert (owner.committed, owner.number) == (5, 5)


@pytest.mark.parametrize(("to", "first"), [("earliest", 7), ("latest", 9), ("8", 8)])
async def test_records_that_nobody_read_are_declared_missing(to: str, first: int) -> None:
    """In the same transaction as the new offset."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    for seq in range(4, 9):
        scene.log.add(one(seq))
    cut(scene, 7)

    done = await reset(scene, to)

    assert done.missing == (4, first)
    assert told(scene)[-1]["missing"] == [4, first]
    assert scene.memory.offset is not None
    assert scene.memory.offset.offset == first
    owner = await scene.owner()
    if first < 9:
        await owner.commit()
        assert told(scene)[-1]["accepted"] == 9 - first


async def test_the_state_is_kept() -> None:
    """A record that was counted before the damage is a duplicate after the reset."""
    scene = Scene(CountingStep())
    await counted(scene, 1)
    cut(scene, 6)
    await reset(scene, "earliest")

    scene.log.add(one(0))
    owner = await scene.owner()
    await owner.commit()

    assert told(scene)[-1]["duplicates"] == 1
    assert told(scene)[-1]["total"] == 1


@pytest.mark.parametrize("known", [True, False], ids=["the books say where", "nobody knows"])
async def test_a_lost_offset_is_where_the_books_end(known: bool) -> None:
    """Without books folding begins at the last snapshot, and what was counted behind it counts again, as was said."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    scene.memory.offset = None
    with pytest.raises(PartitionError, match="has no committed offset"):
        await scene.owner()

    done = await reset(scene, "earliest", partial(books_end, scene) if known else no_books)

    assert (done.cause, done.certain) == ("offset_lost", known)
    assert done.to == (4 if known else 1)
    owner = await scene.owner()
    if not known:
        assert done.again == (1, 4)
        await owner.commit()
        assert told(scene)[-1]["accepted"] == 3
    assert owner.position == 4


async def test_what_was_counted_cannot_be_gone_back_to() -> None:
    """It would count twice; and beyond the end there is nothing."""
    scene = Scene(CountingStep())
    await counted(scene, 4)

    with pytest.raises(ConfigError, match="an offset from 4"):
        await resetting(scene).plan("3")
    with pytest.raises(ConfigError, match="to 4"):
        await resetting(scene).plan("5")
    with pytest.raises(ConfigError, match="earliest, latest or an offset"):
        await resetting(scene).plan("yesterday")


async def test_planning_changes_nothing() -> None:
    """Whoever then says no has done nothing."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    before = (scene.memory.offset, len(told(scene)), len(scene.snapshots))

    await resetting(scene).plan("latest")

    assert (scene.memory.offset, len(told(scene)), len(scene.snapshots)) == before


async def test_an_owner_that_committed_meanwhile_is_not_overtaken() -> None:
    """What was said beforehand would not be what is done."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    owner = resetting(scene)
    plan = await owner.plan("latest")
    assert scene.memory.offset is not None
    scene.memory.offset = Committed(5, scene.memory.offset.metadata)

    with pytest.raises(ContractError, match="its owner has committed meanwhile"):
        await owner.carry_out(plan, declare)

    assert scene.memory.offset.offset == 5


async def test_the_first_commit_whose_offset_is_lost_again_is_seen() -> None:
    """The offset is absent, as it was when the reset was planned; the snapshot shows that somebody has counted."""
    scene = Scene(CountingStep())
    for seq in range(4):
        scene.log.add(one(seq))
    operator = resetting(scene)
    plan = await operator.plan("earliest")
    await counted(scene, 1, first_seq=4)
    scene.memory.offset = None

    with pytest.raises(ContractError, match="its owner has committed meanwhile"):
        await operator.carry_out(plan, declare)


async def test_a_commit_without_a_snapshot_whose_offset_is_lost_again_is_seen() -> None:
    """Its owner had lost its offset and went on; the books alone show what it counted since."""
    scene = Scene(CountingStep())
    owner = await scene.owner()
    await owner.feed([scene.log.add(one(0))])
    await owner.commit()
    scene.memory.offset = None
    operator = resetting(scene)
    plan = await operator.plan("earliest", partial(books_end, scene))
    snapshots = len(scene.snapshots)
    await owner.feed([scene.log.add(one(1))])
    await owner.commit()
    scene.memory.offset = None

    with pytest.raises(ContractError, match="its owner has committed meanwhile"):
        await operator.carry_out(plan, declare)

    assert len(scene.snapshots) == snapshots
    assert (plan.counted_to, await books_end(scene)) == (1, 2)


async def test_a_snapshot_behind_an_open_transaction_is_not_lost() -> None:
    """Its offset is committed while a state topic's marker is still on its way: all would be forgotten."""
    scene = Scene(CountingStep())
    await counted(scene, 1)
    state = scene.memory.log("state.counting.source")
    hidden, state.records = state.records, []
    operator = resetting(scene)
    plan = await operator.plan("earliest")
    state.records = hidden

    with pytest.raises(ContractError, match="plan again"):
        await operator.carry_out(plan, declare)

    assert (plan.cause, plan.snapshot) == ("snapshot_lost", None)
    assert (await reset(scene, "earliest")).snapshot == 1


async def test_a_log_made_anew_is_read_from_its_beginning() -> None:
    """Its offsets are other records than those that were counted."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    scene.log.records, scene.log.begin, scene.log.end = [], 0, 0
    scene.log.add(one(4))
    with pytest.raises(PartitionError, match="recreated under the same name") as raised:
        await scene.owner()

    done = await reset(scene, "earliest")

    assert raised.value.cause == done.cause == "log_short"
    assert (done.to, done.forgotten) == (0, (1, 4))
    owner = await scene.owner()
    await owner.commit()
    assert told(scene)[-1]["accepted"] == 1


def made_anew(scene: Scene, records: int) -> None:
    """The topic was deleted and made again; it holds so many records."""
    scene.memory.topic_ids["source"] = "another"
    scene.log.records, scene.log.begin, scene.log.end = [], 0, 0
    for seq in range(10, 10 + records):
        scene.log.add(one(seq))


@pytest.mark.parametrize("records", [0, 1, 4, 9], ids=["empty", "shorter", "as long", "longer"])
async def test_a_log_made_anew_is_known_by_the_id_of_its_topic(records: int) -> None:
    """However many records it holds by now: none of them was counted."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    made_anew(scene, records)
    with pytest.raises(PartitionError, match="its id is another, that of the snapshot first"):
        await scene.owner()

    done = await reset(scene, "earliest")

    assert (done.cause, done.to, done.missing, done.forgotten) == ("log_recreated", 0, None, (1, 4))
    owner = await scene.owner()
    await owner.commit()
    assert sum(each.get("accepted", 0) for each in told(scene)) == 4 + records
    await owner.stop()
    await scene.owner()  # that of the reset and its own are of the new topic


async def test_what_is_left_out_of_a_log_made_anew_is_declared() -> None:
    """None of it was counted."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    made_anew(scene, 9)

    done = await reset(scene, "latest")

    assert (done.to, done.missing, done.unread) == (9, (0, 9), (0, 9))
    assert told(scene)[-1]["missing"] == [0, 9]
    assert describe(done)[2] == (
        "the topic was recreated under the same name, as its id says: none of its records was counted"
    )


async def test_a_copy_of_the_topic_with_its_offsets_goes_on_where_it_was_counted() -> None:
    """Moved to another cluster it has another id; nothing is counted twice, and the next owner knows the new id."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    scene.memory.topic_ids["source"] = "copied"
    with pytest.raises(PartitionError, match="its id is copied"):
        await scene.owner()

    owner = resetting(scene)
    done = await owner.plan("earliest", same_topic=True)
    await owner.carry_out(done, declare)
    scene.log.add(one(4))
    successor = await scene.owner()
    await successor.commit()

    assert (done.cause, done.to, done.missing, done.forgotten, done.again) == ("log_recreated", 4, None, None, None)
    assert sum(each.get("accepted", 0) for each in told(scene)) == 5


async def test_a_truncated_log_is_not_taken_for_one_made_anew() -> None:
    """Its id is the same: what it holds was counted, and is not counted again."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    scene.log.records, scene.log.end = scene.log.records[:2], 2

    done = await reset(scene, "earliest")
    scene.log.add(one(4))
    owner = await scene.owner()
    await owner.commit()

    assert (done.cause, done.to, done.missing, done.forgotten) == ("log_short", 2, None, (1, 4))
    assert (done.is_another_log, done.is_truncated) == (False, True)
    assert "the log was truncated, as its id or --same-topic says" in describe(done)[2]
    assert sum(each.get("accepted", 0) for each in told(scene)) == 5


async def test_a_log_that_is_taken_for_another_one_does_not_get_the_old_id() -> None:
    """The brokers give none any more; the owner that is told one again would find its topic recreated."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    made_anew(scene, 2)
    del scene.memory.topic_ids["source"]

    done = await reset(scene, "earliest")
    scene.memory.topic_ids["source"] = "another"
    owner = await scene.owner()
    await owner.commit()

    assert (done.same_topic, done.is_another_log, done.to) == (None, True, 0)
    assert sum(each.get("accepted", 0) for each in told(scene)) == 4 + 2


async def test_brokers_that_delete_a_topic_forget_its_offsets() -> None:
    """The snapshot knows the id all the same: what the books say is of the log before."""
    scene = Scene(CountingStep())
    scene.memory.topic_ids["source"] = "first"
    await counted(scene, 4)
    made_anew(scene, 9)
    scene.memory.offset = None

    for books in (no_books, partial(books_end, scene)):
        plan = await resetting(scene).plan("earliest", books)
        assert (plan.cause, plan.to, plan.missing, plan.again) == ("log_recreated", 0, None, None)
    await reset(scene, "earliest")
    owner = await scene.owner()
    await owner.commit()

    assert sum(each.get("accepted", 0) for each in told(scene)) == 4 + 9


async def test_a_snapshot_of_0_1_0_names_no_id() -> None:
    """It is gone on from; the next one does, and keeps it while brokers name none."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    named = []
    for ids in ({"source": "first"}, {}):
        scene.memory.topic_ids = ids
        scene.log.add(one(scene.log.end))
        owner = await scene.owner()
        await owner._commit(scene.clock.now_ms(), whole=True)
        await owner.stop()
        named.append(dict(scene.memory.log("state.counting.source").records[-1].headers).get("topic-id"))

    assert named == [b"first", b"first"]


async def test_a_lost_snapshot_leaves_a_new_state() -> None:
    """What the log still has is folded into it, silently."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    scene.memory.log("state.counting.source").records.clear()

    done = await reset(scene, "earliest")

    assert (done.cause, done.snapshot, done.to) == ("snapshot_lost", None, 4)
    scene.log.add(one(3))
    owner = await scene.owner()
    await owner.commit()
    assert told(scene)[-1]["duplicates"] == 1


@pytest.mark.parametrize(
    ("begin", "missing", "forgotten"),
    [(0, None, None), (3, None, (0, 3)), (4, None, (0, 4)), (7, (4, 7), (0, 4))],
    ids=["the log has all", "not the first records", "none that was counted", "nor all of what comes next"],
)
async def test_books_tell_what_a_state_without_offset_and_snapshot_has_lost(
    begin: int, missing: tuple[int, int] | None, forgotten: tuple[int, int] | None
) -> None:
    """They know of an owner, of which there is nothing else any more."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    for seq in range(4, 9):
        scene.log.add(one(seq))
    cut(scene, begin)
    scene.memory.offset = None
    scene.memory.log("state.counting.source").records.clear()

    done = await reset(scene, "earliest", partial(books_end, scene))

    assert (done.committed, done.snapshot, done.certain) == (None, None, True)
    assert (done.to, done.missing, done.forgotten) == (max(4, begin), missing, forgotten)
    owner = await scene.owner()
    await owner.commit()
    assert told(scene)[-1]["accepted"] == 9 - done.to


async def test_a_partition_that_never_had_an_owner_has_forgotten_nothing() -> None:
    """No books, no offset, no snapshot; whatever its log begins with is the first."""
    scene = Scene(CountingStep())
    for seq in range(4):
        scene.log.add(one(seq))
    cut(scene, 2)

    plan = await resetting(scene).plan("earliest")

    assert (plan.to, plan.missing, plan.forgotten, plan.certain) == (2, None, None, True)


async def test_a_snapshot_that_cannot_be_loaded_leaves_a_new_state() -> None:
    """It is whole, and none of its bytes mean anything: the partition has a way back like that of a lost one."""
    scene = Scene(CountingStep())
    await counted(scene, 4)
    state = scene.memory.log("state.counting.source")
    state.records[:] = [record._replace(value=b"{") for record in state.records]
    with pytest.raises(PartitionError, match=r"source/0: .* cannot be loaded: JSONDecodeError") as raised:
        await scene.owner()

    done = await reset(scene, "earliest")

    assert raised.value.cause == "snapshot_damaged"
    assert (done.cause, done.snapshot, done.to) == ("snapshot_damaged", None, 4)
    scene.log.add(one(3))
    owner = await scene.owner()
    await owner.commit()
    assert told(scene)[-1]["duplicates"] == 1


def test_what_a_log_that_ends_too_early_is_taken_for_is_said() -> None:
    """Nothing tells a log that was truncated from one that was made anew: whoever resets it knows."""
    lines = describe(Reset("t/1", "log_short", 10, 10, True, 4, (0, 3), 0))

    assert lines[2] == (
        "the log ends before offset 10, up to which it was counted: it is taken for another one of the same name, none"
        " of whose records was counted. If it is the same and was truncated, all before 3 was: then --to latest"
    )


def test_what_a_reset_costs_is_said_in_sentences() -> None:
    """Offsets, and how many records at most."""
    lines = describe(Reset("t/1", "log_cut", 10, 10, True, 4, (1_200, 1_300), 1_200))

    assert lines == [
        "t/1: log_cut; log [1200, 1300), committed 10, snapshot at 4",
        "goes on at offset 1200",
        "missing: up to 1,190 records, offsets [10, 1200), are in no window",
        "forgotten: offsets [4, 10) are counted, but not known any more: a record of them that is sent again counts "
        "again",
    ]
