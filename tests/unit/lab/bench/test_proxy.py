"""The arithmetic of the proxy's bench: pairs, quantiles, and whether bytes are the same."""

from __future__ import annotations

import hashlib
import socket
from typing import cast

import pytest

from lab.bench.proxy import Way, apart_ms, pairs_of, quantiles_us, report
from lab.bench.proxy_engine import END, HEAD, Answering, Pace, chunk, last_events, length_of, token
from lab.bench.proxy_load import REQUEST, Seen, seen_of


def stream(
    ttft_ns: int, *transit_ns: int, way_ns: int = 0, whole: bool = True, first: bool = True
) -> dict[str, object]:
    return {"ttft_ns": ttft_ns, "way_ns": way_ns, "transit_ns": list(transit_ns), "whole": whole, "first": first}


def test_pairs_are_of_the_same_stream_and_token() -> None:
    """Broken streams are no pair; the first of a connection stands apart from those after it."""
    direct = [stream(100, 1, 2, way_ns=30), stream(1, 1, 1), stream(70, 1, 1, way_ns=5, first=False)]
    proxied = [stream(150, 4, 3, way_ns=90), stream(9, 9, whole=False), stream(60, 1, 3, way_ns=6, first=False)]

    assert pairs_of(direct, proxied) == {
        "ttft": [50, -10],
        "ttft_first": [50],
        "ttft_later": [-10],
        "way": [60, 1],
        "chunk": [3, 1, 0, 2],
    }


def test_quantiles_are_order_statistics() -> None:
    """In microseconds, never a value that was not measured."""
    assert quantiles_us([value * 1_000 for value in range(1, 101)]) == {
        "p50_us": 50.0,
        "p90_us": 90.0,
        "p99_us": 99.0,
        "max_us": 100.0,
    }


def test_the_report_adds_up() -> None:
    """Chunks are the proxy's alone; one broken stream anywhere and the bytes are not identical."""
    direct, again = Way([stream(1_000, 1_000, 2_000)]), Way([stream(1_500, 1_000, 2_000)])
    proxied = Way([stream(3_000, 2_000, 4_000)], cpu_s=0.5, seconds=2.0)
    relayed = Way([stream(2_000, 2_000, 3_000)], cpu_s=0.25, seconds=2.0)

    good = report(direct, proxied, relayed, again)
    for way in (direct, proxied, relayed, again):
        way.seen.append(stream(1, 1, whole=way is not again))
    broken = report(direct, proxied, relayed, again)

    assert (good["added_ttft_p99_us"], good["added_chunk_p99_us"]) == (2.0, 1.0)
    assert (good["relay_ttft_p99_us"], good["null_ttft_p99_us"], good["null_chunk_p99_us"]) == (1.0, 0.5, 0.0)
    assert (good["chunks"], good["chunks_per_cpu_s"], good["proxy_core_share"]) == (2, 4, 0.25)
    assert good["relay_chunks_per_cpu_s"] == 8
    assert (good["streams_identical"], broken["streams_identical"]) == (True, False)
    assert broken["null_ttft_p99_us"] == good["null_ttft_p99_us"]


def test_nothing_is_said_of_a_way_that_cost_nothing() -> None:
    """A clock tick is 10 ms: less than one is no figure."""
    assert Way([stream(1, 1)]).chunks_per_cpu_s is None


def test_streams_never_come_together() -> None:
    """The phases of 64 streams are 64 different ones."""
    phases = {round(number * apart_ms(64, 10.0) % 10.0, 6) for number in range(64)}

    assert len(phases) == 64


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_a_stream_is_read_whatever_its_pieces(size: int) -> None:
    """A token is read with its last byte; one changed byte is seen."""
    body = chunk(token(1_000)) + chunk(token(2_000)) + last_events(2, 700)
    digest = b'data: {"digest":"%b"}\n\n' % hashlib.sha256(body).hexdigest().encode()
    raw = HEAD + body + chunk(digest) + chunk(b"data: [DONE]\n\n") + END
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    reads = [(10_000 + number, piece) for number, piece in enumerate(pieces)]

    seen = seen_of(9_000, reads, first=True)
    changed = seen_of(9_000, [(at, piece.replace(b"mock", b"moat")) for at, piece in reads], first=True)

    first = (raw.index(b'"@1000"') + 6) // size
    second = (raw.index(b'"@2000"') + 6) // size
    assert seen == Seen(1_000 + first, 700 + first, [9_000 + first, 8_000 + second], True, True)
    assert changed.whole is (size == 1)
    assert seen_of(9_000, reads[:-1], first=True).whole is False
    assert seen_of(0, [], first=False) == Seen(-1, -1, [], False, False)


class Wire:
    """In a socket's place: what is to be read, and what was written."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.written = b""

    def setsockopt(self, *_option: int) -> None:
        """Nothing to set."""

    def recv(self, _most: int) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""

    def sendall(self, data: bytes) -> None:
        self.written += data


def test_the_mock_engine_answers_one_request_after_the_other() -> None:
    """A request may come in two pieces, and the next one right behind it; a closed connection is an error."""
    wire = Wire(REQUEST[:50], REQUEST[50:] + REQUEST[:20], REQUEST[20:])
    answering = Answering(cast(socket.socket, wire), Pace(tokens=3, first_ms=50.0, gap_ms=10.0))

    assert answering.take() is None
    due_ns = [answering.take()]
    received_ns = answering._stream.received_ns
    while due_ns[-1] is not None:
        due_ns.append(answering.write())
    seen = seen_of(0, [(2**62, wire.written)], first=True)

    assert due_ns == [received_ns + ms * 1_000_000 for ms in (50, 60, 70, 80)] + [None]
    assert (len(seen.transit_ns), seen.whole) == (3, True)
    assert answering.take() is not None
    with pytest.raises(ConnectionResetError):
        answering.take()


def test_a_request_announces_its_length() -> None:
    """As the mock engine reads it."""
    head, _, body = REQUEST.partition(b"\r\n\r\n")

    assert length_of(head) == len(body)
    assert length_of(b"GET / HTTP/1.1") == 0
