"""The arithmetic of the proxy's bench: pairs, quantiles, and whether bytes are the same."""

from __future__ import annotations

import hashlib

import pytest

from fleetpulse.bench.proxy import Way, apart_ms, beside_the_relay, pairs_of, quantiles_us, report
from fleetpulse.bench.proxy_engine import END, HEAD, chunk, last_events, length_of, token
from fleetpulse.bench.proxy_load import REQUEST, Seen, seen_of


def stream(ttft_ns: int, *transit_ns: int, whole: bool = True) -> dict[str, object]:
    return {"ttft_ns": ttft_ns, "transit_ns": list(transit_ns), "whole": whole}


def test_pairs_are_of_the_same_stream_and_token() -> None:
    """Broken streams are no pair."""
    direct = [stream(100, 1, 2), stream(1, 1, 1)]
    proxied = [stream(150, 4, 3), stream(9, 9, whole=False)]

    assert pairs_of(direct, proxied) == {"ttft_ns": [50], "chunk_ns": [3, 1]}


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
    direct, proxied = [stream(1_000, 1_000, 2_000)], [stream(3_000, 2_000, 4_000)]

    good = report(direct, proxied, 0.5, 2.0)
    broken = report(direct * 2, [*proxied, stream(9_000, 9_000, whole=False)], 0.5, 2.0)

    assert (good["added_ttft_p99_us"], good["added_chunk_p99_us"], good["difference_of_chunk_p99_us"]) == (
        2.0,
        1.0,
        1.0,
    )
    assert (good["chunks"], good["chunks_per_cpu_s"], good["proxy_core_share"]) == (2, 4, 0.25)
    assert (good["streams_identical"], broken["streams_identical"]) == (True, False)
    assert broken["added_chunk_p99_us"] == good["added_chunk_p99_us"]


def test_the_proxy_stands_beside_a_bare_relay() -> None:
    """Added times and cost as ratios; no ratio where nothing was spent."""
    direct = [stream(1_000, 1_000, 1_000)]
    proxied = Way([stream(5_000, 4_000, 4_000)], cpu_s=0.5, seconds=1.0)
    relayed = Way([stream(3_000, 2_000, 3_000)], cpu_s=0.25, seconds=1.0)

    found = beside_the_relay(direct, proxied, relayed)

    assert found["relay_added_ttft"]["p99_us"] == 2.0
    assert found["relay_added_chunk"] == {"p50_us": 1.0, "p90_us": 1.0, "p99_us": 1.0, "max_us": 2.0}
    assert (found["added_ttft_p99_to_relay"], found["added_chunk_p99_to_relay"]) == (2.0, 3.0)
    assert (found["relay_chunks_per_cpu_s"], found["chunks_per_cpu_s_to_relay"]) == (8, 0.5)
    assert beside_the_relay(direct, proxied, Way(relayed.seen))["chunks_per_cpu_s_to_relay"] is None


def test_streams_never_come_together() -> None:
    """The phases of 64 streams are 64 different ones."""
    phases = {round(number * apart_ms(64, 10.0) % 10.0, 6) for number in range(64)}

    assert len(phases) == 64


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_a_stream_is_read_whatever_its_pieces(size: int) -> None:
    """A token is read with its last byte; one changed byte is seen."""
    body = chunk(token(1_000)) + chunk(token(2_000)) + last_events(2)
    digest = b'data: {"digest":"%b"}\n\n' % hashlib.sha256(body).hexdigest().encode()
    raw = HEAD + body + chunk(digest) + chunk(b"data: [DONE]\n\n") + END
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    reads = [(10_000 + number, piece) for number, piece in enumerate(pieces)]

    seen = seen_of(9_000, reads)
    changed = seen_of(9_000, [(at, piece.replace(b"mock", b"moat")) for at, piece in reads])

    first = (raw.index(b'"@1000"') + 6) // size
    second = (raw.index(b'"@2000"') + 6) // size
    assert seen == Seen(1_000 + first, [9_000 + first, 8_000 + second], True)
    assert changed.whole is (size == 1)
    assert seen_of(9_000, reads[:-1]).whole is False


def test_a_request_announces_its_length() -> None:
    """As the mock engine reads it."""
    head, _, body = REQUEST.partition(b"\r\n\r\n")

    assert length_of(head) == len(body)
    assert length_of(b"GET / HTTP/1.1") == 0
