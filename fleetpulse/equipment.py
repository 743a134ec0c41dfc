"""GPU types and models as data: memory, dense peak rates, power, clocks, shapes.

Peak numbers are the dense ones of NVIDIA's data sheets; memory, idle power and clocks are those that nvidia-smi, DCGM
or NVML showed (captures of 2026-03 and 2026-07, tests/data).
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
GIB = 1024 * MIB

MEMORY_SHARE = 0.9
"""Share of a GPU's memory the engine may fill (vLLM's default of gpu_memory_utilization)."""
RUNTIME_BYTES = GIB
"""CUDA context, graphs and activations of one engine on one GPU."""


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


# fmt: off
GPU_TYPES = {
    "H100": GpuType("NVIDIA H100 80GB HBM3", 81_559 * MIB, 989.0, 1_979.0, 3.35e12, 69_850, 700_000, 345, 1_980, 2_619,
                    True, True, True, "H100 data sheet (SXM5); nvidia-smi 590.48.01 capture of 2026-07-14"),
    "H200": GpuType("NVIDIA H200", 143_771 * MIB, 989.0, 1_979.0, 4.8e12, 77_710, 700_000, 345, 1_980, 3_201,
                    True, True, True, "H200 data sheet (SXM); nvidia-smi 590.48.01 capture of 2026-07-03"),
    "A100": GpuType("NVIDIA A100-SXM4-80GB", 81_920 * MIB, 312.0, 624.0, 2.039e12, 72_000, 400_000, 210, 1_410, 1_593,
                    True, False, True,
                    "A100 data sheet (SXM4 80 GB); idle power and clocks of NVIDIA's mock NVML A100 profile"),
    "L40S": GpuType("NVIDIA L40S", 46_068 * MIB, 362.0, 733.0, 0.864e12, 35_686, 350_000, 210, 2_520, 9_001,
                    False, False, False,
                    "L40S data sheet; nvidia-smi 595.80 capture of 2026-07-03, DCGM scrape of upcloud"),
    "B200": GpuType("NVIDIA B200", 183_359 * MIB, 2_250.0, 4_500.0, 7.7e12, 130_000, 1_000_000, 345, 2_100, 3_996,
                    True, True, True,
                    "HGX B200 data sheet (180 GB); idle power and clocks of NVIDIA's mock NVML B200 profile"),
}
# fmt: on
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
