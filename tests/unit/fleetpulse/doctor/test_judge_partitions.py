"""Partitions that a job cannot go on with are found from outside, each with its cause and the way back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetpulse.doctor.facts import GroupFacts, KafkaFacts, TopicFacts
from fleetpulse.doctor.judge_partitions import JOBS, judge_partitions
from fleetpulse.services.jobs_and_sink import JOBS as ALL_JOBS

TOPIC, STATE = "llm.requests", "state.windows.llm.requests"
GROUPS = {"d-windows": (TOPIC,), "d-sink": (TOPIC,)}


def facts(committed: dict[int, int], states: int = 2) -> KafkaFacts:
    """Two partitions that hold offsets 10 to 20; each state topic's partition has five records."""
    counts = {TOPIC: 2, STATE: states}
    every = [(topic, number) for topic, partitions in counts.items() for number in range(partitions)]
    return KafkaFacts(
        "b:9092",
        {},
        topics={topic: TopicFacts(partitions, 1, (), (), {}) for topic, partitions in counts.items()},
        begins={one: 10 if one[0] == TOPIC else 0 for one in every},
        ends={one: 20 if one[0] == TOPIC else 5 for one in every},
        groups={
            name: GroupFacts(1, {(TOPIC, number): offset for number, offset in committed.items()}) for name in GROUPS
        },
    )


def test_what_goes_on_is_no_finding() -> None:
    """Committed offsets within their logs, and a job that never ran."""
    assert list(judge_partitions(facts({0: 10, 1: 20}), GROUPS)) == []
    assert list(judge_partitions(facts({}), GROUPS)) == []


@pytest.mark.parametrize(
    ("found", "cause", "words"),
    [
        (facts({0: 20, 1: 4}), "log_cut", "the log begins at 10, committed is 4: 6 records are lost"),
        (facts({0: 20, 1: 21}), "log_short", "the log ends at 20, committed is 21"),
        (facts({0: 20}), "offset_lost", "holds a snapshot, the group has no offset"),
        (facts({0: 20}), "offset_lost", "or went with a topic that was deleted and made again"),
        (facts({0: 20, 1: 20}, states=1), "no_state_partition", "has 1 partitions, none for its state"),
    ],
    ids=[
        "retention took unread records",
        "a truncated log",
        "an expired offset",
        "or one that went with its topic",
        "a topic that grew alone",
    ],
)
def test_a_damaged_partition_is_named_with_cause_and_way_back(found: KafkaFacts, cause: str, words: str) -> None:
    """Only of the job that reads it; a sink has no snapshots."""
    (finding,) = judge_partitions(found, GROUPS)

    assert (finding.check, finding.subject) == (f"partition.{cause}", f"windows {TOPIC}/1")
    assert words in finding.says
    assert finding.mend is not None
    assert ("migrate" if cause == "no_state_partition" else f"--of windows --partition {TOPIC}:1") in finding.mend


def test_a_partition_that_never_had_a_record_needs_no_offset() -> None:
    """Its state topic's partition is empty too."""
    found = facts({0: 20})

    assert list(judge_partitions(replace(found, ends={**found.ends, (STATE, 1): 0}), GROUPS)) == []


def test_every_job_is_looked_at() -> None:
    """Those that the command line runs."""
    assert JOBS == ALL_JOBS
