"""A fleet and a day of trouble in it, drawn by a seed: which fault when and where, nothing left to the one who judges.

The fleet is small enough to run a day in minutes, and has what the faults need: tensor-parallel groups, models on one
GPU, two versions side by side, GPUs without an engine, and one model with a single engine, whose cold start shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from lab.evaluate.table import BESIDE, CASES, REST_S, WARM_UP_S, Case
from lab.simulator.entities import next_version
from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet
from lab.simulator.load import Load, PoissonLoad, Share, TraceLoad
from lab.simulator.plan import DEFAULT_TENANTS, EnginePlan, FleetPlan, HostPlan, TrainingPlan
from lab.simulator.service import trace_of
from schemas.errors import ConfigError

BEGIN_MS = 1_790_035_200_000
"""A Tuesday, 00:00 UTC."""
STEP_MS = 5_000
"""Readings every five seconds: two in a window, at a fifth of the cost of one a second."""

HOSTS = (
    HostPlan("h-0", "eu-1", "eu-central", "H100"),
    HostPlan("h-1", "us-1", "us-east", "H100"),
    HostPlan("h-2", "eu-1", "eu-central", "H200"),
    HostPlan("h-3", "us-1", "us-east", "H200"),
)
BIG, CHAT = "llama-3.3-70b-instruct", "llama-3.1-8b-instruct"
CODER, CODE = "qwen2.5-coder-32b-instruct", "qwen2.5-coder-7b-instruct"
ALONE = "qwen2.5-72b-instruct"
_LAYOUT = {
    "h-0": ((BIG, "big@1", "fp8", 4), (CHAT, "chat@1", "bf16", 1)),
    "h-1": ((BIG, "big@1", "fp8", 4), (CHAT, "chat@1", "bf16", 1), (ALONE, "alone@1", "fp8", 2)),
    "h-2": ((CODER, "coder@1", "bf16", 2), (CHAT, "chat@2", "bf16", 1), (CODE, "code@1", "bf16", 1)),
    "h-3": ((CODER, "coder@1", "bf16", 2), (CHAT, "chat@2", "bf16", 1), (CODE, "code@1", "bf16", 1)),
}
JOB = TrainingPlan("adapters", "h-2", CHAT, 4, 4)
"""On GPUs without an engine."""
REQUESTS_PER_S = 16.0
"""Enough for every engine to be judged by the minute, also at night."""
SHARES = (Share(BIG, 0.22), Share(CHAT, 0.35), Share(CODER, 0.15), Share(CODE, 0.18), Share(ALONE, 0.1))


def fleet_of(copies: int) -> tuple[tuple[HostPlan, ...], tuple[EnginePlan, ...]]:
    """Hosts and engines, host by host: the fleet so many times over."""
    hosts, found = [], []
    for copy in range(copies):
        for host in HOSTS:
            name = f"h-{copy * len(HOSTS) + int(host.name.removeprefix('h-'))}"
            hosts.append(replace(host, name=name))
            first = 0
            for number, (model, version, precision, width) in enumerate(_LAYOUT[host.name]):
                found.append(EnginePlan(f"{name}/{number}", name, model, version, precision, first, width))
                first += width
    return tuple(hosts), tuple(found)


def engines() -> tuple[EnginePlan, ...]:
    """The engines of the fleet, host by host."""
    return fleet_of(1)[1]


def plan_of(load: Load, faults: tuple[Fault, ...] = ()) -> FleetPlan:
    """The fleet under this load."""
    return FleetPlan(HOSTS, engines(), load, DEFAULT_TENANTS, faults=faults, host_samples=True, training=(JOB,))


def daily_load(requests_per_s: float = REQUESTS_PER_S) -> PoissonLoad:
    """At two in the afternoon 2.3 times as much as at two in the night; at weekends two thirds."""
    return PoissonLoad(requests_per_s, SHARES, season=0.4, weekend=0.67)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A case at a place and a time. ``value`` is the label that the alert must name; empty where it must be silent.
    ``touched`` are the labels it may show in: of itself, and of what stands on it."""

    case: Case
    fault: Fault
    value: str
    touched: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that is simulated and what is true of it."""

    seed: int
    begin_ms: int
    end_ms: int
    plan: FleetPlan
    troubles: tuple[Trouble, ...]

    def fleet(self) -> Fleet:
        """The fleet, not started."""
        return Fleet(self.plan, self.seed)


def scenario(seed: int, hours: float = 24.0, cases: Iterable[Case] = CASES, warm_up_s: int = WARM_UP_S) -> Scenario:
    """The day of a seed: every case once, in an order, at times and places that the seed decides; last those that go
    beside the others.

    Raises ``ConfigError`` when the hours are too short for the cases.
    """
    random = np.random.default_rng([seed, 7])
    cases = list(cases)
    serial = [case for case in cases if case.name not in BESIDE]
    order = [serial[i] for i in random.permutation(len(serial))]
    rest_s = hours * 3_600 - warm_up_s - sum(case.lasts_s + case.settles_s + REST_S for case in order)
    if rest_s < 0:
        raise ConfigError("--hours", hours, f"must be at least {hours - rest_s / 3_600:.1f} for these faults")
    spare_s = np.diff(np.sort(random.uniform(0, rest_s, len(order))), prepend=0.0)
    at_s, troubles = float(warm_up_s), []
    uuids = dict(zip(*gpu_names(seed), strict=True))
    for case, more_s in zip(order, spare_s.tolist(), strict=True):
        at_s += more_s
        troubles.append(_trouble(case, BEGIN_MS + round(at_s * 1_000 / STEP_MS) * STEP_MS, random, uuids))
        at_s += case.lasts_s + case.settles_s + REST_S
    own = np.random.default_rng([seed, 9])
    for case in cases:
        if case.name in BESIDE:
            troubles.append(_beside(case, troubles, (warm_up_s, round(hours * 3_600)), own, uuids))
    plan = plan_of(daily_load(), tuple(trouble.fault for trouble in troubles))
    return Scenario(seed, BEGIN_MS, BEGIN_MS + round(hours * 3_600_000), plan, tuple(troubles))


def _beside(
    case: Case, others: list[Trouble], span_s: tuple[int, int], random: np.random.Generator, uuids: dict[str, str]
) -> Trouble:
    """The case at one of the moments of ``span_s`` at which nothing that it touches has another trouble."""
    drawn = _trouble(case, BEGIN_MS, random, uuids)
    whole_ms = (case.lasts_s + case.settles_s + REST_S) * 1_000
    free = np.arange(BEGIN_MS + span_s[0] * 1_000, BEGIN_MS + span_s[1] * 1_000 - whole_ms + 1, STEP_MS)
    for other in others:
        if other.touched & drawn.touched:
            until_ms = other.fault.to_ms + (other.case.settles_s + REST_S) * 1_000
            free = free[(free + whole_ms <= other.fault.from_ms) | (free >= until_ms)]
    if not len(free):
        raise ConfigError("--hours", span_s[1] / 3_600, f"leave no time at which {case.name} stands apart")
    from_ms = int(free[int(random.integers(len(free)))])
    return replace(drawn, fault=replace(drawn.fault, from_ms=from_ms, to_ms=from_ms + case.lasts_s * 1_000))


def gpu_names(seed: int) -> tuple[list[str], list[str]]:
    """GPUs of the fleet of a seed: ``host:slot`` and UUID."""
    names = [f"{host.name}:{slot}" for host in HOSTS for slot in range(host.gpus)]
    return names, Fleet(plan_of(daily_load()), seed).gpu_uuids


def _trouble(case: Case, from_ms: int, random: np.random.Generator, uuids: dict[str, str]) -> Trouble:
    field, places = _places(case.target)
    place = places[int(random.integers(len(places)))]
    fault = Fault(case.fault, field, place, from_ms, from_ms + case.lasts_s * 1_000, case.strength)
    if case.cause is None:
        return Trouble(case, fault, "", frozenset())
    touched = _touched(field, place, uuids)
    if field == "rank":
        job, rank = place.split(":")
        return Trouble(case, fault, rank, frozenset({("rank", rank), ("job", job), ("host", JOB.host)}))
    if field == "model":
        new = next_version(next(engine.model_version for engine in engines() if engine.model == place))
        return Trouble(case, fault, new, frozenset({*touched, ("model_version", new)}))
    return Trouble(case, fault, uuids.get(place, place), frozenset(touched))


def _places(target: str) -> tuple[str, list[str]]:
    """The label by which a fault picks, and what there is to pick from; GPUs are those with an engine."""
    fleet = engines()
    if target in ("gpu", "group_gpu"):
        least = 4 if target == "group_gpu" else 1
        on = [engine for engine in fleet if engine.tensor_parallel >= least]
        return "gpu", [f"{e.host}:{e.first_gpu + offset}" for e in on for offset in range(e.tensor_parallel)]
    if target == "rank":
        return "rank", [f"{JOB.job}:{rank}" for rank in range(JOB.ranks)]
    if target == "host":
        return "host", [host.name for host in HOSTS]
    if target == "tenant":
        return "tenant", [tenant.name for tenant in DEFAULT_TENANTS]
    if target == "load_model":
        return "model", [share.model for share in SHARES]
    if target == "whole_model":
        versions = {model: {e.model_version for e in fleet if e.model == model} for model in (BIG, CODER, CODE, CHAT)}
        return "model", [model for model, found in versions.items() if len(found) == 1]
    if target == "model_version":
        return "model_version", ["chat@2"]
    if target == "only_engine":
        return "engine_id", [engine.engine_id for engine in fleet if engine.model == ALONE]
    if target == "8_bit_engine":
        return "engine_id", [engine.engine_id for engine in fleet if engine.precision == "fp8"]
    return "engine_id", [engine.engine_id for engine in fleet]


def _touched(field: str, place: str, uuids: dict[str, str]) -> set[tuple[str, str]]:
    """Labels that trouble at a place may show in: the engine and model on a GPU, all that stands on a host."""
    found = {("gpu_uuid" if field == "gpu" else field, uuids.get(place, place))}
    for engine in engines():
        gpus = {f"{engine.host}:{engine.first_gpu + offset}" for offset in range(engine.tensor_parallel)}
        hit = {"gpu": gpus, "host": {engine.host}, "engine_id": {engine.engine_id}, "model": {engine.model}}
        if place in hit.get(field, {engine.model_version}):
            found |= {("engine_id", engine.engine_id), ("model", engine.model), ("host", engine.host)}
            found |= {("model_version", engine.model_version), ("placement_group", engine.engine_id)}
            found |= {("gpu_uuid", uuids[gpu]) for gpu in gpus}
    if field in ("host", "gpu"):
        host = place.split(":")[0]
        found |= {("host", host), ("placement_group", host)}
    if field == "host":
        found |= {("gpu_uuid", uuid) for gpu, uuid in uuids.items() if gpu.startswith(f"{place}:")}
    return found


AZURE_HOURS = 6.0
"""The recorded hour six times over."""
THOUSAND_COPIES = 3
"""Of the fleet: some thousand series."""


def azure(seed: int, hours: float = AZURE_HOURS) -> Scenario:
    """The code and the conversation trace of 2023 at their own speed, again and again: coding and chat models."""
    shares = {"code": (Share(CODE, 0.7), Share(CODER, 0.3)), "conversation": (Share(CHAT, 0.7), Share(BIG, 0.3))}
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
