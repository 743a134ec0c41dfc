"""``fleetpulse simulate`` and ``replay``: load from a simulated fleet, or from a trace."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fleetpulse.commands.edge import Seconds, Spool


class TraceFormat(StrEnum):
    """How a trace file is written."""

    AZURE = "azure"
    JSONL = "jsonl"


class Load(StrEnum):
    """Where the simulated fleet's load comes from."""

    AZURE = "azure"
    POISSON = "poisson"
    BULK = "bulk"


def replay(
    file: Annotated[Path, typer.Argument(help="The trace.")],
    format: Annotated[TraceFormat, typer.Option(help="azure: the Azure LLM inference traces; jsonl: our fields.")],
    speed: Annotated[str, typer.Option(help="Gaps are divided by this number; max leaves none.")] = "1",
    model: Annotated[str, typer.Option(help="Model name for traces that hold none.")] = "replayed",
    spool: Spool = None,
) -> None:
    """Send the requests of a trace as they arrived, only faster. Azure traces hold no latencies: those stay null.

    Example: [bold]fleetpulse replay AzureLLMInferenceTrace_conv.csv --format azure --speed 60[/bold]
    """
    from lab.simulator.service import run_replay

    run_replay(file, format.value, speed, model, spool)


def simulate(
    gpus: Annotated[int, typer.Option(min=1, max=100_000, help="How many GPUs, eight to a host.")] = 64,
    load: Annotated[
        Load, typer.Option(help="azure: engines fed by the traces; bulk: statistics for big fleets.")
    ] = Load.AZURE,
    speed: Annotated[float, typer.Option(min=0.01, help="How much faster the trace arrives.")] = 60.0,
    rate: Annotated[float, typer.Option(min=0.0, help="Requests per second and host, for poisson and bulk.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Same seed, same fleet and same requests.")] = 1,
    seconds: Seconds = None,
    faults: Annotated[Path | None, typer.Option(help="JSON file with a labelled schedule of faults.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Folder to write the ground truth to.")] = None,
    shared_gpu: Annotated[
        bool, typer.Option("--shared-gpu", help="One more host, of a single GPU that two engines share.")
    ] = False,
    spool: Spool = None,
) -> None:
    """Simulate hosts, GPUs and engines whose latencies, power, memory and energy agree with one another.

    Example: [bold]fleetpulse simulate --gpus 64 --load azure --speed 60 --seconds 60[/bold]
    """
    from fleetpulse.services.compile_ahead import provide

    provide()
    from lab.simulator.service import SimulateOptions, run_simulate

    run_simulate(SimulateOptions(gpus, load.value, speed, rate, seed, seconds, faults, truth, shared_gpu), spool)
