"""Loopback HTTP for third parties: POST /v1/requests, one JSON object a line, fields of ``llm.requests``.

Answers: 202 all lines are spooled; 400 none is, with a reason per line; 503 the spool is full, none is spooled, retry
later. All or nothing, so that a sender can correct and resend a body without duplicates; where the disk takes a part
alone, 202 says how many lines it took, and the rest was shed and declared. The content type must be
application/x-ndjson, which no web page can send here without a preflight request; one whose name was made to point here
needs none, and is refused by its ``Origin``.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson

from producers.batch import Batch, batches_of, key_of
from producers.publish.puts import Puts, have_room
from producers.receiver.client_fields import Where
from producers.receiver.lines import REFUSALS_MAX, Read, Refusal, read_lines
from runtime.clock import Clock, SystemClock
from runtime.counters import Counters
from runtime.edge_config import ReceiverConfig
from runtime.http_server import App, Refused, Request, Response, Route, serving
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS, Limits

_log = logging.getLogger(__name__)

PATH = "/v1/requests"
CONTENT_TYPE = "application/x-ndjson"
RETRY_AFTER_S = 5


class Taker:
    """Spools request bodies."""

    def __init__(
        self, publisher: Puts, where: Where, clock: Clock | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._publisher = publisher
        self._where = where
        self._clock = clock or SystemClock()
        self._limits = limits

    async def take(self, request: Request) -> Response:
        """Spool the requests in the body's lines, all or none."""
        read = read_lines(request.body, self._where, self._clock.now_ms(), self._limits)
        if read.refusals:
            return _response(400, _reasons(read.refusals))
        batches = self._batches(read)
        accepted = 0
        for batch in batches if have_room(self._publisher, batches) else []:
            if await self._publisher.put(batch.topic, batch.key, batch):
                accepted += batch.count
            elif not accepted:
                break
        if not accepted and batches:
            raise Refused(503, "try again later", "spool_full")
        return _response(202, {"accepted": accepted})

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


def _response(status: int, answer: Mapping[str, Any]) -> Response:
    headers = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else {}
    return Response(status, orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE), headers=headers)


def _refuse(refused: Refused, _request: Request) -> Response:
    return _response(refused.status, {"accepted": 0, "error": {"reason": refused.reason, "detail": str(refused)}})


def application(taker: Taker, settings: ReceiverConfig, counters: Counters) -> App:
    """The endpoint and its bounds."""
    return App(
        {PATH: Route("POST", taker.take, (CONTENT_TYPE,))},
        _refuse,
        connections_max=settings.http_connections_max,
        within_s=settings.http_idle_ms / 1_000,
        body_bytes_max=settings.http_body_bytes_max,
        count=lambda status: counters.add("receiver_http_requests", status=status),
    )


@contextlib.asynccontextmanager
async def serve(publisher: Puts, settings: ReceiverConfig, where: Where, counters: Counters) -> AsyncIterator[int]:
    """Serve on loopback while inside; the port. Requests being answered are answered before this ends.

    Raises ConfigError when the port cannot be had.
    """
    try:
        listening = socket.create_server(("127.0.0.1", settings.http_port or 0))
    except OSError as error:
        raise ConfigError("agent.receiver.http_port", settings.http_port, f"must be free ({error})") from error
    port = int(listening.getsockname()[1])
    async with serving(listening, application(Taker(publisher, where), settings, counters)):
        _log.info("receiver listening on HTTP", extra={"port": port})
        yield port
