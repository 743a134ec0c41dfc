"""The edge's processes: configuration and a spool in, events out, until the time is up or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from producers.fleet.faults import Fault, faults_of
from producers.fleet.load import PoissonLoad, Trace
from producers.fleet.plan import CHAT_SHARES, CODE_SHARES, FleetPlan, azure_load, large_plan, mixed_plan
from producers.fleet.run import next_begin_ms, simulate, warm_up
from producers.fleet.truth_file import TruthWriter
from producers.publisher import Publisher
from producers.spool import Spool, SpoolLimits
from runtime import logs
from runtime.clock import SystemClock
from runtime.config import Config, load
from runtime.shutdown import on_stop_signal
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

GPUS_PER_HOST = 8
DRAIN_S = 15.0
TRACES = {"code": "AzureLLMInferenceTrace_code.csv", "conversation": "AzureLLMInferenceTrace_conv.csv"}


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What `fleetpulse simulate` was asked for."""

    gpus: int
    load: str
    speed: float
    rate: float
    seed: int
    seconds: float | None
    faults: Path | None
    truth: Path | None


@contextlib.asynccontextmanager
async def publishing(config: Config, spool: Path | None, name: str) -> AsyncIterator[Publisher]:
    """A publisher on a spool of its own; at the end what is spooled is sent, for a bounded time."""
    folder = spool or config.data_dir / "spool" / name
    opened = Spool.open(folder, SpoolLimits.of(config.limits))
    publisher = Publisher(opened, config.kafka, host=socket.gethostname(), partitions=config.partitions)
    await publisher.start()
    try:
        yield publisher
    finally:
        if not await publisher.close(DRAIN_S):
            _log.warning("not everything was sent; the rest waits in the spool", extra={"spool": str(folder)})


def trace_of(name: str) -> Trace:
    """One of the Azure traces that come with the package (``TRACES``)."""
    from producers.replay import read_azure

    path = files("fleetpulse") / "data" / "azure_llm_2023" / TRACES[name]
    return Trace.of((row.at_us, row.input_tokens, row.output_tokens) for row in read_azure(Path(str(path))))


def plan_of(options: SimulateOptions, faults: tuple[Fault, ...]) -> FleetPlan:
    """The fleet to simulate. Raises ``ConfigError`` where the number of GPUs does not make whole hosts."""
    if options.gpus % GPUS_PER_HOST:
        raise ConfigError("--gpus", options.gpus, f"must be a multiple of {GPUS_PER_HOST}, the GPUs of a host")
    hosts = options.gpus // GPUS_PER_HOST
    if options.load == "azure":
        return mixed_plan(hosts, azure_load(trace_of("code"), trace_of("conversation"), options.speed), faults)
    if options.load == "poisson":
        return mixed_plan(hosts, PoissonLoad(options.rate * hosts, (*CHAT_SHARES, *CODE_SHARES), season=0.3), faults)
    return large_plan(hosts, options.rate, faults)


def run_simulate(options: SimulateOptions, spool: Path | None) -> None:
    """Simulate until the seconds are over or SIGTERM."""
    logs.configure("simulate")
    asyncio.run(_simulate(options, spool))


async def _simulate(options: SimulateOptions, spool: Path | None) -> None:
    stop = on_stop_signal(asyncio.get_running_loop())
    config, clock = load(), SystemClock()
    await asyncio.to_thread(warm_up)
    begin_ms = next_begin_ms(clock)
    faults = faults_of(json.loads(options.faults.read_text()), begin_ms) if options.faults else ()
    plan = plan_of(options, faults)
    async with publishing(config, spool, "simulate") as publisher:
        about = {"source": publisher.spool.source, "boot": publisher.spool.boot, "seed": options.seed}
        truth = TruthWriter(options.truth, about, faults) if options.truth else None
        report = await simulate(
            plan, options.seed, publisher, clock, stop, begin_ms=begin_ms, seconds=options.seconds, truth=truth
        )
        if truth is not None:
            truth.close()
        _log.info("simulated", extra={"records": report.records, "events": report.events})


def run_replay(file: Path, format: str, speed: str, model: str, spool: Path | None) -> None:
    """Send a trace."""
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from producers.replay import Progress, replay, speed_of

    speed_of(speed)
    if not file.is_file():
        raise ConfigError("FILE", str(file), "must be a readable file")
    logs.configure("replay")
    console = Console(stderr=True)
    text = "{task.fields[events]:,} requests, {task.fields[trace_s]:,.0f} s of the trace"
    bar = Bar(SpinnerColumn(), TextColumn(text), TimeElapsedColumn(), console=console, disable=not console.is_terminal)
    task = bar.add_task("replay", total=None, events=0, trace_s=0.0)

    def show(progress: Progress) -> None:
        bar.update(task, events=progress.events, trace_s=progress.trace_s)

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        async with publishing(load(), spool, "replay") as publisher:
            await replay(file, format, speed, model, publisher, SystemClock(), stop, show)

    with bar:
        asyncio.run(body())


def run_agent_service(spool: Path | None, seconds: float | None) -> None:
    """Measure this host until the seconds are over or SIGTERM."""
    from producers.agent import run_agent

    logs.configure("agent")

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, stop.set)
        async with publishing(load(), spool, "agent") as publisher:
            await run_agent(publisher, stop)

    asyncio.run(body())
