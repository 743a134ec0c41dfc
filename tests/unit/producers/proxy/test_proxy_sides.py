"""Both sides without a network: whatever the pieces, the same bytes go each way and one row comes out.

Covers producers.proxy.client_side, producers.proxy.upstream_side, producers.proxy.exchange, producers.proxy.parties,
producers.proxy.watch.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import resource
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.proxy import rows, upstream_side
from producers.proxy.claims import Claims
from producers.proxy.client_side import ClientSide
from producers.proxy.engines import UpstreamEngines
from producers.proxy.pool import Pool
from producers.proxy.read_queue import LOOK_BYTES_MAX, ReadQueue
from producers.proxy.server import ProxyServer
from producers.proxy.tenants import Identity
from producers.proxy.upstream_side import UpstreamSide
from producers.proxy.watch import CHOICES_MAX, Watch, request_meta
from producers.requests.request_meta import ClientFields, client_fields
from producers.requests.sse import EVENT_BYTES_MAX
from producers.requests.tracker import Tracker
from runtime.counters import Counters
from runtime.proxy_config import ProxyConfig, UpstreamConfig
from schemas.codec.build import block_from_rows, rows_of
from schemas.events.event_types import LLM_REQUESTS

BODY = b'{"model":"m","stream":true,"n":2}'
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: p\r\nX-Request-ID: r\r\ntraceparent: -\r\n"
PLAIN = REQUEST + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CHUNKED = REQUEST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY[:5] + b"\r\n1c\r\n" + BODY[5:] + b"\r\n0\r\n\r\n"
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"t"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STREAM = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (TOKEN, TOKEN, LAST)) + b"0\r\n\r\n"
ANSWER_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
ANSWER = ANSWER_HEAD + b"\r\n" + STREAM
GET = b"GET /v1/models HTTP/1.1\r\nHost: p\r\n\r\n"
MODELS = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False
        self.reading = True
        self.unsent_bytes = 0

    @property
    def written(self) -> bytes:
        """All of it."""
        return b"".join(self.writes)

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def write_eof(self) -> None:
        """The other side learns that nothing follows."""

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def get_extra_info(self, name: str) -> None:
        """There is no socket."""

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is ever held here."""


class Setting:
    """A proxy between two wires. Bodies pass untouched unless ``ask_usage`` is set."""

    def __init__(self, *, tell: Callable[[dict[str, Any]], object] = lambda _: None, **limits: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        upstreams = (UpstreamConfig(url="http://e:1/base"),)
        config = ProxyConfig(upstreams=upstreams, **{"ask_usage": False, **limits})
        self.counters = Counters()
        more: dict[str, Any] = {"counters": self.counters, "tell": tell}
        self.server = ProxyServer(config, self.rows.append, host="h", tenant_secret=b"s", **more)
        self.client_wire, self.upstream_wire = Wire(), Wire()
        self.client = ClientSide(self.server)
        self.client.connection_made(self.client_wire)  # type: ignore[arg-type]
        self.upstream = UpstreamSide(self.server, self.server.pools[0])
        self.upstream.connection_made(self.upstream_wire)  # type: ignore[arg-type]
        self.server.pools[0].keep(self.upstream)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    bounds = sorted({0, len(data), *(place % len(data) for place in at)})
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_no_redirect_leads_round_the_proxy(method: bytes) -> None:
    """Whether the request is counted or not; FastAPI redirects to the Host that it was sent."""

    async def run() -> Setting:
        setting = Setting(paths=("*",))
        setting.client.data_received(method + b" /v1/things/ HTTP/1.1\r\nHost: p\r\nContent-Length: 0\r\n\r\n")
        setting.upstream.data_received(
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://e:1/base/v1/things\r\nContent-Length: 0\r\n\r\n"
        )
        return setting

    assert b"\r\nlocation: /v1/things\r\n" in asyncio.run(run()).client_wire.written


@pytest.mark.parametrize("sent", [b"X-Request-ID: a b\r\n", b"X-Request-ID: a\r\nx-request-id: b\r\n"])
def test_one_id_goes_to_the_engine(sent: bytes) -> None:
    """The one of the event, where the client sent none that is sound, or several."""

    async def run() -> Setting:
        setting = Setting()
        setting.client.data_received(PLAIN.replace(b"X-Request-ID: r\r\n", sent))
        setting.upstream.data_received(ANSWER)
        setting.server.settle()
        return setting

    setting = asyncio.run(run())
    lines = setting.upstream_wire.written.split(b"\r\n")

    assert [line for line in lines if line.lower().startswith(b"x-request-id")] == [
        b"X-Request-ID: " + setting.rows[0]["request_id"].encode()
    ]


CUTS = st.lists(st.integers(0, 10_000), max_size=12)


@settings(max_examples=60)
@given(st.sampled_from([PLAIN, CHUNKED]), CUTS, CUTS)
def test_cuts_change_nothing(request: bytes, request_cuts: list[int], answer_cuts: list[int]) -> None:
    """Whatever pieces head, body and answer come in: the same request goes up, the same answer down, one row."""

    async def run() -> Setting:
        setting = Setting()
        for piece in cut(request, request_cuts):
            setting.client.data_received(piece)
        for piece in cut(ANSWER, answer_cuts):
            setting.upstream.data_received(piece)
        setting.server.settle()
        return setting

    setting = asyncio.run(run())

    assert setting.upstream_wire.written == (
        b"POST /base/v1/chat/completions HTTP/1.1\r\nHost: e:1\r\nX-Request-ID: r\r\ntraceparent: -\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
    )
    assert setting.client_wire.written == ANSWER_HEAD + b"X-Request-ID: r\r\n\r\n" + STREAM
    (row,) = setting.rows
    assert {name: row[name] for name in ("request_id", "status", "model", "chunks", "finish_reason")} == {
        "request_id": "r",
        "status": "ok",
        "model": "m",
        "chunks": 2,
        "finish_reason": "stop",
    }
    assert setting.server.held.bytes == 0


def test_rows_that_cannot_be_taken_cost_neither_requests_nor_the_end() -> None:
    """The first row's taker fails: the answer is whole, the next request has its row, the defect is counted."""

    async def run() -> tuple[Setting, list[bytes]]:
        setting = Setting()
        failures = iter([OSError("no room")])

        def take(row: dict[str, Any]) -> None:
            for failure in failures:
                raise failure
            setting.rows.append(row)

        setting.server.rows._on_row = take
        answers = []
        for _ in range(2):
            setting.client.data_received(PLAIN)
            setting.upstream.data_received(ANSWER)
            setting.server.settle()
            answers.append(setting.client_wire.written)
            setting.client_wire.writes.clear()
            await asyncio.sleep(0)
        await setting.server.stop()
        return setting, answers

    setting, answers = asyncio.run(run())

    assert answers == [ANSWER_HEAD + b"X-Request-ID: r\r\n\r\n" + STREAM] * 2
    assert len(setting.rows) == 1
    assert setting.counters.value("errors", where="proxy", error="OSError") == 1


def test_of_rows_that_were_held_a_defect_costs_its_own() -> None:
    """Those behind it pass on, and who lets them go goes on: the end of the proxy publishes what it has gathered."""
    failures = iter([OSError("no room")])
    upstream = UpstreamConfig(url="http://e:1/base")

    async def run() -> Setting:
        setting = Setting()
        engines = UpstreamEngines([upstream], lambda: Path("/nowhere"), counters=Counters())

        def take(row: dict[str, Any]) -> None:
            for failure in failures:
                raise failure
            setting.rows.append(row)

        setting.server.rows._engines, setting.server.rows._on_row = engines, take
        for _ in range(2):
            setting.client.data_received(PLAIN)
            setting.upstream.data_received(ANSWER)
            setting.server.settle()
            await asyncio.sleep(0)
        assert setting.rows == []
        engines.release(all_of_them=True)
        await setting.server.stop()
        return setting

    setting = asyncio.run(run())

    assert len(setting.rows) == 1
    assert setting.counters.value("errors", where="proxy", error="OSError") == 1


async def test_a_defect_in_taking_a_row_is_not_its_holder_s() -> None:
    """Claims hold rows too."""
    counters = Counters()

    def broken(_row: dict[str, Any]) -> None:
        raise OSError("no room")

    config = ProxyConfig(upstreams=(UpstreamConfig(url="http://e:1"),))
    server = ProxyServer(config, broken, host="h", tenant_secret=b"s", counters=counters)
    server.rows._on_row({})

    assert counters.value("errors", where="proxy", error="OSError") == 1


@settings(max_examples=60)
@given(st.binary(max_size=60), st.booleans(), st.integers(0, 400))
def test_no_bytes_raise(noise: bytes, from_client: bool, at: int) -> None:
    """Noise anywhere, on either side, ends in an answer or a closed connection, never in an exception."""

    async def run() -> Setting:
        setting = Setting()
        request, answer = PLAIN, ANSWER
        if from_client:
            request = PLAIN[: at % len(PLAIN)] + noise
        else:
            answer = ANSWER[: at % len(ANSWER)] + noise
        setting.client.data_received(request)
        if setting.upstream_wire.written:
            setting.upstream.data_received(answer)
        setting.client.connection_lost(None)
        setting.server.settle()
        return setting

    setting = asyncio.run(run())

    assert len(setting.rows) <= 1
    assert setting.server.held.bytes == 0
    assert [upstream.open for upstream in setting.server.choice.upstreams] == [0]


async def test_rows_fit_the_event() -> None:
    """Every column of a row is one of the event's, and the row is taken as it is."""
    setting = Setting()
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(ANSWER)
    setting.server.settle()

    (row,) = setting.rows
    (stored,) = rows_of(LLM_REQUESTS.fields, block_from_rows(LLM_REQUESTS.fields, setting.rows))
    assert {name: stored[name] for name in row} == row


async def test_a_slow_client_stops_the_reading_of_its_engine() -> None:
    """From the high mark to the low one."""
    setting = Setting()
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(ANSWER[:200])

    setting.client.pause_writing()
    paused = setting.upstream_wire.reading
    setting.client.resume_writing()

    assert (paused, setting.upstream_wire.reading) == (False, True)


async def test_a_kept_connection_is_given_back_only_after_a_good_end() -> None:
    """An answer that ended as announced keeps it; bytes that follow without a request close it."""
    setting = Setting()
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(ANSWER)
    kept = setting.upstream_wire.closed
    setting.upstream.data_received(b"HTTP/1.1 200 OK\r\n\r\n")

    assert (kept, setting.upstream_wire.closed) == (False, True)


async def test_no_request_is_begun_for_a_client_that_does_not_read() -> None:
    """What waits for it already is enough; the next one follows when it has read."""
    setting = Setting()
    setting.client.data_received(GET * 2)
    setting.client.pause_writing()
    setting.upstream.data_received(MODELS)
    await asyncio.sleep(0)
    before = setting.upstream_wire.written.count(b"GET")
    setting.client.resume_writing()

    assert (before, setting.upstream_wire.written.count(b"GET")) == (1, 2)


@pytest.mark.parametrize(("unsent", "cut_off"), [((7, 8, 9), True), ((7, 7, 7), True), ((9, 8, 7), False)])
async def test_only_a_client_that_reads_has_more_time_to_read(unsent: tuple[int, ...], cut_off: bool) -> None:
    """That more waits for it is no sign that it reads; while it does, its next request waits without a limit of its
    own."""
    setting = Setting(write_quiet_s=60, idle_s=75)
    setting.client.data_received(GET * 2)
    setting.client.pause_writing()
    setting.upstream.data_received(MODELS)
    await asyncio.sleep(0)
    began_s = setting.server.now_s()
    for number, size in enumerate(unsent):
        setting.client_wire.unsent_bytes = size
        setting.client.sweep(began_s + 40 * number)

    assert setting.client_wire.closed is cut_off


async def test_a_body_that_came_too_early_is_read_on_when_it_is_its_turn() -> None:
    """It is larger than what may be read ahead."""
    setting = Setting(ahead_bytes_max=1_024)
    body = b'{"model":"m","x":"%b"}' % (b"x" * 300_000)
    second = REQUEST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    setting.client.data_received(PLAIN)
    setting.client.data_received(second[:200_000])
    before = setting.client_wire.reading
    setting.upstream.data_received(ANSWER)
    await asyncio.sleep(0)
    after = setting.client_wire.reading
    setting.client.data_received(second[200_000:])

    assert (before, after) == (False, True)
    assert setting.upstream_wire.written.endswith(body)


@pytest.mark.parametrize(("count", "passed_on"), [(128, True), (129, False), (4_000, False)])
async def test_headers_are_bounded(count: int, passed_on: bool) -> None:
    """However short they are: 431, and no more of them are kept."""
    setting = Setting()
    tiny = b"".join(b"x%d:\r\n" % number for number in range(count - 1))
    setting.client.data_received(b"GET /v1/models HTTP/1.1\r\n" + tiny)
    head = setting.client._head
    setting.client.data_received(b"Host: p\r\n\r\n")

    assert head is not None
    assert len(head.headers) == min(count, 129)
    assert bool(setting.upstream_wire.writes) is passed_on
    assert setting.client_wire.written.startswith(b"HTTP/1.1 431 ") is not passed_on
    assert (b'"code":"headers_too_large"' in setting.client_wire.written) is not passed_on


async def test_a_hundred_requests_may_wait_on_a_connection() -> None:
    """They are answered, the next one is refused, and nothing after it is read."""
    setting = Setting()
    setting.client.data_received(GET * 150)
    for _ in range(100):
        setting.upstream.data_received(MODELS)
        await asyncio.sleep(0)
    written = setting.client_wire.written
    setting.client.data_received(GET)

    assert (written.count(b" 200 OK"), written.count(b" 429 "), written.count(b"Connection: close")) == (100, 1, 1)
    assert written.endswith(b"}}")
    assert setting.client_wire.written == written
    assert setting.counters.value("proxy_refused", reason="requests_ahead_max") == 1


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"304 Not Modified", True),
        (b"304 Not Modified\r\nContent-Length: 5", False),
        (b"204 No Content\r\nContent-Length: 0", True),
        (b"204 No Content\r\nTransfer-Encoding: chunked", False),
    ],
)
async def test_an_answer_that_has_no_body_ends_with_its_head(head: bytes, kept: bool) -> None:
    """Whatever it announces; a connection on which a body may follow all the same is not used again."""
    setting = Setting()
    setting.client.data_received(GET)
    setting.upstream.data_received(b"HTTP/1.1 %b\r\n\r\n" % head)

    assert setting.client_wire.written.startswith(b"HTTP/1.1 %b\r\n" % head)
    assert (setting.client.idle, setting.client_wire.closed, setting.upstream_wire.closed) == (True, False, not kept)


@pytest.mark.parametrize(
    ("request_", "again"),
    [
        (b"DELETE /v1/responses/r HTTP/1.1\r\nHost: p\r\n\r\n", True),
        (b"POST /v1/responses/r/cancel HTTP/1.1\r\nHost: p\r\n\r\n", True),
        (b"POST /v1/responses/r/cancel HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n\r\n{}", False),
        (PLAIN, True),
    ],
    ids=["a deletion", "a cancellation", "a body that was passed on", "a body that is kept"],
)
async def test_what_the_engine_never_had_is_sent_again(
    request_: bytes, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closed a kept connection and confirmed nothing of the request; what is gone cannot be sent again."""
    monkeypatch.setattr(upstream_side, "acknowledged", lambda _: 7)
    setting = Setting()
    setting.upstream.reused = True
    setting.client.data_received(request_)
    setting.upstream.connection_lost(None)
    written = setting.client_wire.written
    setting.client.connection_lost(None)

    assert written.startswith(b"" if again else b"HTTP/1.1 502 ")
    assert (written == b"") is again


async def test_an_engine_that_takes_no_more_stops_the_reading_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first write on."""
    setting = Setting()
    monkeypatch.setattr(setting.upstream_wire, "write", lambda _: setting.upstream.pause_writing())
    setting.client.data_received(PLAIN)
    held = not setting.client_wire.reading
    setting.upstream.resume_writing()

    assert (held, setting.client_wire.reading) == (True, True)


@pytest.mark.parametrize(("version", "resets"), [(b"1.0", True), (b"1.1", False)])
async def test_an_answer_that_ends_with_its_connection_is_cut_by_a_reset(
    version: bytes, resets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A close would say that it is whole. In chunks it would not, and the client reads what was sent."""
    setting = Setting()
    setting.client.data_received(PLAIN.replace(b"HTTP/1.1", b"HTTP/" + version))
    setting.upstream.data_received(ANSWER_HEAD + b"\r\n%x\r\n%b\r\n" % (len(TOKEN), TOKEN))
    told: list[tuple[int, int, bytes]] = []
    monkeypatch.setattr(
        setting.client_wire,
        "get_extra_info",
        lambda _: SimpleNamespace(setsockopt=lambda *option: told.append(option)),
    )
    setting.upstream.connection_lost(None)

    assert TOKEN in setting.client_wire.written
    assert setting.client_wire.closed
    assert told == ([(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))] if resets else [])


async def answer_without_connection(setting: Setting, monkeypatch: pytest.MonkeyPatch, error: Exception) -> bytes:
    """What a client is answered while the lookup of the upstream's name raises this."""

    async def fails(*_args: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fails)
    setting.upstream_wire.close()
    setting.client.data_received(PLAIN)
    for _ in range(10):
        await asyncio.sleep(0)
    return setting.client_wire.written


@pytest.mark.parametrize(
    "error", [socket.gaierror(socket.EAI_NONAME, "no such name"), UnicodeError("label empty")], ids=["unknown", "odd"]
)
async def test_a_name_that_is_not_resolved_costs_no_time(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the resolver raises: 502 at once."""
    assert (await answer_without_connection(Setting(), monkeypatch, error)).startswith(b"HTTP/1.1 502 ")


async def test_a_name_that_is_not_resolved_for_want_of_a_descriptor_is_not_the_upstreams_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The resolver says that it found nothing; 503 of ours."""
    unknown, limits = socket.gaierror(socket.EAI_AGAIN, "try again"), resource.getrlimit(resource.RLIMIT_NOFILE)
    setting = Setting(failures_max=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        written = await answer_without_connection(setting, monkeypatch, unknown)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert written.startswith(b"HTTP/1.1 503 ")
    assert setting.server.choice.upstreams[0].failures == 0


async def test_a_name_is_tried_at_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses, and one that says nothing, leave time for the next."""
    setting, wire, reached, tried = Setting(connect_s=0.3), Wire(), asyncio.Event(), list[str]()

    async def several(*_args: object, **_more: object) -> list[Any]:
        v4 = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{number}", 1)) for number in (1, 2)]
        return [*v4, (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 1, 0, 2)), *v4]

    async def connects(factory: Callable[[], UpstreamSide], host: str, *_args: object, **_more: object) -> Any:
        tried.append(host)
        if host == "10.0.0.1":
            raise ConnectionRefusedError
        if host == "10.0.0.2":
            await asyncio.Event().wait()
        side = factory()
        side.connection_made(wire)  # type: ignore[arg-type]
        reached.set()
        return wire, side

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", several)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connects)
    setting.upstream_wire.close()
    setting.client.data_received(PLAIN)
    await asyncio.wait_for(reached.wait(), 60)

    assert tried == ["10.0.0.1", "10.0.0.2", "fe80::1%2"]
    assert wire.written.startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "target"),
    [
        ("http://e", "e", 80, b"e", b"/v1/a"),
        ("http://e:8000/v1/", "e", 8000, b"e:8000", b"/v1/a"),
        ("http://[::1]:8000/base", "::1", 8000, b"[::1]:8000", b"/base/v1/a"),
    ],
)
async def test_the_url_gives_host_authority_and_target(
    url: str, host: str, port: int, authority: bytes, target: bytes
) -> None:
    """A path of it comes first, but for the /v1 that clients bring along."""
    setting = Setting()
    pool = Pool(setting.server, UpstreamConfig(url=url))

    assert (pool.host, pool.port, pool.authority, pool.target(b"/v1/a")) == (host, port, authority, target)
    assert pool.target(b"*") == b"*"


def test_request_meta_is_read_from_the_body() -> None:
    """Model, stream and n where they are what they should be."""
    names = Identity("r", None, [])

    def meta_of(body: bytes, api: str = "chat") -> tuple[str | None, bool, int | None]:
        found = request_meta(client_fields(api, body), api, names, None, None, {})
        return found.model, found.streamed, found.choices

    assert meta_of(BODY) == ("m", True, 2)
    assert meta_of(b'{"model":7,"stream":"yes","n":true}') == (None, False, 1)
    assert meta_of(b'{"model":"%b"}' % (b"x" * 256)) == ("x" * 256, False, 1)
    assert meta_of(b'{"model":"%b"}' % (b"x" * 257)) == (None, False, 1)
    assert meta_of(b'{"model":"%b"}' % ("\N{GREEK SMALL LETTER ALPHA}" * 129).encode()) == (None, False, 1)
    assert meta_of(b"\xff") == (None, False, None)
    assert meta_of(b'{"prompt":["a","b"],"n":3}', "completions") == (None, False, 6)
    many = b'{"prompt":[%b],"n":%d}'
    assert meta_of(many % (b",".join([b'"a"'] * 20), 50_000), "completions") == (None, False, CHOICES_MAX)
    assert meta_of(many % (b",".join([b'"a"'] * 20), 50_001), "completions") == (None, False, None)


@pytest.mark.parametrize("requested", ["/models/" + "x" * 200, "x" * 257, "a\nb"], ids=["path", "long", "unprintable"])
async def test_a_name_that_the_engine_repeats_costs_no_event(requested: str) -> None:
    """A path of 200 characters is a label. What is none is unknown, though the answer has it, and stands beside it."""
    setting = Setting()
    body = orjson.dumps({"model": requested})
    answer = orjson.dumps({"model": requested, "choices": [{"index": 0, "message": {}, "finish_reason": "stop"}]})
    setting.client.data_received(REQUEST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    setting.upstream.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
    setting.server.settle()

    (row,) = setting.rows
    named = requested.startswith("/models/")
    assert (row["model"], row.get("model_requested")) == (
        (requested, None) if named else ("__unknown__", requested[:128].replace("\n", "\N{REPLACEMENT CHARACTER}"))
    )


@pytest.mark.parametrize(
    ("limits", "sent"),
    [
        ({}, b"Accept-Encoding: gzip\r\n"),
        ({"ask_usage": True}, b""),
        ({"ask_usage": True, "show_usage": True}, b""),
    ],
    ids=["the body as it was", "usage requested", "usage requested and shown"],
)
async def test_engines_are_offered_encodings_that_are_read(limits: dict[str, bool], sent: bytes) -> None:
    """A stream from which usage is taken, and an answer that may reject the request for it, come plain."""
    setting = Setting(**limits)
    head = REQUEST + b"accept-encoding: br, gzip\r\n"
    setting.client.data_received(head + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY))

    written = setting.upstream_wire.written
    assert sent in written
    assert written.lower().count(b"accept-encoding") == len(sent[:1])
    uncounted = Setting(**limits)
    uncounted.client.data_received(GET.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: br\r\n\r\n"))
    assert b"\r\nAccept-Encoding: br\r\n" in uncounted.upstream_wire.written


class Noted(Claims):
    """What is claimed of answers."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, str]] = []

    def claim_answer(self, request_id: str, answer_id: str) -> None:
        self.made.append((request_id, answer_id))


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_chat_is_claimed_once_by_the_id_that_the_engine_gave_it(streamed: bool) -> None:
    """Others report it under that one; of a stream it is claimed while that runs."""
    setting, claims = Setting(), Noted()
    setting.server.rows._claims = claims
    setting.client.data_received(PLAIN)
    text = orjson.loads(TOKEN[5:]) | {"id": "chatcmpl-9d1b46ac"}
    piece = b"data: %b\n\n" % orjson.dumps(text)
    begun = ANSWER_HEAD + b"\r\n" + (b"%x\r\n%b\r\n" % (len(piece), piece)) * 2
    body = orjson.dumps(text)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    setting.upstream.data_received(begun if streamed else whole)
    setting.server.rows._look()
    while_it_runs = list(claims.made)
    if streamed:
        setting.upstream.data_received(STREAM)
    setting.server.settle()

    assert claims.made == [("r", "chatcmpl-9d1b46ac")]
    assert (while_it_runs == claims.made) is streamed


async def test_several_prompts_are_several_choices() -> None:
    """A list of prompts is answered ``n`` times for each; the first answer's end is not the end of all."""
    setting = Setting()
    body = b'{"model":"m","prompt":["a","b"],"n":2,"stream":true}'
    head = REQUEST.replace(b"chat/completions", b"completions")
    setting.client.data_received(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    setting.upstream.data_received(ANSWER)
    setting.server.settle()

    (row,) = setting.rows
    assert (row["api"], row["choices"]) == ("completions", 4)


async def test_a_stream_of_several_prompts_that_is_cut_has_all_of_them() -> None:
    """Each chunk counts the prompt of its own choice."""
    setting = Setting()
    body = b'{"model":"m","prompt":["a","b"],"n":2,"stream":true}'
    head = REQUEST.replace(b"chat/completions", b"completions")
    setting.client.data_received(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    setting.upstream.data_received(ANSWER_HEAD + b"\r\n")
    for index, prompt in enumerate((10, 10, 300, 300)):
        counts = {"prompt_tokens": prompt, "completion_tokens": 1}
        event = b"data: " + orjson.dumps({"choices": [{"index": index, "text": "t"}], "usage": counts}) + b"\n\n"
        setting.upstream.data_received(b"%x\r\n%b\r\n" % (len(event), event))
    setting.client.connection_lost(None)
    setting.server.settle()

    (row,) = setting.rows
    assert (row["status"], row["input_tokens"], row["output_tokens"]) == ("aborted", 310, 4)


async def test_a_slash_at_the_end_reaches_no_engine() -> None:
    """The request is whole for the reader of its first line, and goes up without the slash; the row is its API's."""
    setting = Setting()
    setting.client.data_received(PLAIN.replace(b"completions ", b"completions/?a=1 "))
    setting.upstream.data_received(ANSWER)
    setting.server.settle()

    assert setting.upstream_wire.written.startswith(b"POST /base/v1/chat/completions?a=1 HTTP/1.1\r\n")
    assert [(row["api"], row["status"]) for row in setting.rows] == [("chat", "ok")]


@pytest.mark.parametrize(
    ("body", "quiet_s", "status"),
    [
        pytest.param(BODY, 301, 504, id="a stream"),
        pytest.param(BODY.replace(b"true", b"null"), 301, 200, id="no stream"),
        pytest.param(BODY.replace(b"true", b"null"), 901, 504, id="no stream, beyond the total"),
    ],
)
async def test_a_long_answer_that_is_no_stream_is_awaited(body: bytes, quiet_s: float, status: int) -> None:
    """It says nothing until all of it is generated."""
    setting = Setting()
    setting.client.data_received(REQUEST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    await asyncio.sleep(2 * rows.LOOK_AFTER_S)
    setting.client.sweep(setting.server.now_s() + quiet_s)
    setting.upstream.data_received(MODELS)
    setting.server.settle()

    assert [row["http_status"] for row in setting.rows] == [status]


async def test_a_compressed_answer_is_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet may hold a thousand times its size: other requests go on between, and its row has what it held."""
    setting, done, looks = Setting(), asyncio.Event(), list[bool]()
    look = ReadQueue.look

    def counted(queue: ReadQueue) -> bool:
        looks.append(look(queue))
        return looks[-1]

    def take(row: dict[str, Any]) -> None:
        setting.rows.append(row)
        done.set()

    monkeypatch.setattr(ReadQueue, "look", counted)
    monkeypatch.setattr(setting.server.rows, "_on_row", take)
    packed = gzip.compress(b"\n" * 10 * LOOK_BYTES_MAX + TOKEN + LAST)
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(ANSWER_HEAD + b"Content-Encoding: gzip\r\n\r\n")
    setting.upstream.data_received(b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed))
    await asyncio.wait_for(done.wait(), 60)

    (row,) = setting.rows
    assert looks.count(False) >= 10
    assert (row["status"], row["chunks"]) == ("ok", 1)


async def test_an_oversize_event_is_counted() -> None:
    """It goes on like any other; the stream's missing end is no failure then, and the skip is counted."""
    setting = Setting(watched_bytes_max=1_024)
    huge = b"data: " + b"x" * 1_025 + b"\n\n"
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(ANSWER_HEAD + b"\r\n")
    for event in (TOKEN, huge, huge):
        setting.upstream.data_received(b"%x\r\n%b\r\n" % (len(event), event))
    setting.upstream.data_received(b"0\r\n\r\n")
    setting.server.settle()

    (row,) = setting.rows
    assert huge in setting.client_wire.written
    assert (row["status"], row["chunks"]) == ("ok", 1)
    assert setting.counters.value("proxy_unread", reason="oversize_event") == 2


async def test_the_last_event_of_a_response_is_read_whatever_text_it_repeats() -> None:
    """Its usage stands beside the whole text: an event may be as large as a body."""
    setting = Setting()
    usage = {"input_tokens": 5, "output_tokens": 7}
    response = {"object": "response", "status": "completed", "output": ["x" * EVENT_BYTES_MAX], "usage": usage}
    event = b"data: " + orjson.dumps({"type": "response.completed", "response": response}) + b"\n\n"
    setting.client.data_received(PLAIN.replace(b"chat/completions", b"responses"))
    setting.upstream.data_received(ANSWER_HEAD + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(event), event))
    setting.server.settle()

    (row,) = setting.rows
    assert (row["status"], row["input_tokens"], row["output_tokens"]) == ("ok", 5, 7)


async def test_a_defect_in_reading_a_whole_answer_costs_no_row(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The row has what was read before, and the request is not one that the engine left; the defect is counted."""

    def fails(_tracker: Tracker, _at_ns: int, _body: bytes) -> None:
        raise TypeError("of a body")

    monkeypatch.setattr(Tracker, "body", fails)
    setting, answer = Setting(), b'{"choices":[]}'
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
    setting.server.settle()

    assert [(row["model"], row["http_status"], row["output_tokens"]) for row in setting.rows] == [("m", 200, None)]
    assert setting.counters.value("proxy_unread", reason="defect") == 1
    assert caplog.text.count("proxy defect") == 1


@pytest.mark.parametrize("ask_usage", [False, True], ids=["read afterwards", "read before it is sent"])
async def test_a_defect_in_reading_one_request_costs_no_other_its_row(
    ask_usage: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has its row, with what was read of it; bytes pass; the defect is counted and logged once."""
    read, wanted = Watch.piece, rows.client_fields

    def piece(watch: Watch, at_ns: int, data: bytes) -> None:
        if b"poison" in data:
            raise OverflowError("of a piece")
        read(watch, at_ns, data)

    def of(api: str, body: bytes) -> ClientFields:
        if b"poison" in body:
            raise TypeError("of a body")
        return wanted(api, body)

    monkeypatch.setattr(Watch, "piece", piece)
    monkeypatch.setattr(rows, "client_fields", of)
    setting, poisoned = Setting(ask_usage=ask_usage), TOKEN.replace(b'"t"', b'"poison"')
    bodies = [BODY, BODY.replace(b'"m"', b'"poison"'), BODY]
    for body, events in zip(bodies, [(TOKEN, poisoned, TOKEN, LAST), (TOKEN, LAST), (TOKEN, LAST)], strict=True):
        setting.client.data_received(REQUEST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        setting.upstream.data_received(ANSWER_HEAD + b"\r\n")
        for event in events:
            setting.upstream.data_received(b"%x\r\n%b\r\n" % (len(event), event))
        setting.upstream.data_received(b"0\r\n\r\n")
    setting.server.settle()

    assert [(row["model"], row["status"], row["chunks"]) for row in setting.rows] == [
        ("m", "ok", 2),
        ("__unknown__", "ok", 1),
        ("m", "ok", 1),
    ]
    assert poisoned in setting.client_wire.written
    assert setting.counters.value("proxy_unread", reason="defect") == 2
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [OverflowError, TypeError]


@pytest.mark.parametrize(
    "first",
    [
        b"POST /not/routed HTTP/1.1\r\nHost: p\r\nContent-Length: 0\r\n\r\n",
        b"POST /not/routed HTTP/1.1\r\nHost: p\r\nContent-Length: 9\r\n\r\n123456789",
    ],
    ids=["no body", "a body"],
)
def test_bodies_behind_a_request_that_ends_its_connection_are_given_back(first: bytes) -> None:
    """They were read ahead and are never answered: what they held would be missing to all others, for ever."""

    async def run() -> Setting:
        setting = Setting()
        setting.client.data_received(first + PLAIN + PLAIN[:-5])
        assert setting.client_wire.written.startswith(b"HTTP/1.1 404 ")
        setting.client.connection_lost(None)
        return setting

    assert asyncio.run(run()).server.held.bytes == 0
