"""A request's body in our hands: limits of one and of all, and nothing left behind."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from producers.proxy import errors, wire
from producers.proxy.request_body import Held, RequestBody
from runtime.proxy_config import ProxyConfig

LIMITS = ProxyConfig(body_bytes_max=2_000, bodies_bytes_max=3_000)


def test_one_body_and_all_together_have_their_limits() -> None:
    """At the limit is in; what does not fit is not kept; what is dropped makes room."""
    held = Held()
    first, second = RequestBody(held), RequestBody(held)

    found = [first.add(bytes(2_000), LIMITS), first.add(b"x", LIMITS), second.add(bytes(1_001), LIMITS)]
    before = held.bytes
    first.drop()

    assert found == [None, errors.BODY_TOO_LARGE, errors.TOO_MANY_BODIES]
    assert (before, held.bytes, second.add(bytes(900), LIMITS)) == (2_000, 0, None)


def test_a_whole_body_is_held_until_it_is_dropped() -> None:
    """It may be sent again."""
    held = Held()
    body = RequestBody(held)
    for piece in (b"ab", b"c"):
        body.add(piece, LIMITS)

    assert (body.whole(), held.bytes) == (b"abc", 3)
    body.drop()
    assert (held.bytes, body.held_bytes) == (0, 0)


def test_small_pieces_take_no_more_memory_than_they_count() -> None:
    """But for a little: each piece as an object would take many times its bytes."""
    limits = ProxyConfig()
    body = RequestBody(Held())
    tracemalloc.start()
    try:
        for number in range(50_000):
            body.add(b"%02d" % (number % 100), limits)
        memory_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert memory_bytes < 2 * body.held_bytes
    assert body.whole() == b"".join(b"%02d" % number for number in range(100)) * 500


@given(st.lists(st.binary(max_size=20), max_size=10), st.integers(1, 4), st.booleans())
def test_a_body_passed_on_is_the_same_in_any_pieces(pieces: list[bytes], every: int, chunked: bool) -> None:
    """In chunks or as it is; nothing is held after each time."""
    held, out = Held(), b""
    body = RequestBody(held)
    for number, piece in enumerate(pieces):
        body.add(piece, LIMITS)
        if number % every == 0:
            out += body.passed_on(chunked=chunked, ended=False)
            assert held.bytes == 0
    out += body.passed_on(chunked=chunked, ended=True)

    expected = b"".join(wire.chunk(piece) for piece in pieces if piece) + wire.last_chunk()
    assert out == (expected if chunked else b"".join(pieces))
