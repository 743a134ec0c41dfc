"""OTLP/HTTP server: ``POST /v1/traces`` and ``/v1/metrics``, protobuf or JSON, plain or gzip.

Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp (1.9). Bodies are bounded before and after unpacking, and in
items; what is read is bounded in time and in number of connections. ``GET /unmapped`` lists what was counted and not
mapped.
Answers: 200 with partial success, 400 unreadable, 401 without the token, 403 for a web page, 404, 405, 413 too large,
415, 503 no room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from producers.identity.joiner import Joiner
from producers.otlp.intake import Answer, Full, Intake, Offer, allowed
from producers.otlp.item_bound import demand_few_in_json
from producers.otlp.json_signals import Attributes, Unreadable, points_of_json, spans_of_json
from producers.requests.client_names import ClientNames
from runtime.addresses import is_loopback
from runtime.edge_config import OtlpConfig
from runtime.http_server import App, HttpThread, Refused, Request, Response, Route
from runtime.protobuf_wire import field, varint
from schemas.errors import ConfigError

_log = logging.getLogger(__name__)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
CONNECTIONS_MAX = 32
WITHIN_S = 10.0


def unpacked(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """The body without its compression. Raises ``Refused`` for one that is broken, too large, or packed otherwise."""
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise Refused(415, f"content-encoding {encoding}: must be gzip or none")
    reader = zlib.decompressobj(31)
    try:
        plain = reader.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise Refused(400, f"broken gzip: {error}") from error
    if len(plain) > bytes_max:
        raise Refused(413, f"unpacks to more than {bytes_max} bytes")
    if not reader.eof or reader.unused_data:
        raise Refused(400, "broken gzip: cut off, or more than one member")
    return plain


class OtlpHttp(HttpThread):
    """Serves until closed. Port 0 takes a free one; ``port`` is the bound one. Use as a context manager."""

    def __init__(
        self, intake: Intake, port: int, bytes_max: int, *, host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        async def unmapped(_request: Request) -> Response:
            return Response(200, orjson.dumps(intake.unkept.counts(), option=orjson.OPT_SORT_KEYS))

        routes = {
            "/v1/traces": _route(intake.traces, spans_of_json, "spans_of_proto", "rejectedSpans", bytes_max),
            "/v1/metrics": _route(intake.metrics, points_of_json, "points_of_proto", "rejectedDataPoints", bytes_max),
            "/unmapped": Route("GET", unmapped),
        }
        app = App(
            {path: _guarded(route, token) for path, route in routes.items()},
            _refuse,
            connections_max=CONNECTIONS_MAX,
            within_s=WITHIN_S,
            body_bytes_max=bytes_max,
        )
        super().__init__("otlp", host, port, app)
        _log.info("OTLP/HTTP listening", extra={"port": self.port})


def _guarded(route: Route, token: str | None) -> Route:
    async def answer(request: Request) -> Response:
        if not allowed(request.headers.get("authorization", ""), token):
            raise Refused(401, "needs the header authorization: Bearer TOKEN of agent.otlp.token")
        return await route.answer(request)

    return Route(route.method, answer, route.content_types)


def _route(
    take: Callable[[list[Any], str], Answer],
    of_json: Callable[[bytes], Iterator[Any]],
    of_proto: str,
    reject: str,
    bytes_max: int,
) -> Route:
    async def answer(request: Request) -> Response:
        kind, encoding = request.content_type, request.headers.get("content-encoding", "")
        body = unpacked(request.body, encoding.strip().lower(), bytes_max)
        try:
            taken = take(_read(kind, body, of_json, of_proto), request.peer)
        except Unreadable as error:
            raise Refused(400, str(error)) from error
        except Full as error:
            raise Refused(503, "no room now") from error
        return Response(200, _encoded(kind, taken, reject), kind)

    return Route("POST", answer, (PROTOBUF, JSON))


def _refuse(refused: Refused, request: Request) -> Response:
    """A ``google.rpc.Status`` in the request's encoding: message = 2."""
    kind, why = request.content_type, str(refused)
    headers = {"retry-after": "1"} if refused.status == 503 else {}
    if kind == PROTOBUF:
        return Response(refused.status, field(2, why.encode()), PROTOBUF, headers)
    return Response(refused.status, orjson.dumps({"message": why}), JSON, headers)


def _read(kind: str, body: bytes, of_json: Callable[[bytes], Iterator[Any]], of_proto: str) -> list[Any]:
    if kind == JSON:
        demand_few_in_json(body)
        return list(of_json(body))
    from producers.otlp import proto_signals

    return list(getattr(proto_signals, of_proto)(body))


def _encoded(kind: str, answer: Answer, reject: str) -> bytes:
    """An ``Export*ServiceResponse``: partial_success = 1 {rejected = 1, error_message = 2}."""
    if kind == JSON:
        partial = {reject: str(answer.rejected), "errorMessage": answer.why}
        return orjson.dumps({"partialSuccess": partial} if answer.rejected else {})
    if not answer.rejected:
        return b""
    return field(1, b"\x08" + varint(answer.rejected) + field(2, answer.why.encode()))


async def serve_otlp(
    config: OtlpConfig,
    labels: Attributes,
    offer: Offer,
    stop: asyncio.Event,
    joiner: Joiner | None = None,
    names: ClientNames | None = None,
    is_here: Callable[[str], bool] = is_loopback,
) -> None:
    """Serve until ``stop``. Raises ConfigError where what it needs is not installed."""
    intake = Intake(
        labels,
        offer,
        joiner=joiner,
        tenant_attributes=config.tenant_attributes,
        metric_series_max=config.metric_series_max,
        names=names,
        is_here=is_here,
    )
    with contextlib.ExitStack() as running:
        await asyncio.to_thread(_open, config, intake, running)
        await stop.wait()


def _open(config: OtlpConfig, intake: Intake, running: contextlib.ExitStack) -> None:
    try:
        from producers.otlp import proto_signals  # noqa: F401

        token = None if config.token is None else config.token.get_secret_value()
        where: dict[str, Any] = {"host": config.host, "token": token}
        running.enter_context(OtlpHttp(intake, config.http_port, config.body_bytes_max, **where))
        if config.grpc_port is not None:
            from producers.otlp.grpc_server import OtlpGrpc

            running.enter_context(OtlpGrpc(intake, config.grpc_port, config.body_bytes_max, **where))
    except ImportError as error:
        raise ConfigError(
            "agent.otlp.enabled", True, f"needs the package's extra otlp ({error}): docs/start/install.md#extras"
        ) from error
