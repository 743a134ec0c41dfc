"""What the processes of the simulator's pool are asked to do."""

from __future__ import annotations

import logging

from tests.simulator import alerts_world, announcing, damaged_world, mutations, telling_world, usage_mutations
from tests.simulator.alerts_world import AlertsWorld
from tests.simulator.damaged_world import DamagedWorld
from tests.simulator.finals_world import FinalsWorld
from tests.simulator.mutations import caught_at
from tests.simulator.schedule import Outcome, run_schedule
from tests.simulator.windows_world import WindowsWorld

MUTATIONS = (
    *mutations.MUTATIONS,
    *damaged_world.MUTATIONS,
    *usage_mutations.MUTATIONS,
    *announcing.MUTATIONS,
    *alerts_world.MUTATIONS,
    *telling_world.MUTATIONS,
)
WINDOWS_EVERY = 10
"""Every tenth schedule runs the real windows job (five times as slow); the others a small one made to show mistakes."""
ALERTS_EVERY = 25
"""Every 25th of the rest runs the alert job, and another one the finals job."""
DAMAGED_EVERY = 3
"""Every third of these damages partitions and resets them."""


def run_one(seed: int) -> Outcome:
    """A schedule of the real runner; poison is not logged."""
    logging.disable(logging.CRITICAL)
    if seed % WINDOWS_EVERY == 0:
        return run_schedule(seed, world_of=WindowsWorld)
    if seed % ALERTS_EVERY == 1:
        return run_schedule(seed, world_of=AlertsWorld)
    if seed % ALERTS_EVERY == 2:
        return run_schedule(seed, world_of=FinalsWorld)
    return run_schedule(seed, world_of=DamagedWorld if seed % DAMAGED_EVERY == 0 else None)


def schedules_to_notice(what: tuple[int, int, int]) -> int | None:
    """For (number of the mutation, schedules at most, first seed): how many schedules it took to notice."""
    number, schedules, seed = what
    logging.disable(logging.CRITICAL)
    return caught_at(MUTATIONS[number], schedules, run_schedule, seed)
