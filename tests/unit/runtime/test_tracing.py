from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from runtime import tracing as tracing_module
from runtime.counters import Counters
from runtime.trace_context import Span, TraceContext, threshold
from runtime.tracing import ExportingTracer, tracing
from runtime.tracing_config import TracingConfig
from schemas.errors import ConfigError

WITHIN_S = 30.0
ON = TracingConfig(
    endpoint="http://127.0.0.1:4318", ratio=0.5, queue_spans_max=4, batch_spans_max=2, export_every_ms=10
)
OUTCOMES = ("exported", "queue_full", "refused", "too_many", "shutdown")


def a_span(number: int) -> Span:
    return Span(f"s{number}", "producer", TraceContext(1, number + 1), None, 0, 1)


class RecordingExporter:
    """Accepts spans, refuses them or blocks, as the test sets it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.answers: list[bool | Exception] = []
        self.closed = threading.Event()
        self.entered = threading.Event()
        self.released = threading.Event()
        self.released.set()

    def export(self, spans: Sequence[Span]) -> bool:
        self.entered.set()
        self.released.wait(WITHIN_S)
        self.batches.append([span.name for span in spans])
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed.set()
        self.released.set()


def counted(counters: Counters) -> dict[str, float]:
    found = {outcome: counters.value("trace_spans", outcome=outcome) for outcome in OUTCOMES}
    return {outcome: number for outcome, number in found.items() if number}


def test_what_ended_is_exported_in_batches_by_the_end() -> None:
    """Closing exports what waits; every span is in one batch, none of which is above the bound."""
    exporter, counters = RecordingExporter(), Counters()
    tracer = ExportingTracer(ON, exporter, counters)
    for number in range(3):
        tracer.end(a_span(number))
    tracer.close()

    assert tracer.threshold == threshold(0.5)
    assert [name for batch in exporter.batches for name in batch] == ["s0", "s1", "s2"]
    assert max(map(len, exporter.batches)) <= 2
    assert counted(counters) == {"exported": 3}


def test_a_full_queue_drops_and_counts_and_never_waits() -> None:
    """While the collector hangs, four wait and two are on their way; whatever comes above is counted."""
    exporter, counters = RecordingExporter(), Counters()
    exporter.released.clear()
    tracer = ExportingTracer(ON, exporter, counters)
    tracer.end(a_span(0))
    assert exporter.entered.wait(WITHIN_S)

    for number in range(1, 8):
        tracer.end(a_span(number))
    exporter.released.set()
    tracer.close()

    assert counted(counters) == {"exported": 5, "queue_full": 3}


def test_an_outage_costs_spans_and_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Refused or failing, the spans are counted; a line when the collector goes, one when it is back."""
    exporter, counters = RecordingExporter(), Counters()
    exporter.answers = [False, RuntimeError("of a library's inside"), False, True, True]
    answered = threading.Semaphore(0)
    export = exporter.export

    def and_tell(spans: Sequence[Span]) -> bool:
        try:
            return export(spans)
        finally:
            answered.release()

    exporter.export = and_tell  # type: ignore[method-assign]
    with caplog.at_level(logging.INFO, "runtime.tracing"):
        tracer = ExportingTracer(ON, exporter, counters)
        for number in range(5):
            tracer.end(a_span(number))
            assert answered.acquire(timeout=WITHIN_S)
        tracer.close()

    assert counted(counters) == {"exported": 2, "refused": 3}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_an_end_does_not_wait_for_a_collector_that_hangs() -> None:
    """What waits is dropped and counted, the attempt under way is ended, and its spans count as refused."""
    exporter, counters = RecordingExporter(), Counters()
    end = exporter.close

    def end_and_wait() -> None:
        end()
        tracer._thread.join(WITHIN_S)

    exporter.close = end_and_wait  # type: ignore[method-assign]
    exporter.released.clear()
    exporter.answers = [False]
    tracer = ExportingTracer(ON.model_copy(update={"flush_within_ms": 10}), exporter, counters)
    tracer.end(a_span(0))
    assert exporter.entered.wait(WITHIN_S)
    for number in range(1, 4):
        tracer.end(a_span(number))

    tracer.close()
    tracer.end(a_span(9))

    assert exporter.closed.is_set()
    assert counted(counters) == {"refused": 1, "shutdown": 3, "queue_full": 1}


def test_an_export_that_does_not_end_is_counted_by_the_end() -> None:
    """A library that cannot be interrupted holds spans beyond it."""
    exporter, counters = RecordingExporter(), Counters()
    exporter.released.clear()
    exporter.close = exporter.closed.set  # type: ignore[method-assign]
    tracer = ExportingTracer(ON.model_copy(update={"flush_within_ms": 10}), exporter, counters)
    tracer.end(a_span(0))
    assert exporter.entered.wait(WITHIN_S)

    tracer.close()

    assert counted(counters) == {"shutdown": 1}
    exporter.released.set()
    tracer._thread.join(WITHIN_S)
    assert counted(counters) == {"shutdown": 1}


def test_spans_that_were_too_many_at_once_are_counted() -> None:
    """Whoever leaves them out says how many."""
    counters = Counters()
    tracer = ExportingTracer(ON, RecordingExporter(), counters)
    tracer.drop(7)
    tracer.drop(0)
    tracer.close()

    assert counted(counters) == {"too_many": 7}


def test_off_there_is_no_tracer() -> None:
    """Whoever asks gets None and does nothing more."""
    with tracing(TracingConfig(), "sink") as tracer:
        assert tracer is None


def test_on_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not in some thread later."""
    monkeypatch.setattr(tracing_module, "find_spec", lambda name: None)

    with pytest.raises(ConfigError, match=r"fleetpulse\[tracing\]"), tracing(ON, "sink"):
        pytest.fail("it started")


def test_off_nothing_of_opentelemetry_is_loaded() -> None:
    """Neither by the edge, nor by a job's host, nor by the sink."""
    code = (
        "import sys, fleetpulse.services.edge, fleetpulse.services.jobs_and_sink, sinks.service\n"
        "import stream_jobs.runner.bare_runner, stream_jobs.runner.faust_runner\n"
        "from runtime.tracing import tracing\n"
        "from runtime.tracing_config import TracingConfig\n"
        "with tracing(TracingConfig(), 'sink'):\n"
        "    print(sorted(name for name in sys.modules if name.partition('.')[0] == 'opentelemetry'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
