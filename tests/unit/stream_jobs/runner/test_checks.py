"""How many partitions a job relies on: more than it knows of are refused where records would stand elsewhere."""

from __future__ import annotations

import pytest

from schemas.contract.topics import BOOKS_TOPIC, WINDOW_PARTIALS
from schemas.errors import ContractError
from stream_jobs.runner.checks import _check_counts
from stream_jobs.runner.job import Job, Names
from tests.simulator.counting import CountingStep

JOB = Job.of(CountingStep(), ["source"])
NAMES = Names("d", "counting")
THERE = {"source": 1, NAMES.state_topic("source"): 1}


def test_a_worker_with_other_partitions_than_the_topic_is_refused() -> None:
    """What is billed together stands in one partition, by the count of those who write it."""
    with pytest.raises(ContractError, match=r'set "window.partials" = 8 under \[partitions\] for every process'):
        _check_counts({**THERE, WINDOW_PARTIALS: 8}, JOB, NAMES, {WINDOW_PARTIALS: 4})
    with pytest.raises(ContractError, match="needed are 9"):
        _check_counts({**THERE, WINDOW_PARTIALS: 8}, JOB, NAMES, {WINDOW_PARTIALS: 9})


def test_a_topic_that_may_grow_at_any_time_may_have_more() -> None:
    """Its records count wherever they stand."""
    _check_counts({**THERE, BOOKS_TOPIC: 8, WINDOW_PARTIALS: 4}, JOB, NAMES, {BOOKS_TOPIC: 4, WINDOW_PARTIALS: 4})
