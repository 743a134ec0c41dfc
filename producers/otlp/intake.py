"""Intake: maps OTLP signals to rows, and counts by name what was not mapped, up to ``NAMES_MAX`` names.

Called from any thread. A batch is taken whole or, when there is no room, not at all: the sender retries.
"""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from producers.agent.publishing import Parcel, packed
from producers.collector import Collected, Row
from producers.identity.joiner import Joiner, meant
from producers.otlp.custom_points import CustomPoints
from producers.otlp.json_signals import Attributes, Point, Span
from producers.otlp.points import SAMPLED, SERIES_MAX, Points, address_of
from producers.otlp.semconv import Unmapped, is_of_engine, request_of, text_of, unmapped_names, user_of
from producers.requests.client_names import ClientNames
from runtime.addresses import is_loopback
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import CUSTOM_METRICS, ENGINE_SAMPLES, LLM_REQUESTS

_log = logging.getLogger(__name__)

NAMES_MAX = 256
OTHER = "__other__"

Offer = Callable[[Parcel], bool]


class Full(Exception):
    """Backpressure: no room now; nothing of the batch was taken."""


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
        self._counted: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, kind: str, name: str) -> None:
        """Count one; the first of each name is logged."""
        key = f"{kind}:{name[:128]}"
        with self._lock:
            if key not in self._counts and len(self._counts) >= self._names_max:
                key = OTHER
            fresh = key not in self._counts
            self._counts[key] = self._counts.get(key, 0) + 1
        if fresh:
            _log.info("OTLP item not mapped to any field; counted only", extra={"name_not_mapped": key})

    def counts(self) -> dict[str, int]:
        """Counts by ``kind:name``."""
        with self._lock:
            return dict(self._counts)

    def count_into(self, counters: Counters) -> None:
        """Add what came since the last call to the counters, once per batch because that is cheaper."""
        with self._lock:
            since = {key: count - self._counted.get(key, 0) for key, count in self._counts.items()}
            self._counted = dict(self._counts)
        for key, more in since.items():
            if more:
                kind, mark, name = key.partition(":")
                counters.add("otlp_unmapped", more, kind=kind, item=name if mark else OTHER)


class Intake:
    """Maps batches of signals of one host to rows and hands them on. ``is_here``: whether an IP address is of this
    machine; what a sender elsewhere names by a loopback address is not on it."""

    def __init__(
        self,
        labels: Attributes,
        offer: Offer,
        counters: Counters = COUNTERS,
        joiner: Joiner | None = None,
        tenant_attributes: Sequence[str] = (),
        metric_series_max: int = 0,
        names: ClientNames | None = None,
        is_here: Callable[[str], bool] = is_loopback,
    ) -> None:
        self.unkept = Unkept()
        self._is_here = is_here
        self._tenant_attributes = tenant_attributes
        self._joiner = joiner or Joiner("otlp", counters=counters)
        self._names = names or ClientNames()
        self._counters = counters
        self._labels = labels
        self._offer = offer
        self._points = Points(labels)
        self._differences = Points(labels, max(SERIES_MAX, 2 * metric_series_max))  # of each, and of a process before
        self._custom = CustomPoints(labels, self._differences, metric_series_max)
        self._lock = threading.Lock()

    def traces(self, spans: Iterable[Span], peer: str | None = None) -> Answer:
        """Take spans. ``peer``: IP address of the sender; None: this machine. Raises ``Full``, and what reading them
        raises."""
        rows, rejected, here = list[Row](), list[str](), self._here(peer)
        for span in spans:
            try:
                row = request_of(span, self._labels)
            except Unmapped as why:
                self._reject(why, "span", _kind_of(span), rejected)
                continue
            row["tenant"] = text_of(span, self._tenant_attributes)
            row["user_hash"] = self._names.user_hash(user_of(span))
            self._names.judge(row)
            address = address_of(span.attributes) or address_of(span.resource)
            serving = row["model"] if address is None and is_of_engine(span) else None
            if not here:
                row["engine_id"], address = meant(row["engine_id"], None), meant(address, None)
            self._joiner.join(row, address, serving=serving)
            rows.append(row)
            for name in unmapped_names(span.attributes):
                self.unkept.add("attribute", name)
        self._hand_over(Collected(LLM_REQUESTS, rows))
        return _answer(rejected)

    def metrics(self, points: Iterable[Point], peer: str | None = None) -> Answer:
        """As ``traces``, of points."""
        listed, here = list(points), self._here(peer)
        rows, custom, rejected = list[Row](), list[Row](), list[str]()
        with self._lock, self._points.totals.all_or_nothing(), self._differences.totals.all_or_nothing():
            for point in listed:
                try:
                    row = self._sample_of(point, here=here) if point.metric in SAMPLED else None
                    custom += [] if point.metric in SAMPLED else self._custom.rows_of(point)
                except Unmapped as why:
                    self._reject(why, "metric", point.metric, rejected)
                    continue
                if row is not None:
                    rows.append(row)
            self._hand_over(Collected(ENGINE_SAMPLES, rows), Collected(CUSTOM_METRICS, custom))
        return _answer(rejected)

    def _here(self, peer: str | None) -> bool:
        return peer is None or self._is_here(peer)

    def _sample_of(self, point: Point, *, here: bool) -> Row | None:
        """As ``Points``; raises ``Unmapped`` too for an engine that the agent reads: its page has the same tokens."""
        address = address_of(point.attributes)
        if self._joiner.knows(address if here else meant(address, None)):
            raise Unmapped("of an engine that the agent reads itself", broken=False)
        return self._points.sample_of(point)

    def _reject(self, why: Unmapped, kind: str, name: str, rejected: list[str]) -> None:
        self.unkept.add(f"broken {kind}" if why.broken else kind, name)
        if why.broken:
            rejected.append(f"{name}: {why}")

    def _hand_over(self, *collected: Collected) -> None:
        self.unkept.count_into(self._counters)
        if any(part.rows for part in collected) and not self._offer(packed([part for part in collected if part.rows])):
            raise Full


def allowed(authorization: str, token: str | None) -> bool:
    """Whether a sender with this header ``authorization`` may send; compared in constant time."""
    return token is None or hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


def _answer(rejected: list[str]) -> Answer:
    return Answer(len(rejected), rejected[0]) if rejected else Answer()


def _kind_of(span: Span) -> str:
    """A span's operation, which comes from a small set; names of spans may hold anything."""
    operation = span.attributes.get("gen_ai.operation.name")
    return operation if isinstance(operation, str) else "without gen_ai.operation.name"
