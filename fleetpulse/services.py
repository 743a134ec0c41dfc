"""The long-running services: configuration in, one process each, health beside it, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator

from runtime import logs
from runtime.bounded_fetch import bound_fetches
from runtime.config import Config, load
from runtime.health import Check, HealthServer
from runtime.shutdown import on_stop_signal
from schemas.topics import BY_NAME, DERIVED_TOPICS, SOURCE_TOPICS


@contextlib.contextmanager
def _health(port: int | None, ready: Check) -> Iterator[None]:
    if port is None:
        yield
        return
    with HealthServer(port=port, ready=ready):
        yield


def partitions_of(config: Config) -> dict[str, int]:
    """Partition counts by topic: the contract's, with what the configuration says otherwise."""
    return {name: topic.partitions for name, topic in BY_NAME.items()} | config.partitions


def run_job(job: str, shell: str, worker: str, health_port: int | None) -> None:
    """Host a stream job until SIGTERM; exits with 70 when a doubt ended it, so that a supervisor starts it again.

    Ready while every partition that the group gave this worker is live.
    """
    from fleetpulse.observed import ObservedWindowsStep
    from stream_jobs.host.partitions import READINESS
    from stream_jobs.host.process import host_job
    from stream_jobs.windows.warm import warm

    logs.configure(f"jobs-{job}")
    config = load()
    partitions = partitions_of(config)
    step = ObservedWindowsStep(config.limits, partitions)
    topics = [topic.name for topic in SOURCE_TOPICS]
    outputs = {topic.name: partitions[topic.name] for topic in DERIVED_TOPICS}
    bound_fetches(config.limits)
    # Compiled code is loaded while the group forms: both take a second, and one of them waits for the network.
    threading.Thread(target=warm, name="warm", daemon=True).start()
    with _health(health_port, READINESS.why):
        code = host_job(shell, step, topics, config.kafka, worker=worker, outputs=outputs)
    sys.exit(code)


def run_sink_service(*, raw: bool, roll: bool, health_port: int | None) -> None:
    """Run the sink until SIGTERM. Ready while its groups have joined and nothing holds it up."""
    from sinks.service import Progress, SinkSettings, run_sink

    logs.configure("sink")
    config, progress = load(), Progress()

    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        settings = SinkSettings(raw=raw, roll=roll)
        await run_sink(config.kafka, config.clickhouse, settings, stop, limits=config.limits, progress=progress)

    with _health(health_port, lambda: progress.waiting_for):
        asyncio.run(body())
