"""What an engine can do follows from its GPU and its model, by the roofline."""

from __future__ import annotations

import math

import pytest

from fleetpulse.equipment import GPU_TYPES, MEMORY_SHARE, MODELS, RUNTIME_BYTES
from lab.simulator.plan import (
    DECODE_EFFICIENCY,
    LOAD_BYTES_PER_S,
    PREFILL_EFFICIENCY,
    START_S,
    EnginePlan,
    HostPlan,
    Rates,
    engine_rates,
)

H100, LLAMA = GPU_TYPES["H100"], MODELS["llama-3.1-8b-instruct"]


def rates(precision: str, tensor_parallel: int, gpu_share: float = 1.0) -> Rates:
    """Of an engine on one host of H100."""
    engine = EnginePlan("e", "h", LLAMA.name, "1", precision, 0, tensor_parallel, gpu_share=gpu_share)
    return engine_rates(engine, HostPlan("h", "c", "r", "H100"))


def test_rates_are_the_formulas_of_the_roofline() -> None:
    """A prompt token costs two operations a parameter, a decode step reads the weights once."""
    found = rates("bf16", 1)

    weights = round(LLAMA.parameters * 2)
    room = int(H100.memory_bytes * MEMORY_SHARE) - RUNTIME_BYTES - weights
    assert found.weights_bytes_per_gpu == weights
    assert found.cache_tokens_max == room // LLAMA.cache_bytes_per_token()
    assert math.isclose(found.weights_us, weights / (H100.bandwidth_bytes_per_s * DECODE_EFFICIENCY) * 1e6)
    assert math.isclose(
        found.prefill_us_per_token, 2 * LLAMA.parameters / (H100.tflops_16_bit * 1e12 * PREFILL_EFFICIENCY) * 1e6
    )
    assert found.load_us == round((weights / LOAD_BYTES_PER_S + START_S) * 1e6)


def test_two_gpus_share_the_weights_and_prefill_twice_as_fast() -> None:
    """And hold more tokens; loading is not faster."""
    one, two = (rates("bf16", count) for count in (1, 2))

    assert two.weights_bytes_per_gpu * 2 == one.weights_bytes_per_gpu
    assert math.isclose(two.prefill_us_per_token * 2, one.prefill_us_per_token)
    assert two.cache_tokens_max > 2 * one.cache_tokens_max
    assert two.load_us == one.load_us


def test_eight_bits_are_half_the_weights_at_the_gpu_s_rate_of_eight_bits() -> None:
    """A decode step takes half the time."""
    wide, narrow = (rates(precision, 1) for precision in ("bf16", "fp8"))

    assert narrow.weights_bytes_per_gpu * 2 == wide.weights_bytes_per_gpu
    assert math.isclose(narrow.weights_us * 2, wide.weights_us)
    assert math.isclose(narrow.prefill_us_per_token * H100.tflops_8_bit, wide.prefill_us_per_token * H100.tflops_16_bit)


def test_weights_that_leave_no_room_for_a_cache_are_an_error() -> None:
    """It names model, precision and GPUs."""
    with pytest.raises(ValueError, match=r"llama-3\.1-8b-instruct in bf16 does not fit on 1 x NVIDIA H100"):
        rates("bf16", 1, gpu_share=0.2)
