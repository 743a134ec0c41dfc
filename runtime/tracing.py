"""Tracer: exports spans of sampled batches to a collector from a thread of its own.

``Tracer.end`` never blocks: it puts a span into a bounded queue or, when that is full, drops and counts it. The thread
gathers spans and exports them by OTLP over HTTP. An unavailable collector costs spans
and nothing else: every span that ended is counted as exported or dropped (counter ``trace_spans``), and an outage is
one line in the log. OpenTelemetry is loaded where tracing is on (0.2 s and 10 MiB at the start), and never else.

Names of spans and attributes are those of OpenTelemetry's semantic conventions 1.44.0 for messaging, Kafka and
databases (https://github.com/open-telemetry/semantic-conventions/tree/v1.44.0/docs/messaging); what these have no word
for begins with ``fleetpulse.``.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Protocol

from runtime.counters import COUNTERS, Counters
from runtime.trace_context import Span, threshold
from runtime.tracing_config import TracingConfig
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)


class Exporter(Protocol):
    """Exports spans to a collector; used by one thread."""

    def export(self, spans: Sequence[Span]) -> bool:
        """False when they were not taken; waits for the given time."""
        ...

    def close(self) -> None:
        """Ends what waits in ``export``; called from another thread."""
        ...


class Tracer(Protocol):
    """Takes spans that have ended."""

    threshold: int
    """Of ``is_sampled``: which of the edge's batches are sampled."""

    def end(self, span: Span) -> None:
        """Take a span that has ended. Never waits, never raises."""
        ...

    def drop(self, spans: int) -> None:
        """Count spans that were left out because there were too many at once."""
        ...


class ExportingTracer:
    """Exports in a thread of its own. ``close`` it at the end of the process."""

    def __init__(self, config: TracingConfig, exporter: Exporter, counters: Counters = COUNTERS) -> None:
        self.threshold = threshold(config.ratio)
        self._config = config
        self._exporter = exporter
        self._counters = counters
        self._queue: deque[Span] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._away = False
        self._lock = threading.Lock()
        self._exporting = 0
        """Spans that are being exported and not counted yet."""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def end(self, span: Span) -> None:
        """Queue a span, or drop it when the queue is full."""
        if len(self._queue) >= self._config.queue_spans_max or self._closing.is_set():
            self._count("queue_full", 1)
            return
        self._queue.append(span)
        if len(self._queue) >= self._config.batch_spans_max:
            self._wake.set()

    def drop(self, spans: int) -> None:
        """Count spans that never came to be."""
        self._count("too_many", spans)

    def close(self) -> None:
        """Export what waits, for ``flush_within_ms`` at most; the rest is dropped and counted."""
        self._closing.set()
        self._wake.set()
        self._thread.join(self._config.flush_within_ms / 1_000)
        waiting = len(self._taken(len(self._queue)))  # first, so that a thread that goes on finds nothing
        if self._thread.is_alive():
            self._exporter.close()
        self._count("shutdown", waiting + self._uncounted())

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(self._config.export_every_ms / 1_000)
            self._wake.clear()
            self._export_waiting()
        self._export_waiting()

    def _export_waiting(self) -> None:
        while spans := self._taken(self._config.batch_spans_max):
            with self._lock:
                self._exporting = len(spans)
            taken = _exported(self._exporter, spans)
            self._count("exported" if taken else "refused", self._uncounted())
            self._log_change(taken)
            if not taken:
                return

    def _uncounted(self) -> int:
        """How many spans are being exported; whoever asks first counts them: the thread, or the end that does not wait
        for it."""
        with self._lock:
            spans, self._exporting = self._exporting, 0
        return spans

    def _taken(self, most: int) -> list[Span]:
        """The oldest spans, off the queue."""
        spans: list[Span] = []
        with contextlib.suppress(IndexError):
            while len(spans) < most:
                spans.append(self._queue.popleft())
        return spans

    def _log_change(self, taken: bool) -> None:
        """One line when the collector goes, one when it is back."""
        if taken == self._away:
            facts = {"endpoint": self._config.endpoint}
            if taken:
                _log.info("trace export recovered", extra=facts)
            else:
                _log.warning("trace export failing; spans are dropped and counted", extra=facts)
        self._away = not taken

    def _count(self, outcome: str, spans: int) -> None:
        if spans:
            self._counters.add("trace_spans", spans, outcome=outcome)


def _exported(exporter: Exporter, spans: Sequence[Span]) -> bool:
    try:
        return exporter.export(spans)
    except Exception:  # of a library's inside: traces are no reason to fail
        _log.debug("exporting spans failed", exc_info=True)
        return False


@contextlib.contextmanager
def tracing(config: TracingConfig, process: str) -> Iterator[Tracer | None]:
    """The tracer of this process until its end; None, and nothing loaded, where traces are off. ``process`` is what its
    log lines call it. Raises ``ConfigError`` where tracing is on and OpenTelemetry is not installed."""
    url = config.url
    if url is None:
        yield None
        return
    if not _is_installed():
        raise ConfigError(
            "tracing.endpoint", config.endpoint, "needs fleetpulse[tracing]: docs/start/install.md#extras"
        )
    name = config.service_name or f"fleetpulse-{process}"
    from runtime.trace_export import OtlpExporter

    tracer = ExportingTracer(config, OtlpExporter(url, name, config.export_within_ms / 1_000))
    _log.info("tracing enabled", extra={"endpoint": config.endpoint, "ratio": config.ratio, "service": name})
    try:
        yield tracer
    finally:
        tracer.close()


def _is_installed() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False
