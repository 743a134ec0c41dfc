"""Model FLOPs utilisation of an engine, by hand; and what is unknown stays so."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.report.capacity import GPUS
from fleetpulse.report.compute import Compute, active_parameters, compute_of, estimated_bytes, gpu_of, shape_of

ROWS = [{"covered_for_ms": 10_000, "generated_tokens": 1_000, "prompt_tokens": 21_000, "hit_tokens": 2_000}]
H100 = {"gpu_type": "NVIDIA H100 80GB HBM3", "part_of_gpu": None, "tensor_active": 0.5}
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def test_utilisation_of_an_engine_is_its_operations_over_its_gpus_peak() -> None:
    """20,000 tokens in 10 s at 2 x 8.03e9: 32.12 TFLOP/s of two H100 at 989: 1.62 %. Tokens from cache cost nothing."""
    found = compute_of(ROWS, [H100, H100], {}, LLAMA_8B, "bf16")

    assert found.flops_per_s == pytest.approx(2 * 8.03e9 * 2_000)
    assert found.peak_flops == pytest.approx(2 * 989e12)
    assert found.utilisation == pytest.approx(0.01624, rel=1e-3)
    assert found.tensor_active == 0.5


def test_what_the_engine_reports_comes_before_the_published_model() -> None:
    """A mixture of experts counts its active parameters."""
    assert active_parameters({"parameters": 5, "active_parameters": 3}, LLAMA_8B) == 3
    assert active_parameters({"parameters": 5, "active_parameters": None}, LLAMA_8B) == 5
    assert active_parameters({}, LLAMA_8B) == 8.03e9
    assert active_parameters({}, "somebody/own") is None
    assert estimated_bytes({"weight_bytes": 7}, LLAMA_8B, "bf16") == 7
    assert estimated_bytes({"parameters": 100}, None, "int4") == 50
    assert estimated_bytes({}, LLAMA_8B, "fp8") == 8_030_000_000
    assert estimated_bytes({}, LLAMA_8B, None) is None


@pytest.mark.parametrize(
    ("rows", "gpus", "model", "precision"),
    [
        (ROWS, [H100], "own", "bf16"),
        ([], [H100], LLAMA_8B, "bf16"),
        (ROWS, [], LLAMA_8B, "bf16"),
        (ROWS, [H100 | {"gpu_type": "NVIDIA X9000"}], LLAMA_8B, "bf16"),
        (ROWS, [H100, H100 | {"gpu_type": None}], LLAMA_8B, "bf16"),
        (ROWS, [H100], LLAMA_8B, None),
        (ROWS, [H100], LLAMA_8B, "gptq"),
        (ROWS, [H100 | {"gpu_type": "NVIDIA A100-SXM4-80GB"}], LLAMA_8B, "fp8"),
        ([ROWS[0] | {"prompt_tokens": None}], [H100], LLAMA_8B, "bf16"),
        (ROWS, [H100 | {"part_of_gpu": "GPU-1"}], LLAMA_8B, "bf16"),
    ],
    ids=[
        "model",
        "no time",
        "no GPU",
        "GPU type",
        "one of two",
        "precision",
        "a method",
        "no such units",
        "prompt",
        "a MIG device",
    ],
)
def test_what_is_unknown_makes_no_utilisation(
    rows: list[dict[str, Any]], gpus: list[dict[str, Any]], model: str, precision: str | None
) -> None:
    """Never a guess."""
    assert compute_of(rows, gpus, {}, model, precision).utilisation is None
    assert Compute().utilisation is None


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA A100-PCIE-80GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA H1000", None),
        ("NVIDIA L40", None),
        (None, None),
    ],
)
def test_a_gpu_type_is_found_by_a_whole_word_of_its_product_name(product: str | None, name: str | None) -> None:
    """As NVML shows it; cards of other forms than the one of the data sheet have another peak and are not it."""
    assert gpu_of(product) == (GPUS[name] if name else None)


def test_models_are_known_without_their_organisation() -> None:
    """And in any case."""
    shape = shape_of(LLAMA_8B)

    assert shape is not None
    assert shape.name == "llama-3.1-8b-instruct"
    assert shape_of(None) is None
