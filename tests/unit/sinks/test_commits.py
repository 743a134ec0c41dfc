"""What the sink commits: what it landed, and markers of transactions behind it."""

from __future__ import annotations

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from sinks.commits import commit, commit_markers

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


async def test_a_partition_that_was_revoked_is_left_to_its_owner() -> None:
    """Nothing is remembered of it that was not committed."""
    for error in (CommitFailedError, IllegalStateError):
        landed = {ONE: 6}
        await commit_markers(Recording({ONE: 10}, error), landed)
        await commit(Recording({ONE: 10}, error), landed, {ONE: 7})

        assert landed == {ONE: 6}
