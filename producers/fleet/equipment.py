"""GPU types and models as data, and what follows from them: step times, cache sizes, power.

Rates are not listed but derived by the roofline: a prompt token costs 2 x parameters operations, a decode step reads
all weights and the cache of the batch once. Peak numbers are the dense ones of NVIDIA's data sheets; memory, idle
power and clocks are those that nvidia-smi, DCGM or NVML showed (captures of 2026-03 and 2026-07, tests/data).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
GIB = 1024 * MIB

PREFILL_EFFICIENCY = 0.5
"""Share of peak operations that a prompt reaches; assumed, in the middle of what vLLM and DistServe report."""
DECODE_EFFICIENCY = 0.6
"""Share of peak bandwidth that a decode step reaches; assumed likewise."""
MEMORY_SHARE = 0.9
"""Share of a GPU's memory the engine may fill (vLLM's default of gpu_memory_utilization)."""
RUNTIME_BYTES = GIB
"""CUDA context, graphs and activations of one engine on one GPU."""
STEP_OVERHEAD_US = 1_500.0
"""Scheduling and launching of one step, host side."""
LOAD_BYTES_PER_S = 2e9
"""Weights from disk to GPU while an engine starts cold."""
START_S = 15.0
"""Process start, graph capture and warm-up beside loading."""


@dataclass(frozen=True, slots=True)
class GpuType:
    """``tflops`` by bytes per weight (dense); null sensors and counters are those the type does not have."""

    name: str
    memory_bytes: int
    tflops_16_bit: float
    tflops_8_bit: float
    bandwidth_bytes_per_s: float
    idle_mw: int
    limit_mw: int
    clock_idle_mhz: int
    clock_max_mhz: int
    clock_memory_mhz: int
    has_memory_sensor: bool
    has_gpm: bool
    has_nvlink: bool
    source: str


GPU_TYPES = {
    "H100": GpuType(
        "NVIDIA H100 80GB HBM3",
        81_559 * MIB,
        989.0,
        1_979.0,
        3.35e12,
        69_850,
        700_000,
        345,
        1_980,
        2_619,
        True,
        True,
        True,
        "H100 data sheet (SXM5); nvidia-smi 590.48.01 capture of 2026-07-14",
    ),
    "H200": GpuType(
        "NVIDIA H200",
        143_771 * MIB,
        989.0,
        1_979.0,
        4.8e12,
        77_710,
        700_000,
        345,
        1_980,
        3_201,
        True,
        True,
        True,
        "H200 data sheet (SXM); nvidia-smi 590.48.01 capture of 2026-07-03",
    ),
    "A100": GpuType(
        "NVIDIA A100-SXM4-80GB",
        81_920 * MIB,
        312.0,
        624.0,
        2.039e12,
        72_000,
        400_000,
        210,
        1_410,
        1_593,
        True,
        False,
        True,
        "A100 data sheet (SXM4 80 GB); idle power and clocks of NVIDIA's mock NVML A100 profile",
    ),
    "L40S": GpuType(
        "NVIDIA L40S",
        46_068 * MIB,
        362.0,
        733.0,
        0.864e12,
        35_686,
        350_000,
        210,
        2_520,
        9_001,
        False,
        False,
        False,
        "L40S data sheet; nvidia-smi 595.80 capture of 2026-07-03, DCGM scrape of upcloud",
    ),
    "B200": GpuType(
        "NVIDIA B200",
        183_359 * MIB,
        2_250.0,
        4_500.0,
        7.7e12,
        130_000,
        1_000_000,
        345,
        2_100,
        3_996,
        True,
        True,
        True,
        "HGX B200 data sheet (180 GB); idle power and clocks of NVIDIA's mock NVML B200 profile",
    ),
}
"""By short name."""


@dataclass(frozen=True, slots=True)
class Model:
    """What of a model decides its speed and its cache. Source: ``config.json`` of the published weights."""

    name: str
    parameters: float
    layers: int
    kv_heads: int
    head_size: int
    hidden_size: int

    def cache_bytes_per_token(self) -> int:
        """Keys and values of one token in 16 bit, whole model."""
        return 2 * self.layers * self.kv_heads * self.head_size * 2


MODELS = {
    model.name: model
    for model in (
        Model("llama-3.1-8b-instruct", 8.03e9, 32, 8, 128, 4_096),
        Model("llama-3.3-70b-instruct", 70.55e9, 80, 8, 128, 8_192),
        Model("qwen2.5-72b-instruct", 72.7e9, 80, 8, 128, 8_192),
        Model("qwen2.5-coder-7b-instruct", 7.62e9, 28, 4, 128, 3_584),
        Model("qwen2.5-coder-32b-instruct", 32.76e9, 64, 8, 128, 5_120),
    )
}

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
