"""What the agent takes from others, as services: requests of this host's applications, and OTLP."""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import TYPE_CHECKING

from producers.agent.publishing import Handover
from producers.agent.sources import Setting
from producers.agent.supervisor import Service
from producers.publish.publisher import Publisher
from runtime.counters import COUNTERS
from runtime.edge_config import LogTailConfig
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from producers.log_tail.settings import LogTailSettings


def services_of(setting: Setting, publisher: Publisher, handover: Handover) -> list[Service]:
    """The services that the configuration asks for. Each imports what it needs when it begins."""
    config, services = setting.config, list[Service]()

    async def receive(stop: asyncio.Event) -> None:
        from producers.receiver.fold import Where
        from producers.receiver.server import run_receiver

        labels = setting.identity.labels
        where = Where(labels["host"] or "", labels["cluster"], labels["region"], setting.group_of)
        await run_receiver(publisher, config.receiver, stop, COUNTERS, where=where)

    async def otlp(stop: asyncio.Event) -> None:
        from producers.otlp.service import serve_otlp

        await serve_otlp(config.otlp, setting.identity.labels, handover.offer, stop)

    def tail_of(log: LogTailConfig) -> Service:
        async def tail(stop: asyncio.Event) -> None:
            from producers.log_tail.service import run_log_tail

            await run_log_tail(publisher, tail_settings(log, setting), stop)

        return Service(f"log {log.path}", tail)

    if config.receiver.enabled:
        services.append(Service("receiver", receive))
    if config.otlp.enabled:
        services.append(Service("otlp", otlp))
    return services + [tail_of(log) for log in config.log_tails]


def tail_settings(log: LogTailConfig, setting: Setting) -> LogTailSettings:
    """What tailing one log needs. Its position is named after the path, so that configuration may be put in order.

    Raises ConfigError where there is no folder to keep it in.
    """
    from producers.log_tail.settings import LogTailSettings

    if setting.state is None:
        raise ConfigError("agent.log_tails", str(log.path), "needs a folder for its position")
    name = hashlib.sha256(os.fsencode(log.path.absolute())).hexdigest()[:32]
    return LogTailSettings(
        path=log.path,
        position=setting.state / f"log-{name}.position",
        fields=log.fields,
        labels=setting.identity.labels,
        from_start=log.from_start,
    )
