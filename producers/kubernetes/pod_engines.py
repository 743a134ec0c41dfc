"""Collects the serving engines of this node's pods: one thread for all, a collector of its own for each.

Pods come and go. A pod whose engine does not answer costs a time limit at each round, so a round that took too long
ends, and the next one begins with those that were left out.

An engine that stops with its pod is not lost: that it is, is said once pods that were listed since still have it, and
not as one that is to end. A container that was started again is the same engine: its collector goes on from the one
before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from producers.collector import Collected, Collector, Succeeds, one_round
from producers.engines.placement import HostPlacement
from producers.engines.reading import UnknownEngineError
from producers.engines.target import EngineTarget
from producers.kubernetes.engines import engines_among
from producers.kubernetes.listing import Pods
from producers.kubernetes.pods import Pod
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import ENGINE_EVENTS

_log = logging.getLogger(__name__)

ANSWERS = frozenset({"found", "registered", "changed"})
"""Kinds of events that only an engine has that answers."""


class PodEngines:
    """The collector. ``make`` gives the collector of a target."""

    name = "pod engines"

    def __init__(
        self,
        pods: Pods,
        registry: HostPlacement,
        make: Callable[[EngineTarget], Collector],
        period_ms: int,
        *,
        engines_max: int = 64,
        marked_only: bool = False,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
    ) -> None:
        self.period_ms = period_ms
        self._pods = pods
        self._registry = registry
        self._make = make
        self._engines_max = engines_max
        self._marked_only = marked_only
        self._clock = clock or SystemClock()
        self._seen: tuple[Pod, ...] | None = None
        self._collectors: dict[EngineTarget, Collector] = {}
        self._warned = False
        self._strange: set[EngineTarget] = set()
        self._counters = counters
        self._listing = 0
        self._lost: dict[str, tuple[int, Collected]] = {}  # by engine: the newest listing then, and the event
        self._ending = frozenset[str]()

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Rows of the engines that answer."""
        self._follow()
        still_there = [name for name, (then, _) in self._lost.items() if then < self._listing]
        collected = [self._told(name, at_ms) for name in still_there if name not in self._ending]
        for target, collector in one_round(self._collectors, self._clock.monotonic_s):
            try:
                collected += self._without_lost(target.engine_id, collector.collect(at_ms), at_ms)
            except UnknownEngineError as error:
                self._note(target, error)
        return collected

    def close(self) -> None:
        for collector in self._collectors.values():
            collector.close()

    def _without_lost(self, engine_id: str, collected: Sequence[Collected], at_ms: int) -> list[Collected]:
        """The rest, and what was held back before the engine answers again."""
        told = list[Collected]()
        for part in collected:
            kinds = {row["kind"] for row in part.rows} if part.event is ENGINE_EVENTS else set[str]()
            if kinds & ANSWERS and engine_id in self._lost:
                told.append(self._told(engine_id, at_ms))
            if "lost" in kinds:
                self._lost[engine_id] = (self._pods.begun, part)
            else:
                told.append(part)
        return told

    def _told(self, engine_id: str, at_ms: int) -> Collected:
        """That it is lost, as of now."""
        _, lost = self._lost.pop(engine_id)
        return Collected(lost.event, [{**row, "at_ms": at_ms} for row in lost.rows])

    def _note(self, target: EngineTarget, error: UnknownEngineError) -> None:
        """A pod that says that it is an engine, and is none that is known here: warned of once, still scraped."""
        self._counters.add("errors", where="collector-pod engines", error=type(error).__name__)
        if target not in self._strange:
            self._strange.add(target)
            _log.warning("pod is no engine that is known", extra={"engine_id": target.engine_id, "why": str(error)})

    def _among(self, pods: Iterable[Pod]) -> list[EngineTarget]:
        return engines_among(pods, marked_only=self._marked_only, cluster=self._registry.engines.cluster)

    def _follow(self) -> None:
        """Begin what is new among the pods, end what went."""
        self._listing = self._pods.listing  # before the pods, which may be of a newer one
        if self._pods.all is self._seen:
            return
        self._seen = self._pods.all
        self._ending = frozenset(each.engine_id for each in self._among(pod for pod in self._seen if pod.terminating))
        wanted = self._among(self._seen)
        if len(wanted) > self._engines_max and not self._warned:
            self._warned = True
            facts = {"engines": len(wanted), "kept": self._engines_max, "setting": "agent.kubernetes.engines_max"}
            _log.warning("too many engines among the pods of this node; the rest is not scraped", extra=facts)
        kept = dict.fromkeys(wanted[: self._engines_max])
        names = {target.engine_id for target in kept}
        ended: dict[str, Collector] = {}
        for target in [each for each in self._collectors if each not in kept]:
            ended[target.engine_id] = self._collectors.pop(target)
            ended[target.engine_id].close()
            self._strange.discard(target)
            if target.engine_id not in names:
                self._lost.pop(target.engine_id, None)
                self._registry.lost_engine(target.engine_id)
                self._registry.engines.silent(target.engine_id)
        for target in kept:
            if target not in self._collectors:
                made = self._collectors[target] = self._make(target)
                if isinstance(made, Succeeds) and target.engine_id in ended:
                    made.succeed(ended[target.engine_id])
