"""The command ``vram``: what a model needs, on which GPUs it fits, how much of their arithmetic it uses."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, err, print_rows
from fleetpulse.commands.people import Last, duration_ms
from runtime.clock import SystemClock
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from fleetpulse.report.capacity import Gpu, Shape

_GIB = 1024**3


@answers
def vram(
    model: Annotated[str | None, typer.Argument(help="A model; without it those that are known are listed.")] = None,
    precision: Annotated[str, typer.Option(help="Of the weights: fp32, bf16, fp16, fp8, int8, int4, fp4.")] = "bf16",
    kv_precision: Annotated[str, typer.Option(help="Of the KV cache: bf16, fp16, fp8.")] = "bf16",
    context: Annotated[int, typer.Option(min=1, help="Tokens of each request, prompt and answer.")] = 8_192,
    concurrent: Annotated[int, typer.Option(min=1, help="Requests at one time.")] = 16,
    training: Annotated[bool, typer.Option("--training", help="To train it instead of serving it.")] = False,
    zero: Annotated[int, typer.Option(min=0, max=3, help="ZeRO stage of training; 3 is FSDP.")] = 3,
    gpu: Annotated[str | None, typer.Option(help="Only this GPU type.")] = None,
    tokens_per_s: Annotated[float | None, typer.Option(min=0, help="Measured: prompt + generated.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that rate was measured on.")] = 1,
    parameters: Annotated[float | None, typer.Option(min=1, help="Of an unknown model, such as 7e9.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Its layers.")] = None,
    kv_heads: Annotated[int | None, typer.Option(min=1, help="Its KV heads.")] = None,
    head_size: Annotated[int, typer.Option(min=1, help="Values of a head.")] = 128,
    hidden_size: Annotated[int | None, typer.Option(min=1, help="Its hidden size.")] = None,
    engine: Annotated[str | None, typer.Option(help="A running engine: what is measured on its GPUs.")] = None,
    last: Last = "15m",
) -> Result:
    """GPU memory of a model: weights, KV cache, activations; on which GPUs it fits; its share of their arithmetic.

    Example: [bold]fleetpulse vram llama-3.3-70b-instruct --precision fp8 --context 32768 --concurrent 8[/bold]

    Model FLOPs utilisation: [bold]fleetpulse vram llama-3.1-8b-instruct --gpu H100 --tokens-per-s 20000[/bold]

    Of a running engine, by holder: [bold]fleetpulse vram --engine gpu-017:8000[/bold]
    """
    if engine is not None:
        return _measured(engine, last)
    from fleetpulse.report.capacity import GPUS, Load, as_data, known_gpu

    if model is None and parameters is None:
        return _models()
    shape = _shape(model, parameters, layers, kv_heads, head_size, hidden_size)
    load = Load(precision, kv_precision, context, concurrent, training=training, zero_stage=zero)
    chosen = [known_gpu(gpu)] if gpu else list(GPUS.values())
    found = as_data(shape, load, chosen)
    if tokens_per_s is not None:
        found["utilisation"] = _used(shape, tokens_per_s, chosen, gpus, precision)
    return Result(found, lambda: _show(found))


def _shape(
    model: str | None,
    parameters: float | None,
    layers: int | None,
    kv_heads: int | None,
    head_size: int,
    hidden_size: int | None,
) -> Shape:
    from fleetpulse.report.capacity import grouped, known_shape

    if parameters is None:
        return known_shape(model or "")
    if layers is None or kv_heads is None or hidden_size is None:
        raise ConfigError("--parameters", parameters, "needs --layers, --kv-heads and --hidden-size beside it")
    return grouped(model or "given", parameters, layers, kv_heads, head_size, hidden_size, "command line")


def _used(shape: Shape, tokens_per_s: float, chosen: list[Gpu], gpus: int, precision: str) -> list[dict[str, Any]]:
    from fleetpulse.report.capacity import operations, utilisation

    return [
        {
            "gpu": gpu.name,
            "gpus": gpus,
            "tokens_per_s": tokens_per_s,
            "tflops": operations(shape, tokens_per_s) / 1e12,
            "peak_tflops_per_gpu": gpu.peak_tflops(precision),
            "utilisation": utilisation(shape, tokens_per_s, gpu, gpus, precision),
        }
        for gpu in chosen
    ]


def _models() -> Result:
    from fleetpulse.report.capacity import GPUS, SHAPES

    def show() -> None:
        rows = [(one.name, one.parameters / 1e9, one.layers, one.kv_heads, one.hidden_size) for one in SHAPES.values()]
        print_rows("Models", ("model", "parameters, 1e9", "layers", "KV heads", "hidden size"), rows, empty="none")
        memory = [(one.name, one.memory_bytes / _GIB, one.tflops_16_bit, one.tflops_8_bit) for one in GPUS.values()]
        print_rows("GPUs", ("GPU", "memory, GiB", "TFLOPS, 16 bit", "8 bit"), memory, empty="none")

    models, gpus = map(asdict, SHAPES.values()), map(asdict, GPUS.values())
    return Result({"models": list(models), "gpus": list(gpus)}, show)


def _measured(engine: str, last: str) -> Result:
    """Memory of an engine's GPUs by holder, as it was last in the range."""
    from fleetpulse.queries.dashboard import query as named
    from fleetpulse.report.compute import estimated_bytes
    from fleetpulse.sql.database import Database
    from runtime.config import load

    to_ms, span_ms = SystemClock().now_ms(), duration_ms(last)
    query = named("engine_memory")
    bound = query.values({"engine_id": engine, "from_ms": max(0, to_ms - span_ms), "to_ms": to_ms}, span_ms)
    with closing(Database(load().reading)) as database:
        found = database.sql(query.at_levels(span_ms, bound), bound, **query.settings()).records()
    for row in found:
        estimate = estimated_bytes({}, row["a_model"], row["a_precision"])
        row["estimated_weight_bytes"] = None if estimate is None else estimate // row["of_gpus"]
    return Result(found, lambda: _show_measured(engine, last, found))


def _show_measured(engine: str, last: str, found: list[dict[str, Any]]) -> None:
    for row in found:
        rows = [(label, _scaled(row[name], 1 / _GIB)) for label, name in _HELD.items() if row[name] is not None]
        title = f"{row['gpu_uuid']} on {row['a_host']}, {_scaled(row['total_bytes'], 1 / _GIB) or 0:.1f} GiB"
        print_rows(title, ("memory", "GiB"), rows, empty="not reported")
    if found:
        err.print("Measured; weights and KV cache as the engine says. What is missing is not known", highlight=False)
    else:
        err.print(f"no GPU of {engine} in the last {last}; see the page Engines", markup=False)


_HELD = {
    "in use": "used_bytes",
    "this engine": "engine_bytes",
    "  weights": "weight_bytes",
    "  weights, estimated": "estimated_weight_bytes",
    "  KV cache, reserved": "kv_cache_bytes",
    "  its rest": "rest_bytes",
    "other processes": "others_bytes",
    "of no process": "unattributed_bytes",
    "free": "free_bytes",
}
_NEEDS = {
    "weights": "weights_bytes",
    "KV cache": "cache_bytes",
    "activations": "activations_bytes",
    "training state": "training_bytes",
    "all": "total_bytes",
}


def _show(found: dict[str, Any]) -> None:
    load, name = found["load"], found["model"]["name"]
    what = "training" if load["training"] else f"{load['concurrent']} x {load['context_tokens']} tokens"
    rows = [(label, found["need"][key] / _GIB) for label, key in _NEEDS.items() if found["need"][key]]
    print_rows(f"{name}, {load['precision']}, {what}", ("memory", "GiB"), rows, empty="nothing")
    fits = [(one["gpu"], one["gpus"], *(_scaled(one[name], 1 / _GIB) for name in ("bytes_per_gpu", "usable_bytes")),
             one["cache_tokens_max"])
            for one in found["fits"]]  # fmt: skip
    print_rows("Fits on", ("GPU", "GPUs", "each, GiB", "of GiB", "cache tokens"), fits, empty="none")
    if "utilisation" in found:
        used = [(one["gpu"], one["gpus"], one["tflops"], one["peak_tflops_per_gpu"], _scaled(one["utilisation"], 100))
                for one in found["utilisation"]]  # fmt: skip
        columns = ("GPU", "GPUs", "TFLOPS", "peak of each", "% of peak")
        print_rows("Model FLOPs utilisation (2 x active parameters x tokens)", columns, used, empty="none")
    err.print("Estimates: an engine takes 90 % of a GPU and 1 GiB; see docs/how-to/capacity.md", highlight=False)


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
