"""Findings about source partitions that jobs cannot go on with: those that are quarantined, of facts alone. Pure.

A running job finds more: where the log begins behind the committed offset, not only before what the snapshot needs.
``fleetpulse_job_quarantined`` and the note of ``/readyz`` have all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fleetpulse.doctor.facts import GroupFacts, KafkaFacts, TopicPartition
from fleetpulse.doctor.finding import PARTITION, Finding, wrong
from schemas.contract.topics import state_topic

_LOST_OR_GONE = "it was lost, or went with a topic that was deleted and made again: then the job says log_recreated"
JOBS = ("windows", "finals", "alerts", "costs")


def judge_partitions(facts: KafkaFacts, groups: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Damaged partitions of every job that has run. ``groups``: topics by the name of the group that reads them."""
    for group, topics in groups.items():
        job, found = group.rpartition("-")[2], (facts.groups or {}).get(group)
        if job not in JOBS or found is None or not found.committed:
            continue
        for topic in topics:
            counts = (facts.topics or {}).get(topic)
            for number in range(counts.partitions if counts else 0):
                cause = _damage(facts, found, job, (topic, number))
                if cause is not None:
                    yield _finding(job, (topic, number), *cause)


def _damage(facts: KafkaFacts, group: GroupFacts, job: str, partition: TopicPartition) -> tuple[str, str] | None:
    """The cause, as the job names it, and what is so."""
    topic, number = partition
    state = state_topic(job, topic)
    states = (facts.topics or {}).get(state)
    if states is not None and states.partitions <= number:
        return "no_state_partition", f"{state} has {states.partitions} partitions, none for its state"
    committed = group.committed.get(partition)
    begin, end = facts.begins.get(partition), facts.ends.get(partition)
    if committed is None:
        kept = facts.ends.get((state, number), 0) - facts.begins.get((state, number), 0)
        says = f"{state} holds a snapshot, the group has no offset: {_LOST_OR_GONE}"
        return ("offset_lost", says) if kept > 0 else None
    if begin is not None and begin > committed:
        return "log_cut", f"the log begins at {begin}, committed is {committed}: {begin - committed} records are lost"
    if end is not None and end < committed:
        return "log_short", f"the log ends at {end}, committed is {committed}: truncated, or made anew"
    return None


def _finding(job: str, partition: TopicPartition, cause: str, says: str) -> Finding:
    topic, number = partition
    mend = f"fleetpulse jobs reset --of {job} --partition {topic}:{number} --to earliest   # says what it costs"
    subject = f"{job} {topic}/{number}"
    return wrong(
        f"{PARTITION}{cause}",
        subject,
        f"stands still, the others go on: {says}",
        "fleetpulse migrate" if cause == "no_state_partition" else mend,
    )
