"""The first span of a trace: a record from sealing to the broker's acknowledgement, and its trace header.

Whether a record is sampled depends on its identity alone: a record sent again carries the same header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from producers.spool.frame import Spooled
from runtime.clock import Clock
from runtime.trace_context import Attribute, Span, TraceContext, batch_context, drawn, is_sampled, seed_of
from runtime.tracing import Tracer


class PublishSpans:
    """The spans of records of a spool; ``source_of`` a boot is their source."""

    def __init__(self, tracer: Tracer, source_of: Callable[[int], str], clock: Clock) -> None:
        self._tracer = tracer
        self._source_of = source_of
        self._clock = clock
        self._boot = -1
        self._seed = 0
        self._on_their_way: dict[tuple[int, int], TraceContext] = {}
        """By (boot, seq): sampled, sent and not yet acknowledged."""

    def headers(self, record: Spooled) -> list[tuple[str, bytes]]:
        """What a record's headers get at their end: nothing, or its trace context."""
        if not is_sampled(self._drawn(record), self._tracer.threshold):
            return []
        context = self._on_their_way[record[:2]] = batch_context(self._source_of(record.boot), record.boot, record.seq)
        return [context.header]

    def published(self, records: Sequence[Spooled], first_offset: int | None) -> None:
        """These were acknowledged together; the first came to stand at this offset (None: unknown)."""
        if not self._on_their_way:
            return
        now_ms = self._clock.now_ms()
        for place, record in enumerate(records):
            context = self._on_their_way.pop(record[:2], None)
            if context is not None:
                offset = None if first_offset is None or first_offset < 0 else first_offset + place
                self._tracer.end(self._span(record, context, offset, now_ms))

    def _drawn(self, record: Spooled) -> int:
        if record.boot != self._boot:
            self._boot, self._seed = record.boot, seed_of(self._source_of(record.boot), record.boot)
        return drawn(self._seed, record.seq)

    def _span(self, record: Spooled, context: TraceContext, offset: int | None, now_ms: int) -> Span:
        attributes: dict[str, Attribute] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "publish",
            "messaging.operation.type": "send",
            "messaging.destination.name": record.topic,
            "messaging.destination.partition.id": str(record.partition),
            "messaging.message.body.size": len(record.value),
            "fleetpulse.source": self._source_of(record.boot),
            "fleetpulse.boot": record.boot,
            "fleetpulse.seq": record.seq,
            "fleetpulse.events": record.events,
        }
        if offset is not None:
            attributes["messaging.kafka.offset"] = offset
        return Span(f"publish {record.topic}", "producer", context, None, record.at_ms, now_ms, (), attributes)
