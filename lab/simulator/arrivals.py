"""What becomes of an arrival before an engine sees it: who asks, how it will end, and which engine it is sent to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lab.simulator.engine_state import ABORTED, CLIENT, LENGTH, REQUEST, SERVER, STOP, TOOL_CALLS
from lab.simulator.load import Arrivals
from lab.simulator.plan import FleetPlan, Habits, Tenant

BLOCK_TOKENS = 16
"""Prefix caches keep whole blocks of this many tokens (vLLM's default)."""
GOLDEN = 0.6180339887498949
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Router:
    """Spreads the requests of a model over its engines in proportion to speed and spare room.

    Arrival ``i`` goes where ``frac(i x golden ratio)`` falls on the line of weights: as even as it gets for every
    stretch of arrivals, without looking at one engine twice.
    """

    def __init__(self, engines_by_model: list[Ints], speed: Floats) -> None:
        self._engines = engines_by_model
        self._speed = speed
        self._turn = [0] * len(engines_by_model)

    def route(self, model: npt.NDArray[np.int16], crowding: Floats, ready: Ints) -> Ints:
        """Engine of each arrival. ``crowding`` (0 empty, 1 full) is that of each engine at the last step; ``ready`` is
        2 for a loaded engine, 1 for one that loads, 0 for a lost one: the best there is gets the requests."""
        chosen = np.zeros(len(model), np.int64)
        for number, engines in enumerate(self._engines):
            mine = np.flatnonzero(model == number)
            weights = self._speed[engines] / (1.0 + crowding[engines]) ** 2
            weights *= ready[engines] == ready[engines].max()
            edges = np.cumsum(weights) / weights.sum()
            turns = self._turn[number] + np.arange(len(mine))
            self._turn[number] += len(mine)
            place = np.searchsorted(edges, (turns * GOLDEN) % 1.0, "right")
            chosen[mine] = engines[np.minimum(place, len(engines) - 1)]
        return chosen


def surge(arrivals: Arrivals, levels: Floats, random: np.random.Generator, span_us: tuple[int, int]) -> Arrivals:
    """The arrivals of ``span_us`` and, on average, ``levels[model]`` times as many more of each model."""
    if not levels.any():
        return arrivals
    extra = levels[arrivals.model]
    more = (extra + random.random(len(extra))).astype(np.int64)
    copied = np.repeat(np.arange(len(extra)), more)
    return _with_more(arrivals, copied, None, random, span_us)


def overrun(
    arrivals: Arrivals,
    levels: Floats,
    tenants: tuple[Tenant, ...],
    random: np.random.Generator,
    span_us: tuple[int, int],
) -> Arrivals:
    """The arrivals of ``span_us`` and, of each tenant, on average ``levels[tenant]`` times as many more as it has."""
    if not levels.any():
        return arrivals
    weights = np.array([tenant.weight for tenant in tenants])
    extra = levels * weights / weights.sum()
    count = len(arrivals.at_us)
    copies = (extra[:, None] + random.random((len(extra), count))).astype(np.int64)
    copied = np.tile(np.arange(count), len(extra)).repeat(copies.ravel())
    return _with_more(arrivals, copied, np.repeat(np.arange(len(extra)), copies.sum(axis=1)), random, span_us)


def _with_more(
    arrivals: Arrivals, copied: Ints, who: Ints | None, random: np.random.Generator, span_us: tuple[int, int]
) -> Arrivals:
    """The arrivals and copies of some of them by ``who``. Who is added asks when he likes: arrivals in pairs would be
    bursts, which engines answer later than as many requests one by one."""
    count = len(arrivals.at_us)
    at_us = np.concatenate([arrivals.at_us, random.integers(*span_us, len(copied))])
    order = np.argsort(at_us, kind="stable")
    source = np.concatenate([np.arange(count), copied])[order]
    tenant = None if who is None else np.concatenate([np.full(count, -1), who])[order]
    return Arrivals(
        at_us[order], arrivals.model[source], arrivals.input_tokens[source], arrivals.output_tokens[source], tenant
    )


def requests_of(
    arrivals: Arrivals,
    engine: Ints,
    error_share: Floats,
    plan: FleetPlan,
    first_number: int,
    random: np.random.Generator,
) -> npt.NDArray[np.void]:
    """Kernel requests in order of arrival. ``error_share`` is that of each engine, beside the plan's own."""
    count = len(engine)
    habits = plan.habits
    requests = np.zeros(count, REQUEST)
    for name in ("scheduled_us", "first_us", "last_us", "saved"):
        requests[name] = -1
    requests["number"] = np.arange(first_number, first_number + count)
    requests["arrived_us"] = arrivals.at_us
    requests["deadline_us"] = arrivals.at_us + round(habits.timeout_s * 1e6)
    requests["input_tokens"] = np.maximum(arrivals.input_tokens, 1)
    requests["cached_tokens"] = _cached(arrivals.input_tokens, habits, random)
    tenant = _tenants(plan, count, random)
    requests["tenant"] = tenant if arrivals.tenant is None else np.where(arrivals.tenant < 0, tenant, arrivals.tenant)
    fate = _fates(habits, error_share[engine], random)
    requests["fate"] = fate
    full = np.clip(arrivals.output_tokens, 1, plan.output_tokens_max)
    cut = np.ceil(full * random.random(count)).astype(np.int64)
    requests["target_tokens"] = np.where((fate == ABORTED) | (fate == SERVER), np.maximum(cut, 1), full)
    return requests


def _cached(input_tokens: Ints, habits: Habits, random: np.random.Generator) -> Ints:
    """Whole blocks, never the entire prompt, so that the last token is always computed."""
    hit = random.random(len(input_tokens)) < habits.prefix_hit
    known = (random.random(len(input_tokens)) * (input_tokens - 1)).astype(np.int64)
    return np.where(hit, known // BLOCK_TOKENS * BLOCK_TOKENS, 0)


def _tenants(plan: FleetPlan, count: int, random: np.random.Generator) -> Ints:
    weights = np.cumsum([tenant.weight for tenant in plan.tenants])
    return np.searchsorted(weights[:-1] / weights[-1], random.random(count), "right")


def _fates(habits: Habits, error_share: Floats, random: np.random.Generator) -> Ints:
    """One draw decides about trouble, another how a good reply ends."""
    draw, reason = random.random(len(error_share)), random.random(len(error_share))
    fate = np.where(reason < habits.length_limited, LENGTH, STOP)
    fate = np.where(reason > 1.0 - habits.tool_calls, TOOL_CALLS, fate)
    server = habits.server_error + error_share
    client = server + habits.client_error
    return np.select([draw < server, draw < client, draw < client + habits.aborted], [SERVER, CLIENT, ABORTED], fate)
