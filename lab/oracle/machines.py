"""Readings of GPUs, counted one by one: how busy, how hot, how hungry. Plain loops, without SQL or formulas of ours."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of ``gpu.samples`` that was accepted."""

    at_ms: int
    gpu_uuid: str
    gpu_model: str
    util_gpu_pct: int | None
    temperature_c: int | None
    power_mw: int | None
    energy_mj: int | None


def readings(samples: Sequence[Sample], from_ms: int, to_ms: int) -> dict[tuple[str, str], float]:
    """By type, by GPU and of all; of windows of ten seconds that begin in the range. What nobody knows is not there."""
    groups: dict[str, list[Sample]] = {}
    first, last = (bisect_left(samples, one, key=lambda row: row.at_ms) for one in (from_ms, to_ms + 10_000))
    for one in samples[first:last]:
        if from_ms <= one.at_ms - one.at_ms % 10_000 < to_ms:
            for name in ("all", f"gpu_model={one.gpu_model}", f"gpu={one.gpu_uuid}"):
                groups.setdefault(name, []).append(one)
    found: dict[tuple[str, str], float] = {}
    for name, group in groups.items():
        found["gpus", name] = len({one.gpu_uuid for one in group})
        if busy := [one.util_gpu_pct for one in group if one.util_gpu_pct is not None]:
            found["util_pct", name] = sum(busy) / len(busy)
        if hot := [one.temperature_c for one in group if one.temperature_c is not None]:
            found["hottest_c", name] = max(hot)
        if power := [one.power_mw for one in group if one.power_mw is not None]:
            found["power_mw", name] = sum(power) / len(power)
        found["gpu_energy_mj", name] = sum(one.energy_mj or 0 for one in group)
    return found
