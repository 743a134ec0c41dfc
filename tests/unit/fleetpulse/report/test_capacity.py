"""Capacity: numbers that a person can check, and the command that shows them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.vram import vram
from fleetpulse.report.capacity import GPUS, SHAPES, Load, Need, fit, grouped, need, operations, utilisation
from schemas.errors import ConfigError

RUNNER = CliRunner()
TINY = grouped("tiny", 1_000, 2, 2, 4, 8, "made up")
MIB = 1024 * 1024
GIB = 1024 * MIB


def test_the_cache_of_llama_70b_is_the_published_one() -> None:
    """2 x 80 layers x 8 heads x 128 x 2 bytes: 320 KiB a token; 70.55e9 parameters at 2 bytes."""
    found = need(SHAPES["llama-3.3-70b-instruct"], Load(context_tokens=1_000, concurrent=1))

    assert found.cache_bytes_per_token == 320 * 1024
    assert found.cache_bytes == 320 * 1024 * 1_000
    assert found.weights_bytes == 141_100_000_000


MEASURED = {
    "llama-3.1-8b-instruct": (16_060_523_520, 1_073_741_824, 977_338_368),
    "qwen2.5-coder-7b-instruct": (15_276_322_816, 469_762_048, 1_171_849_216),
    "qwen2.5-0.5b-instruct": (996_322_304, 100_663_296, 299_958_272),
}
"""Weights, KV cache and activations in bytes: PyTorch 2.11 on an H100, bf16, one prompt of 8,192 tokens."""
STEPPED = {"qwen2.5-coder-7b-instruct": 79_310_732_288, "llama-3.1-8b-instruct": 81_014_663_168}
"""The peak of a training step there: bf16, AdamW, two sequences of 2,048 tokens."""


@pytest.mark.parametrize("model", MEASURED)
def test_the_estimate_is_near_what_a_gpu_took(model: str) -> None:
    """Weights to 1 %, the cache to the byte, activations to a fifth."""
    weights, cache, activations = MEASURED[model]

    found = need(SHAPES[model], Load(context_tokens=8_192, concurrent=1))

    assert found.weights_bytes == pytest.approx(weights, rel=0.01)
    assert found.cache_bytes == cache
    assert found.activations_bytes == pytest.approx(activations, rel=0.2)


@pytest.mark.parametrize("model", STEPPED)
def test_the_rule_for_training_is_above_what_a_gpu_took(model: str) -> None:
    """Five times the weights, of the six of the rule."""
    found = need(SHAPES[model], Load(training=True))

    assert 1.0 <= found.total_bytes() / STEPPED[model] <= 1.2


@pytest.mark.parametrize(
    ("precision", "weights"),
    [("fp32", 4_000), ("bf16", 2_000), ("fp16", 2_000), ("fp8", 1_000), ("int8", 1_000), ("int4", 500), ("fp4", 500)],
)
def test_weights_by_precision(precision: str, weights: int) -> None:
    """Bytes for a thousand parameters."""
    assert need(TINY, Load(precision=precision)).weights_bytes == weights


def test_serving_and_training_need_other_things() -> None:
    """Cache and activations of a step; or six times the weights in all."""
    serving = Load(cache_precision="fp8", context_tokens=10, concurrent=3, step_tokens=5)

    assert need(TINY, serving) == Need(2_000, 2 * 2 * 2 * 4 * 30, 5 * 8 * 34, 0, 32, 2_000)
    assert need(TINY, Load(training=True)) == Need(2_000, 0, 0, 10_000, 64, 12_000)
    assert need(TINY, Load(training=True)).total_bytes() == 6 * 2_000


@pytest.mark.parametrize(("stage", "of_each"), [(0, 6.0), (1, 4 + 2 / 4), (2, 3 + 3 / 4), (3, 6 / 4)])
def test_a_zero_stage_divides_what_it_names(stage: int, of_each: float) -> None:
    """Times the weights on each of four GPUs: optimizer, gradients as well, everything."""
    wanted = need(TINY, Load(training=True, zero_stage=stage))

    whole = wanted.weights_bytes + wanted.training_bytes - wanted.divided_bytes
    assert (whole + wanted.divided_bytes / 4) / wanted.weights_bytes == of_each


def test_training_without_zero_is_not_helped_by_more_gpus() -> None:
    """Every GPU keeps all of it."""
    shape = SHAPES["llama-3.1-8b-instruct"]

    assert fit(shape, Load(training=True, zero_stage=0), GPUS["H100"]).gpus is None
    assert fit(shape, Load(training=True, zero_stage=3), GPUS["RTX4090"]).gpus == 8


def test_multi_head_latent_attention_keeps_less() -> None:
    """576 numbers a layer instead of two for each head: 68.6 KiB a token; experts that sleep cost no operations."""
    shape = SHAPES["deepseek-v3"]

    assert need(shape, Load()).cache_bytes_per_token == 61 * 576 * 2
    assert operations(shape, 1) == 74e9


@pytest.mark.parametrize(
    ("model", "precision", "gpu", "gpus"),
    [
        ("llama-3.1-8b-instruct", "bf16", "H100", 1),
        ("llama-3.1-8b-instruct", "fp16", "T4", 2),
        ("llama-3.3-70b-instruct", "bf16", "H100", 4),
        ("llama-3.3-70b-instruct", "fp8", "H200", 1),
        ("llama-3.1-405b-instruct", "bf16", "B200", 8),
        ("deepseek-v3", "fp8", "H200", 8),
    ],
)
def test_how_many_gpus_it_takes(model: str, precision: str, gpu: str, gpus: int) -> None:
    """As these models are served: eight requests of 4,096 tokens."""
    assert fit(SHAPES[model], Load(precision, context_tokens=4_096, concurrent=8), GPUS[gpu]).gpus == gpus


def test_what_each_gpu_holds() -> None:
    """On the boundary: all of it fits, one token more does not."""
    shape = SHAPES["llama-3.1-8b-instruct"]
    found = fit(shape, Load(context_tokens=1_000, concurrent=1), GPUS["L4"])
    fixed = 16_060_000_000 + 8_192 * 4_096 * 34 + GIB

    assert found.gpus == 1
    assert found.bytes_per_gpu == fixed + 131_072_000
    assert found.usable_bytes == int(23_034 * MIB * 0.9)
    assert found.cache_tokens_max == (found.usable_bytes - fixed) // 131_072
    assert fit(shape, Load(context_tokens=found.cache_tokens_max, concurrent=1), GPUS["L4"]).gpus == 1
    assert fit(shape, Load(context_tokens=found.cache_tokens_max + 1, concurrent=1), GPUS["L4"]).gpus == 2


def test_a_head_is_not_divided() -> None:
    """With two KV heads the cache of four GPUs is no smaller than that of two; so the fifth and later do not help."""
    shape = grouped("narrow", 1e6, 100, 2, 128, 128, "made up")

    assert fit(shape, Load(context_tokens=10**7, concurrent=1), GPUS["H100"]).gpus is None
    assert fit(shape, Load(context_tokens=10**6, concurrent=1), GPUS["H100"]).gpus == 2


def test_training_fits_by_its_state() -> None:
    """Six times 16 GB on GPUs of 80 GB."""
    found = fit(SHAPES["llama-3.1-8b-instruct"], Load(training=True), GPUS["H100"])

    assert (found.gpus, found.cache_tokens_max) == (2, None)


def test_model_flops_utilisation() -> None:
    """8.03e9 parameters x 2 x 20,000 tokens/s are 321 TFLOPS of 989; FP8 of 1,979; no such unit: null."""
    shape = SHAPES["llama-3.1-8b-instruct"]

    assert utilisation(shape, 20_000, GPUS["H100"], 1, "bf16") == pytest.approx(321.2 / 989)
    assert utilisation(shape, 20_000, GPUS["H100"], 2, "fp8") == pytest.approx(321.2 / 1_979 / 2)
    assert utilisation(shape, 20_000, GPUS["H100"], 1, "int4") == pytest.approx(321.2 / 989)
    assert utilisation(shape, 20_000, GPUS["A100"], 1, "fp8") is None
    assert utilisation(shape, 20_000, GPUS["A100"], 1, "int8") == pytest.approx(321.2 / 624)
    assert utilisation(shape, 20_000, GPUS["H100"], 1, "fp32") is None


def test_every_figure_names_its_source() -> None:
    """GPUs and models."""
    assert all(one.source for one in (*GPUS.values(), *SHAPES.values()))


def test_the_command_as_json() -> None:
    """Need, fits and utilisation in one document; a path of a repository is taken for the model's name."""
    command = ["vram", "Meta/Llama-3.1-8B-Instruct", "--gpu", "h100", "--tokens-per-s", "20000", "--json"]

    answer = json.loads(RUNNER.invoke(app, command).stdout)

    assert answer["need"]["weights_bytes"] == 16_060_000_000
    assert [(one["gpu"], one["gpus"]) for one in answer["fits"]] == [("H100", 1)]
    assert answer["utilisation"][0]["utilisation"] == pytest.approx(321.2 / 989)


def test_the_command_for_people() -> None:
    """Tables of what it needs and where it fits; without a model, of what is known."""
    one = RUNNER.invoke(app, ["vram", "deepseek-v3", "--tokens-per-s", "5"], env={"COLUMNS": "120"})
    known = RUNNER.invoke(app, ["vram"], env={"COLUMNS": "120"})

    assert (one.exit_code, known.exit_code) == (0, 0)
    assert "KV cache" in one.stdout
    assert "% of peak" in one.stdout
    assert all(name in known.stdout for name in (*SHAPES, *GPUS))
    assert json.loads(RUNNER.invoke(app, ["vram", "--json"]).stdout)["models"][0]["name"] == "llama-3.1-8b-instruct"


def test_a_model_of_ones_own() -> None:
    """Given by its shape; all of it must be there."""
    shape = ["--parameters", "1000", "--layers", "2", "--kv-heads", "2", "--hidden-size", "8", "--head-size", "4"]

    answer = json.loads(RUNNER.invoke(app, ["vram", *shape, "--json"]).stdout)

    assert answer["need"]["cache_bytes_per_token"] == 64
    with pytest.raises(ConfigError, match="needs --layers, --kv-heads and --hidden-size"):
        vram(parameters=7e9)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"model": "gpt-9"}, "model = 'gpt-9': must be one of llama-3.1-8b-instruct"),
        ({"model": "deepseek-v3", "gpu": "H900"}, "--gpu = 'H900': must be one of H100"),
        ({"model": "deepseek-v3", "precision": "fp7"}, "--precision = 'fp7': must be one of fp32"),
        ({"model": "deepseek-v3", "kv_precision": "int4"}, "--kv-precision = 'int4': must be one of bf16"),
    ],
)
def test_what_is_not_known_is_an_error(options: dict[str, str], error: str) -> None:
    """With what there is instead."""
    with pytest.raises(ConfigError, match=error):
        vram(**options)  # type: ignore[arg-type]
