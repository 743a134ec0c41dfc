"""GPUs that engines share side by side: who holds which, what each holds of it, and the processes that are reported.

Engines of ``gpu_share`` below 1 may stand on one GPU. The GPU then names no engine, as the agent has it, and every ten
seconds each process on it is reported. Their work adds up to the GPU's; where that is more than the time there is, all
of it is scaled down to fit. Simplified: engines side by side do not slow each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fleetpulse.equipment import RUNTIME_BYTES
from lab.simulator.plan import FleetPlan
from producers.engines.registry import placement_groups

PROCESSES_EVERY_MS = 10_000
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sharing:
    """A row for each engine on a GPU that several share, by GPU: indexes of both, and bytes of the engine's weights and
    of a token in its cache. ``first``: the engine that the GPU counts as its own."""

    gpu: Ints
    engine: Ints
    weights: Ints
    cache_bytes: Ints
    first: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.gpu)

    def held_bytes(self, loaded: npt.NDArray[np.float64], cache_tokens: Ints) -> Ints:
        """Memory of each process. ``loaded`` (share of the weights) and ``cache_tokens`` are by engine."""
        weights = (self.weights * loaded[self.engine]).astype(np.int64)
        return RUNTIME_BYTES + weights + cache_tokens[self.engine] * self.cache_bytes


def holders(plan: FleetPlan) -> dict[tuple[str, int], list[int]]:
    """Engines (their places in the plan) by host and slot of a GPU."""
    found: dict[tuple[str, int], list[int]] = {}
    for index, engine in enumerate(plan.engines):
        for offset in range(engine.tensor_parallel):
            found.setdefault((engine.host, engine.first_gpu + offset), []).append(index)
    return found


def groups_of(plan: FleetPlan) -> list[str]:
    """The placement group of each engine, named as the agent names it."""
    gpus: dict[str, list[str]] = {engine.engine_id: [] for engine in plan.engines}
    for (host, slot), on in holders(plan).items():
        for index in on:
            gpus[plan.engines[index].engine_id].append(f"{host}:{slot}")
    named = placement_groups(gpus, "")
    return [named[engine.engine_id] for engine in plan.engines]
