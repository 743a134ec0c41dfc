"""Engines that nobody configured, on well-known ports of this host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from producers.collector import Collected, Collector, one_round
from producers.engines.placement import HostPlacement
from producers.engines.target import EngineTarget
from runtime.clock import Clock, SystemClock

SEEK_REST_MS = 5_000
"""Between two looks at ports where no engine answers."""


class SoughtEngines:
    """One thread for all, which rests while none answers. A port where a server hangs costs a time limit at each round:
    none of the others is asked never."""

    name = "engines sought"

    def __init__(self, engines: Sequence[Collector], period_ms: int, rest_ms: int, clock: Clock | None = None) -> None:
        self._engines = dict(enumerate(engines))
        self._clock = clock or SystemClock()
        self._busy_ms = period_ms
        self._rest_ms = rest_ms
        self.period_ms = period_ms

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Rows of the engines that answer."""
        collected = list[Collected]()
        asked = 0
        for _, engine in one_round(self._engines, self._clock.monotonic_s):
            collected += engine.collect(at_ms)
            asked += 1
        self.period_ms = self._busy_ms if collected or asked < len(self._engines) else self._rest_ms
        return collected

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()


class UnlessNamed:
    """One of them, left out while its port is among those that are ``named``: a pod on the host's network says that its
    engine answers there, and it is scraped under that pod's name."""

    def __init__(
        self,
        engine: Collector,
        target: EngineTarget,
        registry: HostPlacement,
        named: Callable[[], Collection[int]],
    ) -> None:
        self.name, self.period_ms = engine.name, engine.period_ms
        self._engine = engine
        self._target = target
        self._registry = registry
        self._named = named
        self._left_out = False

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Its rows. Where it answered before it was named, its GPUs and addresses are that pod's from then on."""
        before, self._left_out = self._left_out, self._target.port in self._named()
        if not self._left_out:
            return self._engine.collect(at_ms)
        if not before:
            self._registry.lost_engine(self._target.engine_id)
            self._registry.engines.silent(self._target.engine_id)
        return []

    def close(self) -> None:
        self._engine.close()
