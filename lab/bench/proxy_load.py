"""A load client for ``bench`` of the proxy, in a process of its own: streams that begin out of phase, every read timed.

Every connection asks for one stream after the other. Nothing is parsed while streams run; times, counts and bytes are
worked out when all have ended. A bare loop around ``select``, for the reason that ``proxy_engine`` gives.
"""

from __future__ import annotations

import bisect
import gc
import hashlib
import itertools
import json
import re
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass

_END = b"\r\n0\r\n\r\n"
"""The last chunk behind another one; a head may end in a nought too."""
_SENT = re.compile(rb'"content":"@(\d+)"')
_RECEIVED = re.compile(rb'"received_ns":(\d+)')
_DIGEST = re.compile(rb'[0-9a-f]+\r\ndata: \{"digest":"([0-9a-f]{64})"')
_BODY = (
    b'{"model":"mock","stream":true,"stream_options":{"include_usage":true},'
    b'"messages":[{"role":"user","content":"ping"}]}'
)
"""It requests usage, so that streams are the same with the proxy, which requests it by default, and without."""
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nAuthorization: Bearer sk-bench\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_AHEAD_S = 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream, in nanoseconds."""

    ttft_ns: int
    """From asking to the first token, by the client's clock; -1 where none came."""
    way_ns: int
    """The same without the engine's own time: the request's way there and the first token's way back."""
    transit_ns: list[int]
    """Of each token from written to read."""
    whole: bool
    """The body is, byte for byte, what the engine says it wrote."""
    first: bool
    """The first of its connection."""


class Asking:
    """One connection that asks for ``times`` streams."""

    def __init__(self, port: int, times: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.left = times
        self.streams: list[tuple[int, list[tuple[int, bytes]]]] = []
        self._reads: list[tuple[int, bytes]] = []
        self._tail = b""

    def ask(self) -> None:
        """Send the request."""
        self.left -= 1
        self._reads, self._tail = [], b""
        self.streams.append((time.monotonic_ns(), self._reads))
        self.sock.sendall(REQUEST)

    def take(self) -> bool:
        """What can be read. True when this connection has nothing more to ask or to read."""
        data = self.sock.recv(65_536)
        self._reads.append((time.monotonic_ns(), data))
        self._tail = (self._tail + data)[-len(_END) :]
        if data and self._tail != _END:
            return False
        if not data or not self.left:
            self.sock.close()
            return True
        self.ask()
        return False


def seen_of(begun_ns: int, reads: list[tuple[int, bytes]], first: bool) -> Seen:
    """What a stream showed. A token is read when its last byte is."""
    ends = list(itertools.accumulate(len(data) for _, data in reads))
    raw = b"".join(data for _, data in reads)
    at = [at_ns for at_ns, _ in reads]
    tokens = [(int(found[1]), at[bisect.bisect_left(ends, found.end())]) for found in _SENT.finditer(raw)]
    body = raw[raw.find(b"\r\n\r\n") + 4 :]
    digest, received = _DIGEST.search(body), _RECEIVED.search(body)
    whole = digest is not None and hashlib.sha256(body[: digest.start()]).hexdigest().encode() == digest[1]
    ttft_ns = tokens[0][1] - begun_ns if tokens else -1
    way_ns = ttft_ns - (tokens[0][0] - int(received[1])) if tokens and received else -1
    transit_ns = [read_ns - sent_ns for sent_ns, read_ns in tokens]
    return Seen(ttft_ns, way_ns, transit_ns, whole and raw.endswith(_END), first)


def load(port: int, streams: int, times: int, apart_ms: float) -> list[Seen]:
    """So many connections, each begun ``apart_ms`` after the one before; their streams, in the order they began."""
    waiting = [Asking(port, times) for _ in range(streams)]
    everyone = list(waiting)
    reading: dict[int, Asking] = {}
    begin_s = time.monotonic() + _AHEAD_S
    while waiting or reading:
        due_s = begin_s + (streams - len(waiting)) * apart_ms / 1_000
        wait_s = max(due_s - time.monotonic(), 0.0) if waiting else None
        for number in select.select(list(reading), (), (), wait_s)[0]:
            if reading[number].take():
                del reading[number]
        if waiting and time.monotonic() >= due_s:
            asking = waiting.pop(0)
            reading[asking.sock.fileno()] = asking
            asking.ask()
    return [
        seen_of(*(asking.streams[number] if number < len(asking.streams) else (0, [])), first=number == 0)
        for asking in everyone
        for number in range(times)
    ]


def rounds(ports: list[int], streams: int, times: int, apart_ms: float) -> None:
    """One round for each port that comes as a line on standard input; each is answered by a line of JSON."""
    gc.disable()  # there are no cycles here, and a search for them would hold every stream up
    for line in sys.stdin:
        seen = load(ports[int(line)], streams, times, apart_ms)
        print(json.dumps([asdict(one) for one in seen]), flush=True)


if __name__ == "__main__":
    rounds(**json.loads(sys.argv[1]))
