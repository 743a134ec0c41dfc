"""`fleetpulse replay`: a trace into the spool of an edge process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fleetpulse.commands.progress import spinner
from fleetpulse.services.edge import publishing
from lab.simulator.replay import Progress, replay, speed_of
from runtime import logs
from runtime.clock import SystemClock
from runtime.config import load
from runtime.kafka_clients import check_login
from runtime.shutdown import on_stop_signal
from schemas.errors import ConfigError


def run_replay(file: Path, format: str, speed: str, model: str, spool: Path | None) -> None:
    """Send a trace."""
    speed_of(speed)
    if not file.is_file():
        raise ConfigError("FILE", str(file), "must be a readable file")
    logs.configure("replay")

    def show(progress: Progress) -> None:
        tell(f"{progress.events:,} requests, {progress.trace_s:,.0f} s of the trace")

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        config = load()
        await check_login(config.kafka)
        async with publishing(config, spool, "replay") as publisher:
            await replay(file, format, speed, model, publisher, SystemClock(), stop, show)

    with spinner(f"replaying {file.name}") as tell:
        asyncio.run(body())
