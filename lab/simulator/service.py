"""`fleetpulse simulate`: a fleet that does not exist, into the same spool and topics. Only this loads compiled code."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fleetpulse.commands.progress import spinner
from fleetpulse.services.edge import publishing
from lab.simulator.faults import Fault, faults_of
from lab.simulator.load import PoissonLoad, Trace
from lab.simulator.plan import CHAT_SHARES, CODE_SHARES, FleetPlan, azure_load, large_plan, mixed_plan
from lab.simulator.replay import Progress, read_azure, replay, speed_of
from lab.simulator.run import next_begin_ms, simulate, warm_up
from lab.simulator.truth_file import TruthWriter
from runtime import logs
from runtime.clock import SystemClock
from runtime.config import load
from runtime.health import HealthServer
from runtime.kafka_clients import check_login
from runtime.process import on_stop_signal
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

GPUS_PER_HOST = 8
TRACES = {"code": "AzureLLMInferenceTrace_code.csv", "conversation": "AzureLLMInferenceTrace_conv.csv"}


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Options of `fleetpulse simulate`."""

    gpus: int
    load: str
    speed: float
    rate: float
    seed: int
    seconds: float | None
    faults: Path | None
    truth: Path | None
    shared_gpu: bool = False
    """One more host, of a single GPU that two engines share."""


def trace_of(name: str) -> Trace:
    """One of the Azure traces that come with the package (``TRACES``)."""
    path = files("lab") / "data" / "azure_llm_2023" / TRACES[name]
    return Trace.of((row.at_us, row.input_tokens, row.output_tokens) for row in read_azure(Path(str(path))))


def plan_of(options: SimulateOptions, faults: tuple[Fault, ...]) -> FleetPlan:
    """The fleet to simulate. Raises ``ConfigError`` where the number of GPUs does not make whole hosts."""
    if options.gpus % GPUS_PER_HOST:
        raise ConfigError("--gpus", options.gpus, f"must be a multiple of {GPUS_PER_HOST}, the GPUs of a host")
    hosts = options.gpus // GPUS_PER_HOST
    if options.load == "azure":
        azure = azure_load(trace_of("code"), trace_of("conversation"), options.speed)
        return mixed_plan(hosts, azure, faults, shared_gpu=options.shared_gpu)
    if options.load == "poisson":
        poisson = PoissonLoad(options.rate * hosts, (*CHAT_SHARES, *CODE_SHARES), season=0.3)
        return mixed_plan(hosts, poisson, faults, shared_gpu=options.shared_gpu)
    if options.shared_gpu:
        raise ConfigError("--shared-gpu", True, "goes with --load azure or poisson: the large fleet has equal hosts")
    return large_plan(hosts, options.rate, faults)


def run_simulate(options: SimulateOptions, spool: Path | None, health_port: int | None = None) -> None:
    """Simulate until the seconds are over or SIGTERM."""
    logs.configure("simulate")
    asyncio.run(_simulate(options, spool, health_port))


async def _simulate(options: SimulateOptions, spool: Path | None, health_port: int | None) -> None:
    stop = on_stop_signal(asyncio.get_running_loop())
    config, clock = load(), SystemClock()
    await check_login(config.kafka)
    await asyncio.to_thread(warm_up)
    begin_ms = next_begin_ms(clock)
    faults = faults_of(json.loads(options.faults.read_text()), begin_ms) if options.faults else ()
    plan = plan_of(options, faults)
    async with publishing(config, spool, "simulate") as publisher, AsyncExitStack() as beside:
        if health_port is not None:
            beside.enter_context(HealthServer(port=health_port, ready=lambda: publisher.why))
        about = {"source": publisher.spool.source, "boot": publisher.spool.boot, "seed": options.seed}
        truth = TruthWriter(options.truth, about, faults) if options.truth else None
        report = await simulate(
            plan, options.seed, publisher, clock, stop, begin_ms=begin_ms, seconds=options.seconds, truth=truth
        )
        if truth is not None:
            truth.close(ended=True)
        _log.info("simulated", extra={"records": report.records, "events": report.events})


def run_replay(file: Path, format: str, speed: str, model: str, spool: Path | None) -> None:
    """Send a trace."""
    speed_of(speed)
    if not file.is_file():
        raise ConfigError("FILE", str(file), "must be a readable file")
    logs.configure("replay")

    def show(progress: Progress) -> None:
        say(f"{progress.events:,} requests, {progress.trace_s:,.0f} s of the trace")

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        config = load()
        await check_login(config.kafka)
        async with publishing(config, spool, "replay") as publisher:
            await replay(file, format, speed, model, publisher, SystemClock(), stop, show)

    with spinner(f"replaying {file.name}") as say:
        asyncio.run(body())
