"""Built-in collectors: host samples with the cost of collection, and engines on well-known ports."""

from __future__ import annotations

from collections.abc import Sequence

from producers.agent.cost import CostMeter
from producers.collector import Collected, Collector, Identity
from producers.host.sampler import HostSampler
from schemas.events.event_types import HOST_SAMPLES


class HostCollector:
    """One host sample a period; ``agent_collect_us`` is what all collectors cost since the sample before."""

    name = "host"

    def __init__(self, identity: Identity, period_ms: int, meter: CostMeter) -> None:
        self.period_ms = period_ms
        self._sampler = HostSampler(identity.labels)
        self._meter = meter

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """The host's row."""
        return [Collected(HOST_SAMPLES, [self._sampler.sample(at_ms) | {"agent_collect_us": self._meter.take()}])]

    def close(self) -> None:
        """Nothing is held."""


class SoughtEngines:
    """Engines that nobody named, on well-known ports: one thread for all, which rests while none answers."""

    name = "engines sought"

    def __init__(self, engines: Sequence[Collector], period_ms: int, rest_ms: int) -> None:
        self._engines = engines
        self._busy_ms = period_ms
        self._rest_ms = rest_ms
        self.period_ms = period_ms

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Rows of the engines that answer."""
        collected = [part for engine in self._engines for part in engine.collect(at_ms)]
        self.period_ms = self._busy_ms if collected else self._rest_ms
        return collected

    def close(self) -> None:
        """Close each."""
        for engine in self._engines:
            engine.close()
