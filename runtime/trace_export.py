"""Exports spans by OTLP over HTTP in OpenTelemetry's encoding. Imported only where tracing is on."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from runtime.trace_context import Span, TraceContext

_KINDS = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER}
_FLAGS = TraceFlags(TraceFlags.SAMPLED)
_SCHEMA_URL = Schemas.V1_44_0.value
_SCOPE = InstrumentationScope("fleetpulse", schema_url=_SCHEMA_URL)
_NS_PER_MS = 1_000_000


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
        start_time=span.start_ms * _NS_PER_MS,
        end_time=max(span.start_ms, span.end_ms) * _NS_PER_MS,
    )


def _context(context: TraceContext, *, remote: bool) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=remote, trace_flags=_FLAGS)
