from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from producers.engines import fetch as fetching
from producers.engines.fetch import CHUNK_BYTES, FetchError, FetchLimits, fetch

pytestmark = pytest.mark.enable_socket
LIMITS = FetchLimits(time_ms=2_000, bytes_max=10_000)
HURRY = FetchLimits(time_ms=60, bytes_max=10_000)


@contextmanager
def server(serve: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A loopback server for one connection: ``serve`` gets it and the request's bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)

        def body() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    request = b""
                    while b"\r\n\r\n" not in request:
                        request += connection.recv(4_096)
                    serve(connection, request)
                except OSError:
                    return

        thread = threading.Thread(target=body)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


def answering(answer: bytes) -> Callable[[socket.socket, bytes], None]:
    return lambda connection, _request: connection.sendall(answer)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"


def test_the_body_of_a_good_answer() -> None:
    """With its path and query requested, and nothing sent that was not given."""
    requests = []

    def serve(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(OK % (4, b"text"))

    with server(serve) as url:
        assert fetch(f"{url}/metrics?name=a", LIMITS) == b"text"
    lines = requests[0].split(b"\r\n")
    assert lines[0] == b"GET /metrics?name=a HTTP/1.1"
    assert not any(line.lower().startswith(b"authorization") for line in lines)


@pytest.mark.parametrize("length", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES])
def test_a_python_that_closes_the_answer_with_its_last_byte(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 3.11.8, 3.12.2 and newer do: nothing touches the socket after it, and the body is whole."""
    read1 = http.client.HTTPResponse.read1

    def closing(response: http.client.HTTPResponse, most: int = -1) -> bytes:
        chunk = read1(response, most)
        if response.length == 0:
            response.close()
        return chunk

    monkeypatch.setattr(http.client.HTTPResponse, "read1", closing)
    body = b"x" * length

    answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (length, body)

    with server(answering(answer)) as url:
        assert fetch(url, FetchLimits(time_ms=5_000, bytes_max=10**6)) == body


def test_a_key_goes_out_as_a_bearer_token() -> None:
    """As OpenAI-compatible servers take it."""
    requests = []

    def serve(connection: socket.socket, request: bytes) -> None:
        requests.append(request)
        connection.sendall(OK % (0, b""))

    with server(serve) as url:
        assert fetch(url, LIMITS, "secret") == b""
    assert b"Authorization: Bearer secret\r\n" in requests[0]


def test_a_chunked_answer_is_put_together() -> None:
    """And one without a length ends with the connection."""
    with server(
        answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    ) as url:
        assert fetch(url, LIMITS) == b"abc"
    with server(answering(b"HTTP/1.1 200 OK\r\n\r\nabc")) as url:
        assert fetch(url, LIMITS) == b"abc"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "status"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "broken"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broken"),
        (b"", "refused"),
        (OK % (10_001, b"x" * 10_001), "too_large"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2 * CHUNK_BYTES, "too_large"),
    ],
    ids=["not found", "elsewhere", "no HTTP", "cut", "bad chunk", "hung up", "too large", "too large without length"],
)
def test_what_is_no_good_answer_has_a_reason(answer: bytes, reason: str) -> None:
    """A redirect is not followed."""
    with server(answering(answer)) as url, pytest.raises(FetchError) as caught:
        fetch(url, LIMITS)

    assert caught.value.reason == reason
    assert str(caught.value).startswith(f"GET {url}: ")


def test_a_body_of_just_the_limit_is_taken() -> None:
    """One byte more is not."""
    with server(answering(OK % (10_000, b"x" * 10_000))) as url:
        assert len(fetch(url, LIMITS)) == 10_000


def drip(connection: socket.socket, _request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:  # until the other side is gone
        connection.sendall(b"x")
        threading.Event().wait(0.01)


def drip_headers(connection: socket.socket, _request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        connection.sendall(b"x")
        threading.Event().wait(0.01)


def drip_chunk_sizes(connection: socket.socket, _request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"0")
        threading.Event().wait(0.01)


@pytest.mark.parametrize(
    "serve",
    [drip, drip_headers, drip_chunk_sizes, lambda connection, _request: connection.recv(1)],
    ids=["a drip", "a drip of headers", "a drip of a chunk's size", "silence"],
)
def test_an_answer_that_does_not_end_is_given_up(serve: Callable[[socket.socket, bytes], None]) -> None:
    """After the time limit; the server would go on."""
    with server(serve) as url, pytest.raises(FetchError) as caught:
        fetch(url, HURRY)

    assert caught.value.reason == "timeout"


def test_headers_have_no_time_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the exchange's is looked at before each read, not once the headers are there."""
    begun, over = [0.0, 0.0], threading.Event()

    def now_s() -> float:
        if begun:
            return begun.pop()
        over.set()
        return LIMITS.time_ms / 1_000 + 1

    def serve(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        over.wait(1)
        connection.sendall(b"Content-Length: 0\r\n\r\n")

    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=now_s))
    with server(serve) as url, pytest.raises(FetchError) as caught:
        fetch(url, LIMITS)

    assert caught.value.reason == "timeout"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://", "http://127.0.0.1:port/", "nothing"])
def test_what_is_no_address_is_not_fetched(url: str) -> None:
    """Said as such."""
    with pytest.raises(FetchError) as caught:
        fetch(url, LIMITS)

    assert caught.value.reason == "address"


def test_nobody_listens() -> None:
    """The usual case of a server that is down."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    with pytest.raises(FetchError) as caught:
        fetch(f"http://127.0.0.1:{port}/metrics", LIMITS)

    assert (caught.value.reason, caught.value.status, caught.value.retriable) == ("refused", None, True)
