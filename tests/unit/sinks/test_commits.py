"""What the sink commits: what it landed, and markers of transactions behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from runtime.counters import Counters
from schemas.errors import ContractError
from sinks import commits
from sinks.commits import check_log, commit, commit_markers, count_missing, demand_log_ids

ONE, TWO, OTHERS = (TopicPartition("rejected", number) for number in range(3))


class Recording:
    """A consumer that has read so far."""

    def __init__(self, read: dict[TopicPartition, int], fails: type[Exception] | None = None) -> None:
        self.read, self.fails = read, fails
        self.commits: list[dict[TopicPartition, int]] = []

    def assignment(self) -> set[TopicPartition]:
        return set(self.read)

    async def position(self, partition: TopicPartition) -> int:
        if self.fails is IllegalStateError:
            raise IllegalStateError
        return self.read[partition]

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        if self.fails is not None:
            raise self.fails
        self.commits.append(dict(offsets))


async def test_markers_behind_what_was_landed_are_committed_once() -> None:
    """Those of four transactions that ended together; a partition that nothing was landed of, or that another has, is
    left as it is."""
    landed, consumer = {ONE: 6, TWO: 3, OTHERS: 1}, Recording({ONE: 10, TWO: 3, TopicPartition("books", 0): 5})

    await commit_markers(consumer, landed)
    await commit_markers(consumer, landed)

    assert consumer.commits == [{ONE: 10}]
    assert landed == {ONE: 10, TWO: 3, OTHERS: 1}


async def test_a_partition_without_leader_holds_up_no_markers_of_others() -> None:
    """Its position is not known until it has one."""
    others = [TopicPartition("books", number) for number in range(20)]  # some are asked after it

    class Leaderless(Recording):
        async def position(self, partition: TopicPartition) -> int:
            if partition == TWO:
                await asyncio.Event().wait()
            return await super().position(partition)

    read = dict.fromkeys(others, 10)
    landed, consumer = {TWO: 3, **dict.fromkeys(others, 6)}, Leaderless({TWO: 5, **read})

    await commit_markers(consumer, landed)

    assert consumer.commits == [read]


async def test_a_partition_that_was_revoked_is_left_to_its_owner() -> None:
    """Nothing is remembered of it that was not committed."""
    for error in (CommitFailedError, IllegalStateError):
        landed = {ONE: 6}
        await commit_markers(Recording({ONE: 10}, error), landed)
        await commit(Recording({ONE: 10}, error), landed, {ONE: 7})

        assert landed == {ONE: 6}


async def test_what_was_read_before_a_rebalance_is_committed_and_not_remembered() -> None:
    """The consumer may come back to what the group had committed before."""
    landed, consumer = {ONE: 6}, Recording({ONE: 10})

    await commit(consumer, landed, {ONE: 10}, lambda: False)

    assert (consumer.commits, landed) == ([{ONE: 10}], {ONE: 6})


async def test_a_coordinator_that_never_answers_ends_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka would ask it for ever, also of a sink that is told to stop. The group reconnects; nothing is remembered
    as landed."""
    monkeypatch.setattr(commits, "_GROUP_WITHIN_S", 0.01)

    class Silent(Log):
        async def commit(self, offsets: dict[TopicPartition, int]) -> None:
            await asyncio.Event().wait()

        async def committed(self, partition: TopicPartition) -> int | None:
            await asyncio.Event().wait()
            return None

    async def log_ids() -> dict[str, str]:
        return {}

    landed, consumer = {ONE: 6}, Silent(0, None)
    asked = (
        commit(consumer, landed, {ONE: 7}),
        demand_log_ids(consumer, {}, log_ids, [ONE]),
        check_log(consumer, landed, ONE, 5),
        count_missing(consumer, {}, ONE, 5, Counters()),
    )
    for asking in asked:
        with pytest.raises(TimeoutError):
            await asking

    assert landed == {ONE: 6}


@pytest.mark.parametrize(("committed", "log_id", "read"), [(None, "a", 1), (5, "b", 0), (None, "b", 1)])
async def test_a_topic_without_committed_offset_has_its_log_id_read_again(
    committed: int | None, log_id: str, read: int
) -> None:
    """It may have been recreated since the sink started, and its first records reach a sink that never read it."""
    reads: list[int] = []

    async def log_ids() -> dict[str, str]:
        reads.append(1)
        return {ONE.topic: log_id}

    async def demand() -> None:
        await demand_log_ids(Log(0, committed), {ONE.topic: "a"}, log_ids, [ONE])

    if committed is None and log_id != "a":
        with pytest.raises(ContractError, match="rejected was recreated"):
            await demand()
    else:
        await demand()

    assert len(reads) == read


class Log:
    """A partition that begins at ``begins``, of which a group had committed ``of_group``."""

    def __init__(self, begins: int, of_group: int | None) -> None:
        self.begins, self.of_group, self.asked = begins, of_group, 0

    async def committed(self, partition: TopicPartition) -> int | None:
        assert partition == ONE
        self.asked += 1
        return self.of_group

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.begins)


@pytest.mark.parametrize(
    ("committed", "read", "begins", "offset", "missing"),
    [
        pytest.param(1_000_000, None, 1_080_000, 1_080_000, 80_000, id="away for longer than the log is kept"),
        pytest.param(1_000_000, 1_000_500, 1_080_000, 1_080_000, 79_500, id="read on but held up for as long"),
        pytest.param(1_000_000, 900, 1_080_000, 1_080_000, 80_000, id="another member read on meanwhile"),
        pytest.param(5, None, 8, 9, 3, id="few"),
        pytest.param(5, None, 20, 12, 7, id="the log was cut again since it was read"),
        pytest.param(5, None, 3, 300, 0, id="markers and aborted records alone"),
        pytest.param(5, None, 5, 5, 0, id="goes on where it was"),
        pytest.param(None, None, 700, 700, 0, id="a group that never committed"),
        pytest.param(50, 60, 0, 50, 0, id="read again"),
    ],
)
async def test_records_that_were_deleted_before_they_were_read_are_counted(
    committed: int | None,
    read: int | None,
    begins: int,
    offset: int,
    missing: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Between what was read or committed last and the log's beginning; said once, as an error."""
    counters, consumer = Counters(), Log(begins, committed)

    with caplog.at_level(logging.ERROR):
        await count_missing(consumer, {} if read is None else {ONE: read}, ONE, offset, counters)

    assert counters.value("sink_missing_records", topic="rejected", partition=0) == missing
    said = [(record.levelname, record.__dict__["partition"], record.__dict__["records"]) for record in caplog.records]
    assert said == ([("ERROR", "rejected[0]", missing)] if missing else [])


@pytest.mark.parametrize(("read", "offset"), [({}, 0), ({ONE: 7}, 7), ({ONE: 7}, 12), ({ONE: 7}, 3)])
async def test_nobody_is_asked_about_a_log_that_goes_on(read: dict[TopicPartition, int], offset: int) -> None:
    """Between two records stand a few markers; a partition is read from its beginning, on, or again."""
    consumer = Log(9, 0)

    await count_missing(consumer, read, ONE, offset, Counters())

    assert consumer.asked == 0
