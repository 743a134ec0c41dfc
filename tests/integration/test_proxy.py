"""The proxy over loopback, between scripted engines and raw clients: bytes, ends, limits, bad input."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from producers.proxy.claims import Claims
from producers.proxy.pool import Pool
from producers.proxy.publishing import with_request_log
from producers.proxy.upstream_side import UpstreamSide
from producers.proxy.usage import HELD_BYTES_MAX
from runtime.counters import Counters
from runtime.tracing import tracing
from runtime.tracing_config import TracingConfig
from tests.integration.otlp_receiver import receiving
from tests.integration.proxy_rig import (
    ANSWER,
    CHAT,
    DONE,
    EVENTS,
    KEY,
    STREAM,
    STREAM_HEAD,
    USAGE,
    Engine,
    Got,
    Rig,
    Script,
    answers,
    chat,
    chunk,
    engines_of,
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
from tests.unused_ports import unused_ports

pytestmark = pytest.mark.integration


def said(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


HOW = ("status", "error_kind", "http_status")
TOKENS = ("input_tokens", "output_tokens", "tokens_from", "chunks")


# Bytes


async def test_a_stream_passes_byte_for_byte_and_is_counted() -> None:
    """Chunk lines included, the client reads what the engine wrote; the event has its tokens and times."""
    async with rig_of(streams) as (rig, _):
        head, body = parts_of(await rig.ask(post(chat())))
        (row,) = await rig.rows_after(1)

    assert body == STREAM
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert said(row, *HOW, *TOKENS) == ("ok", None, 200, 7, 3, "engine", 3)
    assert said(row, "model", "api", "finish_reason", "host", "origin") == ("m", "chat", "stop", "h-1", "measured")
    assert said(row, "engine_id", "placement_group") == (None, None), "no agent knows the engine"
    assert 0 < row["ttft_us"] <= row["e2e_us"] < 5_000_000


async def test_nothing_is_held_back() -> None:
    """Each chunk is with the client before the engine makes the next."""
    go_on = asyncio.Semaphore(0)

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        for part in EVENTS:
            await go_on.acquire()
            writer.write(chunk(part))
        writer.write(b"0\r\n\r\n")

    async with rig_of(script) as (rig, _):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        await reader.readuntil(b"\r\n\r\n")
        seen = []
        for _ in EVENTS:
            go_on.release()
            seen.append(await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 5))

        assert seen == [chunk(part) for part in EVENTS]


async def test_bodies_go_up_untouched() -> None:
    """Odd blanks, keys that come twice, escapes and numbers stay as they were, also of a chunked body."""
    body = (
        b'{ "model":"m" , "seed":1.0e+2,"seed":  10000000000000000000001, "messages":[{"content":"\\u00e9\xc3\xa9"}]}\n'
    )
    chunked = b"POST %b HTTP/1.1\r\nHost: p\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT
    async with rig_of(answers) as (rig, engine):
        first = await rig.ask(post(body))
        second = await rig.ask(chunked + chunk(body[:9]) + chunk(body[9:]) + b"0\r\nTrailer: x\r\n\r\n")

    assert [got.body for got in engine.got] == [body, body]
    assert parts_of(first)[1] == parts_of(second)[1] == ANSWER


async def test_connections_are_kept_on_both_sides() -> None:
    """Three requests of one client use one connection to the engine."""
    async with rig_of(streams) as (rig, engine):
        reader, writer = await rig.client()
        for _ in range(3):
            writer.write(post(chat(), headers=b""))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(STREAM)) == STREAM
        await rig.rows_after(3)

        assert [got.connection for got in engine.got] == [1, 1, 1]


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    """A client that does not wait for answers gets them all, one after the other."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(got.body))

    bodies = [chat(seed=number) for number in range(20)]
    async with rig_of(script) as (rig, engine):
        reader, writer = await rig.client()
        writer.write(b"".join(post(body, headers=b"") for body in bodies))
        for body in bodies:
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body
        await rig.rows_after(20)

        assert {got.connection for got in engine.got} == {1}


async def test_headers_of_one_hop_stay_there_and_names_are_added() -> None:
    """Connection, what it names, Upgrade and the like do not travel; ids are added where the client has none."""
    extra = b"Connection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Kept:  a  b \r\n"
    async with rig_of(says(whole(ANSWER, b"Keep-Alive: timeout=5\r\nX-Engine: e\r\n"))) as (rig, engine):
        head, _ = parts_of(await rig.ask(post(chat(stream=False), headers=extra)))
        (row,) = await rig.rows_after(1)

    (got,) = engine.got
    assert [got.header(name) for name in ("connection", "x-mine", "keep-alive", "te")] == [None] * 4
    assert got.header("x-kept") == b"a  b"
    assert got.header("host") == f"127.0.0.1:{engine.port}".encode()
    assert got.header("x-request-id") == row["request_id"].encode()
    assert got.header("traceparent") is not None
    assert (got.header("traceparent") or b"").split(b"-")[1].decode() == row["trace_id"]
    assert b"X-Engine: e" in head
    assert b"Keep-Alive" not in head
    assert b"X-Request-ID: " + row["request_id"].encode() in head


async def test_names_of_the_client_are_kept() -> None:
    """An id and a trace that came are passed on as they are; two requests of one id are two events."""
    trace = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    extra = b"Connection: close\r\nX-Request-Id: mine-1\r\nTraceparent: %b\r\n" % trace
    async with rig_of(answers) as (rig, engine):
        for _ in range(2):
            await rig.ask(post(chat(stream=False), headers=extra))
        rows = await rig.rows_after(2)

    assert [(row["request_id"], row["trace_id"]) for row in rows] == [("mine-1", trace[3:35].decode())] * 2
    assert [(got.header("x-request-id"), got.header("traceparent")) for got in engine.got] == [(b"mine-1", trace)] * 2


async def test_a_request_of_a_sampled_trace_is_a_span_of_it() -> None:
    """A collector gets it between client and engine; what is not sampled, or not to be followed, goes on as it came."""
    sent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"
    extra = b"Connection: close\r\ntraceparent: " + sent + b"\r\n"
    with receiving() as collector, tracing(TracingConfig(endpoint=collector.url, requests=True), "proxy") as tracer:
        async with rig_of(says(whole(ANSWER)), tracer=tracer) as (rig, engine):
            await rig.ask(post(chat(stream=False), headers=extra))
            await rig.ask(
                post(chat(stream=False), headers=b"Connection: close\r\ntraceparent: " + sent[:-1] + b"0\r\n")
            )
            row, _ = await rig.rows_after(2)
        await until(lambda: collector.spans)
    async with rig_of(says(whole(ANSWER))) as (rig, untouched):
        await rig.ask(post(chat(stream=False), headers=extra))

    (span,) = collector.spans
    trace, parent = bytes.fromhex(row["trace_id"]), bytes.fromhex("b7ad6b7169203331")
    assert (span.service, span.kind, span.parent, span.failed) == ("fleetpulse-proxy", "client", (trace, parent), False)
    assert span.name == f"chat {row['model']}"
    assert span.attributes["gen_ai.usage.output_tokens"] == row["output_tokens"]
    assert 0 <= row["e2e_us"] - (span.end_ms - span.start_ms) * 1_000 + 1_000 <= 2_000
    got = [each.header("traceparent") for each in engine.got]
    assert got == [b"00-%b-%b-01" % (trace.hex().encode(), span.key[1].hex().encode()), sent[:-1] + b"0"]
    assert [each.header("traceparent") for each in untouched.got] == [sent]


@pytest.mark.parametrize("forged", [b"x" * 5_000, b"a b", b"\xff\xfe", b""], ids=["long", "blank", "bytes", "empty"])
async def test_forged_names_are_not_believed(forged: bytes) -> None:
    """Event and engine get one of ours for an id that no id looks like; a broken trace is unknown."""
    extra = b"Connection: close\r\nX-Request-ID: %b\r\ntraceparent: 00-zz\r\n" % forged
    async with rig_of(answers) as (rig, engine):
        await rig.ask(post(chat(stream=False), headers=extra))
        (row,) = await rig.rows_after(1)

    assert engine.got[0].header("x-request-id") == row["request_id"].encode()
    assert re.fullmatch("[0-9a-f]{32}", row["request_id"])
    assert row["trace_id"] is None


async def test_listed_paths_pass_and_what_is_posted_there_is_counted() -> None:
    """Models and files go through, in pieces as they come, without an event; a POST has one of the API ``other``."""
    big = bytes(range(256)) * 8_192

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(got.body or b"{}"))

    chunked = b"PUT /v1/files/a?b=c HTTP/1.1\r\nHost: p\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with rig_of(script, paths=("/v1/files", "/v1/files/*")) as (rig, engine):
        models = await rig.ask(b"GET /v1/models HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n")
        uploaded = await rig.ask(post(big, path=b"/v1/files"))
        streamed = await rig.ask(chunked + chunk(big) + b"0\r\n\r\n")
        rows = await rig.rows_after(1)

        assert parts_of(models)[1] == b"{}"
        assert parts_of(uploaded)[1] == parts_of(streamed)[1] == big
        assert [got.line for got in engine.got] == [
            b"GET /v1/models HTTP/1.1",
            b"POST /v1/files HTTP/1.1",
            b"PUT /v1/files/a?b=c HTTP/1.1",
        ]
        assert [said(row, "api", *HOW) for row in rows] == [("other", "ok", None, 200)]


async def test_other_paths_are_not_passed_on() -> None:
    """An engine's own controls above all."""
    async with rig_of(answers, paths=()) as (rig, engine):
        for path in (b"/v1/load_lora_adapter", b"/sleep", b"/v1/files"):
            refused = await rig.ask(post(chat(stream=False), path=path))
            assert refused.startswith(b"HTTP/1.1 404 ")
            assert b"not_routed" in refused

        assert engine.got == []


async def test_an_escaped_path_is_counted_and_passed_on_as_it_is() -> None:
    """The engine reads the client's bytes; the event is one of chat."""
    paths = [b"/v1/chat/complet%69ons", b"/%761/chat/completions?a=%2F"]
    async with rig_of(answers) as (rig, engine):
        for path in paths:
            assert parts_of(await rig.ask(post(chat(stream=False), path=path)))[1] == ANSWER
        rows = await rig.rows_after(len(paths))

        assert [got.line for got in engine.got] == [b"POST %b HTTP/1.1" % path for path in paths]
        assert [said(row, "api", *HOW) for row in rows] == [("chat", "ok", None, 200)] * len(paths)


@pytest.mark.parametrize(
    "path", [b"/v1/chat%2Fcompletions", b"//v1/chat/completions", b"/v1/chat/completions;p=1", b"/../v1/models"]
)
async def test_an_ambiguous_path_reaches_no_engine(path: bytes) -> None:
    """Nor does one leave the prefix of its upstream."""
    async with engines_of(answers) as (engine,), proxy_to(f"{engine.url}/tenant-a") as rig:
        refused = await rig.ask(post(chat(stream=False), path=path))

        assert refused.startswith(b"HTTP/1.1 400 ")
        assert b"ambiguous_path" in refused
        assert engine.got == []


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(b"Authorization: Bearer real\r\nAuthorization: Bearer junk\r\n", id="a key twice"),
        pytest.param(b"Authorization: Bearer junk\r\nX-API-Key: real\r\n", id="two keys that differ"),
        pytest.param(b"api-key: junk\r\nx-api-key: real\r\n", id="two headers of keys"),
        pytest.param(b"X-Tenant: a\r\nx-tenant: b\r\n", id="a tenant twice"),
    ],
)
async def test_who_names_itself_twice_reaches_no_engine(headers: bytes) -> None:
    """The engine might take the one, and the event name the other."""
    async with rig_of(answers, tenant_from="header:X-Tenant") as (rig, engine):
        refused = await rig.ask(post(chat(stream=False), headers=b"Connection: close\r\n" + headers))

        assert refused.startswith(b"HTTP/1.1 400 ")
        assert b"credentials" in refused
        assert engine.got == []


async def test_without_a_descriptor_the_upstream_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """503 of ours, event rejected; with one again, the same upstream answers."""

    async def none_left(_pool: Pool) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with rig_of(answers, failures_max=1) as (rig, _):
        with monkeypatch.context() as full:
            full.setattr(Pool, "_new", none_left)
            refused = await rig.ask(post(chat(stream=False)))
        why = rig.server.why_not_ready()
        answered = await rig.ask(post(chat(stream=False)))
        rows = await rig.rows_after(2)

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert why is None
    assert parts_of(answered)[1] == ANSWER
    assert [row["status"] for row in rows] == ["rejected", "ok"]


async def test_embeddings_and_whole_answers_are_counted() -> None:
    """A request that is not streamed has its tokens from the body."""
    body = orjson.dumps(
        {"model": "e-1", "data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 9, "total_tokens": 9}}
    )
    async with rig_of(says(whole(body))) as (rig, _):
        raw = await rig.ask(post(b'{"model":"e-1","input":"my secret"}', path=b"/v1/embeddings"))
        (row,) = await rig.rows_after(1)

    assert parts_of(raw)[1] == body
    assert said(row, *HOW, "api", "model", "input_tokens") == ("ok", None, 200, "embeddings", "e-1", 9)


RESPONSE = Path(__file__).parents[1] / "data" / "engine_answers" / "vllm-0.32.0" / "responses.json"


class Noted(Claims):
    """What is claimed, in its order, with whether the request's row was there already."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, str | None, bool]] = []
        self.rowed = False

    def claim(self, request_id: str) -> None:
        self.made.append((request_id, None, self.rowed))

    def claim_answer(self, request_id: str, answer_id: str) -> None:
        self.made.append((request_id, answer_id, self.rowed))

    def take(self, row: dict[str, Any], on_row: Any) -> None:
        self.rowed = True
        super().take(row, on_row)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_claimed_by_the_id_that_the_engine_gave_it(streamed: bool) -> None:
    """A plug-in reports it under that one: it is claimed before the row passes, of a stream while that runs."""
    recorded = orjson.loads(RESPONSE.read_bytes())
    created = event({"type": "response.created", "response": {"id": recorded["id"], "status": "in_progress"}})
    ended = event({"type": "response.completed", "response": recorded})
    goes_on, claims = asyncio.Event(), Noted()

    async def script(_got: Got, writer: asyncio.StreamWriter) -> None:
        if not streamed:
            writer.write(whole(orjson.dumps(recorded)))
            return
        writer.write(STREAM_HEAD + chunk(created))
        await goes_on.wait()
        writer.write(chunk(ended) + b"0\r\n\r\n")

    body = orjson.dumps({"model": "tiny", "input": "my secret", "stream": streamed})
    async with rig_of(script, claims=claims) as (rig, _):
        asking = asyncio.ensure_future(rig.ask(post(body, path=b"/v1/responses")))
        if streamed:
            await until(lambda: any(answer_id for _, answer_id, _ in claims.made))
            goes_on.set()
        await asking
        (row,) = await rig.rows_after(1)

    mine = row["request_id"]
    assert list(dict.fromkeys(claims.made)) == [(mine, None, False), (mine, recorded["id"], False)]


# Usage


async def test_usage_is_asked_for_and_hidden_again() -> None:
    """The engine is asked; the client that did not ask sees every byte of the stream but that chunk."""
    body = chat()
    async with rig_of(streams, ask_usage=True) as (rig, engine):
        raw = await rig.ask(post(body, headers=b"Connection: close\r\nAccept-Encoding: gzip\r\n"))
        (row,) = await rig.rows_after(1)

    assert engine.got[0].body == body[:-1] + b',"stream_options":{"include_usage":true,"continuous_usage_stats":true}}'
    assert engine.got[0].header("accept-encoding") is None
    assert parts_of(raw)[1] == b"".join(map(chunk, (*EVENTS, DONE))) + b"0\r\n\r\n"
    assert said(row, *TOKENS) == (7, 3, "engine", 3)


@pytest.mark.parametrize("running", [False, True], ids=["at the end", "running"])
async def test_usage_that_the_client_asked_for_is_its_own(running: bool) -> None:
    """A client gets what it requested; one that requests all there is has its body untouched."""
    options = {"include_usage": True} | ({"continuous_usage_stats": True} if running else {})
    body = chat(stream_options=options)
    async with rig_of(streams, ask_usage=True) as (rig, engine):
        raw = await rig.ask(post(body))

    assert (engine.got[0].body == body) is running
    assert orjson.loads(engine.got[0].body)["stream_options"] == options | {"continuous_usage_stats": True}
    assert parts_of(raw)[1] == STREAM


async def test_usage_that_an_engine_sends_unasked_can_be_left_to_clients() -> None:
    """``show_usage``: the counts are requested at the end alone, and every byte passes; a rejection is answered."""
    body = chat()
    async with rig_of(streams, ask_usage=True, show_usage=True) as (rig, engine):
        raw = await rig.ask(post(body))
        (row,) = await rig.rows_after(1)
    async with rig_of(rejecting(b"400 Bad Request", REJECTED), ask_usage=True, show_usage=True) as (rig, refusing):
        again = await rig.ask(post(body))

    assert engine.got[0].body == body[:-1] + b',"stream_options":{"include_usage":true}}'
    assert (parts_of(raw)[1], parts_of(again)[1]) == (STREAM, STREAM)
    assert said(row, *TOKENS) == (7, 3, "engine", 3)
    assert [b"stream_options" in got.body for got in refusing.got] == [True, False]


async def test_an_aborted_stream_has_the_counts_so_far() -> None:
    """The client, which requested none, saw none of them, and gave up in the middle."""
    counted = [
        event({"choices": [{"index": 0, "delta": {"content": "t"}, "finish_reason": None}], "usage": usage})
        for usage in ({"prompt_tokens": 7, "total_tokens": 7 + n, "completion_tokens": n} for n in (1, 2, 4))
    ]
    async with rig_of(says(STREAM_HEAD, *map(chunk, counted), pause_s=0.02), ask_usage=True) as (rig, _):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        seen = await reader.readuntil(b'"t"')
        for _ in range(2):
            seen += await reader.readuntil(b'"t"')
        writer.close()
        (row,) = await rig.rows_after(1)

    assert b"usage" not in seen
    assert said(row, "status", *TOKENS) == ("aborted", 7, 4, "engine", 3)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_usage_is_hidden_however_the_stream_is_cut(size: int) -> None:
    """Pieces cut anywhere, in the middle of the chunk as well."""
    stream = b"".join((*EVENTS, USAGE, DONE))
    pieces = [chunk(stream[at : at + size]) for at in range(0, len(stream), size)]
    async with rig_of(says(STREAM_HEAD, *pieces, b"0\r\n\r\n"), ask_usage=True) as (rig, _):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        await reader.readuntil(b"\r\n\r\n")
        body = b""
        while length := int(await reader.readline(), 16):
            body += (await reader.readexactly(length + 2))[:-2]

    assert body == b"".join((*EVENTS, DONE))


async def test_an_error_instead_of_the_stream_is_not_touched() -> None:
    """Where usage was asked for and the engine refuses, its answer passes as it is."""
    refusal = b'{"error":{"message":"no such model","type":"NotFoundError","code":404}}'
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
    async with rig_of(says(answer), ask_usage=True) as (rig, _):
        raw = await rig.ask(post(chat()))
        (row,) = await rig.rows_after(1)

    assert parts_of(raw)[1] == refusal
    assert said(row, *HOW) == ("error", "client", 404)


REJECTED = b'{"error":{"message":"Unknown parameter: stream_options.include_usage","code":400}}'


def body_of(raw: bytes) -> bytes:
    """The body of an answer, whichever way it is framed."""
    head, body = parts_of(raw)
    if b"Transfer-Encoding: chunked" not in head:
        return body
    parts = []
    while body and (length := int(body.partition(b"\r\n")[0], 16)):
        rest = body.partition(b"\r\n")[2]
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)


def rejecting(status: bytes, body: bytes) -> Script:
    """An engine that answers so where ``stream_options`` is sent, else streams."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        answer = whole(body).replace(b"200 OK", status)
        await (says(answer) if b"stream_options" in got.body else streams)(got, writer)

    return script


@pytest.mark.parametrize("status", [b"400 Bad Request", b"422 Unprocessable Entity"], ids=["400", "422"])
async def test_an_upstream_that_rejects_the_option_gets_it_never_again(
    status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The request is sent once more as the client wrote it; the client sees the stream alone; later ones go without."""
    body = chat()
    counters = Counters()
    async with rig_of(rejecting(status, REJECTED), ask_usage=True, counters=counters) as (rig, engine):
        raws = [await rig.ask(post(body)) for _ in range(2)]
        rows = await rig.rows_after(2)

    assert [b"stream_options" in got.body for got in engine.got] == [True, True, False, False]
    assert [b"continuous" in got.body for got in engine.got] == [True, False, False, False]
    assert [got.body for got in engine.got[2:]] == [body] * 2
    assert [parts_of(raw)[1] for raw in raws] == [STREAM] * 2
    assert [said(row, *HOW, *TOKENS) for row in rows] == [("ok", None, 200, 7, 3, "engine", 3)] * 2
    assert counters.value("proxy_upstream_without_usage", upstream=f"127.0.0.1:{engine.port}") == 1
    assert caplog.messages.count("upstream rejects stream_options, requesting no token counts") == 1


@pytest.mark.parametrize(
    "refusal",
    [b'{"error":{"message":"max_tokens is too large"}}', b"stream_options" + b"x" * HELD_BYTES_MAX],
    ids=["names another field", "too long for one"],
)
async def test_a_400_for_another_reason_passes_as_it_is(refusal: bytes) -> None:
    """It is not sent again, and usage is requested of the next one all the same."""
    async with rig_of(rejecting(b"400 Bad Request", refusal), ask_usage=True) as (rig, engine):
        raws = [await rig.ask(post(chat())) for _ in range(2)]
        rows = await rig.rows_after(2)

    assert [b"stream_options" in got.body for got in engine.got] == [True, True]
    assert [body_of(raw) for raw in raws] == [refusal] * 2
    assert [said(row, *HOW) for row in rows] == [("error", "client", 400)] * 2


async def test_an_option_that_the_client_alone_has_wrong_is_no_reason() -> None:
    """The same answer comes without ours: it passes, and the upstream goes on being asked."""
    answer = whole(REJECTED).replace(b"200 OK", b"400 Bad Request")
    async with rig_of(says(answer), ask_usage=True) as (rig, engine):
        raw = await rig.ask(post(chat(stream_options={"odd": 1})))
        await rig.ask(post(chat()))
        rows = await rig.rows_after(2)

    assert parts_of(raw)[1] == REJECTED
    assert [b"include_usage" in got.body for got in engine.got] == [True, True, False] * 2
    assert [said(row, *HOW) for row in rows] == [("error", "client", 400)] * 2


# Tenants and privacy


async def test_no_key_and_no_text_is_in_events_or_logs(caplog: pytest.LogCaptureFixture) -> None:
    """A tenant is a hash; prompts, answers and keys are nowhere."""
    caplog.set_level(logging.DEBUG)
    lines: list[dict[str, Any]] = []
    tell = with_request_log(lines.append)
    headers = b"Connection: close\r\nAuthorization: Bearer %b\r\n" % KEY
    async with rig_of(says(STREAM_HEAD, chunk(token("answered secret")), b"0\r\n\r\n")) as (rig, engine):
        await rig.ask(post(chat(), headers=headers))
        (row,) = await rig.rows_after(1)
        tell(row)

    written = repr(row) + caplog.text + "".join(repr(record.__dict__) for record in caplog.records)
    assert "secret" not in written
    assert row["tenant"].startswith("key-")
    assert engine.got[0].header("authorization") == b"Bearer " + KEY
    assert [record.__dict__["request"]["status"] for record in caplog.records if record.msg == "request"] == [
        row["status"]
    ]


async def test_a_tenant_has_its_own_limit() -> None:
    """One tenant's requests under way are held to their number; another's are not."""

    def request(key: bytes) -> bytes:
        return post(chat(), headers=b"Connection: close\r\nX-Api-Key: %b\r\n" % key)

    slow = says(STREAM_HEAD, *map(chunk, EVENTS), b"0\r\n\r\n", pause_s=0.1)
    async with rig_of(slow, tenant_open_requests_max=1) as (rig, engine):
        first = asyncio.ensure_future(rig.ask(request(b"one")))
        await until(lambda: engine.got)
        status, error = error_of(await rig.ask(request(b"one")))
        await rig.ask(request(b"two"))
        await first
        await rig.ask(request(b"one"))
        rows = await rig.rows_after(4)

    assert (status, error["type"], error["code"]) == (429, "rate_limit_error", "too_many_requests")
    assert sorted(said(row, *HOW) for row in rows) == [("ok", None, 200)] * 3 + [("rejected", "overload", 429)]


# Upstreams


async def test_without_an_upstream_the_answer_is_502() -> None:
    """In OpenAI's shape, with one event: an error of the network."""
    async with proxy_to(f"http://127.0.0.1:{unused_ports()[0]}") as rig:
        status, error = error_of(await rig.ask(post(chat())))
        (row,) = await rig.rows_after(1)

    assert (status, error["type"], error["code"]) == (502, "server_error", "upstream_unavailable")
    assert said(row, *HOW, "model", "ttft_us") == ("error", "network", 502, "m", None)


async def test_an_upstream_that_does_not_take_connections_is_given_up() -> None:
    """After connect_s: 502, and an error of the network."""
    with socket.socket() as full, contextlib.ExitStack() as queued:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # whoever comes behind these waits
            waiting = queued.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        async with proxy_to(f"http://127.0.0.1:{full.getsockname()[1]}", connect_s=0.2) as rig:
            status, error = error_of(await rig.ask(post(chat())))
            (row,) = await rig.rows_after(1)

    assert (status, error["code"]) == (502, "upstream_unavailable")
    assert said(row, *HOW) == ("error", "network", 502)
    assert 150_000 <= row["e2e_us"] < 5_000_000  # uvloop counts a limit from where the turn of its loop began


async def test_a_dead_upstream_is_left_for_a_living_one() -> None:
    """No request is lost by an upstream that is down, and soon it is not even tried."""
    async with engines_of(answers) as (engine,), proxy_to(f"http://127.0.0.1:{unused_ports()[0]}", engine.url) as rig:
        for _ in range(6):
            assert parts_of(await rig.ask(post(chat(stream=False))))[1] == ANSWER
        await rig.rows_after(6)

        assert rig.server.choice.upstreams[0].failures == 2


def silent_once(hangs: list[bool]) -> Script:
    """An engine that takes requests, and answers none while ``hangs`` is true; nor its health."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        while hangs[0]:  # noqa: ASYNC110  # what is waited for knows no event
            await asyncio.sleep(0.01)
        writer.write(whole(ANSWER))

    return script


def gauge(counters: Counters, port: int) -> float:
    return counters.value("proxy_upstream_out", upstream=f"127.0.0.1:{port}")


async def test_an_engine_that_hangs_is_taken_out_probed_and_tried() -> None:
    """Requests that it has wait on, new ones go to the other; the first byte of one that waited brings it back."""
    hangs, counters = [True], Counters()
    limits = {"upstream_silent_s": 0.3, "down_s": 0.3, "connect_s": 0.3, "counters": counters}
    async with (
        engines_of(silent_once(hangs), answers) as (bad, good),
        proxy_to(bad.url, good.url, **limits) as rig,
    ):
        waiting = asyncio.ensure_future(rig.ask(post(chat(stream=False))))
        await until(lambda: gauge(counters, bad.port) == 1)
        while len(bad.got) < 3:  # probes in vain
            await rig.ask(post(chat(stream=False)))
        elsewhere = len(good.got)
        hangs[0] = False
        first = await waiting
        await until(lambda: gauge(counters, bad.port) == 0)
        for _ in range(4):
            await rig.ask(post(chat(stream=False)))
        asked = [got.line for got in bad.got]

    assert parts_of(first)[1] == ANSWER
    assert elsewhere > 0
    assert asked.count(b"POST /v1/chat/completions HTTP/1.1") == 3, "one that waited, and its share when it was back"
    assert asked.count(b"GET /health HTTP/1.1") >= 2
    assert [row["status"] for row in rig.rows] == ["ok"] * len(rig.rows)


async def test_an_engine_that_hangs_with_none_waiting_is_tried_by_one_request() -> None:
    """Its clients have left: after a good probe one request goes there, and its answer brings the engine back."""
    hangs, counters = [True], Counters()
    limits = {"upstream_silent_s": 0.3, "down_s": 0.1, "connect_s": 0.3, "counters": counters}
    async with (
        engines_of(silent_once(hangs), answers) as (bad, good),
        proxy_to(bad.url, good.url, **limits) as rig,
    ):
        _, leaving = await rig.client()
        leaving.write(post(chat(stream=False)))
        await until(lambda: gauge(counters, bad.port) == 1)
        leaving.close()
        await until(lambda: rig.rows)  # answered after all, its request would bring the engine back before any probe
        hangs[0] = False
        await until(lambda: rig.server.choice.upstreams[0].probed)
        still_out, before = gauge(counters, bad.port), len(bad.got)
        for _ in range(2):
            await rig.ask(post(chat(stream=False)))

        assert (still_out, gauge(counters, bad.port)) == (1, 0)
        assert len(bad.got) > before


async def test_the_only_engine_is_never_taken_out_into_nothing() -> None:
    """It is said to be out; requests go to it all the same, and the proxy stays ready."""
    hangs, counters = [True], Counters()
    limits = {"upstream_silent_s": 0.2, "counters": counters}
    async with rig_of(silent_once(hangs), **limits) as (rig, engine):
        first = asyncio.ensure_future(rig.ask(post(chat(stream=False))))
        await until(lambda: gauge(counters, engine.port) == 1)
        second = asyncio.ensure_future(rig.ask(post(chat(stream=False))))
        await until(lambda: len(engine.got) >= 2)
        ready = rig.server.why_not_ready()
        hangs[0] = False

        assert [parts_of(raw)[1] for raw in await asyncio.gather(first, second)] == [ANSWER, ANSWER]
        assert (ready, gauge(counters, engine.port)) == (None, 0)


async def test_an_engine_that_never_answers_is_taken_out() -> None:
    """Connections that break without a byte: at the second in a row; each is 502 and sent nowhere else."""
    counters = Counters()
    async with (
        engines_of(says(close=True), answers) as (bad, good),
        proxy_to(bad.url, good.url, counters=counters, breaks_max=2, down_s=60.0) as rig,
    ):
        statuses = [int((await rig.ask(post(chat(stream=False)))).split()[1]) for _ in range(8)]

        assert (statuses.count(502), statuses.count(200)) == (2, 6)
        assert (len(bad.got), len(good.got), gauge(counters, bad.port)) == (2, 6, 1)


async def test_weights_share_open_requests() -> None:
    """Of four requests under way three are with the upstream of weight three."""
    never = says(STREAM_HEAD, *[chunk(EVENTS[0])] * 50, pause_s=0.05)
    async with engines_of(never, never) as engines, proxy_to(*(e.url for e in engines), weights=[3, 1]) as rig:
        for _ in range(4):
            _, writer = await rig.client()
            writer.write(post(chat()))
            await asyncio.sleep(0.02)
        await until(lambda: sum(len(engine.got) for engine in engines) == 4)

        assert [len(engine.got) for engine in engines] == [3, 1]


async def unnoticed(rig: Rig, engine: Engine, connection: int) -> UpstreamSide:
    """The idle connection of the proxy, closed by the engine; the proxy has not read that yet."""
    await until(lambda: rig.server.pools[0]._idle)
    side = rig.server.pools[0]._idle[-1]
    side.hold_reading()
    engine.writers[connection].close()
    await asyncio.sleep(0.05)  # its end is in our kernel
    return side


@pytest.mark.parametrize("ahead", [False, True], ids=["kept", "made ahead"])
async def test_an_idle_connection_that_the_engine_had_closed_costs_no_request(ahead: bool) -> None:
    """The engine never had the request: it is sent again on a new connection, and is one event."""
    hold = says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 1_000, pause_s=0.05)
    async with rig_of(hold if ahead else answers, idle_connections_max=2 if ahead else 1) as (rig, engine):
        _, first = await rig.client()
        first.write(post(chat(stream=ahead)))
        await until(lambda: engine.got)
        side = await unnoticed(rig, engine, 2 if ahead else 1)
        reader, writer = await rig.client()
        writer.write(post(chat(stream=ahead)))
        await until(lambda: side.exchange is not None)
        side.may_read()
        status = await asyncio.wait_for(reader.readline(), 10)
        first.close()
        await until(lambda: rig.rows)

        assert status == b"HTTP/1.1 200 OK\r\n"
        assert (len(engine.got), engine.got[1].connection > (2 if ahead else 1)) == (2, True)
        assert rig.server.choice.upstreams[0].breaks == 0


ENDS = {"closed": lambda writer: writer.close(), "reset": lambda writer: writer.transport.abort()}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
async def test_a_request_that_an_engine_had_is_not_sent_twice(
    kept: bool, end: Callable[[asyncio.StreamWriter], None]
) -> None:
    """It may have run: 502, whatever the connection was. GET is safe, and goes on."""

    async def script(got: Got, writer: asyncio.StreamWriter) -> None:
        if len(engine.got) > kept and got.connection == 1:
            end(writer)
        else:
            writer.write(whole(ANSWER))

    ask = post(chat(stream=False)), b"GET /v1/models HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n"
    for number, request in enumerate(ask):
        async with rig_of(script, idle_connections_max=1) as (rig, engine):
            for _ in range(kept):
                await rig.ask(post(chat(stream=False)))
            raw = await rig.ask(request)
            again = number == 1 and kept

            assert int(raw.split()[1]) == (200 if again else 502)
            assert len(engine.got) == kept + 1 + again


async def test_one_connection_is_kept_ahead() -> None:
    """Made behind a request that left none; the next request finds it, and it is no more than one."""
    slow = says(STREAM_HEAD, chunk(EVENTS[0]), *[b""] * 100, pause_s=0.05)
    async with rig_of(slow) as (rig, engine):
        for number in (1, 2, 3):
            _, writer = await rig.client()
            writer.write(post(chat()))
            await until(lambda number=number: len(engine.got) == number and engine.connections == number + 1)
            await asyncio.sleep(0.02)  # one too many would come at once

        assert [got.connection for got in engine.got] == [1, 2, 3]
        assert engine.connections == 4


@pytest.mark.parametrize(("most", "connections"), [(256, 2), (2, 2), (1, 1), (0, 20)])
async def test_requests_one_after_another_make_no_more_than_one_ahead(most: int, connections: int) -> None:
    """Answers that come before the one ahead is made do not have it made in vain, again and again; and where there is
    no place for it beside the one in use, it is not made at all."""
    async with rig_of(answers, idle_connections_max=most) as (rig, engine):
        for _ in range(20):
            await rig.ask(post(chat(stream=False)))
        await asyncio.sleep(0.02)  # one too many would come at once

        assert engine.connections == connections


async def test_a_new_connection_that_is_closed_is_an_error() -> None:
    """An engine that takes the request and closes is not asked twice."""
    async with rig_of(says(close=True)) as (rig, engine):
        status, error = error_of(await rig.ask(post(chat())))
        (row,) = await rig.rows_after(1)

    assert (status, error["code"], len(engine.got)) == (502, "upstream_failed", 1)
    assert said(row, *HOW) == ("error", "engine_lost", 502)


async def test_an_engine_lost_in_its_stream_cuts_the_client_off() -> None:
    """The client cannot take a cut stream for a whole one: no last chunk comes."""
    async with rig_of(says(STREAM_HEAD, chunk(EVENTS[0]), close=True, pause_s=0.05)) as (rig, _):
        reader, writer = await rig.client()
        writer.write(post(chat()))
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1_000_000)
        (row,) = await rig.rows_after(1)

    assert said(row, *HOW, "chunks", "output_tokens") == ("error", "engine_lost", 200, 1, 1)


MALFORMED = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "an encoding nobody asked for": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
}


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_answer_is_502(answer: bytes) -> None:
    """What cannot be read as an answer is not passed on."""
    async with rig_of(says(answer)) as (rig, _):
        status, error = error_of(await rig.ask(post(chat())))
        (row,) = await rig.rows_after(1)

    assert (status, error["code"]) == (502, "upstream_malformed")
    assert said(row, *HOW) == ("error", "engine_lost", 502)


async def test_bytes_behind_an_answer_reach_nobody() -> None:
    """A second answer nobody asked for is thrown away with its connection, never given to the next client."""
    async with rig_of(says(whole(ANSWER) + whole(b"stolen"))) as (rig, engine):
        reader, writer = await rig.client()
        for _ in range(2):
            writer.write(post(chat(stream=False), headers=b""))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(ANSWER)) == ANSWER

        assert [got.connection for got in engine.got] == [1, 2]


async def test_interim_answers_are_swallowed() -> None:
    """100 and 103 are no answers; the one that follows is."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with rig_of(says(interim, interim + STREAM_HEAD + STREAM)) as (rig, _):
        head, body = parts_of(await rig.ask(post(chat())))

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == STREAM


on_both_loops(globals())
