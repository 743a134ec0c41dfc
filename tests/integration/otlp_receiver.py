"""A collector for tests: takes OTLP over HTTP and keeps the spans, by service."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

KINDS = {
    ProtoSpan.SPAN_KIND_PRODUCER: "producer",
    ProtoSpan.SPAN_KIND_CONSUMER: "consumer",
    ProtoSpan.SPAN_KIND_CLIENT: "client",
}
Key = tuple[bytes, bytes]
"""Trace and span."""


@dataclass(frozen=True)
class Received:
    """A span as it came over the wire."""

    service: str
    name: str
    kind: str
    key: Key
    parent: Key | None
    links: tuple[Key, ...]
    start_ms: int
    end_ms: int
    attributes: Mapping[str, str | int]
    events: tuple[str, ...] = ()
    failed: bool = False


@dataclass
class Receiver:
    """What was received so far."""

    spans: list[Received] = field(default_factory=list)
    url: str = ""

    def of(self, operation: str) -> list[Received]:
        """The spans of this operation, of any topic or table; or, ``publish gpu.samples``, of one."""
        return [span for span in self.spans if span.name == operation or span.name.startswith(f"{operation} ")]

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_received(about["service.name"], span) for span in scope.spans]


def _received(service: str, span: ProtoSpan) -> Received:
    trace = bytes(span.trace_id)
    return Received(
        service,
        span.name,
        KINDS[span.kind],
        (trace, bytes(span.span_id)),
        (trace, bytes(span.parent_span_id)) if span.parent_span_id else None,
        tuple((bytes(link.trace_id), bytes(link.span_id)) for link in span.links),
        span.start_time_unix_nano // 1_000_000,
        span.end_time_unix_nano // 1_000_000,
        {one.key: one.value.string_value or one.value.int_value for one in span.attributes},
        tuple(event.name for event in span.events),
        span.status.code == Status.STATUS_CODE_ERROR,
    )


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector on a free port of loopback."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            receiver.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
