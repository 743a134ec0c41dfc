"""Host agent: probes sources, runs collectors, and publishes through the spool until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from producers.agent.life import Surroundings
from producers.agent.publishing import Handover
from producers.agent.runner import Plan, Runner
from producers.agent.schedule import PaceRule
from producers.agent.search import Search
from producers.agent.services import services_of
from producers.agent.sources import SOURCES, Source
from producers.agent.supervisor import Service, Supervisor
from producers.agent.wiring import setting_of
from producers.publish.publisher import Publisher
from runtime.clock import Clock, SystemClock
from runtime.edge_config import AgentConfig

Watched = Callable[[Supervisor], None]


async def run_agent(
    publisher: Publisher,
    stop: asyncio.Event,
    config: AgentConfig | None = None,
    *,
    clock: Clock | None = None,
    sources: Sequence[Source] = SOURCES,
    state: Path | None = None,
    watched: Watched | None = None,
) -> None:
    """Collect until ``stop``. Everything read by then is in the spool when this returns.

    ``state``: folder for what is kept over a restart. ``watched`` receives the supervisor once its health checks work.
    """
    config, clock = config or AgentConfig(), clock or SystemClock()
    setting = setting_of(config, state)
    search = Search(setting, sources)
    plans = await asyncio.to_thread(search.look)
    handover = Handover(publisher)
    around = Surroundings(
        clock,
        handover.give,
        setting.meter,
        PaceRule(config.cost_share_max_ppm, interval_ms_max=config.interval_ms_max),
    )

    def start(found: Sequence[Plan]) -> None:
        supervisor.add([Runner(plan, around) for plan in found])

    async def search_on(stop: asyncio.Event) -> None:
        await search.run(stop, config.probe_period_ms / 1_000, start)

    services = [*services_of(setting, publisher, handover), Service("search", search_on)]
    supervisor = Supervisor([Runner(plan, around) for plan in plans], services, clock, on_beat=handover.beat)
    handover.beat_now = supervisor.look_now
    if watched is not None:
        watched(supervisor)
    publishing = asyncio.create_task(handover.run())
    try:
        await _until_either(supervisor.run(stop), publishing)
    finally:
        handover.finish()
        await publishing


async def _until_either(collecting: Coroutine[Any, Any, None], publishing: asyncio.Task[None]) -> None:
    """Until the collecting ends; a failure of the publishing ends it at once: nothing could be kept any more."""
    task = asyncio.create_task(collecting)
    done, _ = await asyncio.wait([task, publishing], return_when=asyncio.FIRST_COMPLETED)
    if publishing in done:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        publishing.result()
    else:
        await task
