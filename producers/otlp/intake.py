"""Signals in, rows out, and an account of what became no row: by name, up to a number of names.

Called from any thread. A batch is taken whole or, when there is no room, not at all: the sender tries again then.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from producers.agent.publishing import Parcel, packed
from producers.collector import Collected, Row
from producers.otlp.points import Points
from producers.otlp.semconv import Unmapped, request_of, unmapped_names
from producers.otlp.signals import Attributes, Point, Span
from runtime.counters import COUNTERS, Counters
from schemas.events import ENGINE_SAMPLES, LLM_REQUESTS

_log = logging.getLogger(__name__)

NAMES_MAX = 256
OTHER = "__other__"

Offer = Callable[[Parcel], bool]


class Full(Exception):
    """There is no room now; nothing of the batch was taken."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``rejected`` items should have become rows and did not; ``why`` is the first one's reason."""

    rejected: int = 0
    why: str = ""


class Unkept:
    """How often each name was not mapped; names beyond ``names_max`` share one."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        self._counts: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, kind: str, name: str) -> None:
        """Count one; the first of a name is told."""
        key = f"{kind}:{name[:128]}"
        with self._lock:
            if key not in self._counts and len(self._counts) >= self._names_max:
                key = OTHER
            fresh = key not in self._counts
            self._counts[key] = self._counts.get(key, 0) + 1
        if fresh:
            _log.info("OTLP brings what no field of ours takes; it is counted", extra={"name_not_mapped": key})

    def counts(self) -> dict[str, int]:
        """Counts by ``kind:name``."""
        with self._lock:
            return dict(self._counts)

    def tell(self, counters: Counters) -> None:
        """Count what came since the last time. Once for a batch: that is cheaper than for each of its attributes."""
        with self._lock:
            since = {key: count - self._told.get(key, 0) for key, count in self._counts.items()}
            self._told = dict(self._counts)
        for key, more in since.items():
            if more:
                kind, mark, name = key.partition(":")
                counters.add("otlp_unmapped", more, kind=kind, item=name if mark else OTHER)


class Intake:
    """Maps batches of signals for one host and hands over what they became."""

    def __init__(self, labels: Attributes, offer: Offer, counters: Counters = COUNTERS) -> None:
        self.unkept = Unkept()
        self._counters = counters
        self._labels = labels
        self._offer = offer
        self._points = Points(labels)
        self._lock = threading.Lock()

    def traces(self, spans: Iterable[Span]) -> Answer:
        """Take spans. Raises ``Full``, and what reading them raises."""
        rows, refused = list[Row](), list[str]()
        for span in spans:
            try:
                rows.append(request_of(span, self._labels))
            except Unmapped as why:
                self._refuse(why, "span", _kind_of(span), refused)
                continue
            for name in unmapped_names(span.attributes):
                self.unkept.add("attribute", name)
        self._hand_over(Collected(LLM_REQUESTS, rows))
        return _answer(refused)

    def metrics(self, points: Iterable[Point]) -> Answer:
        """Take points. Raises ``Full``, and what reading them raises."""
        listed = list(points)
        rows, refused = list[Row](), list[str]()
        with self._lock:
            for point in listed:
                try:
                    row = self._points.sample_of(point)
                except Unmapped as why:
                    self._refuse(why, "metric", point.metric, refused)
                    continue
                if row is not None:
                    rows.append(row)
        self._hand_over(Collected(ENGINE_SAMPLES, rows))
        return _answer(refused)

    def _refuse(self, why: Unmapped, kind: str, name: str, refused: list[str]) -> None:
        self.unkept.add(f"broken {kind}" if why.broken else kind, name)
        if why.broken:
            refused.append(f"{name}: {why}")

    def _hand_over(self, collected: Collected) -> None:
        self.unkept.tell(self._counters)
        if collected.rows and not self._offer(packed([collected])):
            raise Full


def _answer(refused: list[str]) -> Answer:
    return Answer(len(refused), refused[0]) if refused else Answer()


def _kind_of(span: Span) -> str:
    """A span's operation, which comes from a small set; names of spans may hold anything."""
    operation = span.attributes.get("gen_ai.operation.name")
    return operation if isinstance(operation, str) else "without gen_ai.operation.name"
