"""Compute of an engine: operations of its tokens, and how much of its GPUs' peak they are. Pure.

Operations are 2 x active parameters x tokens computed (prompt tokens not found in cache, and generated ones); attention
is left out. Parameters are what the engine reported, else those of the published model of this name
(``fleetpulse.equipment``), else unknown. The peak is the dense one of the GPU type for the precision
(``fleetpulse.report.capacity.GPUS``, each with its source); of a MIG device nobody publishes one, and slices do not
divide a GPU's processors evenly. Whatever is unknown makes the result None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.report.capacity import GPUS, PRECISION_BITS, SHAPES, Gpu, Shape

SXM_ONLY, OTHER_FORMS = frozenset({"H100", "H200"}), frozenset({"PCIE", "NVL"})
"""Types whose cards of these forms have lower peaks than the SXM modules in the table."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Over a range; ``utilisation`` is model FLOPs utilisation, 1 is all of the GPUs' peak."""

    flops_per_s: float | None = None
    peak_flops: float | None = None
    tensor_active: float | None = None

    @property
    def utilisation(self) -> float | None:
        """None where operations or peak are unknown."""
        return None if self.flops_per_s is None or not self.peak_flops else self.flops_per_s / self.peak_flops


def shape_of(model: str | None) -> Shape | None:
    """The published model of a name, with or without its organisation; None for any other."""
    return SHAPES.get((model or "").lower().rsplit("/", 1)[-1].removeprefix("meta-"))


def gpu_of(product: str | None) -> Gpu | None:
    """The GPU type of a product name as NVML shows it; None for one that is not in the table."""
    words = (product or "").upper().replace("-", " ").split()
    joined = "".join(words)
    if OTHER_FORMS & set(words) and SXM_ONLY & set(words):
        return None
    found = [gpu for key, gpu in GPUS.items() if key in words or (key.startswith("RTX") and key in joined)]
    return found[0] if len(found) == 1 else None


def active_parameters(facts: Mapping[str, Any], model: str | None) -> float | None:
    """As the engine reported them, else of the published model."""
    reported = facts.get("active_parameters") or facts.get("parameters")
    shape = shape_of(model)
    return reported or (shape.active_parameters if shape else None)


def estimated_bytes(facts: Mapping[str, Any], model: str | None, precision: str | None) -> int | None:
    """Weights of the whole model: as the engine reported them, else parameters x bits of the precision."""
    if facts.get("weight_bytes"):
        return int(facts["weight_bytes"])
    shape = shape_of(model)
    parameters, bits = (
        facts.get("parameters") or (shape.parameters if shape else None),
        PRECISION_BITS.get(precision or ""),
    )
    return None if parameters is None or bits is None else round(parameters * bits / 8)


def compute_of(
    rows: Sequence[Mapping[str, Any]],
    gpus: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    model: str | None,
    precision: str | None,
) -> Compute:
    """From an engine's tokens over a range, its GPUs and what is known of it. GPUs of several engines count whole."""
    known = [row["tensor_active"] for row in gpus if row["tensor_active"] is not None]
    tensor = sum(known) / len(known) if known else None
    covered_ms = sum(row["covered_for_ms"] or 0 for row in rows)
    generated = [row["generated_tokens"] for row in rows if row["generated_tokens"] is not None]
    prompt = [row["prompt_tokens"] - (row["hit_tokens"] or 0) for row in rows if row["prompt_tokens"] is not None]
    parameters = active_parameters(facts, model)
    flops = None
    if parameters is not None and covered_ms and generated and prompt:
        flops = 2.0 * parameters * (sum(generated) + sum(prompt)) * 1_000 / covered_ms
    peaks = [None if row["part_of_gpu"] else _peak(row["gpu_type"], precision) for row in gpus]
    known_peaks = [peak for peak in peaks if peak is not None]
    whole = known_peaks and len(known_peaks) == len(peaks)
    return Compute(flops, sum(known_peaks) if whole else None, tensor)


def _peak(product: str | None, precision: str | None) -> float | None:
    gpu = gpu_of(product)
    if gpu is None or precision not in PRECISION_BITS:
        return None
    tflops = gpu.peak_tflops(precision)
    return None if tflops is None else tflops * 1e12
