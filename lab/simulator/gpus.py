"""What the GPUs show of the work of their engines: busy share, power, energy, heat, memory, clocks; vectorised.

All of it follows from what the engine kernel booked in the interval, so that the readings agree: ``energy_mj`` is the
difference of a counter that adds ``power_mw x interval`` exactly, memory is runtime + weights + cache (+ a leak),
temperature follows power with a time constant of half a minute. Prompts draw close to the power limit, decoding about
half of it (Patel et al., "Splitwise", ISCA 2024; "POLCA", ASPLOS 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetpulse.equipment import GPU_TYPES, MODELS, RUNTIME_BYTES, GpuType
from lab.simulator.plan import DECODE_EFFICIENCY, FleetPlan, Rates, engine_rates
from producers.engines.registry import placement_groups

PREFILL_DRAW, MEMORY_DRAW, OTHER_DRAW = 0.95, 0.55, 0.30
"""Share of the span between idle and limit drawn while computing prompts, reading weights, and otherwise busy."""
INLET_C = 26.0
DEGREES_PER_MW = 0.0375 / 1_000.0
"""Between the idle and the burning H100 of the nvidia-smi capture: 41 to 65 C for 70 to 636 W, with the inlet."""
SETTLING_S = 30.0
MEMORY_COOLER_C = 6.0
PCIE_LANES = 16
REASON_IDLE, REASON_THERMAL, REASON_BRAKE = 0x1, 0x40, 0x80
PREFILL_SM, MEMORY_SM = 0.95, 0.60
TENSOR_SHARE = 0.5
"""Tensor activity while computing: the share of peak operations that ``equipment.PREFILL_EFFICIENCY`` assumes."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gpus:
    """What does not change: one row per GPU, sorted by host. ``engine`` is -1 for a GPU without one, the first of those
    that share it (``sharing``)."""

    host: Ints
    engine: Ints
    uuid: list[str]
    type: list[GpuType]
    idle_mw: Floats
    limit_mw: Floats
    memory_total: Ints
    weights: Ints
    cache_bytes: Ints
    link_bytes: Floats
    clock_idle: Ints
    clock_max: Ints
    clock_memory: Ints
    has_memory_sensor: npt.NDArray[np.bool_]
    has_gpm: npt.NDArray[np.bool_]
    has_link: npt.NDArray[np.bool_]
    silicon: Floats
    inlet_c: Floats
    sharing: Sharing


def gpus_of(plan: FleetPlan, random: np.random.Generator) -> Gpus:
    """The GPUs of a plan; serial numbers and the spread of silicon and cooling are drawn."""
    on = holders(plan)
    hosts = {host.name: host for host in plan.hosts}
    rates = [engine_rates(engine, hosts[engine.host]) for engine in plan.engines]
    places = [(h, slot) for h, host in enumerate(plan.hosts) for slot in range(host.gpus)]
    types = [GPU_TYPES[plan.hosts[h].gpu_type] for h, _ in places]
    engine = np.array([on.get((plan.hosts[h].name, slot), [-1])[0] for h, slot in places], np.int64)
    ids = random.integers(0, 2**32, (len(places), 4))
    return Gpus(
        host=np.array([h for h, _ in places], np.int64),
        engine=engine,
        uuid=[_uuid(row) for row in ids.tolist()],
        type=types,
        idle_mw=_of(types, "idle_mw", np.float64),
        limit_mw=_of(types, "limit_mw", np.float64),
        memory_total=_of(types, "memory_bytes", np.int64),
        weights=_per_engine(rates, "weights_bytes_per_gpu", engine),
        cache_bytes=_per_engine(rates, "cache_bytes_per_token_per_gpu", engine),
        link_bytes=np.array([_link_bytes(plan, index) for index in engine], np.float64),
        clock_idle=_of(types, "clock_idle_mhz", np.int64),
        clock_max=_of(types, "clock_max_mhz", np.int64),
        clock_memory=_of(types, "clock_memory_mhz", np.int64),
        has_memory_sensor=_of(types, "has_memory_sensor", np.bool_),
        has_gpm=_of(types, "has_gpm", np.bool_),
        has_link=_of(types, "has_nvlink", np.bool_),
        silicon=random.uniform(0.97, 1.03, len(places)),
        inlet_c=INLET_C + random.uniform(0.0, 6.0, len(places)),
        sharing=_sharing([on.get((plan.hosts[h].name, slot), []) for h, slot in places], rates),
    )


def _sharing(on: list[list[int]], rates: list[Rates]) -> Sharing:
    pairs = [(gpu, engine, engine == each[0]) for gpu, each in enumerate(on) if len(each) > 1 for engine in each]
    engines = np.array([engine for _, engine, _ in pairs], np.int64)
    return Sharing(
        gpu=np.array([gpu for gpu, _, _ in pairs], np.int64),
        engine=engines,
        weights=_per_engine(rates, "weights_bytes_per_gpu", engines),
        cache_bytes=_per_engine(rates, "cache_bytes_per_token_per_gpu", engines),
        first=np.array([first for _, _, first in pairs], np.bool_),
    )


def _uuid(parts: list[int]) -> str:
    digits = "".join(f"{part:08x}" for part in parts)
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _of(types: list[GpuType], name: str, dtype: Any) -> npt.NDArray[Any]:
    return np.array([getattr(type_, name) for type_ in types], dtype)


def _per_engine(rates: list[Rates], name: str, engine: Ints) -> Ints:
    return np.array([getattr(rates[index], name) if index >= 0 else 0 for index in engine], np.int64)


def _link_bytes(plan: FleetPlan, index: int) -> float:
    """Bytes a GPU sends its group per token: two ring all-reduces of a hidden vector in 16 bit per layer."""
    if index < 0:
        return 0.0
    engine = plan.engines[index]
    model, width = MODELS[engine.model], engine.tensor_parallel
    return 2 * model.layers * model.hidden_size * 2 * 2 * (width - 1) / width


@dataclass(frozen=True, slots=True)
class Work:
    """What each GPU did in an interval, and the state it is in at its end."""

    interval_ms: int
    busy_us: Ints
    prefill_us: Floats
    memory_us: Floats
    moved_tokens: Floats
    cache_tokens: Ints
    alive: npt.NDArray[np.bool_]
    loaded_share: Floats
    heat: Floats
    brake: Floats
    leak: Floats
    no_tensor: npt.NDArray[np.bool_]
    lanes_lost: Floats
    link_errors: Floats
    """A second."""
    beside_bytes: Ints
    """Memory of the engines that share the GPU, but the first."""


class GpuMeters:
    """The counters and temperatures of all GPUs."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._energy_uj: Ints = np.zeros(len(gpus.host), np.int64)
        self._celsius: Floats = gpus.inlet_c + DEGREES_PER_MW * gpus.idle_mw

    def read(self, work: Work) -> dict[str, npt.NDArray[Any]]:
        """The measures of one sample of every GPU, by field name (whole numbers in the field's unit)."""
        gpus = self._gpus
        interval_us = work.interval_ms * 1_000
        clock = (1.0 - work.heat) * (1.0 - work.brake)
        power = self._power(work, clock)
        before = self._energy_uj // 1_000
        self._energy_uj += power * work.interval_ms
        self._settle(power, work)
        busy = work.busy_us > 0
        prompts, reads = work.prefill_us / interval_us, work.memory_us / interval_us
        sent = (work.moved_tokens * gpus.link_bytes).astype(np.int64)
        return {
            "util_gpu_pct": work.busy_us * 100 // interval_us,
            "util_memory_pct": (reads * 100.0).astype(np.int64),
            "power_mw": power,
            "power_limit_mw": gpus.limit_mw,
            "temperature_c": np.rint(self._celsius),
            "temperature_memory_c": np.rint(np.maximum(self._celsius - MEMORY_COOLER_C, gpus.inlet_c)),
            "clock_sm_mhz": np.where(busy, np.rint(gpus.clock_max * clock), gpus.clock_idle),
            "clock_memory_mhz": gpus.clock_memory,
            "sm_active_ppm": 1e6 * (PREFILL_SM * prompts + MEMORY_SM * reads),
            "tensor_active_ppm": 1e6 * TENSOR_SHARE * np.where(work.no_tensor, 0.0, prompts),
            "dram_active_ppm": 1e6 * DECODE_EFFICIENCY * reads,
            "memory_used_bytes": self._memory(work),
            "memory_total_bytes": gpus.memory_total,
            "interval_ms": np.full(len(power), work.interval_ms),
            "energy_mj": self._energy_uj // 1_000 - before,
            "throttled_us": (throttled := np.where(clock < 1.0, interval_us, 0)),
            "throttled_fault_us": throttled,
            "pcie_width": np.maximum(1, np.rint(PCIE_LANES * (1.0 - work.lanes_lost))),
            "pcie_width_max": np.full(len(power), PCIE_LANES),
            "pcie_replays": np.zeros(len(power)),
            "nvlink_errors": work.link_errors * work.interval_ms / 1_000.0,
            "pcie_tx_bytes": work.moved_tokens * 64.0,
            "pcie_rx_bytes": work.moved_tokens * 16.0,
            "nvlink_tx_bytes": sent,
            "nvlink_rx_bytes": sent,
            "clock_reasons": np.where(busy, 0, REASON_IDLE)
            | np.where(work.heat > 0, REASON_THERMAL, 0)
            | np.where(work.brake > 0, REASON_BRAKE, 0),
        }

    def _power(self, work: Work, clock: Floats) -> Ints:
        gpus = self._gpus
        interval_us = work.interval_ms * 1_000
        rest = work.busy_us - work.prefill_us - work.memory_us
        drawn = PREFILL_DRAW * work.prefill_us + MEMORY_DRAW * work.memory_us + OTHER_DRAW * rest
        power = gpus.idle_mw + (gpus.limit_mw - gpus.idle_mw) * drawn / interval_us * clock * gpus.silicon
        return np.minimum(np.rint(power), gpus.limit_mw).astype(np.int64)

    def _settle(self, power: Ints, work: Work) -> None:
        target = self._gpus.inlet_c + DEGREES_PER_MW * power
        target = np.where(work.heat > 0, np.maximum(target, 87.0), target)
        self._celsius += (target - self._celsius) * (1.0 - exp(-work.interval_ms / 1_000.0 / SETTLING_S))

    def _memory(self, work: Work) -> Ints:
        gpus = self._gpus
        held = (
            RUNTIME_BYTES + (gpus.weights * work.loaded_share).astype(np.int64) + work.cache_tokens * gpus.cache_bytes
        )
        used = np.where(work.alive, held, 0) + work.beside_bytes
        free = np.maximum(gpus.memory_total - used, 0)
        return used + (free * np.minimum(work.leak, 1.0)).astype(np.int64)


PROCESSES_EVERY_MS = 10_000


@dataclass(frozen=True, slots=True)
class Sharing:
    """A row for each engine on a GPU that several share, by GPU: indexes of both, and bytes of the engine's weights and
    of a token in its cache. ``first``: the engine that the GPU counts as its own.

    Such a GPU names no engine, as the agent has it; every ten seconds each process on it is reported. Work that is more
    than the time there is is scaled down to fit. Simplified: engines side by side do not slow each other.
    """

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
