"""The bench of many open streams: what its engine writes is what its client takes for whole, and nothing less."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.bench.proxy_load import REQUEST, seen_of
from lab.bench.proxy_streams import Answering, Asking, Engine, spent


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


def asked(engine: Engine, *pieces: bytes) -> tuple[Answering, Wire]:
    side, wire = Answering(engine), Wire()
    side.connection_made(cast(Any, wire))
    for piece in pieces:
        side.data_received(piece)
    return side, wire


async def test_a_stream_is_written_as_it_is_checked() -> None:
    """Head, tokens and end in pieces of their own; the digest in the last is that of all before."""
    side, wire = asked(Engine(1, 3, 1.0), REQUEST[:20], REQUEST[20:])

    more = [side.write(3) for _ in range(4)]
    seen = seen_of(0, list(enumerate(wire.written)), first=True)
    damaged = seen_of(0, list(enumerate([*wire.written[:2], b"", *wire.written[3:]])), first=True)

    assert more == [True, True, True, False]
    assert (seen.whole, len(seen.transit_ns), damaged.whole) == (True, 3, False)


async def test_tokens_begin_when_all_have_asked() -> None:
    """A head alone is no request; streams are spread over the gap."""
    engine = Engine(2, 3, 0.02)

    first, _ = asked(engine, REQUEST)
    asked(engine, REQUEST[:-1])
    before = engine._all.is_set()
    second, _ = asked(engine, REQUEST)

    assert (before, engine._all.is_set()) == (False, True)
    assert engine._slots == [[first], [second]]


@pytest.mark.parametrize("cut", [1, 3, 6])
async def test_a_stream_ends_with_its_last_chunk_alone(cut: int) -> None:
    """Not with a head whose last header ends in a nought; however the end is cut."""
    asking, wire = Asking(), Wire()
    asking.connection_made(cast(Any, wire))
    asking.data_received(b"HTTP/1.1 200 OK\r\nX-Request-ID: a0\r\n\r\n")
    early = wire.closed
    end = b"2\r\n{}\r\n0\r\n\r\n"
    asking.data_received(end[:-cut])
    asking.data_received(end[-cut:])

    assert (wire.written, early, wire.closed) == ([REQUEST], False, True)


def test_what_a_process_has_spent() -> None:
    """This one's: its own time, and memory."""
    times, mib = spent(cast(Any, SimpleNamespace(pid=os.getpid())))

    assert times[0] > 0
    assert mib > 1
