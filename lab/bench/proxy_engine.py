"""A mock engine for ``bench`` of the proxy, in a process of its own: every request is answered by a paced stream.

Each token holds the moment it was written, on the machine's monotonic clock; the finish holds the moment the request
had come. Before ``[DONE]`` an event holds the SHA-256 of the body so far, so that a client sees whether it changed.

A bare loop around ``select``, exact to some 0.1 ms: timers of uvloop and asyncio are whole milliseconds, which would
bring streams that begin out of phase together again.
"""

from __future__ import annotations

import gc
import hashlib
import heapq
import json
import select
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Pace:
    """``tokens`` per stream, the first after ``first_ms``, one every ``gap_ms`` then; 0: as fast as it goes."""

    tokens: int
    first_ms: float
    gap_ms: float

    def due_ns(self, received_ns: int, token: int) -> int:
        """When this token of a request is written; the one after the last is the end."""
        return received_ns + round((self.first_ms + token * self.gap_ms) * 1e6)


def chunk(data: bytes) -> bytes:
    """One chunk of the transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(sent_ns: int) -> bytes:
    """One event as vLLM writes them, with the moment in its text."""
    return (
        b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,'
        b'"model":"mock","choices":[{"index":0,"delta":{"content":"@%d"},"logprobs":null,"finish_reason":null}]}\n\n'
        % sent_ns
    )


def last_events(tokens: int, received_ns: int) -> bytes:
    """The finish, with the moment the request had come, and the usage, as chunks."""
    finish = (
        b'data: {"model":"mock","received_ns":%d,"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
        % received_ns
    )
    usage = b'data: {"model":"mock","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\n' % tokens
    return chunk(finish) + chunk(usage)


class Stream:
    """What one request is answered with behind ``HEAD``, piece by piece; ``sent``: how many were made."""

    __slots__ = ("_digest", "received_ns", "sent")

    def __init__(self, received_ns: int) -> None:
        self.received_ns = received_ns
        self.sent = 0
        self._digest = hashlib.sha256()

    def next(self, tokens: int) -> bytes:
        """A token, with this moment in it; behind so many the end."""
        self.sent += 1
        data = chunk(token(time.monotonic_ns())) if self.sent <= tokens else last_events(tokens, self.received_ns)
        self._digest.update(data)
        if self.sent <= tokens:
            return data
        digest = b'data: {"digest":"%b"}\n\n' % self._digest.hexdigest().encode()
        return data + chunk(digest) + chunk(b"data: [DONE]\n\n") + END


class Answering:
    """One connection; requests have a Content-Length and come one after the other."""

    __slots__ = ("_pace", "_read", "_sock", "_stream")

    def __init__(self, sock: socket.socket, pace: Pace) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._pace = pace
        self._read = b""
        self._stream = Stream(0)

    def take(self) -> int | None:
        """What can be read. When the first token of a whole request is due; None while it is not whole."""
        data = self._sock.recv(65_536)
        if not data:
            raise ConnectionResetError
        self._read += data
        head, mark, body = self._read.partition(b"\r\n\r\n")
        if not mark or len(body) < length_of(head):
            return None
        self._stream = Stream(time.monotonic_ns())
        self._read = body[length_of(head) :]
        self._sock.sendall(HEAD)
        return self._pace.due_ns(self._stream.received_ns, 0)

    def write(self) -> int | None:
        """Write what is due. When the next is; None behind the end."""
        self._sock.sendall(self._stream.next(self._pace.tokens))
        over = self._stream.sent > self._pace.tokens
        return None if over else self._pace.due_ns(self._stream.received_ns, self._stream.sent)

    def close(self) -> None:
        self._sock.close()


def length_of(head: bytes) -> int:
    """The announced length of a request's body; 0 without one."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


class Engine:
    """All connections, and what is due on them."""

    def __init__(self, listener: socket.socket, pace: Pace) -> None:
        self._listener = listener
        self._pace = pace
        self._open: dict[int, Answering] = {}
        self._due: list[tuple[int, int]] = []  # (moment, descriptor), a heap

    def turn(self) -> None:
        """Wait for whatever comes first, read what came, write what is due."""
        wait_s = max(self._due[0][0] - time.monotonic_ns(), 0) * 1e-9 if self._due else None
        for number in select.select([self._listener.fileno(), *self._open], (), (), wait_s)[0]:
            if number in self._open:
                self._let(number, Answering.take)
            else:
                sock, _ = self._listener.accept()
                self._open[sock.fileno()] = Answering(sock, self._pace)
        now_ns = time.monotonic_ns()
        while self._due and self._due[0][0] <= now_ns:
            self._let(heapq.heappop(self._due)[1], Answering.write)

    def _let(self, number: int, act: Callable[[Answering], int | None]) -> None:
        """Let a connection act and note when it is due next; one that broke is gone, with what was due on it."""
        try:
            due_ns = act(self._open[number])
        except ConnectionError:
            self._open.pop(number).close()
            self._due = [entry for entry in self._due if entry[1] != number]
            heapq.heapify(self._due)
            return
        if due_ns is not None:
            heapq.heappush(self._due, (due_ns, number))


def serve(pace: Pace) -> None:
    """Serve until killed; the first line of standard output is the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    print(listener.getsockname()[1], flush=True)
    engine = Engine(listener, pace)
    gc.disable()  # there are no cycles here, and a search for them would hold every stream up
    while True:
        engine.turn()


if __name__ == "__main__":
    serve(Pace(**json.loads(sys.argv[1])))
