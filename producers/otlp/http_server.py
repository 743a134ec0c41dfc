"""OTLP/HTTP server on loopback: ``POST /v1/traces`` and ``/v1/metrics``, protobuf or JSON, plain or gzip.

Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp (1.9). Bodies are bounded before and after unpacking; what
is read is bounded in time and in number of connections. ``GET /unmapped`` lists what was counted and not mapped.
Answers: 200 with partial success, 400 unreadable, 404, 411 without a length, 413 too large, 415, 503 no room.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import orjson

from producers.otlp.intake import Answer, Full, Intake
from producers.otlp.json_signals import Unreadable, points_of_json, spans_of_json

_log = logging.getLogger(__name__)

PROTOBUF, JSON = "application/x-protobuf", "application/json"
CONNECTIONS_MAX = 32
WITHIN_S = 10.0


class Refused(Exception):
    """A request that is answered with this status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


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


class OtlpHttp:
    """Serves until closed. Port 0 takes a free one; ``port`` is the bound one. Use as a context manager."""

    def __init__(self, intake: Intake, port: int, bytes_max: int) -> None:
        settings = {"intake": intake, "bytes_max": bytes_max, "places": threading.Semaphore(CONNECTIONS_MAX)}
        self._server = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), settings))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.5,), name="otlp", daemon=True)
        self._thread.start()
        _log.info("OTLP/HTTP listening", extra={"port": self.port})

    def __enter__(self) -> OtlpHttp:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop answering and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    intake: ClassVar[Intake]
    bytes_max: ClassVar[int]
    places: ClassVar[threading.Semaphore]
    timeout = WITHIN_S
    protocol_version = "HTTP/1.1"
    server_version = "fleetpulse"
    sys_version = ""

    def handle(self) -> None:
        if not self.places.acquire(blocking=False):
            self.close_connection = True
            self.connection.sendall(
                b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        try:
            super().handle()
        except OSError:  # whoever sent it has gone
            self.close_connection = True
        finally:
            self.places.release()

    def do_GET(self) -> None:
        if self.path == "/unmapped":
            self._answer(200, JSON, orjson.dumps(self.intake.unkept.counts(), option=orjson.OPT_SORT_KEYS))
        else:
            self._answer(404, "text/plain", b"POST /v1/traces, POST /v1/metrics, GET /unmapped\n")

    def do_POST(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        try:
            take, reject = self._route()
            answer = take(kind, self._body(kind))
            self._answer(200, kind, _encoded(kind, answer, reject))
        except Refused as refused:
            self._complain(refused.status, kind, str(refused))
        except Unreadable as error:
            self._complain(400, kind, str(error))
        except Full:
            self._complain(503, kind, "no room now")

    def _route(self) -> tuple[Callable[[str, bytes], Answer], str]:
        if self.path == "/v1/traces":
            return self._take_traces, "rejectedSpans"
        if self.path == "/v1/metrics":
            return self._take_metrics, "rejectedDataPoints"
        self.close_connection = True
        raise Refused(404, "POST /v1/traces or /v1/metrics")

    def _take_traces(self, kind: str, body: bytes) -> Answer:
        return self.intake.traces(_read(kind, body, spans_of_json, "spans_of_proto"))

    def _take_metrics(self, kind: str, body: bytes) -> Answer:
        return self.intake.metrics(_read(kind, body, points_of_json, "points_of_proto"))

    def _body(self, kind: str) -> bytes:
        self.close_connection = True  # until the body is read, what follows on the connection is not a request
        if kind not in (PROTOBUF, JSON):
            raise Refused(415, f"content-type {kind or 'missing'}: must be {PROTOBUF} or {JSON}")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(411, "content-length is missing")
        if int(length) > self.bytes_max:
            raise Refused(413, f"more than {self.bytes_max} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise Refused(400, "cut off")
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return unpacked(body, self.headers.get("Content-Encoding", "").strip().lower(), self.bytes_max)

    def _complain(self, status: int, kind: str, why: str) -> None:
        self._answer(status, kind if kind == PROTOBUF else JSON, _status(kind, why), retry=status == 503)

    def _answer(self, status: int, kind: str, body: bytes, *, retry: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if retry:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        _log.debug("OTLP request", extra={"line": format % args})


def _read(kind: str, body: bytes, of_json: Callable[[bytes], Iterator[Any]], of_proto: str) -> list[Any]:
    if kind == JSON:
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
    return _field(1, b"\x08" + _varint(answer.rejected) + _field(2, answer.why.encode()))


def _status(kind: str, why: str) -> bytes:
    """A ``google.rpc.Status``: message = 2."""
    return _field(2, why.encode()) if kind == PROTOBUF else orjson.dumps({"message": why})


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
