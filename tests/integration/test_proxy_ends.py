"""The proxy over loopback: clients that hang up, limits, odd HTTP, and the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
from typing import Any

import orjson
import pytest

from runtime.counters import Counters
from tests.integration.proxy_rig import (
    ANSWER,
    CHAT,
    DONE,
    EVENTS,
    STREAM,
    STREAM_HEAD,
    USAGE,
    Got,
    answers,
    chat,
    chunk,
    error_of,
    event,
    on_both_loops,
    parts_of,
    post,
    proxy_to,
    rig_of,
    says,
    streams,
    token,
    until,
    whole,
)

pytestmark = pytest.mark.integration
HOW = ("status", "error_kind", "http_status")


def said(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# Clients that hang up


async def test_a_client_may_hang_up_at_every_byte_of_its_request() -> None:
    """One event for each request whose head was read, none before; nothing stays open behind it."""
    request = post(chat())
    head_bytes = request.index(b"\r\n\r\n") + 4
    never = says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 1_000, pause_s=1.0)
    async with rig_of(never) as (rig, engine):
        for cut in range(len(request) + 1):
            _, writer = await rig.client()
            writer.write(request[:cut])
            await asyncio.sleep(0)
            writer.close()
        rows = await rig.rows_after(len(request) - head_bytes + 1)
        await until(lambda: engine.closed == engine.connections)

    assert {said(row, "status", "error_kind") for row in rows} == {("aborted", None)}


async def test_a_client_may_hang_up_at_every_chunk_of_its_answer() -> None:
    """The engine's connection is closed at once and the event says what had come."""
    for seen in range(1, len(EVENTS)):
        never = says(STREAM_HEAD, *map(chunk, EVENTS[:seen]), *[b""] * 1_000, pause_s=0.005)
        async with rig_of(never) as (rig, engine):
            reader, writer = await rig.client()
            writer.write(post(chat()))
            for _ in range(seen):
                await reader.readuntil(b"}\n\n\r\n")
            writer.close()
            (row,) = await rig.rows_after(1)
            await until(lambda engine=engine: engine.closed == 1)

            assert said(row, *HOW, "chunks") == ("aborted", None, 200, seen)


# Flow control


async def test_a_slow_client_does_not_grow_memory() -> None:
    """An engine that sends 64 MiB is held up by a client that does not read; read at last, every byte is there."""
    part = chunk(event(b"x" * 65_536))
    parts = 1_024
    sent = 0

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM_HEAD)
        for _ in range(parts):
            writer.write(part)
            await writer.drain()
            sent += len(part)
        writer.write(b"0\r\n\r\n")

    async with rig_of(script) as (rig, _):
        reader, writer = await rig.client()
        reader._limit = 2**10  # type: ignore[attr-defined]  # a reader that stops early
        writer.write(post(chat()))
        await until(lambda: rig.server.clients)
        (client,) = rig.server.clients
        await until(lambda: client._stuck_s is not None)
        held_up, unchanged = sent, 0
        while unchanged < 40:  # until the engine stands still
            await asyncio.sleep(0.005)
            held_up, unchanged = sent, unchanged + 1 if sent == held_up else 0
        assert client.transport is not None
        waiting = client.transport.get_write_buffer_size()
        reader._limit = 2**20  # type: ignore[attr-defined]
        body = b""
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.read()

        assert waiting < 1_000_000
        assert held_up < 40_000_000  # what kernels hold of three sockets, not what the proxy holds
        assert body == part * parts + b"0\r\n\r\n"
        assert head.startswith(b"HTTP/1.1 200")


async def test_a_client_that_takes_nothing_is_given_up() -> None:
    """After write_quiet_s its request is aborted and the engine is left."""
    async with rig_of(says(STREAM_HEAD, *[chunk(b"x" * 65_536)] * 2_000), write_quiet_s=0.3) as (rig, engine):
        reader, writer = await rig.client()
        reader._limit = 2**10  # type: ignore[attr-defined]
        writer.write(post(chat()))
        (row,) = await rig.rows_after(1)
        await until(lambda: engine.closed == 1)

    assert said(row, *HOW) == ("aborted", None, 200)


async def test_a_client_that_asks_on_and_takes_nothing_is_given_up() -> None:
    """Of the requests that it sent ahead no more are begun than it has room for; then it is cut off."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.setblocking(False)
    async with rig_of(says(whole(b"x" * 60_000)), write_quiet_s=0.5) as (rig, engine):
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", rig.server.port))
        with contextlib.closing(sock):
            sock.send(b"GET /v1/models HTTP/1.1\r\nHost: proxy\r\n\r\n" * 90)
            await until(lambda: engine.got)
            await until(lambda: not rig.server.clients)

    assert len(engine.got) < 90


async def test_a_slow_engine_does_not_grow_memory() -> None:
    """An upload to an engine that does not read waits with its client."""
    go_on = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError), contextlib.closing(writer):  # one may be made ahead
            await reader.readuntil(b"\r\n\r\n")
            await go_on.wait()
            await reader.readexactly(size)
            writer.write(whole(b"{}"))

    size = 60 * 2**20
    server = await asyncio.start_server(slow, "127.0.0.1", 0, limit=2**12)
    port = server.sockets[0].getsockname()[1]
    async with proxy_to(f"http://127.0.0.1:{port}", body_bytes_max=size, body_quiet_s=0.5) as rig:
        reader, writer = await rig.client()
        writer.write(b"PUT /v1/files HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        await asyncio.sleep(0.8)
        held = rig.server.held.bytes
        go_on.set()
        answer = await asyncio.wait_for(reader.readuntil(b"{}"), 10)

        assert held < 2**20
        assert answer.startswith(b"HTTP/1.1 200 OK")
    server.close()


# Limits


async def test_too_many_requests_under_way_are_rejected() -> None:
    """503 in OpenAI's shape with a word when to try again, event rejected; the connection goes on."""
    async with rig_of(says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 100, pause_s=0.05), open_requests_max=1) as (
        rig,
        engine,
    ):
        _, first = await rig.client()
        first.write(post(chat()))
        await until(lambda: engine.got)
        reader, writer = await rig.client()
        writer.write(post(chat(), headers=b""))
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readuntil(b"}}")
        (row,) = await rig.rows_after(1)
        first.close()
        await rig.rows_after(2)
        writer.write(post(chat(), headers=b""))
        again = await reader.readline()

    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"Retry-After: 1\r\n" in head
    assert orjson.loads(body)["error"]["code"] == "overloaded"
    assert said(row, *HOW, "model") == ("rejected", "overload", 503, "m")
    assert again == b"HTTP/1.1 200 OK\r\n"


async def test_bodies_that_do_not_come_keep_nobody_out() -> None:
    """They count as arriving; each counts as open once its body is here, and is rejected where there is no room."""
    counters = Counters()
    hold = says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 1_000, pause_s=0.05)
    request = post(chat())
    async with rig_of(hold, open_requests_max=2, counters=counters) as (rig, engine):
        slow = []
        for _ in range(5):
            slow.append(await rig.client())
            slow[-1][1].write(request[:-1])
        await until(lambda: counters.value("proxy_arriving_requests") == 5)
        before = counters.value("proxy_open_requests")
        for reader, writer in [await rig.client() for _ in range(2)]:
            writer.write(request)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        slow[0][1].write(request[-1:])
        late = await slow[0][0].readline()

        assert (before, len(engine.got), late) == (0, 2, b"HTTP/1.1 503 Service Unavailable\r\n")
        assert counters.value("proxy_refused", reason="open_requests_max") == 1
        assert counters.value("proxy_open_requests") == 2


SHARES = {
    "open of an address": {"address_open_requests_max": 1},
    "open of a tenant": {"tenant_open_requests_max": 1},
    "rate of an address": {"address_requests_per_s": 0.001, "rate_burst_s": 0},
    "rate of a tenant": {"tenant_requests_per_s": 0.001, "rate_burst_s": 0},
}


@pytest.mark.parametrize("limits", SHARES.values(), ids=SHARES)
async def test_who_asks_for_too_much_is_429(limits: dict[str, float]) -> None:
    """With when to try again, a count by reason, and an event that blames no engine."""
    counters, key = Counters(), b"Authorization: Bearer k\r\n"
    hold = says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 1_000, pause_s=0.05)
    async with rig_of(hold, counters=counters, **limits) as (rig, engine):
        _, first = await rig.client()
        first.write(post(chat(), headers=key))
        await until(lambda: engine.got)
        raw = await rig.ask(post(chat(), headers=b"Connection: close\r\n" + key))
        (row,) = await rig.rows_after(1)
        first.close()
        await rig.rows_after(2)

    status, error = error_of(raw)
    assert (status, error["code"], len(engine.got)) == (429, "too_many_requests", 1)
    assert b"Retry-After: %d\r\n" % (1_000 if "rate_burst_s" in limits else 1) in raw
    assert said(row, *HOW) == ("rejected", "overload", 429)
    assert "engine_id" not in row, "no engine was chosen"
    assert counters.value("proxy_refused", reason=next(iter(limits))) == 1


async def test_one_address_has_so_many_connections() -> None:
    """429 and closed; one that ends makes room."""
    async with rig_of(answers, address_connections_max=1) as (rig, _):
        _, first = await rig.client()
        await until(lambda: len(rig.server.clients) == 1)
        status, error = error_of(await rig.ask(b""))
        first.close()
        await until(lambda: not rig.server.clients)
        again = await rig.ask(post(chat(stream=False)))

    assert (status, error["code"]) == (429, "too_many_requests")
    assert again.startswith(b"HTTP/1.1 200 ")


BIG = b'{"model":"m","messages":"' + b"x" * 5_000 + b'"}'


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(BIG),
        b"POST %b HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT + chunk(BIG[:2_000]) * 3,
        b"POST %b HTTP/1.1\r\nHost: p\r\nContent-Length: 99999999999\r\n\r\n" % CHAT,
        b"PUT /v1/files HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(BIG),
    ],
    ids=["announced", "in chunks", "announced and never sent", "of another path"],
)
async def test_a_body_too_large_is_413(request_bytes: bytes) -> None:
    """Refused as soon as it is known, before it was read."""
    async with rig_of(answers, body_bytes_max=4_096) as (rig, engine):
        status, error = error_of(await rig.ask(request_bytes))

        assert (status, error["code"], engine.got) == (413, "body_too_large", [])
        rig.server.settle()
        assert [said(row, *HOW) for row in rig.rows] in ([("error", "client", 413)], [])


async def test_all_bodies_together_have_a_limit() -> None:
    """What would not fit beside the bodies that are held is rejected."""
    async with rig_of(answers, body_bytes_max=4_096, bodies_bytes_max=6_000) as (rig, _):
        _, first = await rig.client()
        first.write(post(b"x" * 4_000)[:-1])
        await until(lambda: rig.server.held.bytes > 3_000)
        status, error = error_of(await rig.ask(post(b"x" * 4_000)))
        (row,) = await rig.rows_after(1)

    assert (status, error["code"]) == (503, "overloaded")
    assert said(row, *HOW) == ("rejected", "overload", 503)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 60_000 + b" HTTP/1.1\r\nHost: p\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: p\r\nX: " + b"x" * 60_000,
        b"GET / HTTP/1.1\r\nHost: p\r\n" + b"X: y\r\n" * 20_000,
    ],
    ids=["a long target", "a header without end", "many headers"],
)
async def test_a_head_too_large_is_431(head: bytes) -> None:
    """Whether it ends or not."""
    async with rig_of(answers) as (rig, engine):
        status, error = error_of(await rig.ask(head))

        assert (status, error["code"], engine.got) == (431, "headers_too_large", [])


async def test_chunk_extensions_without_end_are_refused() -> None:
    """Bytes that are neither head nor body cannot fill the memory."""
    async with rig_of(answers) as (rig, _):
        head = b"PUT /v1/files HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n\r\n"
        status, error = error_of(await rig.ask(head + b"1;" + b"x" * 200_000))

        assert (status, error["code"]) == (400, "malformed_request")


async def test_trailers_of_an_engine_without_end_are_cut_off() -> None:
    """The same of an answer."""
    async with rig_of(says(STREAM_HEAD + chunk(EVENTS[0]) + b"0\r\n", *[b"X: " + b"x" * 50_000 + b"\r\n"] * 4)) as (
        rig,
        _,
    ):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10_000_000)
        (row,) = await rig.rows_after(1)

    assert said(row, *HOW) == ("error", "engine_lost", 200)


TIMES = {
    "a slow head is 408": ({"header_s": 0.2}, b"GET / HTTP/1.1\r\nHo", 408, None),
    "a slow body is 408": ({"body_quiet_s": 0.2}, post(chat())[:-5], 408, ("timeout", "timeout", 408)),
    "a silent engine is 504": (
        {"upstream_quiet_s": 0.2}, post(chat()), 504, ("timeout", "timeout", 504)
    ),
    "a request has its total": (
        {"total_s": 0.2, "upstream_quiet_s": 0.1}, post(chat()), 504, ("timeout", "timeout", 504)
    ),
}  # fmt: skip


async def test_a_body_that_trickles_is_408() -> None:
    """However steadily its bytes come."""
    counters, head = Counters(), b"POST %b HTTP/1.1\r\nHost: p\r\nContent-Length: 1000\r\n\r\n" % CHAT
    async with rig_of(answers, body_quiet_s=0.6, body_bytes_per_s_min=100, counters=counters) as (rig, engine):
        reader, writer = await rig.client()
        writer.write(head)
        answer = asyncio.ensure_future(reader.read())
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.1)
        (row,) = await rig.rows_after(1)

    assert error_of(answer.result())[0] == 408
    assert (said(row, *HOW), engine.got) == (("timeout", "timeout", 408), [])
    assert counters.value("proxy_refused", reason="body_bytes_per_s_min") == 1


@pytest.mark.parametrize(("limits", "sent", "status", "event_said"), TIMES.values(), ids=TIMES)
async def test_limits_of_time(
    limits: dict[str, float], sent: bytes, status: int, event_said: tuple[Any, ...] | None
) -> None:
    """Each ends what waits for too long, in OpenAI's shape."""
    async with rig_of(says(*[b""] * 100, pause_s=0.1), **limits) as (rig, _):
        answered, _ = error_of(await rig.ask(sent))

        assert answered == status
        rig.server.settle()
        assert [said(row, *HOW) for row in rig.rows] == ([event_said] if event_said else [])


async def test_an_idle_client_is_closed_in_silence() -> None:
    """After idle_s between requests, without an answer nobody asked for."""
    async with rig_of(answers, idle_s=3_000.0) as (rig, _):
        reader, _writer = await rig.client()
        await until(lambda: rig.server.clients)
        (client,) = rig.server.clients
        client.sweep(rig.server.now_s() + 2_900.0)
        open_before = client.transport is not None and not client.transport.is_closing()
        client.sweep(rig.server.now_s() + 3_000.1)

        assert await asyncio.wait_for(reader.read(), 60) == b""
        assert open_before


async def test_an_upstream_that_never_ends_is_cut_off() -> None:
    """An answer without end ends at total_s: connection cut, event timeout, engine left."""
    endless = says(STREAM_HEAD, *[chunk(EVENTS[0])] * 10_000, pause_s=0.005)
    async with rig_of(endless, total_s=0.5, upstream_quiet_s=0.5) as (rig, engine):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(10_000_000)
        (row,) = await rig.rows_after(1)
        await until(lambda: engine.closed == 1)

    assert said(row, *HOW) == ("timeout", "timeout", 200)
    assert row["chunks"] > 10


async def test_too_many_connections_are_told_so() -> None:
    """503, then closed."""
    async with rig_of(answers, connections_max=1) as (rig, _):
        await rig.client()
        await until(lambda: len(rig.server.clients) == 1)
        status, error = error_of(await rig.ask(b""))

        assert (status, error["code"]) == (503, "overloaded")


# Odd HTTP


async def test_gzip_passes_and_is_counted() -> None:
    """The client gets the compressed bytes as they were; the event has the tokens inside, for streams and bodies."""
    packed = gzip.compress(b"".join((*EVENTS, USAGE, DONE)))
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    pieces = b"".join(chunk(packed[at : at + 9]) for at in range(0, len(packed), 9)) + b"0\r\n\r\n"
    body = gzip.compress(ANSWER)

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        streamed = b'"stream":true' in got.body
        writer.write(head + pieces if streamed else whole(body, b"Content-Encoding: gzip\r\n"))

    async with rig_of(script) as (rig, engine):
        accept = b"Connection: close\r\nAccept-Encoding: gzip\r\n"
        streamed = await rig.ask(post(chat(), headers=accept))
        answered = await rig.ask(post(chat(stream=False), headers=accept))
        rows = await rig.rows_after(2)

    assert parts_of(streamed)[1] == pieces
    assert parts_of(answered)[1] == body
    assert [said(row, "input_tokens", "output_tokens", "status") for row in rows] == [(7, 3, "ok")] * 2
    assert engine.got[0].header("accept-encoding") == b"gzip"


async def test_trailers_pass() -> None:
    """Behind the last chunk, whether the body is passed on as it is or framed anew."""
    answer = STREAM_HEAD + chunk(EVENTS[2]) + b"0\r\nX-Sum: 1\r\n\r\n"
    for ask_usage in (False, True):
        async with rig_of(says(answer), ask_usage=ask_usage) as (rig, _):
            raw = await rig.ask(post(chat()))
            (row,) = await rig.rows_after(1)

            assert parts_of(raw)[1] == chunk(EVENTS[2]) + b"0\r\nX-Sum: 1\r\n\r\n"
            assert row["status"] == "ok"


async def test_http_1_0_clients_get_no_chunks() -> None:
    """The body ends where the connection does; with a length the connection may be kept."""
    request = b"POST %b HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (CHAT, len(chat())) + chat()
    kept = b"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    async with rig_of(streams) as (rig, engine):
        head, body = parts_of(await rig.ask(request))

        assert b"Transfer-Encoding" not in head
        assert b"Connection: close" in head
        assert body == b"".join((*EVENTS, USAGE, DONE))
        assert engine.got[0].line == b"POST /v1/chat/completions HTTP/1.1"
    async with rig_of(says(whole(b"{}"))) as (rig, _):
        reader, writer = await rig.client()
        for _ in range(2):
            writer.write(kept)
            assert b"Connection: keep-alive" in await reader.readuntil(b"{}")


async def test_an_http_1_0_client_does_not_take_half_an_answer_for_all_of_it() -> None:
    """An answer whose end is that of its connection is cut by a reset."""
    request = b"POST %b HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (CHAT, len(chat())) + chat()
    async with rig_of(says(STREAM_HEAD, chunk(EVENTS[0]), close=True)) as (rig, _):
        with pytest.raises(ConnectionResetError):
            await rig.ask(request)
        (row,) = await rig.rows_after(1)

    assert row["status"] == "error"


async def test_an_http_1_0_engine_ends_by_closing() -> None:
    """Its body goes on in chunks; its end is the end."""
    answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    async with rig_of(says(answer, *EVENTS, close=True, pause_s=0.01)) as (rig, _):
        raw = await rig.ask(post(chat()))
        (row,) = await rig.rows_after(1)

    assert parts_of(raw)[1] == b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
    assert b"Transfer-Encoding: chunked" in raw
    assert said(row, "status", "chunks") == ("ok", 3)


async def test_expect_is_answered_before_the_body() -> None:
    """A client that waits for a word gets it; one that would be refused gets the refusal instead."""
    head = b"POST %b HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    async with rig_of(answers, body_bytes_max=4_096) as (rig, engine):
        reader, writer = await rig.client()
        writer.write(head % (CHAT, len(chat())))
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(chat())
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        status, _ = error_of(await rig.ask(head % (CHAT, 5_000)))

        assert status == 413
        assert engine.got[0].header("expect") is None


async def test_head_and_options_pass() -> None:
    """HEAD has the length of a body that does not come, and the connection goes on; OPTIONS asks about everything."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(ANSWER)[: -len(ANSWER)] if got.line.startswith(b"HEAD") else whole(b"{}"))

    async with rig_of(script) as (rig, engine):
        reader, writer = await rig.client()
        for _ in range(2):
            writer.write(b"HEAD /v1/models HTTP/1.1\r\nHost: p\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Length: %d\r\n" % len(ANSWER) in head
        writer.write(b"OPTIONS * HTTP/1.1\r\nHost: p\r\n\r\n")
        assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")

        assert [got.line for got in engine.got] == [b"HEAD /v1/models HTTP/1.1"] * 2 + [b"OPTIONS * HTTP/1.1"]
        assert {got.connection for got in engine.got} == {1}


async def test_a_head_request_is_refused_without_a_body() -> None:
    """The proxy's own answers keep to it too."""
    async with proxy_to("http://127.0.0.1:9") as rig:
        raw = await rig.ask(b"HEAD / HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")

    assert raw.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert raw.endswith(b"\r\n\r\n")


async def test_another_protocol_is_refused_and_an_offer_ignored() -> None:
    """WebSockets are 501; a client that merely offers HTTP/2 is answered as if it had not, body and all."""
    socket = b"GET /v1/realtime HTTP/1.1\r\nHost: p\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
    body = chat(stream=False)
    async with rig_of(answers) as (rig, engine):
        status, error = error_of(await rig.ask(socket + b"\x81\x05hello"))
        reader, writer = await rig.client()
        for _ in range(2):
            writer.write(post(body, headers=offer))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(ANSWER)) == ANSWER
        rows = await rig.rows_after(2)

        assert (status, error["code"]) == (501, "upgrade_refused")
        assert [got.body for got in engine.got] == [body, body]
        assert [got.header("upgrade") for got in engine.got] == [None, None]
        assert [row["status"] for row in rows] == ["ok", "ok"]


_POST = b"POST %b HTTP/1.1\r\nHost: p\r\n" % CHAT
SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: p\r\n\r\n"
SMUGGLING = {
    "a length and chunks": _POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks and a length": _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": _POST + b"Content-Length: 0\r\nContent-Length: 30\r\n\r\n" + SMUGGLED,
    "two equal lengths": _POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "a list of lengths": _POST + b"Content-Length: 0, 0\r\n\r\n" + SMUGGLED,
    "a signed length": _POST + b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "chunks twice": _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks last but one": _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "not quite chunks": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "encoded and chunked": _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a blank before the colon": _POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a header on two lines": _POST + b"X: a\r\n Transfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "a line end of its own": _POST + b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a null": _POST + b"X: a\0\r\n\r\n" + SMUGGLED,
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "no path": b"GET admin HTTP/1.1\r\nHost: p\r\n\r\n",
    "a tunnel": b"CONNECT p:1 HTTP/1.1\r\nHost: p\r\n\r\n" + SMUGGLED,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("sent", SMUGGLING.values(), ids=SMUGGLING)
async def test_what_two_servers_could_read_differently_is_refused(sent: bytes) -> None:
    """One error, then the connection is closed; the engine sees nothing, above all no request inside another."""
    async with rig_of(answers) as (rig, engine):
        raw = await rig.ask(sent)

        assert raw.count(b"HTTP/1.1 ") == 1
        assert error_of(raw)[0] == (501 if sent.startswith(b"CONNECT") else 400)
        assert engine.got == []


async def test_good_requests_before_a_bad_one_are_answered() -> None:
    """What was sent ahead of the damage counts."""
    async with rig_of(says(whole(b"{}"))) as (rig, _):
        raw = await rig.ask(b"GET /a HTTP/1.1\r\nHost: p\r\n\r\nGET /b HTTP/1.1\r\nHo st: p\r\n\r\n")

    assert [part[:3] for part in raw.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]


# Bad input from engines


BAD_STREAMS = {
    "no JSON": event(b"{broken"),
    "cut UTF-8": event(b'{"choices":[{"index":0,"delta":{"content":"\xe2\x82'),
    "no event": b"\x00\xff\xfe" * 100 + b"\n\n",
    "a huge chunk": event({"choices": [{"index": 0, "delta": {"content": "x" * 3_000_000}}]}),
    "negative usage": event({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 2**63}}),
    "an array": event(b"[1,2]"),
}


@pytest.mark.parametrize("bad", BAD_STREAMS.values(), ids=BAD_STREAMS)
async def test_bad_streams_pass_and_are_counted_once(bad: bytes) -> None:
    """What an engine sends is passed on as it is, whatever it is; the event counts what could be read."""
    async with rig_of(says(STREAM_HEAD, chunk(token("a")), chunk(bad), chunk(token("b", "stop")), b"0\r\n\r\n")) as (
        rig,
        _,
    ):
        raw = await rig.ask(post(chat()))
        (row,) = await rig.rows_after(1)

    assert parts_of(raw)[1] == chunk(token("a")) + chunk(bad) + chunk(token("b", "stop")) + b"0\r\n\r\n"
    assert said(row, "status", "input_tokens", "finish_reason") == ("ok", None, "stop")
    assert 2 <= row["output_tokens"] <= 3


async def test_a_body_that_is_no_json_is_passed_on() -> None:
    """It is the engine that says what is wrong with it; the model is unknown."""
    async with rig_of(says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")) as (rig, engine):
        await rig.ask(post(b"\xff not JSON"))
        (row,) = await rig.rows_after(1)

    assert engine.got[0].body == b"\xff not JSON"
    assert said(row, *HOW, "model") == ("error", "client", 400, "__unknown__")


# The end


async def test_open_streams_end_before_the_proxy_does() -> None:
    """stop: nothing new is taken, what is under way goes to its end, every request has its event."""
    slow = says(STREAM_HEAD, *map(chunk, EVENTS), b"0\r\n\r\n", pause_s=0.1)
    async with rig_of(slow, drain_s=60.0) as (rig, engine):
        _, idle = await rig.client()
        asked = asyncio.ensure_future(rig.ask(post(chat(), headers=b"")))
        await until(lambda: engine.got)
        await rig.server.stop()
        raw = await asked

        assert parts_of(raw)[1] == b"".join(map(chunk, EVENTS)) + b"0\r\n\r\n"
        assert [row["status"] for row in rig.rows] == ["ok"]
        with pytest.raises(ConnectionRefusedError):
            await rig.client()
        idle.close()


async def test_what_does_not_end_in_time_is_cut_off() -> None:
    """After drain_s the rest is an error, and the process can end."""
    endless = says(STREAM_HEAD, *[chunk(EVENTS[0])] * 10_000, pause_s=0.005)
    async with rig_of(endless, drain_s=0.1) as (rig, engine):
        _, writer = await rig.client()
        writer.write(post(chat()))
        await until(lambda: engine.got)
        await asyncio.wait_for(rig.server.stop(), 60)

        assert [row["status"] for row in rig.rows] == ["error"]
        writer.close()


async def test_large_streams_are_whole() -> None:
    """Megabytes in pieces of every size pass identically."""
    parts = [chunk(event(b"y" * size)) for size in (1, 10, 1_000, 65_536, 300_000, 5_000_000)] * 3

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + b"".join(parts) + b"0\r\n\r\n")

    async with rig_of(script) as (rig, _):
        raw = await rig.ask(post(chat()))

    assert parts_of(raw)[1] == b"".join(parts) + b"0\r\n\r\n"


async def test_stream_is_whole_whatever_its_cuts() -> None:
    """The engine's bytes cut at every size, the head as well."""
    answer = STREAM_HEAD + STREAM
    for size in (1, 2, 3, 17, 100):
        pieces = [answer[at : at + size] for at in range(0, len(answer), size)]

        async def script(got: Got, writer: asyncio.StreamWriter, pieces: list[bytes] = pieces) -> None:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)

        async with rig_of(script) as (rig, _):
            raw = await rig.ask(post(chat()))
            (row,) = await rig.rows_after(1)

            assert parts_of(raw)[1] == STREAM
            assert said(row, "input_tokens", "output_tokens", "chunks") == (7, 3, 3)


on_both_loops(globals())


async def test_requests_are_taken_while_load_balancers_still_send_them() -> None:
    """After SIGTERM readiness fails at once; for the grace period a new connection is answered, then refused."""
    async with rig_of(answers, grace_s=5.0) as (rig, _):
        stopping = asyncio.create_task(rig.server.stop())
        await until(lambda: rig.server.leaving)
        why = rig.server.why_not_ready()
        answered = await rig.ask(post(chat(stream=False)))
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", rig.server.port)

    assert why == "stopping"
    assert answered.startswith(b"HTTP/1.1 200 ")
