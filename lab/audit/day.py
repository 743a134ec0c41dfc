"""A day of a small fleet for the audit: every way of holding GPUs, faults, late data; all drawn by a seed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lab.audit.shapes import Device, Shapes
from lab.evaluate.scenario import CHAT, CODE, daily_load, engines, gpu_names, plan_of
from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet
from lab.simulator.plan import FleetPlan, side_by_side
from schemas.limits import MINUTE_MS

STEP_MS = 5_000
REQUESTS_PER_S = 2.0
ACROSS, MIG, TURNS = "h-0:7", "h-2:7", "h-3:7"
"""GPUs that the fleet leaves idle: lent to a group on another host, divided, shared by turns."""
SHARED = ("h-1", 7)
"""One on which two more engines stand side by side."""
_ON_MIG, _ON_TURNS = ("h-2/1", "h-2/2"), ("h-3/1", "h-3/2")
_FAULTS = (
    ("gpu_lost", "gpu", "h-1:2", 1.0),
    ("host_down", "host", "h-3", 1.0),
    ("network_partition", "host", "h-0", 1.0),
    ("cold_start", "engine_id", "h-2/0", 1.0),
    ("error_burst", "engine_id", "h-0/1", 0.3),
    ("clock_skew", "host", "h-2", -60.0),
    ("budget_overrun", "tenant", "acme", 3.0),
    ("power_brake", "gpu", "h-1:0", 0.5),
)
"""Each once a day, for a twentieth of it."""
LASTS = 1 / 20


@dataclass(frozen=True, slots=True)
class Day:
    """What is simulated, in [begin_ms, end_ms)."""

    seed: int
    begin_ms: int
    end_ms: int
    plan: FleetPlan
    shapes: Shapes

    def fleet(self) -> Fleet:
        """The fleet, not started."""
        return Fleet(self.plan, self.seed)


def day_of(seed: int, begin_ms: int, hours: float, requests_per_s: float = REQUESTS_PER_S) -> Day:
    """The day of a seed; ``begin_ms`` a whole minute."""
    minutes = round(hours * 60)
    random = np.random.default_rng([seed, 6])
    faults = tuple(
        Fault(kind, field, value, from_ms, from_ms + max(1, round(minutes * LASTS)) * MINUTE_MS, strength)
        for (kind, field, value, strength), from_ms in zip(_FAULTS, _begins(random, begin_ms, minutes), strict=True)
    )
    plan = with_shared(plan_of(daily_load(requests_per_s), faults))
    return Day(seed, begin_ms, begin_ms + minutes * MINUTE_MS, plan, shapes_of(seed))


def with_shared(plan: FleetPlan) -> FleetPlan:
    """The fleet with two engines side by side on a GPU that was idle."""
    host, gpu = SHARED
    number = sum(engine.host == host for engine in plan.engines)
    more = side_by_side(host, gpu, number, ((CHAT, "chat@1", "fp8"), (CODE, "code@1", "fp8")))
    last = max(place for place, engine in enumerate(plan.engines) if engine.host == host) + 1
    return replace(plan, engines=(*plan.engines[:last], *more, *plan.engines[last:]))


def _begins(random: np.random.Generator, begin_ms: int, minutes: int) -> list[int]:
    last = max(1, round(minutes * (1 - LASTS)))
    return [begin_ms + int(minute) * MINUTE_MS for minute in random.integers(0, last, len(_FAULTS))]


def shapes_of(seed: int) -> Shapes:
    """One of each way, on the fleet of a seed."""
    uuids = dict(zip(*gpu_names(seed), strict=True))
    group = next(one.engine_id for one in engines() if one.host == "h-1" and one.tensor_parallel == 4)
    devices = (
        Device("MIG-0", "3g.71gb", _ON_MIG[0]),
        Device("MIG-1", "2g.35gb", _ON_MIG[1]),
        Device("MIG-2", "1g.18gb", None),
    )
    groups = {engine: "+".join(pair) for pair in (_ON_MIG, _ON_TURNS) for engine in pair}
    return Shapes({uuids[ACROSS]: group}, {uuids[MIG]: devices}, {uuids[TURNS]: _ON_TURNS}, groups)
