"""A tracer that keeps what it is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.trace_context import Span, threshold


@dataclass
class RecordingTracer:
    """``dropped`` are spans that were too many at once."""

    spans: list[Span] = field(default_factory=list)
    dropped: int = 0
    threshold: int = threshold(1.0)

    def end(self, span: Span) -> None:
        self.spans.append(span)

    def drop(self, spans: int) -> None:
        self.dropped += spans
