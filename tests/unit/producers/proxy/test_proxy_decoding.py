"""Copies of compressed answers, within a bound."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.watch import Watch, decoding_of
from producers.proxy.wire import Answer
from producers.requests import reasons
from producers.requests.endings import How
from producers.requests.request_meta import RequestMeta


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


@pytest.mark.parametrize(
    ("encoding", "pieces", "status"),
    [
        pytest.param(b"br", [b"packed"], "ok", id="an encoding that is not read here"),
        pytest.param(b"gzip", [b"no gzip at all"], "ok", id="damaged"),
        pytest.param(b"gzip", [gzip.compress(b"data: {}\n\n")], "error", id="read, and cut"),
    ],
)
def test_a_stream_that_is_not_read_is_no_stream_that_was_cut(encoding: bytes, pieces: list[bytes], status: str) -> None:
    """It ended in good order; how many tokens it had is unknown."""
    watch = Watch(RequestMeta(request_id="r", api="chat", model="m", streamed=True), 0, 10_000, 10_000)
    watch.answer(1, Answer(200, values={b"content-type": b"text/event-stream", b"content-encoding": encoding}))
    for at_ns, piece in enumerate(pieces, 2):
        watch.piece(at_ns, piece)

    row = watch.end(9, 9, How.COMPLETE, None)

    assert row is not None
    assert (row["status"], row["output_tokens"]) == (status, None)


@pytest.mark.parametrize(
    ("encoding", "content_type", "noted"),
    [
        pytest.param(b"br", b"application/json", 1, id="an encoding that is not read here"),
        pytest.param(b"gzip", b"application/json", 1, id="damaged"),
        pytest.param(b"br", b"audio/wav", 0, id="a sound, which has no tokens"),
    ],
)
def test_a_body_that_is_not_read_is_counted(encoding: bytes, content_type: bytes, noted: int) -> None:
    """Its tokens are unknown, for a reason that shows; nothing is read of a part of it."""
    watch = Watch(RequestMeta(request_id="r", api="chat", model="m"), 0, 10_000, 10_000)
    watch.answer(1, Answer(200, values={b"content-type": content_type, b"content-encoding": encoding}))
    watch.piece(2, gzip.compress(b'{"choices":[]}')[:-9])
    watch.piece(3, b"damage" * 9)

    watch.end(9, 9, How.COMPLETE, None)

    assert dict(watch.tracker.reasons) == ({reasons.UNDECODED: 1} if noted else {})
