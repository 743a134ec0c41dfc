"""The simulator's schedules against the real runner, and against the runner with one rule switched off.

Covers stream_jobs.runner.recovery.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.__main__ import table
from tests.simulator.alerts_world import AlertsWorld
from tests.simulator.counting import QuietStep
from tests.simulator.mutations import Mutation
from tests.simulator.pool_work import MUTATIONS
from tests.simulator.schedule import Rules, run_schedule
from tests.simulator.telling_world import SilentlyChangedWorld, TellingWorld

SCHEDULES = 60
"""`make simulator` runs 20,000."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Poison is logged as it should be; here there is a lot of it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_no_schedule_loses_or_doubles_an_event() -> None:
    """Crashes, zombies, rebalances, lost answers, re-sends, deploys: every sum is the truth, every book contiguous."""
    outcomes = [run_schedule(seed) for seed in range(1, SCHEDULES + 1)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    blows = sum((outcome.blows for outcome in outcomes), Counter())
    assert all(
        blows[name] > 10
        for name in (
            "kill",
            "freeze",
            "rebalance",
            "edge_restart",
            "broker_restart",
            "expire",
            "compact",
            "stop",
            "deploy",
        )
    )
    assert sum(outcome.records for outcome in outcomes) > 20 * SCHEDULES


def test_windows_judged_without_an_upstream_are_those_of_an_undisturbed_job() -> None:
    """The real step: upstreams are late, or silent until their windows are judged as incomplete. Every alert, and how
    many windows were judged before it and how, is the same byte for byte."""
    outcomes = [run_schedule(seed, world_of=AlertsWorld) for seed in range(1, 9)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.commits for outcome in outcomes) > 200
    assert sum(sum(outcome.blows.values()) for outcome in outcomes) > 20


def test_a_quiet_partition_outlives_its_log() -> None:
    """An idle partition takes one more snapshot, so that nobody needs what retention deletes."""
    outcomes = [run_schedule(seed, Rules(step=QuietStep, retention_passes=True)) for seed in range(1, 5)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}


def test_what_was_told_reads_as_one_story_though_rules_change() -> None:
    """A step that asks for a snapshot with all that it tells: none twice, none left open, none told by nobody."""
    outcomes = [run_schedule(seed, world_of=TellingWorld) for seed in range(1, 13)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(outcome.commits for outcome in outcomes) > 80
    assert any(run_schedule(seed, world_of=SilentlyChangedWorld).violations for seed in range(1, 301))


@pytest.mark.parametrize(
    "rules", [Rules(offsets_may_vanish=True), Rules(log_may_be_cut=True)], ids=["offsets vanish", "the log is cut"]
)
def test_what_cannot_be_mended_is_never_papered_over(rules: Rules) -> None:
    """When offsets or unread records are lost for good the partition is quarantined, what was told stays right, and the
    others go on to their end."""
    outcomes = [run_schedule(seed, rules) for seed in range(1, 41)]

    assert {outcome.seed: outcome.violations for outcome in outcomes if outcome.violations} == {}
    assert sum(sum(outcome.quarantines.values()) for outcome in outcomes) > 0
    assert not sum(outcome.ends["PartitionError"] for outcome in outcomes)


def test_a_schedule_is_the_same_every_time() -> None:
    """A seed that shows a violation can be run again and looked at."""
    assert run_schedule(5) == run_schedule(5)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_rule_that_is_switched_off_is_noticed(mutation: Mutation) -> None:
    """Every rule of the protocol is needed, and the simulator would see it broken. Another schedule sees it first after
    a change of either: ``python -m tests.simulator --mutations`` says which."""
    assert run_schedule(mutation.seen_by, mutation.rules, mutation.world).violations


def test_the_page_of_guarantees_has_the_rules_and_the_schedules_that_see_them() -> None:
    """Its table is the one that is run here."""
    page = Path(__file__).parents[4] / "docs" / "why" / "guarantees.md"

    assert table([(mutation, mutation.seen_by) for mutation in MUTATIONS]) in page.read_text(encoding="utf-8")
