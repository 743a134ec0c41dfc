"""The faults of a plan as knob positions of every engine, GPU and model at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.simulator.faults import KINDS, Fault, Scope
from lab.simulator.gpus import Gpus
from lab.simulator.plan import FleetPlan, HostPlan

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Positions:
    """By knob name; 0 is untouched. Engines, GPUs, hosts and tenants as in the plan, ``surge`` by model of the load,
    ranks job by job."""

    engine: dict[str, Floats]
    gpu: dict[str, Floats]
    host: dict[str, Floats]
    load: dict[str, Floats]
    tenant: dict[str, Floats]
    rank: dict[str, Floats]


class Knobs:
    """Who is hit by which fault, worked out once."""

    def __init__(self, plan: FleetPlan, gpus: Gpus) -> None:
        self._sizes = {
            Scope.ENGINE: len(plan.engines),
            Scope.GPU: len(gpus.host),
            Scope.HOST: len(plan.hosts),
            Scope.LOAD: len(plan.load.models()),
            Scope.TENANT: len(plan.tenants),
            Scope.RANK: sum(one.ranks for one in plan.training),
        }
        labels = {
            Scope.ENGINE: _engine_labels(plan),
            Scope.GPU: _gpu_labels(plan, gpus),
            Scope.HOST: _host_labels(plan.hosts),
            Scope.LOAD: {"model": list(plan.load.models())},
            Scope.TENANT: {"tenant": [tenant.name for tenant in plan.tenants]},
            Scope.RANK: _rank_labels(plan),
        }
        self._faults = [(fault, self._hit(fault, labels[KINDS[fault.kind].scope])) for fault in plan.faults]

    def _hit(self, fault: Fault, labels: dict[str, list[Any]]) -> npt.NDArray[np.bool_]:
        scope = KINDS[fault.kind].scope
        if fault.field == "fleet":
            return np.ones(self._sizes[scope], np.bool_)
        return np.array([label == fault.value for label in labels[fault.field]], np.bool_)

    def untargeted(self) -> list[Fault]:
        """Faults that hit nothing: a mistake in the schedule."""
        return [fault for fault, hit in self._faults if not hit.any()]

    def at(self, at_ms: int) -> Positions:
        """Positions of all knobs; where several faults turn one, the strongest counts."""
        positions: dict[Scope, dict[str, Floats]] = {scope: {} for scope in Scope}
        for kind in KINDS.values():
            positions[kind.scope].setdefault(kind.knob, np.zeros(self._sizes[kind.scope]))
        for fault, hit in self._faults:
            level = fault.level(at_ms)
            if level:
                kind = KINDS[fault.kind]
                knob = positions[kind.scope][kind.knob]
                knob[hit] = np.where(np.abs(knob[hit]) < abs(level), level, knob[hit])
        return Positions(**{scope.value: knobs for scope, knobs in positions.items()})


def _host_labels(hosts: Sequence[HostPlan]) -> dict[str, list[Any]]:
    return {
        "cluster": [host.cluster for host in hosts],
        "region": [host.region for host in hosts],
        "host": [host.name for host in hosts],
    }


def _engine_labels(plan: FleetPlan) -> dict[str, list[Any]]:
    hosts = {host.name: host for host in plan.hosts}
    names = ("engine_id", "model", "model_version", "precision")
    own = {name: [getattr(engine, name) for engine in plan.engines] for name in names}
    return _host_labels([hosts[engine.host] for engine in plan.engines]) | own


def _rank_labels(plan: FleetPlan) -> dict[str, list[Any]]:
    hosts = {host.name: host for host in plan.hosts}
    ranks = [(one, rank) for one in plan.training for rank in range(one.ranks)]
    return {
        **_host_labels([hosts[one.host] for one, _ in ranks]),
        "job": [one.job for one, _ in ranks],
        "rank": [f"{one.job}:{rank}" for one, rank in ranks],
    }


def _gpu_labels(plan: FleetPlan, gpus: Gpus) -> dict[str, list[Any]]:
    engines = [plan.engines[index] if index >= 0 else None for index in gpus.engine]
    return {
        **_host_labels([plan.hosts[index] for index in gpus.host]),
        "gpu": [f"{host.name}:{slot}" for host in plan.hosts for slot in range(host.gpus)],
        "gpu_uuid": gpus.uuid,
        "gpu_model": [type_.name for type_ in gpus.type],
        **{
            name: [getattr(engine, name, None) for engine in engines]
            for name in ("engine_id", "model", "model_version")
        },
    }
