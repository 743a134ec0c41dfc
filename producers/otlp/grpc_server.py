"""OTLP/gRPC server. Imported only when enabled: it needs grpcio (the package's extra ``otlp``)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import unquote

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from producers.otlp.intake import Full, Intake, allowed
from producers.otlp.item_bound import METRICS, TRACES, Shape, demand_few
from producers.otlp.proto_signals import points_of_message, spans_of_message
from runtime.addresses import bracketed

_log = logging.getLogger(__name__)

CALLS_MAX = 1_024
"""Beyond, grpcio answers RESOURCE_EXHAUSTED, after which senders drop a batch. A call that waits for a thread holds no
more than what its connection buffers of it."""
WITHIN_S = 10.0
"""A call whose message has not come by then is cancelled: it holds one of ``_THREADS``."""
_THREADS = 8
"""Messages that are received at one time, or wait for their turn to be read."""
_READ_AT_ONCE = 2
_STOP_WITHIN_S = 2.0


class OtlpGrpc:
    """Serves until closed. Port 0 takes a free one; ``port`` is the bound one. Use as a context manager."""

    def __init__(
        self, intake: Intake, port: int, bytes_max: int, *, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="otlp-grpc"),
            maximum_concurrent_rpcs=CALLS_MAX,
            options=[("grpc.max_receive_message_length", bytes_max), ("grpc.so_reuseport", 0)],
        )
        serve = partial(_handler, token, threading.BoundedSemaphore(_READ_AT_ONCE))
        services = (
            serve("trace.v1.TraceService", traces.ExportTraceServiceRequest, TRACES, partial(_traces, intake)),
            serve("metrics.v1.MetricsService", metrics.ExportMetricsServiceRequest, METRICS, partial(_metrics, intake)),
        )
        self._server.add_generic_rpc_handlers(services)
        self.port: int = self._server.add_insecure_port(f"{bracketed(host)}:{port}")
        self._server.start()
        _log.info("OTLP/gRPC listening", extra={"port": self.port})

    def __enter__(self) -> OtlpGrpc:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering, after the calls that are being answered."""
        self._server.stop(_STOP_WITHIN_S).wait()


def _handler(
    token: str | None,
    reading: threading.BoundedSemaphore,
    service: str,
    request: Any,
    shape: Shape,
    take: Callable[[Any, str], Any],
) -> Any:
    """A service's only call. Messages are read by those who hold ``reading``; ``take`` gives the response to one
    from an IP address."""

    def export(messages: Iterator[bytes], context: Any) -> Any:
        if not allowed(str(dict(context.invocation_metadata()).get("authorization", "")), token):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "needs authorization: Bearer TOKEN of agent.otlp.token")
        message = _received(messages, context)
        with reading:
            try:
                demand_few(message, shape)
                read = request.FromString(message)
            except Exception as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unreadable: {error}")
            try:
                return take(read, _peer_of(context))
            except Full:
                context.abort(grpc.StatusCode.UNAVAILABLE, "no room now")

    # On the wire a call of one message is a stream of one: only so can the wait for it be bounded.
    call = grpc.stream_unary_rpc_method_handler(export, None, lambda response: response.SerializeToString())
    return grpc.method_handlers_generic_handler(f"opentelemetry.proto.collector.{service}", {"Export": call})


def _received(messages: Iterator[bytes], context: Any) -> bytes:
    """The call's message. What comes too late, or not at all, ends the call."""
    too_late = threading.Timer(WITHIN_S, context.cancel)
    too_late.daemon = True
    too_late.start()
    try:
        message = next(messages, None)
    finally:
        too_late.cancel()
    if message is None:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "needs one message")
    assert message is not None, "abort raises"
    return message


def _peer_of(context: Any) -> str:
    """IP address of the caller, from ``ipv4:10.0.0.7:4711`` or ``ipv6:%5B::1%5D:4711``."""
    return unquote(context.peer()).partition(":")[2].rpartition(":")[0].strip("[]")


def _traces(intake: Intake, request: Any, peer: str) -> Any:
    answer = intake.traces(spans_of_message(request), peer)
    partial_success = traces.ExportTracePartialSuccess(rejected_spans=answer.rejected, error_message=answer.why)
    return traces.ExportTraceServiceResponse(partial_success=partial_success if answer.rejected else None)


def _metrics(intake: Intake, request: Any, peer: str) -> Any:
    answer = intake.metrics(points_of_message(request), peer)
    partial_success = metrics.ExportMetricsPartialSuccess(
        rejected_data_points=answer.rejected, error_message=answer.why
    )
    return metrics.ExportMetricsServiceResponse(partial_success=partial_success if answer.rejected else None)
