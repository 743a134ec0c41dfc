"""Responses that are made in the background: one row each, by whoever reads it final. Covers
producers.proxy.background."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import orjson
import pytest

from producers.proxy import background
from producers.proxy.claims import Claims
from producers.proxy.read_queue import LOOK_BYTES_MAX
from tests.unit.producers.proxy.test_proxy_sides import Setting

BODY = b'{"model":"m","background":true,"user":"u"}'
POST = b"POST /v1/responses HTTP/1.1\r\nHost: p\r\nX-Request-ID: r\r\nAuthorization: Bearer k\r\n"
POST += b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
USAGE = {"input_tokens": 7, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}


def response(status: str, name: str = "resp_1", **fields: Any) -> dict[str, Any]:
    return {"id": name, "object": "response", "model": "m", "status": status, "output": [], "usage": None, **fields}


def answer(document: dict[str, Any], status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    body = orjson.dumps(document)
    if b"deflate" in headers:
        body = zlib.compress(body)
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
    return head % (status, headers, len(body)) + body


def reading(name: bytes = b"resp_1", more: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" /v1/responses/" + name + b" HTTP/1.1\r\nHost: p\r\n" + more + b"\r\n"


QUEUED, FINAL = answer(response("queued")), answer(response("completed", usage=USAGE))
FAILED = {"code": "server_error", "message": "no"}


def rows_of(*turns: tuple[bytes, bytes], **limits: Any) -> tuple[Setting, list[dict[str, Any]]]:
    """The rows after requests and their answers, one after the other, and what stood between."""

    async def run() -> Setting:
        setting = Setting(**limits)
        for request, answered in turns:
            setting.client.data_received(request)
            setting.upstream.data_received(answered)
            setting.server.settle()
            await asyncio.sleep(0)
        return setting

    setting = asyncio.run(run())
    return setting, setting.rows


def test_a_response_is_counted_once_when_it_is_read_final() -> None:
    """Not while it is made, not again, and not where another than its proxy's is read."""
    running = answer(response("in_progress"))
    other = answer(response("completed", "resp_2", usage=USAGE))

    setting, rows = rows_of(
        (POST, QUEUED),
        (reading(), running),
        (reading(b"resp_2"), other),
        (reading(), answer({"error": {"message": "none"}}, b"404 Not Found")),
        (reading(), FINAL),
        (reading(), FINAL),
        (reading(method=b"DELETE"), answer({"id": "resp_1", "object": "response.deleted"})),
    )

    names = ("request_id", "api", "status", "finish_reason", "model", "input_tokens", "cached_tokens", "output_tokens")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("r", "other", "ok", None, "m", None, None, None),
        ("resp_1", "responses", "ok", "stop", "m", 7, 4, 5),
    ]
    assert rows[1]["tenant"] == rows[0]["tenant"] is not None
    assert rows[1]["trace_id"] == rows[0]["trace_id"]
    latencies = ("ttft_us", "ttfo_us", "e2e_us", "tpot_us", "icl_max_us", "chunks")
    assert {rows[1][name] for name in latencies} == {None}
    assert setting.counters.value("proxy_unread", reason="background") == 1
    assert setting.client_wire.written.count(b'"status":"completed"') == 3


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (response("failed", error=FAILED), ("error", "error", None)),
        (response("cancelled", usage=USAGE), ("aborted", "abort", 5)),
        (response("incomplete", usage=USAGE, incomplete_details={"reason": "max_output_tokens"}), ("ok", "length", 5)),
    ],
    ids=["failed", "cancelled", "incomplete"],
)
def test_every_final_state_counts(document: dict[str, Any], expected: tuple[str, str, int]) -> None:
    """As how it ended, with the tokens that it says."""
    cancelling = reading(b"resp_1/cancel", b"Content-Length: 0\r\n", b"POST")

    for request in (reading(), cancelling):
        _, rows = rows_of((POST, QUEUED), (request, answer(document)))
        assert tuple(rows[1][name] for name in ("status", "finish_reason", "output_tokens")) == expected


def test_a_response_can_be_read_as_a_stream_or_packed() -> None:
    """No encoding is accepted that could not be read; times of a stream that is read again say nothing."""
    events = [
        {"type": "response.created", "response": response("queued")},
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.completed", "response": response("completed", usage=USAGE)},
    ]
    body = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    streamed = (reading(b"resp_1?stream=true"), head % len(body) + body)
    packed = answer(response("completed", usage=USAGE), headers=b"Content-Encoding: deflate\r\n")

    for turn in (streamed, (reading(more=b"Accept-Encoding: zstd, deflate\r\n"), packed)):
        setting, rows = rows_of((POST, QUEUED), turn)
        assert [(row["output_tokens"], row["ttft_us"], row["chunks"]) for row in rows[1:]] == [(5, None, None)]
        assert b"zstd" not in setting.upstream_wire.written


def test_responses_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten."""
    monkeypatch.setattr(background, "RESPONSES_MAX", 1)
    second = answer(response("queued", "resp_2"))

    setting, rows = rows_of(
        (POST, QUEUED),
        (POST, second),
        (reading(), FINAL),
        (reading(b"resp_2"), answer(response("completed", "resp_2", usage=USAGE))),
    )

    assert [row["request_id"] for row in rows] == ["r", "r", "resp_2"]
    assert setting.counters.value("proxy_unread", reason="never_read") == 1


def test_a_response_can_be_read_at_once() -> None:
    """Before the proxy has looked at the answer that named it."""

    async def run() -> list[dict[str, Any]]:
        setting = Setting()
        for request, answered in ((POST, QUEUED), (reading(), FINAL)):
            setting.client.data_received(request)
            setting.upstream.data_received(answered)
        setting.server.settle()
        return setting.rows

    assert [row["request_id"] for row in asyncio.run(run())] == ["r", "resp_1"]


async def test_who_reads_a_response_waits_for_nothing_that_is_unpacked() -> None:
    """What was answered before is read in turns, however small it came, and the response is known at the end."""
    large = response("queued", instructions="i" * 4 * LOOK_BYTES_MAX)
    setting = Setting()
    setting.client.data_received(POST)
    setting.upstream.data_received(answer(large, headers=b"Content-Encoding: deflate\r\n"))
    setting.client.data_received(reading())
    setting.upstream.data_received(FINAL)

    assert not setting.server.rows._unread.look()
    setting.server.settle()
    assert [row["request_id"] for row in setting.rows] == ["r", "resp_1"]


def test_of_a_response_that_is_not_known_nothing_is_counted() -> None:
    """Whatever of it could not be read."""
    setting, rows = rows_of(
        (reading(), answer(response("completed", instructions="i" * 3_000))), watched_bytes_max=2_000
    )

    assert rows == []
    assert setting.counters.value("proxy_unread", reason="oversize_body") == 0


async def test_an_engine_that_hangs_is_not_awaited_for_the_state_of_a_response() -> None:
    """It has that at once, unlike an answer that it makes first."""
    setting = Setting()
    setting.client.data_received(POST)
    setting.upstream.data_received(QUEUED)
    setting.client.data_received(reading())

    setting.client.sweep(setting.server.now_s() + setting.server.limits.upstream_quiet_s + 1)

    assert b"HTTP/1.1 504 " in setting.client_wire.written


def test_a_response_is_read_below_any_prefix_or_none() -> None:
    """As its request may come."""
    bare = (POST.replace(b"/v1", b""), QUEUED), (reading().replace(b"/v1", b""), FINAL)

    _, rows = rows_of(*bare)

    assert [row["output_tokens"] for row in rows] == [None, 5]


def test_a_final_response_that_is_too_large_to_read_is_said() -> None:
    """Another reading of it would be, too: its tokens are unknown, and the counter says why."""
    large = answer(response("completed", usage=USAGE, instructions="i" * 3_000))

    setting, rows = rows_of((POST, QUEUED), (reading(), large), watched_bytes_max=2_000)

    assert len(rows) == 1
    assert setting.counters.value("proxy_unread", reason="oversize_body") == 1
    assert setting.counters.value("proxy_unread", reason="background") == 1


def test_what_was_not_read_when_the_proxy_stops_is_said() -> None:
    """Its tokens are in no event."""

    async def run() -> Setting:
        setting = Setting(grace_s=0.0)
        setting.client.data_received(POST)
        setting.upstream.data_received(QUEUED)
        await setting.server.stop()
        return setting

    assert asyncio.run(run()).counters.value("proxy_unread", reason="never_read") == 1


class Workers:
    """Two workers of one proxy: what one tells, the other hears, through the JSON between their processes."""

    def __init__(self) -> None:
        self.maker, self.reader = Setting(tell=self.to_reader), Setting(tell=self.to_maker)

    def to_reader(self, message: dict[str, Any]) -> None:
        self.reader.server.background.hear(orjson.loads(orjson.dumps(message)))

    def to_maker(self, message: dict[str, Any]) -> None:
        self.maker.server.background.hear(orjson.loads(orjson.dumps(message)))

    def turn(self, worker: Setting, request: bytes, answered: bytes) -> None:
        worker.client.data_received(request)
        worker.upstream.data_received(answered)
        worker.server.settle()


async def test_a_response_that_another_worker_reads_is_counted_once() -> None:
    """By the worker that passed its request on, with what the other read: its own tenant, no latencies."""
    both = Workers()
    both.turn(both.maker, POST, QUEUED)
    both.turn(both.reader, reading(), answer(response("in_progress")))
    for worker in (both.reader, both.maker, both.reader, both.maker):
        both.turn(worker, reading(), FINAL)

    rows = both.maker.rows
    assert [(row["request_id"], row["output_tokens"], row["e2e_us"]) for row in rows[1:]] == [("resp_1", 5, None)]
    assert rows[1]["tenant"] == rows[0]["tenant"] is not None
    assert both.reader.rows == []
    await both.maker.server.stop()
    assert both.maker.counters.value("proxy_unread", reason="never_read") == 0


async def test_a_response_that_its_worker_and_another_read_at_once_is_counted_once() -> None:
    """What the other tells comes when it has its row."""
    told: list[dict[str, Any]] = []
    both = Workers()
    both.turn(both.maker, POST, QUEUED)
    both.reader.server.background._tell = told.append
    both.turn(both.reader, reading(), FINAL)
    both.turn(both.maker, reading(), FINAL)
    both.to_maker(*told)

    assert [row["request_id"] for row in both.maker.rows] == ["r", "resp_1"]


async def test_a_response_of_a_worker_that_has_ended_is_not_counted() -> None:
    """Nobody knows any more whether it was."""
    both = Workers()
    both.turn(both.maker, POST, QUEUED)
    both.maker.server.background.stop()
    both.turn(both.reader, reading(), FINAL)

    assert [row["request_id"] for row in both.maker.rows + both.reader.rows] == ["r"]


async def test_responses_of_other_workers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten here, and still known to its worker."""
    monkeypatch.setattr(background, "RESPONSES_MAX", 1)
    both = Workers()
    for name in ("resp_1", "resp_2"):
        both.reader.server.background.hear({"made": {"request_id": name}})
    both.turn(both.maker, POST, QUEUED)

    assert list(both.reader.server.background._elsewhere) == ["resp_1"]
    both.turn(both.maker, reading(), FINAL)
    assert [row["request_id"] for row in both.maker.rows] == ["r", "resp_1"]


def test_a_response_is_claimed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own id: what others report of it goes to its own row."""
    claimed: list[tuple[str, str]] = []
    monkeypatch.setattr(Claims, "claim_answer", lambda _self, *names: claimed.append(names))

    rows_of((POST, QUEUED))

    assert claimed == [("resp_1", "resp_1")]
