"""A load client for ``bench`` of the proxy, in a process of its own: streams that begin out of phase, every read timed.

Nothing is parsed while streams run; times, counts and bytes are worked out when all have ended.
"""

from __future__ import annotations

import asyncio
import bisect
import hashlib
import itertools
import json
import re
import sys
import time
from dataclasses import dataclass
from typing import Any, cast

_END = b"\r\n0\r\n\r\n"
"""The last chunk behind another one; a head may end in a nought too."""
_SENT = re.compile(rb'"content":"@(\d+)"')
_DIGEST = re.compile(rb'[0-9a-f]+\r\ndata: \{"digest":"([0-9a-f]{64})"')
_BODY = b'{"model":"mock","stream":true,"messages":[{"role":"user","content":"ping"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nAuthorization: Bearer sk-bench\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream: nanoseconds from asking to the first token, and of each token from written to read."""

    ttft_ns: int
    transit_ns: list[int]
    whole: bool
    """The body is, byte for byte, what the engine says it wrote."""


class Asking(asyncio.Protocol):
    """One stream on a connection of its own."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, bytes]] = []
        self.asked_ns = 0
        self._tail = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self) -> None:
        """Send the request."""
        assert self._transport is not None
        self.asked_ns = time.monotonic_ns()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.monotonic_ns(), data))
        self._tail = (self._tail + data)[-len(_END) :]
        if self._tail == _END:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def seen_of(asked_ns: int, reads: list[tuple[int, bytes]]) -> Seen:
    """What a stream showed. A token is read when its last byte is."""
    ends = list(itertools.accumulate(len(data) for _, data in reads))
    raw = b"".join(data for _, data in reads)
    at = [at_ns for at_ns, _ in reads]
    tokens = [(int(found[1]), at[bisect.bisect_left(ends, found.end())]) for found in _SENT.finditer(raw)]
    body = raw[raw.find(b"\r\n\r\n") + 4 :]
    told = _DIGEST.search(body)
    whole = told is not None and hashlib.sha256(body[: told.start()]).hexdigest().encode() == told[1]
    ttft_ns = tokens[0][1] - asked_ns if tokens else -1
    return Seen(ttft_ns, [read_ns - sent_ns for sent_ns, read_ns in tokens], whole and raw.endswith(_END))


async def load(port: int, streams: int, apart_ms: float) -> list[Seen]:
    """So many streams, each begun ``apart_ms`` after the one before; in the order they began."""
    loop = asyncio.get_running_loop()
    asking = [(await loop.create_connection(Asking, "127.0.0.1", port))[1] for _ in range(streams)]
    begin_s = loop.time() + 0.02
    for number, stream in enumerate(asking):
        loop.call_at(begin_s + number * apart_ms / 1_000, stream.ask)
    await asyncio.gather(*(stream.ended for stream in asking))
    return [seen_of(stream.asked_ns, stream.reads) for stream in asking]


async def rounds(ports: list[int], streams: int, apart_ms: float) -> None:
    """One round for each port that comes as a line on standard input; each is answered by a line of JSON."""
    loop = asyncio.get_running_loop()
    assert all(port > 0 for port in ports)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        seen = await load(ports[int(line)], streams, apart_ms)
        told: list[dict[str, Any]] = [
            {"ttft_ns": one.ttft_ns, "transit_ns": one.transit_ns, "whole": one.whole} for one in seen
        ]
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    from fleetpulse.proxy import run_on_fast_loop

    run_on_fast_loop(rounds(**json.loads(sys.argv[1])))
