"""The server among real sockets. Requests byte by byte stand with the receiver's tests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvloop

from runtime.http_server import HEAD_BYTES_MAX, App, HttpThread, Refused, Request, Response, Route, serving

pytestmark = pytest.mark.enable_socket

WITHIN_S = 0.3
LARGE = 8 * 1024 * 1024


def refuse(refused: Refused, request: Request) -> Response:
    return Response(refused.status, f"{refused.reason}: {refused}".encode(), "text/plain")


async def echo(request: Request) -> Response:
    return Response(200, request.body, "text/plain", {"x-path": request.path})


async def broken(request: Request) -> Response:
    raise KeyError("oops")


async def choosy(request: Request) -> Response:
    raise Refused(503, "not now", "spool_full")


async def large(request: Request) -> Response:
    return Response(200, bytes(LARGE))


async def last(request: Request) -> Response:
    return Response(200, b"bye", close=True)


APP = App(
    {
        "/echo": Route("POST", echo),
        "/broken": Route("GET", broken),
        "/choosy": Route("GET", choosy),
        "/large": Route("GET", large),
        "/last": Route("GET", last),
    },
    refuse,
    connections_max=3,
    within_s=WITHIN_S,
    body_bytes_max=100_000,
)


@pytest.fixture
def port() -> Iterator[int]:
    with HttpThread("test", "127.0.0.1", 0, APP) as running:
        yield running.port


@contextlib.contextmanager
def reached(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        yield connection


def sent(port: int, data: bytes) -> bytes:
    """All that is answered until the server closes."""
    with reached(port) as connection:
        connection.sendall(data)
        return read_all(connection)


def ask_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"GET /large HTTP/1.1\r\n\r\n" * 1_000)


def read_all(connection: socket.socket) -> bytes:
    answer = bytearray()
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(1 << 20):
            answer += more
    return bytes(answer)


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


def post(body: bytes, more: bytes = b"") -> bytes:
    return b"POST /echo?x=1 HTTP/1.1\r\ncontent-length: %d\r\n%s\r\n%s" % (len(body), more, body)


def test_requests_of_a_connection_are_answered_in_order(port: int) -> None:
    """Those that came at once, too; what cannot be read comes last and ends the connection."""
    answer = sent(port, post(b"first") + post(b"second") + b"nonsense\r\n\r\n" + post(b"never"))

    assert statuses(answer) == [200, 200, 400]
    assert answer.index(b"first") < answer.index(b"second") < answer.index(b"bad_request: ")
    assert answer.count(b"x-path: /echo\r\n") == 2
    assert answer.count(b"connection: close\r\n") == 1


@pytest.mark.parametrize(
    "size", [HEAD_BYTES_MAX + 1, 100_000], ids=["longer than a head may be", "as long as a body may be"]
)
def test_a_body_is_not_taken_for_a_head(port: int, size: int) -> None:
    """However much of it comes at once, also behind another request."""
    answer = sent(port, post(b"x" * size) + post(b"y" * size, b"connection: close\r\n"))

    assert statuses(answer) == [200, 200]
    assert answer.count(b"x" * size) == answer.count(b"y" * size) == 1


def test_headers_are_bounded(port: int) -> None:
    """However short they are; trailers count with them."""
    few, many = (b"".join(b"x%d:\r\n" % number for number in range(count)) for count in (126, 127))
    trailed = b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + few + b"\r\n1\r\nz\r\n0\r\n"

    assert statuses(sent(port, post(b"z", few + b"connection: close\r\n"))) == [200]
    assert statuses(sent(port, post(b"z", many + b"connection: close\r\n"))) == [431]
    assert statuses(sent(port, trailed + b"a: 1\r\n\r\n" + post(b"z", b"connection: close\r\n"))) == [200, 200]
    assert statuses(sent(port, trailed + b"a: 1\r\nb: 1\r\n\r\n")) == [431]


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("offer", [OFFER, b"upgrade: websocket\r\nconnection: upgrade\r\n"], ids=["h2c", "websocket"])
def test_an_offer_of_another_protocol_is_ignored(port: int, offer: bytes) -> None:
    """Java's client makes one with every request: body and all that follows are read, whole or in pieces."""
    expected = post(b"first", offer + b"expect: 100-continue\r\n") + post(b"second", offer)
    chunked = b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + offer + b"\r\n5\r\nthird\r\n0\r\n\r\n"
    asked = expected + chunked + b"GET /last HTTP/1.1\r\n" + offer + b"\r\n"
    with reached(port) as connection:
        for at in range(0, len(asked), 7):
            connection.sendall(asked[at : at + 7])
        in_pieces = read_all(connection)

    for answer in (sent(port, asked), in_pieces):
        assert statuses(answer) == [100, 200, 200, 200, 200]
        assert re.search(rb"first.*second.*third.*bye$", answer, re.DOTALL)


def test_an_offer_changes_no_bound(port: int) -> None:
    """Nor the end of a connection that is to close; many of them in one piece are read one behind the other."""
    large = b"POST /echo HTTP/1.1\r\ncontent-length: 100001\r\n" + OFFER + b"\r\n"
    closing = post(b"x", OFFER.replace(b"Upgrade,", b"close, Upgrade,"))

    assert statuses(sent(port, large)) == [413]
    assert statuses(sent(port, b"GET /other HTTP/1.1\r\n" + OFFER + b"\r\n" + closing + post(b"never"))) == [404, 200]
    assert statuses(sent(port, post(b"x", OFFER) * 1_500 + closing)) == [200] * 1_501
    assert statuses(sent(port, b"CONNECT host:80 HTTP/1.1\r\n\r\n" + closing)) == [404]


def test_a_body_that_is_announced_as_too_large_is_not_waited_for(port: int) -> None:
    """Refused by its head; a chunked one as soon as it is too large; nobody is asked to continue."""
    expect = b"expect: 100-continue\r\n"
    announced = sent(port, b"POST /echo HTTP/1.1\r\ncontent-length: 100001\r\n" + expect + b"\r\n")
    chunk = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)
    chunked = sent(port, b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + chunk)
    wanted = sent(port, post(b"z", expect + b"connection: close\r\n"))

    assert [statuses(each) for each in (announced, chunked, wanted)] == [[413], [413], [100, 200]]
    assert announced.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    assert announced.endswith(b"content_too_large: more than 100000 bytes")


@pytest.mark.parametrize(
    ("request_line", "status", "answer"),
    [
        (b"GET /other", 404, b"not_found: /echo /broken /choosy /large /last"),
        (b"GET /echo", 405, b"method_not_allowed: the method is POST"),
        (b"POST /last", 405, b"method_not_allowed: the method is GET"),
        (b"GET /choosy", 503, b"spool_full: not now"),
        (b"GET /last", 200, b"bye"),
        (b"HEAD /last", 200, b""),
    ],
)
def test_each_request_has_its_answer(port: int, request_line: bytes, status: int, answer: bytes) -> None:
    """HEAD is GET without its body; a method that is not taken is told which one is."""
    told = sent(port, request_line + b" HTTP/1.1\r\nconnection: close\r\n\r\n")

    assert statuses(told) == [status]
    assert told.split(b"\r\n\r\n", 1)[1] == answer
    assert (b"\r\nallow: " in told) == (status == 405)
    assert (b"content-length: 3\r\n" in told) == (status == 200)


def test_a_failure_of_ours_is_logged_and_the_sender_may_repeat(port: int, caplog: pytest.LogCaptureFixture) -> None:
    """503, and the next request is served."""
    with caplog.at_level(logging.ERROR):
        answer = sent(port, b"GET /broken HTTP/1.1\r\n\r\n" + post(b"x", b"connection: close\r\n"))

    assert statuses(answer) == [503, 200]
    assert [record.message for record in caplog.records] == ["HTTP request failed; answered with 503"]


def test_whoever_says_nothing_or_dawdles_is_cut_off(port: int) -> None:
    """Silence, a head that trickles, a body that never ends: none holds its place longer than the bound."""
    with reached(port) as silent, reached(port) as head, reached(port) as body:
        head.sendall(b"POST /echo HTTP/1.1\r\nx-slow: ")
        body.sendall(b"POST /echo HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf")
        head.settimeout(WITHIN_S / 6)
        for _ in range(100):
            with contextlib.suppress(TimeoutError, ConnectionError):
                head.sendall(b"x")
                if head.recv(1) == b"":
                    break
        else:
            pytest.fail("a head that trickles is waited for")
        assert (read_all(silent), read_all(body)) == (b"", b"")
        assert sent(port, post(b"room", b"connection: close\r\n")).endswith(b"room")


def test_whoever_does_not_read_gets_one_answer_at_a_time_and_is_cut_off(port: int) -> None:
    """Large answers do not pile up for a sender that only asks."""
    with reached(port) as deaf:
        with pytest.raises(ConnectionError):
            ask_for_ever(deaf)
        answer = read_all(deaf)

    assert len(answer) < LARGE
    assert sent(port, post(b"room", b"connection: close\r\n")).endswith(b"room")


async def test_the_end_waits_for_what_is_being_answered() -> None:
    """And for nobody who idles."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        asked.set()
        await go.wait()
        return Response(200, b"done")

    app = App({"/": Route("GET", slow)}, refuse, connections_max=3, within_s=20.0)
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()[:2]
    async with serving(listening, app):
        idle_reader, idle_writer = await asyncio.open_connection(*address)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await asked.wait()
        asyncio.get_running_loop().call_later(0.05, go.set)
    answers = await reader.read(), await idle_reader.read()
    for each in (writer, idle_writer):
        each.close()
        await each.wait_closed()

    assert (statuses(answers[0]), answers[0].endswith(b"done"), answers[1]) == ([200], True, b"")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(address, timeout=5)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_either_loop_serves(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The agent runs on uvloop, health and OTLP on asyncio's own. A sender that hangs up does no harm."""

    async def asked() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        async with serving(listening, APP):
            with reached(port) as gone:
                gone.sendall(post(b"x" * 50_000)[:1_000])
            return await asyncio.to_thread(sent, port, post(b"y" * 50_000) + post(b"z", b"connection: close\r\n"))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        answer = runner.run(asked())

    assert statuses(answer) == [200, 200]
    assert answer.endswith(b"z")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no IPv6")
@pytest.mark.parametrize(
    ("host", "clients"), [("::1", ["::1"]), ("::", ["::1", "127.0.0.1"]), ("127.0.0.1", ["127.0.0.1"])]
)
def test_it_listens_on_addresses_of_either_family(host: str, clients: list[str]) -> None:
    """The wildcard of IPv6 is for both."""
    with HttpThread("test", host, 0, APP) as server:
        answers = []
        for client in clients:
            with socket.create_connection((client, server.port), timeout=20) as connection:
                connection.sendall(b"GET /last HTTP/1.1\r\n\r\n")
                answers.append(connection.makefile("rb").read())

    assert server.address[0] == host
    assert [statuses(answer) for answer in answers] == [[200]] * len(clients)


def test_the_thread_ends_with_the_server() -> None:
    """Closing twice is no error."""
    server = HttpThread("test", "127.0.0.1", 0, APP)
    begun = [thread.name for thread in threading.enumerate()]
    server.close()
    server.close()

    assert "test" in begun
    assert "test" not in [thread.name for thread in threading.enumerate()]
