"""Copies of compressed answers, within a bound."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.watch import decoding_of


@pytest.mark.parametrize("name", [None, b"identity", b"gzip", b"X-GZIP ", b"deflate"])
@given(data=st.binary(max_size=300), size=st.integers(1, 40))
def test_what_comes_in_pieces_comes_out_whole(name: bytes | None, data: bytes, size: int) -> None:
    """For every encoding that is read, wherever it is cut."""
    pack = {b"deflate": zlib.compress, b"gzip": gzip.compress, b"x-gzip": gzip.compress}.get(
        (name or b"").strip().lower()
    )
    packed = pack(data) if pack else data
    decoding = decoding_of(name, 1_000)

    out = b"".join(decoding.feed(packed[at : at + size]) for at in range(0, len(packed), size))

    assert (out, decoding.broken) == (data, False)


def test_a_bomb_is_unpacked_to_its_bound() -> None:
    """Not a byte more, in one piece or in many; then nothing comes out any more."""
    bomb = gzip.compress(bytes(3_000_000))
    decoding = decoding_of(b"gzip", 1_000_000)

    out = decoding.feed(bomb)

    assert (len(out), decoding.broken) == (1_000_000, True)
    assert decoding.feed(bomb) == b""


def test_what_cannot_be_read_is_broken() -> None:
    """Damage, and encodings nobody here knows."""
    damaged = decoding_of(b"gzip", 1_000)

    assert (damaged.feed(b"no gzip at all"), damaged.broken) == (b"", True)
    for name in (b"br", b"zstd", b"gzip, gzip"):
        unread = decoding_of(name, 1_000)
        assert (unread.feed(b"x"), unread.broken) == (b"", True)
