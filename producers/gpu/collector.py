"""GPU collectors of the agent: samples, processes and events of this host's GPUs, by NVML.

* ``GpuCollector`` and ``GpuProcessCollector`` are collectors (``producers.collector``).
* ``GpuEvents`` is a source of events: ``wait(timeout_s)`` returns events as soon as they happen. It needs a thread of
  its own, never waits for a sample, and recovers when the driver is restarted.

Samples do not report again what events report (memory errors, recovery actions): give both the same ``GpuEvents``.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from producers.collector import Collected, Identity
from producers.gpu.events import EventSource, RateLimit, Row
from producers.gpu.library import DriverGoneError, GpuLostError
from producers.gpu.processes import ProcessReader
from producers.gpu.sampler import NvmlSampler
from producers.gpu.watchdog import LIMIT_S, Watchdog
from runtime.clock import Clock, SystemClock
from schemas.errors import UnavailableError
from schemas.events.machine_events import GPU_EVENTS, GPU_PROCESSES, GPU_SAMPLES

NO_DRIVER = "the NVIDIA driver does not answer, or has no GPU"
REOPEN_S = 60.0
"""How often new GPUs are looked for, to register them for events."""


class GpuEvents:
    """Made at once, opened by the first ``wait``. ``wait`` belongs to one thread."""

    name = "gpu_events"

    def __init__(self, identity: Identity, clock: Clock | None = None, limit_s: float = LIMIT_S) -> None:
        """``limit_s``: the longest one GPU may take to be listed or registered."""
        self._watchdog: Watchdog[Any] = Watchdog(limit_s, "gpu-events")
        self._identity = identity
        self._clock = clock or SystemClock()
        self._source: EventSource | None = None
        self._limit = RateLimit()
        self._looked_s = 0.0
        self._broke = False
        self._idle = threading.Event()

    def wait(self, timeout_s: float) -> list[Collected]:
        """Events of the next ``timeout_s`` seconds, as soon as there are any; nothing where no GPU supports them."""
        source = self._opened()
        if source is not None and self._due() and not source.current():
            meanwhile = self._renewed(source)
            if meanwhile:
                return [Collected(GPU_EVENTS, meanwhile)]
            source = self._source
        if source is None or not source.active:
            self._idle.wait(timeout_s)
            return []
        rows = self._waited(source, timeout_s)
        return [Collected(GPU_EVENTS, rows)] if rows else []

    def event_kinds(self, uuid: str) -> frozenset[str]:
        """The kinds that this GPU reports as events. Thread-safe."""
        source = self._source
        return source.event_kinds(uuid) if source is not None else frozenset()

    def close(self) -> None:
        """Free the driver's event set; called from the thread that waits."""
        self._let_go()
        self._watchdog.close()

    def _waited(self, source: EventSource, timeout_s: float) -> list[Row]:
        """What a source tells. A lost GPU, which samples report, ends its set for the others too: another source takes
        over at once. One that breaks at once again, or finds no driver, is made anew after a rest."""
        try:
            rows = source.wait(timeout_s, self._clock.now_ms)
        except (DriverGoneError, GpuLostError) as error:
            if isinstance(error, GpuLostError) and not self._broke:
                self._broke = True
                return self._renewed(source)
            self._let_go()
            self._idle.wait(timeout_s)
            return []
        self._broke = False
        return rows

    def _let_go(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _opened(self) -> EventSource | None:
        if self._source is None:
            self._looked_s = self._clock.monotonic_s()
            self._source = self._made()
        return self._source

    def _made(self) -> EventSource | None:
        try:
            return EventSource(self._identity.labels, self._identity.placement, self._limit, self._watchdog)
        except DriverGoneError:
            return None

    def _due(self) -> bool:
        """Whether new GPUs are to be looked for again."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < REOPEN_S:
            return False
        self._looked_s = now_s
        return True

    def _renewed(self, before: EventSource) -> list[Row]:
        """What happened until there was another source, which takes the place of the one before."""
        self._source = self._made()
        if self._source is None:
            before.close()
            return []
        return self._source.take_over(before, self._clock.now_ms)


class EventLives:
    """Gives each life of the collector of events a ``GpuEvents`` of its own: one that was given up because it hangs
    closes its own when the call returns. Thread-safe."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._now: GpuEvents | None = None

    def begin(self) -> GpuEvents:
        """That of a new life."""
        self._now = events = GpuEvents(self._identity)
        return events

    def event_kinds(self, uuid: str) -> frozenset[str]:
        """As the newest one says; none before the first."""
        now = self._now
        return now.event_kinds(uuid) if now is not None else frozenset()


class GpuCollector:
    """Samples once a period, with the events that show in them. ``memory``: file of counters over a restart."""

    name = "nvml"

    def __init__(
        self,
        identity: Identity,
        period_ms: int,
        *,
        memory: Path | None = None,
        events: GpuEvents | EventLives | None = None,
        clock: Clock | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        """``UnavailableError`` where there is no driver or no GPU."""
        options: dict[str, Any] = {"clock": clock, "memory": memory, "limit_s": limit_s}
        options["reserved_ppm"] = identity.reserved_ppm
        if events is not None:
            options["event_kinds"] = events.event_kinds
        sampler = NvmlSampler.open(identity.labels, identity.placement, **options)
        if sampler is None:
            raise UnavailableError(NO_DRIVER)
        self.period_ms = period_ms
        self._sampler = sampler
        self._begun = False

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """The GPUs and MIG instances that are sampled."""
        return self._sampler.gpu_uuids

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Events first: they say why samples may be missing. The first reading of this life says of each device in it
        that it answers: nobody else would, where it was lost before the machine was started again."""
        samples, events = self._sampler.sample(at_ms)
        if samples and not self._begun:
            self._begun = True
            events = self._sampler.answering(samples, at_ms) + events
        return [Collected(GPU_EVENTS, events), Collected(GPU_SAMPLES, samples)]

    def cpu_s(self) -> float:
        """Processor time its reading thread took since the last call: it is no part of the caller's own."""
        return self._sampler.cpu_s()

    def close(self) -> None:
        """Let the reading thread end."""
        self._sampler.close()


class GpuProcessCollector:
    """Processes on GPUs, at a slow period."""

    name = "gpu_processes"

    def __init__(self, identity: Identity, period_ms: int) -> None:
        """``UnavailableError`` where there is no driver."""
        self.period_ms = period_ms
        self._identity = identity
        try:
            self._reader = ProcessReader()
        except DriverGoneError as error:
            raise UnavailableError(NO_DRIVER) from error

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """A row per process and GPU."""
        identity = self._identity
        rows = self._reader.rows(at_ms, identity.labels, identity.placement, identity.engine_of, identity.pod_of)
        return [Collected(GPU_PROCESSES, rows)]

    def close(self) -> None:
        """Let the reading thread end."""
        self._reader.close()
