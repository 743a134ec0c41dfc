"""OTLP/gRPC server. Imported only when enabled: it needs grpcio (the package's extra ``otlp``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from producers.otlp.intake import Answer, Full, Intake, allowed
from producers.otlp.item_bound import METRICS, TRACES, Shape, demand_few
from producers.otlp.proto_signals import points_of_message, spans_of_message
from runtime.addresses import bracketed

_log = logging.getLogger(__name__)

CALLS_MAX = 1_024
"""Beyond, grpcio answers RESOURCE_EXHAUSTED, after which senders drop a batch. A call that waits for a thread holds no
more than what its connection buffers of it."""
_THREADS = 2
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
        self._server.add_generic_rpc_handlers((_traces(intake, token), _metrics(intake, token)))
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


def _traces(intake: Intake, token: str | None) -> Any:
    def export(request: Any, context: Any) -> Any:
        answer = _taken(lambda: intake.traces(spans_of_message(request)), context, token)
        partial = traces.ExportTracePartialSuccess(rejected_spans=answer.rejected, error_message=answer.why)
        return traces.ExportTraceServiceResponse(partial_success=partial if answer.rejected else None)

    return _service("trace.v1.TraceService", export, traces.ExportTraceServiceRequest, TRACES)


def _metrics(intake: Intake, token: str | None) -> Any:
    def export(request: Any, context: Any) -> Any:
        answer = _taken(lambda: intake.metrics(points_of_message(request)), context, token)
        partial = metrics.ExportMetricsPartialSuccess(rejected_data_points=answer.rejected, error_message=answer.why)
        return metrics.ExportMetricsServiceResponse(partial_success=partial if answer.rejected else None)

    return _service("metrics.v1.MetricsService", export, metrics.ExportMetricsServiceRequest, METRICS)


def bounded(parse: Callable[[bytes], Any], shape: Shape) -> Callable[[bytes], Any]:
    """``parse``, of bodies with a bounded number of items; others end the call (``INTERNAL``, as gRPC has it)."""

    def checked(body: bytes) -> Any:
        demand_few(body, shape)
        return parse(body)

    return checked


def _service(name: str, export: Callable[[Any, Any], Any], request: Any, shape: Shape) -> Any:
    parse = bounded(request.FromString, shape)
    handler = grpc.unary_unary_rpc_method_handler(export, parse, lambda message: message.SerializeToString())
    return grpc.method_handlers_generic_handler(f"opentelemetry.proto.collector.{name}", {"Export": handler})


def _taken(take: Callable[[], Answer], context: Any, token: str | None) -> Answer:
    if not allowed(str(dict(context.invocation_metadata()).get("authorization", "")), token):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "needs authorization: Bearer TOKEN of agent.otlp.token")
    try:
        return take()
    except Full:
        context.abort(grpc.StatusCode.UNAVAILABLE, "no room now")
        raise
