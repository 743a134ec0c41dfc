"""Commands for the edge: this host's agent, a trace replayed, a whole fleet simulated."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Spool = Annotated[
    Path | None, typer.Option("--spool", help="Folder of the disk spool. Default: a folder in the data directory.")
]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Stop after so long. Default: until Ctrl-C.")]


class TraceFormat(StrEnum):
    """How a trace file is written."""

    AZURE = "azure"
    JSONL = "jsonl"


class Load(StrEnum):
    """Where the simulated fleet's load comes from."""

    AZURE = "azure"
    POISSON = "poisson"
    BULK = "bulk"


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    for command in (agent, replay, simulate):
        app.command(rich_help_panel="Edge")(command)


def agent(
    probe: Annotated[
        bool, typer.Option("--probe", help="Print what would be collected, and why not; then end.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Collect one round, print it as JSON lines, publish nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --probe: print JSON.")] = False,
    spool: Spool = None,
    seconds: Seconds = None,
    health_port: Annotated[
        int | None,
        typer.Option("--health-port", min=0, max=65_535, help="Serve /healthz /readyz /metrics here; 0 picks one."),
    ] = None,
) -> None:
    """Measure this host, its GPUs and its engines, and take the requests of its applications.

    What is collected is probed for; section agent of fleetpulse.toml (or FLEETPULSE_AGENT__*) says otherwise.

    Example:

    [bold]fleetpulse agent --probe[/bold]   what would be collected here

    [bold]fleetpulse agent --once | jq .[/bold]   one round, to standard output

    [bold]fleetpulse agent --spool /var/lib/fleetpulse/spool --health-port 9464[/bold]   the service

    [bold]FLEETPULSE_AGENT__CLUSTER=eu-1 FLEETPULSE_AGENT__COLLECTORS__DCGM=on fleetpulse agent[/bold]
    """
    from fleetpulse import edge

    if probe:
        edge.show_probe(json=json)
    elif once:
        edge.run_once()
    else:
        edge.run_agent_service(spool, seconds, health_port)


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
    from fleetpulse.edge import run_replay

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
    from fleetpulse.ahead import provide

    provide()
    from fleetpulse.edge_simulate import SimulateOptions, run_simulate

    run_simulate(SimulateOptions(gpus, load.value, speed, rate, seed, seconds, faults, truth, shared_gpu), spool)
