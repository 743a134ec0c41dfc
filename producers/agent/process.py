"""Host agent: probes sources, runs collectors, and publishes through the spool until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from producers.agent.engine_news import run_engine_news
from producers.agent.exposition import exposed
from producers.agent.life import Surroundings
from producers.agent.publishing import Handover
from producers.agent.runner import Plan, Runner
from producers.agent.schedule import PaceRule
from producers.agent.search import Search, setting_of
from producers.agent.sources import SOURCES, Setting, Source
from producers.agent.supervisor import Service, Supervisor
from producers.identity.host_file import default_socket, path_beside
from producers.publish.puts import Puts
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS
from runtime.edge_config import AgentConfig, LogTailConfig
from schemas.errors import ConfigError

Watched = Callable[[Supervisor], None]


async def run_agent(
    publisher: Puts,
    stop: asyncio.Event,
    config: AgentConfig | None = None,
    *,
    clock: Clock | None = None,
    sources: Sequence[Source] = SOURCES,
    state: Path | None = None,
    user_secret: bytes | None = None,
    watched: Watched | None = None,
) -> None:
    """Collect until ``stop``. Everything read by then is in the spool when this returns.

    ``state``: folder for what is kept over a restart. ``user_secret``: key of the hash of users that requests name;
    None: users are not kept. ``watched`` receives the supervisor once its health checks work.
    """
    config, clock = config or AgentConfig(), clock or SystemClock()
    setting = setting_of(config, state, user_secret)
    search = Search(setting, sources)
    plans = await asyncio.to_thread(search.look)
    handover = Handover(publisher)
    pace = PaceRule(config.cost_share_max_ppm, interval_ms_max=config.interval_ms_max)
    exposition = contextlib.ExitStack()
    seen = exposition.enter_context(exposed(config.exposition, clock.now_ms))
    around = Surroundings(clock, handover.give, setting.meter, pace, seen=seen)

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
        with exposition:
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


if TYPE_CHECKING:
    from producers.log_tail.tail import LogTailSettings


def services_of(setting: Setting, publisher: Puts, handover: Handover) -> list[Service]:
    """The services that the configuration asks for. Each imports what it needs when it begins."""
    config, services = setting.config, list[Service]()

    async def receive(stop: asyncio.Event) -> None:
        from producers.receiver.fold import Where
        from producers.receiver.server import run_receiver

        labels, engines = setting.identity.labels, setting.registry
        where = Where(
            labels["host"] or "",
            labels["cluster"],
            labels["region"],
            setting.joiner("receiver"),
            setting.names,
            engines.engine_elsewhere,
            engines.means_here,
        )
        await run_receiver(publisher, config.receiver, stop, COUNTERS, where=where)

    async def otlp(stop: asyncio.Event) -> None:
        from producers.otlp.http_server import serve_otlp

        labels, joiner = setting.identity.labels, setting.joiner("otlp")
        is_here = setting.registry.engines.is_here
        await serve_otlp(config.otlp, labels, handover.offer_fit, stop, joiner, setting.names, is_here)

    async def engine_news(stop: asyncio.Event) -> None:
        socket = config.receiver.socket or default_socket(os.environ)
        await run_engine_news(publisher.states, setting.registry.engines, path_beside(socket), stop)

    def tail_of(log: LogTailConfig, number: int) -> Service:
        async def tail(stop: asyncio.Event) -> None:
            from producers.log_tail.service import run_log_tail

            joiner, names = setting.joiner("log_tail"), setting.names
            await run_log_tail(publisher, tail_settings(log, setting, number), stop, joiner=joiner, names=names)

        return Service(f"log {log.path}", tail)

    if config.receiver.enabled:
        services.append(Service("receiver", receive))
    if config.otlp.enabled:
        services.append(Service("otlp", otlp))
    services.append(Service("engine news", engine_news))
    return services + [tail_of(log, number) for log, number in numbered(config.log_tails)]


def numbered(logs: Sequence[LogTailConfig]) -> list[tuple[LogTailConfig, int]]:
    """Each with its number, from 1, among those of the same path and format."""
    seen = Counter[tuple[Path, str]]()
    found: list[tuple[LogTailConfig, int]] = []
    for log in logs:
        same = log.path.absolute(), log.format
        seen[same] += 1
        found.append((log, seen[same]))
    return found


def tail_settings(log: LogTailConfig, setting: Setting, number: int = 1) -> LogTailSettings:
    """What tailing one log needs. Its position is named after the path, so that configuration may be put in order, and
    after the format where it is not that of requests, and ``number`` where it is not the first.

    Raises ConfigError where there is no folder to keep it in.
    """
    from producers.log_tail.tail import LogTailSettings

    if setting.state is None:
        raise ConfigError("agent.log_tails", str(log.path), "needs a folder for its position")
    of = [str(log.path.absolute())] + [log.format] * (log.format != "requests") + [str(number)] * (number > 1)
    name = hashlib.sha256(os.fsencode("\0".join(of))).hexdigest()[:32]
    return LogTailSettings(
        path=log.path,
        position=setting.state / f"log-{name}.position",
        fields=log.fields,
        labels=setting.identity.labels,
        from_start=log.from_start,
        engine=log.engine,
        format=log.format,
    )
