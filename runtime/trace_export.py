"""Exports spans by OTLP over HTTP in OpenTelemetry's encoding. Imported only where tracing is on."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from runtime.trace_context import Span, TraceContext

_KINDS = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER, "client": SpanKind.CLIENT}
_FLAGS = TraceFlags(TraceFlags.SAMPLED)
_SCHEMA_URL = Schemas.V1_44_0.value
_SCOPE = InstrumentationScope("fleetpulse", schema_url=_SCHEMA_URL)


class OtlpExporter:
    """Sends to ``url`` as the service ``name``; a request is tried again for ``within_s`` at most."""

    def __init__(self, url: str, name: str, within_s: float) -> None:
        # The library logs every attempt; the tracer logs an outage once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        who: dict[str, str | int] = {"service.name": name, "service.namespace": "fleetpulse"}
        where: dict[str, str | int] = {"host.name": socket.gethostname(), "process.pid": os.getpid()}
        self._resource = Resource.create(who | where, _SCHEMA_URL)
        self._exporter = OTLPSpanExporter(url, timeout=within_s, compression=Compression.Gzip)

    def export(self, spans: Sequence[Span]) -> bool:
        """False when the collector did not take them."""
        readable = [readable_span(span, self._resource) for span in spans]
        return self._exporter.export(readable) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """No further attempt."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def readable_span(span: Span, resource: Resource) -> ReadableSpan:
    """The span in the library's terms."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.context, remote=False),
        parent=None if span.parent is None else _context(span.parent, remote=True),
        resource=resource,
        attributes=span.attributes,
        links=[Link(_context(link, remote=True)) for link in span.links],
        kind=_KINDS[span.kind],
        instrumentation_scope=_SCOPE,
        events=[Event(name, timestamp=_ns(at_ms)) for name, at_ms in span.moments],
        status=Status(StatusCode.ERROR) if span.failed else Status(),
        start_time=_ns(span.start_ms),
        end_time=_ns(max(span.start_ms, span.end_ms)),
    )


def _ns(at_ms: float) -> int:
    """Exact to the microsecond: a float of this size holds no less."""
    return round(at_ms * 1_000) * 1_000


def _context(context: TraceContext, *, remote: bool) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=remote, trace_flags=_FLAGS)
