"""What a model needs and a GPU has: memory for weights, cache and training; operations and their use. Pure.

Formulas, each the common one of the field, so that anybody can follow them by hand:

- weights: parameters x bytes of the precision;
- KV cache: 2 x layers x KV heads x head size x bytes x tokens (multi-head latent attention: the latent and the rotated
  part of each layer, once);
- activations: of one layer at a time, 34 bytes for each value of the hidden state of the tokens in a step (Korthikanti
  et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", what is linear in the sequence);
- training: six times the weights in all: optimizer 2, gradients 1, activations 1, buffers 2, of which the weights
  themselves are one; a ZeRO stage divides more of them among the GPUs (Rajbhandari et al. 2020, "ZeRO");
- operations of a token: 2 x parameters that take part (a mixture of experts: the active ones), attention left out;
- model FLOPs utilisation: operations of the tokens per second / dense peak of the GPUs (Chowdhery et al. 2022, PaLM).

GPU types and models are data of ``fleetpulse.equipment``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fleetpulse.equipment import GPU_TYPES, MEMORY_SHARE, MIB, MODELS, RUNTIME_BYTES
from schemas.errors import ConfigError

PRECISION_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4, "fp4": 4}
CACHE_BITS = {"bf16": 16, "fp16": 16, "fp8": 8}
TRAINING_TIMES = {"optimizer": 2, "gradients": 1, "activations": 1, "buffers": 1}
"""Beside the weights, which are the other one of the buffers."""
ZERO_DIVIDES = ((), ("optimizer",), ("optimizer", "gradients"), tuple(TRAINING_TIMES))
"""By ZeRO stage what is divided among the GPUs; stage 3 divides the weights as well."""
ACTIVATION_BYTES = 34
"""Of one value of the hidden state, one layer."""
STEP_TOKENS = 8_192
"""Tokens of one step: vLLM's ``max_num_batched_tokens`` for serving."""
GPUS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU type: memory as NVML shows it, dense peaks in 1e12 operations a second (None: no such unit)."""

    name: str
    memory_bytes: int
    tflops_16_bit: float
    tflops_8_bit: float | None
    source: str

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak for a model of this precision; None where there is none. 4-bit weights are computed with in 16."""
        if precision == "fp32" or (self.name, precision) in _LACKING:
            return None
        return self.tflops_8_bit if PRECISION_BITS[precision] == 8 else self.tflops_16_bit


@dataclass(frozen=True, slots=True)
class Shape:
    """A model as its ``config.json`` describes it; ``cache_values`` are numbers kept for each token, all layers."""

    name: str
    parameters: float
    active_parameters: float
    layers: int
    kv_heads: int
    hidden_size: int
    cache_values: int
    source: str


_LACKING = {("A100", "fp8"), ("RTX3090", "fp8"), ("T4", "fp8"), ("T4", "bf16")}
"""Precisions for which a type has no units: its 8-bit peak is that of whole numbers."""
GPUS: dict[str, Gpu] = {
    **{
        name: Gpu(name, one.memory_bytes, one.tflops_16_bit, one.tflops_8_bit, one.source)
        for name, one in GPU_TYPES.items()
    },
    "RTX3090": Gpu("RTX3090", 24_576 * MIB, 71.0, 284.0, "NVIDIA Ampere GA102 whitepaper, FP32 accumulation, dense"),
    "RTX4090": Gpu("RTX4090", 24_564 * MIB, 165.2, 330.3, "NVIDIA Ada whitepaper, FP32 accumulation, dense"),
    "RTX5090": Gpu("RTX5090", 32_607 * MIB, 209.5, 419.0, "NVIDIA RTX Blackwell whitepaper, FP32 accumulation, dense"),
    "L4": Gpu("L4", 23_034 * MIB, 121.0, 242.0, "L4 data sheet (without sparsity); DCGM scrape of kops"),
    "T4": Gpu("T4", 15_360 * MIB, 65.0, 130.0, "T4 data sheet; DCGM scrape of rafay"),
}


def grouped(
    name: str, parameters: float, layers: int, kv_heads: int, head_size: int, hidden_size: int, source: str
) -> Shape:
    """A dense model with grouped-query attention."""
    values = 2 * layers * kv_heads * head_size
    return Shape(name, parameters, parameters, layers, kv_heads, hidden_size, values, source)


_CONFIG = "config.json of the published weights"
SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        *(
            grouped(one.name, one.parameters, one.layers, one.kv_heads, one.head_size, one.hidden_size, _CONFIG)
            for one in MODELS.values()
        ),
        grouped("qwen2.5-0.5b-instruct", 0.494e9, 24, 2, 64, 896, _CONFIG),
        grouped("llama-3.1-405b-instruct", 405.85e9, 126, 8, 128, 16_384, _CONFIG),
        Shape(
            "mixtral-8x7b-instruct",
            46.7e9,
            12.9e9,
            32,
            8,
            4_096,
            2 * 32 * 8 * 128,
            f"{_CONFIG}; parameters: announcement of 2023-12-11",
        ),
        Shape(
            "deepseek-v3",
            671e9,
            37e9,
            61,
            1,
            7_168,
            61 * (512 + 64),
            f"{_CONFIG} (kv_lora_rank 512, rotated 64); parameters: technical report",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Load:
    """What a model is to do: precisions, tokens of context of each of ``concurrent`` requests, tokens of a step."""

    precision: str = "bf16"
    cache_precision: str = "bf16"
    context_tokens: int = 8_192
    concurrent: int = 16
    step_tokens: int = STEP_TOKENS
    training: bool = False
    zero_stage: int = 3
    """Of training: 0 keeps everything on every GPU, 3 divides all of it (as FSDP does)."""

    def __post_init__(self) -> None:
        _one_of("--precision", self.precision, PRECISION_BITS)
        _one_of("--kv-precision", self.cache_precision, CACHE_BITS)


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of the whole model. ``training_bytes`` stand beside the weights; serving has none, training no cache."""

    weights_bytes: int
    cache_bytes: int
    activations_bytes: int
    training_bytes: int
    cache_bytes_per_token: int
    divided_bytes: int
    """Of weights and training state, what GPUs share among them; the rest is on every one."""

    def total_bytes(self) -> int:
        """All of it once, without what every GPU keeps for itself."""
        return self.weights_bytes + self.cache_bytes + self.activations_bytes + self.training_bytes


@dataclass(frozen=True, slots=True)
class Fit:
    """On a GPU type: how many it takes (None: more than ``GPUS_MAX``), what each then holds of what it may."""

    gpu: str
    gpus: int | None
    bytes_per_gpu: int | None
    usable_bytes: int
    cache_tokens_max: int | None
    """Tokens that fit into the cache when weights and activations are in place; None for training."""


def _one_of(key: str, value: str, allowed: dict[str, Any]) -> None:
    if value not in allowed:
        raise ConfigError(key, value, f"must be one of {', '.join(allowed)}")


def known_gpu(name: str) -> Gpu:
    """A GPU type by its short name in any case; ``ConfigError`` lists those there are."""
    _one_of("--gpu", name.upper(), GPUS)
    return GPUS[name.upper()]


def known_shape(name: str) -> Shape:
    """A model by its name in any case; ``ConfigError`` lists those there are."""
    wanted = name.lower().rsplit("/", 1)[-1]
    if wanted not in SHAPES:
        raise ConfigError("model", name, f"must be one of {', '.join(SHAPES)}, or be given by --parameters and others")
    return SHAPES[wanted]


def need(shape: Shape, load: Load) -> Need:
    """Memory of a model for a load, all of its GPUs together."""
    weights = round(shape.parameters * PRECISION_BITS[load.precision] / 8)
    per_token = shape.cache_values * CACHE_BITS[load.cache_precision] // 8
    if load.training:
        divided = sum(TRAINING_TIMES[part] for part in ZERO_DIVIDES[load.zero_stage]) + (load.zero_stage == 3)
        return Need(weights, 0, 0, weights * sum(TRAINING_TIMES.values()), per_token, weights * divided)
    cache = per_token * load.context_tokens * load.concurrent
    return Need(weights, cache, load.step_tokens * shape.hidden_size * ACTIVATION_BYTES, 0, per_token, weights)


def fit(shape: Shape, load: Load, gpu: Gpu) -> Fit:
    """The least number of GPUs, a power of two, that hold it.

    Weights are divided evenly, training state as its ZeRO stage divides it; the cache by at most the number of KV heads
    (beyond that every GPU keeps a copy of a head); activations and the engine's own memory are on every GPU. An engine
    fills 90 % of a GPU.
    """
    wanted, usable = need(shape, load), int(gpu.memory_bytes * MEMORY_SHARE)
    gpus = 1
    while gpus <= GPUS_MAX:
        whole = wanted.weights_bytes + wanted.training_bytes - wanted.divided_bytes + wanted.activations_bytes
        fixed = -(-wanted.divided_bytes // gpus) + whole + RUNTIME_BYTES
        parts = min(gpus, shape.kv_heads)
        held = fixed + -(-wanted.cache_bytes // parts)
        if held <= usable:
            room = None if load.training else (usable - fixed) * parts // wanted.cache_bytes_per_token
            return Fit(gpu.name, gpus, held, usable, room)
        gpus *= 2
    return Fit(gpu.name, None, None, usable, None)


def operations(shape: Shape, tokens: float) -> float:
    """Operations of a forward pass over so many tokens, prompt and generated alike."""
    return 2.0 * shape.active_parameters * tokens


def utilisation(shape: Shape, tokens_per_s: float, gpu: Gpu, gpus: int, precision: str) -> float | None:
    """Model FLOPs utilisation of a measured rate (prompt tokens computed + generated), 1 is all; None: no peak."""
    peak = gpu.peak_tflops(precision)
    return None if peak is None else operations(shape, tokens_per_s) / (peak * 1e12 * gpus)


def as_data(shape: Shape, load: Load, gpus: list[Gpu]) -> dict[str, Any]:
    """Everything of the answer, for people and programs."""
    wanted = need(shape, load)
    return {
        "model": asdict(shape),
        "load": asdict(load),
        "need": {**asdict(wanted), "total_bytes": wanted.total_bytes()},
        "operations_per_token": operations(shape, 1),
        "fits": [asdict(fit(shape, load, gpu)) | {"source": gpu.source} for gpu in gpus],
    }
