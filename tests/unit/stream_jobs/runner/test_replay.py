"""Steps whose snapshot is a place to read again from: as exact as any, through all trouble."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulator.counting import CountingStep
from tests.simulator.finals_world import FinalsWorld
from tests.simulator.mutations import Mutation
from tests.simulator.replaying import MUTATIONS, ReplayedState, ReplayingStep
from tests.simulator.schedule import Rules, run_schedule

SCHEDULES = 30


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Poison is logged as it should be; here there is a lot of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_schedule_loses_or_doubles_an_event() -> None:
    """Crashes, zombies, deploys, poison inside what is read again: every sum is the truth."""
    outcomes = [run_schedule(seed, Rules(step=ReplayingStep)) for seed in range(1, SCHEDULES + 1)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.records for outcome in outcomes) > 20 * SCHEDULES


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_rule_that_is_switched_off_is_noticed(mutation: Mutation) -> None:
    """Both rules of such steps are needed, and the simulator would see them broken."""
    assert run_schedule(mutation.seen_by, mutation.rules, mutation.world).violations


def test_the_finals_job_is_exact_through_all_of_it() -> None:
    """The real step: the last revision of every row, and progress, are those of a job that nothing ever hit."""
    outcomes = [run_schedule(seed, world_of=FinalsWorld) for seed in range(1, 5)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.commits for outcome in outcomes) > 30


def test_a_step_says_where_to_begin_again_or_goes_on() -> None:
    """A step that overrides nothing goes on where it was dumped, and cannot do without records that are deleted."""
    step, state = ReplayingStep(), ReplayedState()

    assert CountingStep().replay_from(state, 7) == 7
    assert CountingStep().pass_over(state, 7) is False
    assert step.replay_from(state, 7) == 7
    state.before.append((3, ""))
    assert step.replay_from(state, 7) == 3
