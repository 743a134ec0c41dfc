"""Days on which nothing is wrong: whatever opens is a false alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lab.evaluate.scenario import (
    BEGIN_MS,
    BIG,
    CHAT,
    CODE,
    CODER,
    REQUESTS_PER_S,
    SHARES,
    Scenario,
    fleet_of,
    plan_of,
)
from lab.simulator.load import PoissonLoad, Share, TraceLoad
from lab.simulator.service import trace_of

AZURE_HOURS = 6.0
"""The recorded hour six times over."""
THOUSAND_COPIES = 3
"""Of the fleet: some thousand series."""


def azure(seed: int, hours: float = AZURE_HOURS) -> Scenario:
    """The code and the conversation trace of 2023 at their own speed, again and again: coding and chat models."""
    shares = {
        "code": (Share(CODE, 0.7), Share(CODER, 0.3)),
        "conversation": (Share(CHAT, 0.7), Share(BIG, 0.3)),
    }
    load = TraceLoad({name: trace_of(name) for name in shares}, shares)
    return _quiet(seed, hours, load)


def thousand(seed: int, hours: float = 24.0) -> Scenario:
    """A day of a fleet three times as large: about a thousand series."""
    quiet = _quiet(seed, hours, PoissonLoad(REQUESTS_PER_S * THOUSAND_COPIES, SHARES, season=0.4))
    hosts, engines = fleet_of(THOUSAND_COPIES)
    return replace(quiet, plan=replace(quiet.plan, hosts=hosts, engines=engines))


def _quiet(seed: int, hours: float, load: PoissonLoad | TraceLoad) -> Scenario:
    return Scenario(seed, BEGIN_MS, BEGIN_MS + round(hours * 3_600_000), plan_of(load), ())


HEALTHY: dict[str, Callable[..., Scenario]] = {"azure": azure, "thousand": thousand}
"""By name, from a seed and, unless it is to be as long as usual, hours."""
