"""Loopback HTTP: every answer, byte by byte or all at once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from producers.receiver.client_fields import Where
from producers.receiver.http import Taker, application
from producers.spool.frame import Spooled
from producers.spool.segment_log import SegmentLog
from runtime.edge_config import ReceiverConfig
from runtime.http_server import HEAD_BYTES_MAX, Connection
from tests.unit.producers.receiver import spooled
from tests.virtual_clock import VirtualClock

SETTINGS = ReceiverConfig(http_body_bytes_max=1_024, http_connections_max=2)
GOOD = orjson.dumps({"model": "m", "status": "ok", "request_id": "r"})


class Wire(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = self.paused = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Caller:
    """One connection to a taker, and the spool behind it."""

    def __init__(self, folder: Path, *, crowd: set[Connection] | None = None, bytes_max: int = 1024 * 1024) -> None:
        self.publisher = spooled.publisher(folder / "spool", bytes_max)
        self.counters = spooled.RecordingCounters()
        self.wire = Wire()
        taker = Taker(self.publisher, Where("h-1"), VirtualClock(1_000))
        self.connection = Connection(application(taker, SETTINGS, self.counters), set() if crowd is None else crowd)
        self.connection.connection_made(self.wire)

    async def send(self, data: bytes, size: int = 1 << 20) -> bytes:
        for at in range(0, len(data), size):
            if self.wire.closed:
                break
            self.connection.data_received(data[at : at + size])
            if self.connection._answering is not None:
                await self.connection._answering
        return self.wire.written

    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", self.wire.written)]

    def end(self) -> None:
        self.connection.connection_lost(None)
        self.publisher.spool.close()


def post(body: bytes, *, path: str = "/v1/requests", kind: str = "application/x-ndjson", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}"
    return head.encode() + b"\r\n" + body


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["byte by byte", "all at once"])
async def test_good_lines_are_accepted(tmp_path: Path, size: int) -> None:
    """202 once they are spooled, with what the agent says of them; two requests on one connection."""
    caller = Caller(tmp_path)

    answer = await caller.send(post(GOOD + b"\n" + GOOD) + post(GOOD), size)

    caller.end()
    body = b'{"accepted":2}\n'
    assert answer.startswith(
        b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n" + body
    )
    assert caller.statuses() == [202, 202]
    assert [(row["model"], row["host"], row["at_ms"]) for row in spooled.rows(caller.publisher)] == [
        ("m", "h-1", 1_000)
    ] * 3
    assert caller.counters.totals == {("receiver_http_requests", 202): 2}


async def test_a_chunked_body_is_a_body(tmp_path: Path) -> None:
    """Trailers are read over."""
    caller = Caller(tmp_path)
    head = b"POST /v1/requests HTTP/1.1\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (GOOD[:5], GOOD[5:]))

    await caller.send(head + chunks + b"0\r\nx-more: 1\r\n\r\n")

    caller.end()
    assert caller.statuses() == [202]


async def test_bad_lines_are_refused_with_their_reasons(tmp_path: Path) -> None:
    """400, nothing spooled, the connection stays."""
    caller = Caller(tmp_path)

    answer = await caller.send(post(GOOD + b'\n{"model":1}'))

    caller.end()
    refusal = {"line": 2, "reason": "wrong_type", "detail": "model = 1: must be a string"}
    assert orjson.loads(answer.split(b"\r\n\r\n")[1]) == {
        "accepted": 0,
        "refused": 1,
        "error": refusal,
        "errors": [refusal],
    }
    assert (caller.statuses(), caller.wire.closed, spooled.rows(caller.publisher)) == ([400], False, [])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(post(GOOD, path="/v1/other"), 404, id="another path"),
        pytest.param(b"GET /v1/requests HTTP/1.1\r\n\r\n", 405, id="another method"),
        pytest.param(post(GOOD, kind="text/plain"), 415, id="a content type that a web page may send"),
        pytest.param(post(GOOD, more="origin: http://h:1\r\n"), 403, id="a page whose name points here"),
        pytest.param(post(b"x" * 1_025), 413, id="a body one byte too large"),
        pytest.param(b"POST /v1/requests HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES_MAX, 431, id="a header without end"),
        pytest.param(b"\x16\x03\x01\x00\xa5 nonsense\r\n\r\n", 400, id="no HTTP at all"),
        pytest.param(b"POST /v1/requests HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400, id="a negative length"),
    ],
)
async def test_each_refusal_has_its_status(tmp_path: Path, data: bytes, status: int) -> None:
    """And nothing is spooled."""
    caller = Caller(tmp_path)

    await caller.send(data)

    caller.end()
    assert caller.statuses() == [status]
    assert spooled.rows(caller.publisher) == []


async def test_a_body_of_just_the_limit_is_taken(tmp_path: Path) -> None:
    """Filled with spaces."""
    caller = Caller(tmp_path)

    await caller.send(post(GOOD + b" " * (1_024 - len(GOOD))))

    caller.end()
    assert caller.statuses() == [202]


async def test_a_full_spool_asks_to_come_again(tmp_path: Path) -> None:
    """503 with a time, and nothing is declared as shed: the sender still has it."""
    caller = Caller(tmp_path, bytes_max=1)

    answer = await caller.send(post(GOOD))

    assert caller.statuses() == [503]
    assert b"retry-after: 5\r\n" in answer
    assert spooled.shed(caller.publisher) == 0
    caller.end()


async def test_an_undeliverable_topic_whose_share_is_used_asks_to_come_again(tmp_path: Path) -> None:
    """As a full spool does: every line that was answered with 202 is spooled, none is shed."""
    caller = Caller(tmp_path, bytes_max=16_000)
    spool = caller.publisher.spool
    spool.hold("llm.requests")
    for _ in range(30):
        await caller.send(post(GOOD))
        spool.sync()
        spool.take()
        if (hold := spool.begin_hold()) is not None:
            hold.run()
            spool.finish_hold(hold)
        spool.save()

    statuses = caller.statuses()
    assert (statuses[0], statuses[-1], spooled.shed(caller.publisher)) == (202, 503, 0)
    assert spool.undeliverable.records == statuses.count(202)
    caller.end()


async def test_lines_that_the_disk_does_not_take_are_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender has them still."""
    caller = Caller(tmp_path)

    def full(_log: SegmentLog, _record: Spooled) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SegmentLog, "append", full)
        await caller.send(post(GOOD))
    await caller.send(post(GOOD))

    assert caller.statuses() == [503, 202]
    caller.end()
    assert len(spooled.rows(caller.publisher)) == 1


async def test_one_connection_too_many_is_turned_away(tmp_path: Path) -> None:
    """With a status, before it sends anything."""
    others = [Caller(tmp_path / name, crowd=set()) for name in ("a", "b")]
    crowd = {other.connection for other in others}

    caller = Caller(tmp_path, crowd=crowd)

    assert (caller.statuses(), caller.wire.closed, len(crowd)) == ([503], True, 2)
    for each in (*others, caller):
        each.end()


async def test_a_client_that_hangs_up_anywhere_harms_nobody(tmp_path: Path) -> None:
    """At each byte of a request: nothing is spooled but whole requests."""
    data = post(GOOD)
    caller = Caller(tmp_path)
    for end in range(0, len(data), 7):
        caller.connection = Connection(
            application(Taker(caller.publisher, Where("h")), SETTINGS, caller.counters), set()
        )
        caller.connection.connection_made(Wire())
        caller.connection.data_received(data[:end])
        caller.connection.connection_lost(None)

    assert spooled.rows(caller.publisher) == []
    caller.end()
