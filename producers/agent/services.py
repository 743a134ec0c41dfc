"""What the agent takes from others, as services: requests of this host's applications, and OTLP."""

from __future__ import annotations

import asyncio

from producers.agent.publishing import Handover
from producers.agent.sources import Setting
from producers.agent.supervisor import Service
from producers.publisher import Publisher
from runtime.counters import CATALOGUE, COUNTERS


class Catalogued:
    """This process's counters, without figures that their catalogue does not name: none of them stops a service."""

    def add(self, name: str, by: float = 1, **labels: object) -> None:
        """Let a total grow."""
        if name in CATALOGUE:
            COUNTERS.add(name, by, **labels)

    def set(self, name: str, value: float, **labels: object) -> None:
        """Set a level."""
        if name in CATALOGUE:
            COUNTERS.set(name, value, **labels)


def services_of(setting: Setting, publisher: Publisher, handover: Handover) -> list[Service]:
    """The services that the configuration asks for. Each imports what it needs when it begins."""
    config, services = setting.config, list[Service]()

    async def receive(stop: asyncio.Event) -> None:
        from producers.receiver.fold import Where
        from producers.receiver.server import run_receiver

        labels = setting.identity.labels
        where = Where(labels["host"] or "", labels["cluster"], labels["region"], setting.group_of)
        await run_receiver(publisher, config.receiver, stop, Catalogued(), where=where)

    async def otlp(stop: asyncio.Event) -> None:
        from producers.otlp.service import serve_otlp

        await serve_otlp(config.otlp, setting.identity.labels, handover.offer, stop)

    if config.receiver.enabled:
        services.append(Service("receiver", receive))
    if config.otlp.enabled:
        services.append(Service("otlp", otlp))
    return services
