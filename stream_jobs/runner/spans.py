"""Spans of a partition's sampled records: each from its appending to the commit that holds it, and of that commit.

A record is followed when its headers carry a sampled trace context. Its span ``fold`` goes on in the record's trace. A
commit that holds such records has a span ``commit``, and its outputs carry that one's context: a commit joins many
batches. It links to the spans of all of them; where it holds but one, it goes on in the trace of that.

Nothing here reaches a step, and a commit without such a record sends what it would send without tracing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runtime.trace_context import LINKS_MAX, Attribute, Span, TraceContext, context_of, span_within, trace_of
from runtime.tracing import Tracer
from schemas.contract.record import Output, Record
from stream_jobs.runner.job import Source


class _Followed(NamedTuple):
    """A sampled record: where it stands, when it was appended, and the span that sent it."""

    offset: int
    appended_ms: int
    sent_by: TraceContext


class CommitSpans(NamedTuple):
    """A commit that holds ``followed`` records (and ``more`` that are left out), beginning with ``context``."""

    tracer: Tracer
    group: str
    source: Source
    followed: tuple[_Followed, ...]
    more: int
    context: TraceContext
    offsets: tuple[int, int]
    begun_ms: int

    def stamped(self, outputs: Iterable[Output]) -> list[Output]:
        """The outputs, which now carry the commit's context behind the headers that the step wrote."""
        header = self.context.header
        return [output._replace(headers=(*output.headers, header)) for output in outputs]

    def committed(self, outputs: int, now_ms: int) -> None:
        """The transaction is committed, with so many outputs."""
        for one in self.followed:
            self.tracer.end(self._fold(one, now_ms))
        self.tracer.end(self._commit(outputs, now_ms))
        self.tracer.drop(self.more)

    def _fold(self, one: _Followed, now_ms: int) -> Span:
        attributes = self._about("fold", "process") | {"messaging.kafka.offset": one.offset}
        name, context = f"fold {self.source.topic}", _fold_context(self.group, self.source, one)
        return Span(name, "consumer", context, one.sent_by, one.appended_ms, now_ms, (one.sent_by,), attributes)

    def _commit(self, outputs: int, now_ms: int) -> Span:
        begin, end = self.offsets
        attributes: dict[str, Attribute] = self._about("commit", "send") | {
            "messaging.batch.message_count": end - begin,
            "fleetpulse.offset_from": begin,
            "fleetpulse.offset_to": end,
            "fleetpulse.outputs": outputs,
            "fleetpulse.sampled_records": len(self.followed) + self.more,
        }
        folds = tuple(_fold_context(self.group, self.source, one) for one in self.followed)
        parent = folds[0] if len(folds) == 1 and not self.more else None
        name = f"commit {self.source.topic}"
        return Span(name, "producer", self.context, parent, self.begun_ms, now_ms, folds, attributes)

    def _about(self, operation: str, kind: str) -> dict[str, Attribute]:
        return {
            "messaging.system": "kafka",
            "messaging.operation.name": operation,
            "messaging.operation.type": kind,
            "messaging.destination.name": self.source.topic,
            "messaging.destination.partition.id": str(self.source.partition),
            "messaging.consumer.group.name": self.group,
        }


class PartitionSpans:
    """What of ``source`` was fed to the job ``group`` and is not yet committed."""

    def __init__(self, tracer: Tracer, group: str, source: Source) -> None:
        self._tracer = tracer
        self._group = group
        self._source = source
        self._followed: list[_Followed] = []
        self._more: list[int] = []
        """Offsets of those above ``LINKS_MAX``."""

    def fed(self, records: Sequence[Record]) -> None:
        """These are about to be folded."""
        for record in records:
            context = context_of(record.headers)
            if context is None:
                continue
            if len(self._followed) < LINKS_MAX:
                self._followed.append(_Followed(record.offset, record.timestamp_ms, context))
            else:
                self._more.append(record.offset)

    def commit(self, offset_from: int, offset_to: int, now_ms: int) -> CommitSpans | None:
        """The spans of a commit of ``[offset_from, offset_to)``; None when it holds no sampled record."""
        followed = tuple(one for one in self._followed if one.offset < offset_to)
        if not followed:
            return None
        more = sum(offset < offset_to for offset in self._more)
        del self._followed[: len(followed)], self._more[:more]
        context = self._context(followed, more, (offset_from, offset_to))
        offsets = (offset_from, offset_to)
        return CommitSpans(self._tracer, self._group, self._source, followed, more, context, offsets, now_ms)

    def _context(self, followed: Sequence[_Followed], more: int, offsets: tuple[int, int]) -> TraceContext:
        what = ("commit", self._group, self._source, *offsets)
        if len(followed) == 1 and not more:
            return span_within(followed[0].sent_by.trace_id, *what)
        return trace_of(*what, followed[0].sent_by)


def _fold_context(group: str, source: Source, one: _Followed) -> TraceContext:
    return span_within(one.sent_by.trace_id, "fold", group, source, one.offset)
