"""Loopback HTTP for third parties: POST /v1/requests, one JSON object a line, fields of ``llm.requests``.

Answers: 202 all lines are spooled; 400 none is, with a reason per line; 503 the spool is full, none is spooled, retry
later. All or nothing, so that a sender can correct and resend a body without duplicates. The content type must be
application/x-ndjson, which no web page can send here without a preflight request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import httptools
import orjson

from producers.batch import Batch, batches_of, key_of
from producers.publish.publisher import Publisher
from producers.receiver.client_fields import Where
from producers.receiver.lines import REFUSALS_MAX, Read, Refusal, read_lines
from runtime.clock import Clock, SystemClock
from runtime.receiver_config import ReceiverConfig
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS, Limits

_log = logging.getLogger(__name__)

PATH = b"/v1/requests"
CONTENT_TYPE = b"application/x-ndjson"
HEADER_BYTES_MAX = 16_384
RETRY_AFTER_S = 5
_PHRASES: Mapping[int, str] = MappingProxyType(
    {
        202: "Accepted",
        400: "Bad Request",
        404: "Not Found",
        405: "Method Not Allowed",
        413: "Content Too Large",
        415: "Unsupported Media Type",
        431: "Request Header Fields Too Large",
        503: "Service Unavailable",
    }
)


class _Counters(Protocol):
    def add(self, name: str, by: float = 1, **labels: object) -> None: ...


class Taker:
    """Spools request bodies. ``take`` returns the HTTP status and the response body."""

    def __init__(
        self, publisher: Publisher, where: Where, clock: Clock | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._publisher = publisher
        self._where = where
        self._clock = clock or SystemClock()
        self._limits = limits

    async def take(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Spool the requests in these lines, all or none."""
        read = read_lines(body, self._where, self._clock.now_ms(), self._limits)
        if read.refusals:
            return 400, _reasons(read.refusals)
        batches = self._batches(read)
        if not self._publisher.spool.has_room(sum(len(batch.value) + 2_048 for batch in batches)):
            return 503, {"accepted": 0, "error": {"reason": "spool_full", "detail": "try again later"}}
        for batch in batches:
            await self._publisher.put(batch.topic, batch.key, batch)
        return 202, {"accepted": read.block.rows}

    def _batches(self, read: Read) -> list[Batch]:
        keys = [key_of(LLM_REQUESTS, row) for row in read.rows]
        batches: list[Batch] = []
        for key in dict.fromkeys(keys):
            rows = [row for row, its in zip(read.rows, keys, strict=True) if its == key]
            block: Block = read.block if len(rows) == len(keys) else block_from_rows(LLM_REQUESTS.fields, rows)
            batches += batches_of(LLM_REQUESTS, key, block)
        return batches


def _reasons(refusals: Any) -> dict[str, Any]:
    shown: list[Refusal] = list(refusals[:REFUSALS_MAX])
    errors = [{"line": each.line, "reason": each.reason, "detail": each.detail} for each in shown]
    return {"accepted": 0, "refused": len(refusals), "error": errors[0], "errors": errors}


class Connection(asyncio.Protocol):
    """One connection: requests answered one after the other."""

    def __init__(self, taker: Taker, settings: ReceiverConfig, counters: _Counters, crowd: set[Connection]) -> None:
        self._taker = taker
        self._settings = settings
        self._counters = counters
        self._crowd = crowd
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[int, bytes, bool]] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._url, self._type = b"", b""
        self._in_head, self._head_bytes = True, 0
        self._body = bytearray()
        self._refused = 0

    async def finish(self) -> None:
        """Answer what has arrived, then close."""
        if self._answering is not None:
            await self._answering
        if self._transport is not None:
            self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._crowd) >= self._settings.http_connections_max:
            self._say(503, {"accepted": 0, "error": {"reason": "too_many_connections", "detail": ""}}, keep=False)
            return
        self._crowd.add(self)
        self._wind()

    def connection_lost(self, error: Exception | None) -> None:
        self._crowd.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._turn_away(400, "no upgrade is offered")
        except httptools.HttpParserError as error:
            self._turn_away(self._refused or 400, str(error))
        self._head_bytes += len(data) if self._in_head else 0
        if self._head_bytes > HEADER_BYTES_MAX:  # the parser keeps what has no end yet
            self._turn_away(431, f"at most {HEADER_BYTES_MAX} bytes")

    # What the parser calls

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self._type = value.split(b";")[0].strip().lower()
        elif name.lower() == b"expect" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._url.split(b"?")[0] != PATH:
            self._refused = self._refused or 404
        elif self._parser.get_method() != b"POST":
            self._refused = self._refused or 405
        elif self._type != CONTENT_TYPE:
            self._refused = self._refused or 415

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) > self._settings.http_body_bytes_max:
            self._refused = 413
            raise ValueError("the body is too large")
        if not self._refused:
            self._body += body

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        self._waiting.append((self._refused, bytes(self._body), self._parser.should_keep_alive()))
        if self._answering is None and self._transport is not None:
            self._transport.pause_reading()
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    # Answers

    async def _answer(self) -> None:
        keep = True
        while self._waiting and keep:
            refused, body, keep = self._waiting.popleft()
            if refused:
                self._say(refused, _refusal(refused), keep=keep)
            else:
                try:
                    status, answer = await self._taker.take(body)
                except Exception:  # whatever it was, the sender is answered; it is raised on
                    self._turn_away(503, "the agent cannot take it")
                    raise
                self._say(status, answer, keep=keep)
        self._answering = None
        if self._transport is not None and keep and not self._transport.is_closing():
            self._wind()
            self._transport.resume_reading()

    def _turn_away(self, status: int, detail: str) -> None:
        self._say(status, _refusal(status) | {"detail": detail}, keep=False)

    def _say(self, status: int, answer: Mapping[str, Any], *, keep: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._counters.add("receiver_http_requests", status=status)
        body = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
        head = [
            f"HTTP/1.1 {status} {_PHRASES[status]}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        ]
        head += [f"retry-after: {RETRY_AFTER_S}"] if status == 503 else []
        head += ["allow: POST"] if status == 405 else []
        head += [] if keep else ["connection: close"]
        self._transport.write("\r\n".join([*head, "", ""]).encode() + body)
        if not keep:
            self._transport.close()

    def _wind(self) -> None:
        """Begin to wait for a request."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._settings.http_idle_ms / 1_000, self._expire)

    def _expire(self) -> None:
        if self._answering is None and self._transport is not None:
            self._transport.close()


def _refusal(status: int) -> dict[str, Any]:
    meant = {
        404: f"the path is {PATH.decode()}",
        405: "the method is POST",
        413: "send fewer lines at a time",
        415: f"the content type is {CONTENT_TYPE.decode()}",
    }
    reason = _PHRASES[status].lower().replace(" ", "_")
    return {"accepted": 0, "error": {"reason": reason, "detail": meant.get(status, "")}}


@contextlib.asynccontextmanager
async def serve(
    publisher: Publisher, settings: ReceiverConfig, where: Where, counters: _Counters
) -> AsyncIterator[int]:
    """Serve on loopback while inside; the port. Requests being answered are answered before this ends.

    Raises ConfigError when the port cannot be had.
    """
    taker, crowd = Taker(publisher, where), set[Connection]()
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(
            lambda: Connection(taker, settings, counters, crowd), "127.0.0.1", settings.http_port, backlog=128
        )
    except OSError as error:
        raise ConfigError("agent.receiver.http_port", settings.http_port, f"must be free ({error})") from error
    port = int(server.sockets[0].getsockname()[1])
    _log.info("receiver listening on HTTP", extra={"port": port})
    try:
        yield port
    finally:
        server.close()
        await asyncio.gather(*(connection.finish() for connection in list(crowd)), return_exceptions=True)
