"""A change of an assignment is seen from when it begins."""

from __future__ import annotations

from aiokafka import TopicPartition

from runtime.assignment import Assignment


async def test_a_change_counts_when_it_begins_and_when_it_ends() -> None:
    """What was read before its end may be of the assignment before."""
    assignment, seen, one = Assignment(), list[int](), [TopicPartition("books", 0)]
    await assignment.on_partitions_assigned(one)
    seen.append(assignment.changes)
    await assignment.on_partitions_revoked(one)
    seen.append(assignment.changes)
    await assignment.on_partitions_assigned([])
    seen.append(assignment.changes)

    assert seen == sorted(set(seen))
