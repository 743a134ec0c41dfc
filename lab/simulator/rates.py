"""What an engine can do, by the roofline: step times, cache sizes, time to load.

Rates are not listed but derived: a prompt token costs 2 x parameters operations, a decode step reads all weights and
the cache of the batch once.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleetpulse.equipment import MEMORY_SHARE, RUNTIME_BYTES, GpuType, Model

PREFILL_EFFICIENCY = 0.5
"""Share of peak operations that a prompt reaches; assumed, in the middle of what vLLM and DistServe report."""
DECODE_EFFICIENCY = 0.6
"""Share of peak bandwidth that a decode step reaches; assumed likewise."""
STEP_OVERHEAD_US = 1_500.0
"""Scheduling and launching of one step, host side."""
LOAD_BYTES_PER_S = 2e9
"""Weights from disk to GPU while an engine starts cold."""
START_S = 15.0
"""Process start, graph capture and warm-up beside loading."""
PRECISION_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class Rates:
    """What an engine (model, precision, ``tensor_parallel`` GPUs of one type) can do; times in microseconds."""

    weights_bytes_per_gpu: int
    cache_bytes_per_token_per_gpu: int
    cache_tokens_max: int
    weights_us: float
    cache_us_per_token: float
    prefill_us_per_token: float
    load_us: int


def rates(gpu: GpuType, model: Model, precision: str, tensor_parallel: int, gpu_share: float = 1.0) -> Rates:
    """Rates of an engine by the roofline, with its share of the GPU's memory. ``ValueError`` when the weights leave no
    room for a cache."""
    weights = round(model.parameters * PRECISION_BYTES[precision])
    per_gpu = -(-weights // tensor_parallel)
    cache = max(1, model.cache_bytes_per_token() // tensor_parallel)
    room = int(gpu.memory_bytes * MEMORY_SHARE * gpu_share) - RUNTIME_BYTES - per_gpu
    if room < cache * 1_024:
        raise ValueError(f"{model.name} in {precision} does not fit on {tensor_parallel} x {gpu.name}")
    tflops = gpu.tflops_8_bit if PRECISION_BYTES[precision] == 1 else gpu.tflops_16_bit
    bandwidth = gpu.bandwidth_bytes_per_s * DECODE_EFFICIENCY
    return Rates(
        weights_bytes_per_gpu=per_gpu,
        cache_bytes_per_token_per_gpu=cache,
        cache_tokens_max=room // cache,
        weights_us=per_gpu / bandwidth * 1e6,
        cache_us_per_token=cache / bandwidth * 1e6,
        prefill_us_per_token=2.0 * model.parameters / (tflops * 1e12 * PREFILL_EFFICIENCY * tensor_parallel) * 1e6,
        load_us=round((weights / LOAD_BYTES_PER_S + START_S) * 1e6),
    )
