"""What goes wrong, when, where and how badly: a labelled schedule that turns knobs of the simulation.

A kind is one line in ``KINDS``: which knob it turns, on what, and whether at once or slowly. A fault acts on every
step that begins in ``[from_ms, to_ms)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any

from schemas.errors import ConfigError


class Scope(Enum):
    """What a knob belongs to. A fault's target picks all entities with that label."""

    ENGINE = "engine"
    GPU = "gpu"
    HOST = "host"
    LOAD = "load"
    TENANT = "tenant"
    RANK = "rank"


@dataclass(frozen=True, slots=True)
class Kind:
    """``ramp``: the strength grows evenly from 0 at ``from_ms`` to its full value at ``to_ms``. Its values lie in
    ``(least, most]``."""

    knob: str
    scope: Scope
    ramp: bool
    strength: str
    meaning: str
    most: float = 1.0
    least: float = 0.0


KINDS = {
    "latency_regression": Kind(
        "slowdown", Scope.ENGINE, False, "added share of step time", "every step is slower", inf
    ),
    "slow_drift": Kind("slowdown", Scope.ENGINE, True, "added share of step time at the end", "steps get slower", inf),
    "deployment": Kind(
        "deployed", Scope.ENGINE, False, "added share of step time", "a new model version runs, then the old again", inf
    ),
    "error_burst": Kind("error_share", Scope.ENGINE, False, "share of requests, 0 to 1", "requests fail with 500"),
    "kv_pressure": Kind("cache_lost", Scope.ENGINE, False, "share of the cache, 0 to 1", "cache blocks are gone"),
    "cold_start": Kind("restart", Scope.ENGINE, False, "any", "the engine is stopped at the start and loads again"),
    "starved": Kind(
        "starved", Scope.ENGINE, False, "share of the batch", "one saturated core feeds the engine: its GPUs idle", 0.99
    ),
    "slow_kernels": Kind(
        "slow_kernels", Scope.ENGINE, False, "added share of step time", "no tensor core works, steps are slower", inf
    ),
    "gpu_lost": Kind("lost", Scope.GPU, False, "any", "XID 79: samples stop, its engine fails; found again at the end"),
    "thermal_throttle": Kind("heat", Scope.GPU, False, "share of the clock lost", "clocks are throttled by heat"),
    "power_brake": Kind("brake", Scope.GPU, False, "share of the clock lost", "clocks are throttled by power"),
    "straggler": Kind("brake", Scope.GPU, False, "share of the clock lost", "one GPU slows its whole group"),
    "memory_leak": Kind("leak", Scope.GPU, True, "share of free memory at the end", "memory fills without load"),
    "ecc_storm": Kind(
        "ecc", Scope.GPU, False, "corrected errors a second", "memory errors are corrected at a high rate", inf
    ),
    "pcie_width": Kind(
        "lanes_lost", Scope.GPU, False, "share of the lanes lost", "the PCIe link trained narrower", 0.99
    ),
    "nvlink_errors": Kind("link_errors", Scope.GPU, False, "errors a second", "an NVLink corrects errors", inf),
    "training_straggler": Kind(
        "loader",
        Scope.RANK,
        False,
        "added share of step time",
        "one saturated core loads the batches of a rank: its steps are slower, its GPU idles",
        inf,
    ),
    "host_down": Kind("down", Scope.HOST, False, "any", "all telemetry of the host stops, its engines fail"),
    "network_partition": Kind(
        "cut", Scope.HOST, False, "any", "telemetry of the host arrives when it is over, with its own times"
    ),
    "clock_skew": Kind(
        "skew_s", Scope.HOST, False, "seconds fast; below 0 slow", "the clock of the host is off", inf, -inf
    ),
    "traffic_surge": Kind("surge", Scope.LOAD, False, "added share of arrivals", "more requests; healthy", inf),
    "budget_overrun": Kind(
        "overrun", Scope.TENANT, False, "added share of its requests", "one tenant asks for more; healthy", inf
    ),
}

_ENGINE_LABELS = ("fleet", "cluster", "region", "host", "engine_id", "model", "model_version")
TARGETS = {
    Scope.ENGINE: (*_ENGINE_LABELS, "precision"),
    Scope.GPU: (*_ENGINE_LABELS, "gpu", "gpu_uuid", "gpu_model"),
    Scope.HOST: ("fleet", "cluster", "region", "host"),
    Scope.LOAD: ("fleet", "model"),
    Scope.TENANT: ("fleet", "tenant"),
    Scope.RANK: ("fleet", "cluster", "region", "host", "job", "rank"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """``field`` and ``value`` pick the targets by label, such as ``("engine_id", "gpu-000/0")``; ``fleet`` is all, and
    ``("gpu", "gpu-000:5")`` the sixth GPU of a host, ``("rank", "adapters:2")`` the third rank of a job."""

    kind: str
    field: str
    value: str
    from_ms: int
    to_ms: int
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError("faults.kind", self.kind, f"must be one of {', '.join(KINDS)}")
        if self.field not in TARGETS[KINDS[self.kind].scope]:
            raise ConfigError(
                "faults.field", self.field, f"must be one of {', '.join(TARGETS[KINDS[self.kind].scope])}"
            )
        if self.to_ms <= self.from_ms:
            raise ConfigError("faults.to_ms", self.to_ms, "must be above from_ms")
        kind = KINDS[self.kind]
        if not self.strength or not kind.least < self.strength <= kind.most:
            bound = f"must be {kind.strength}: not 0, above {kind.least:g}, at most {kind.most:g}"
            raise ConfigError("faults.strength", self.strength, bound)

    def level(self, at_ms: int) -> float:
        """How strong the fault is at a moment; 0 outside its interval."""
        if not self.from_ms <= at_ms < self.to_ms:
            return 0.0
        if KINDS[self.kind].ramp:
            return self.strength * (at_ms - self.from_ms) / (self.to_ms - self.from_ms)
        return self.strength


def faults_of(rows: Sequence[Mapping[str, Any]], begin_ms: int) -> tuple[Fault, ...]:
    """A schedule as read from a file: like ``Fault``, but ``from_s`` and ``to_s`` count from the begin of the run."""
    faults = []
    for row in rows:
        unknown = set(row) - {"kind", "field", "value", "from_s", "to_s", "strength"}
        missing = {"kind", "field", "from_s", "to_s"} - set(row)
        if unknown or missing:
            raise ConfigError(
                "faults", sorted(unknown | missing), "keys are kind, field, value, from_s, to_s, strength"
            )
        from_ms, to_ms = (begin_ms + round(float(row[name]) * 1_000) for name in ("from_s", "to_s"))
        strength = float(row.get("strength", 1.0))
        faults.append(Fault(str(row["kind"]), str(row["field"]), str(row.get("value", "")), from_ms, to_ms, strength))
    return tuple(faults)
