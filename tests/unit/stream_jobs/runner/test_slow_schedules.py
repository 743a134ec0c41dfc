"""Schedules of the windows job, and of partitions that are damaged and reset: the slowest of the simulator's."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulator.damaged_world import DamagedWorld, TailCutWorld
from tests.simulator.schedule import run_schedule
from tests.simulator.windows_world import ForgetfulWorld, SmallWindowsWorld, WindowsWorld

SCHEDULES = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Poison is logged as it should be; here there is a lot of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_windows_job_is_exact_through_all_of_it() -> None:
    """The real step: every partial row equals brute force over the accepted events, every book the truth."""
    outcomes = [run_schedule(seed, world_of=WindowsWorld) for seed in range(1, 21)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.commits for outcome in outcomes) > 100


def test_who_keeps_a_name_follows_from_the_log_alone() -> None:
    """The real step with room for a few names: rows and usage are those of a job that nothing disturbs. A job whose
    snapshots do not say who opened a series is noticed."""
    outcomes = [run_schedule(seed, world_of=SmallWindowsWorld) for seed in range(1, 9)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.commits for outcome in outcomes) > 40
    assert any(run_schedule(seed, world_of=ForgetfulWorld).violations for seed in range(1, 9))


@pytest.mark.parametrize("world", [DamagedWorld, TailCutWorld], ids=["anything", "what is not read yet"])
def test_damaged_partitions_come_back_by_resets_that_say_what_is_missing(world: type[DamagedWorld]) -> None:
    """Logs are cut, offsets lost, resets killed half-way, partitions reset that were well: every commit is what its
    offsets give, every offset without a commit is declared, and in the end all is read."""
    outcomes = [run_schedule(seed, world_of=world) for seed in range(1, SCHEDULES + 1)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    blows = sum((outcome.blows for outcome in outcomes), Counter())
    assert blows["reset"] > SCHEDULES / 3
    assert sum(outcome.quarantines["seen"] for outcome in outcomes) > 50
