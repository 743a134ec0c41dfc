"""The schedule of blows is seeded, even over the parts, and complete."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.chaos.schedule import KILLS, UPHEAVALS, Blow, schedule


def test_kills_are_spread_evenly_over_the_five_parts() -> None:
    """A hundred kills hit each of the five parts twenty times."""
    counted = Counter(step.blow for step in schedule(100, seed=1))

    assert {blow: counted[blow] for blow in KILLS} == dict.fromkeys(KILLS, 20)


def test_the_same_seed_gives_the_same_schedule() -> None:
    """A seed names one schedule; another seed names another."""
    assert schedule(40, seed=7) == schedule(40, seed=7)
    assert schedule(40, seed=7) != schedule(40, seed=8)


def test_a_freeze_outlasts_the_group_session() -> None:
    """A frozen worker sleeps longer than its six-second session, so it wakes as a zombie."""
    freezes = [step for seed in range(20) for step in schedule(50, seed) if step.blow is Blow.FREEZE_WORKER]

    assert freezes
    assert all(step.lasts_s > 6.0 for step in freezes)


def test_the_second_worker_joins_before_it_is_killed() -> None:
    """Crew changes alternate, beginning with a join."""
    for seed in range(20):
        crew = [step.blow for step in schedule(60, seed) if step.blow in (Blow.DOUBLE_WORKER, Blow.SINGLE_WORKER)]

        assert crew[::2] == [Blow.DOUBLE_WORKER] * len(crew[::2])
        assert crew[1::2] == [Blow.SINGLE_WORKER] * len(crew[1::2])


def test_in_a_cluster_every_broker_shard_and_job_is_hit() -> None:
    """Kills are those of the same seed without one; freezes of nodes come between, longer than a broker's session."""
    alone, cluster = schedule(100, seed=3), schedule(100, seed=3, brokers=3, shards=2, jobs=4)
    frozen = (Blow.FREEZE_KAFKA, Blow.FREEZE_CLICKHOUSE)

    hit = {blow: {step.node for step in cluster if step.blow is blow} for blow in (*frozen, *KILLS)}

    of_one = [step.blow for step in cluster if step.blow not in (*frozen, *UPHEAVALS)]
    assert of_one == [step.blow for step in alone]
    assert hit[Blow.KILL_KAFKA] == hit[Blow.FREEZE_KAFKA] == {1, 2, 3}
    assert hit[Blow.KILL_CLICKHOUSE] == hit[Blow.FREEZE_CLICKHOUSE] == {1, 2}
    assert hit[Blow.KILL_JOB] == {1, 2, 3, 4}
    assert hit[Blow.KILL_SINK] == {1}
    assert all(step.lasts_s > 3.0 for step in cluster if step.blow in frozen)


@pytest.mark.parametrize(("kills", "times"), [(1, 1), (5, 1), (15, 1), (16, 2), (100, 7)])
def test_in_a_cluster_workers_roll_topics_grow_and_rebalances_follow_on_one_another(kills: int, times: int) -> None:
    """Each in turn and under load: kills come before the first and after the last, where there are some."""
    steps = [step.blow for step in schedule(kills, seed=1, brokers=3, shards=2, jobs=4)]
    at = [number for number, blow in enumerate(steps) if blow in UPHEAVALS]

    assert [steps[number] for number in at] == list(UPHEAVALS) * times
    assert kills < 5 or (at[0] > 0 and at[-1] < len(steps) - 1)
    assert not set(UPHEAVALS) & {step.blow for step in schedule(kills, seed=1)}


def test_every_other_kill_of_a_part_waits_until_it_works() -> None:
    """Those between may hit one that is just starting."""
    steps = schedule(50, seed=1, brokers=3, shards=2, jobs=4)

    for blow in KILLS:
        waits = [step.at_work for step in steps if step.blow is blow]
        assert waits == [True, False] * 5
