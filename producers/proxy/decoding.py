"""Decompresses a copy of a response within a bound, for the row only: the client gets the original bytes."""

from __future__ import annotations

import zlib
from typing import Protocol

_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
_STEP_BYTES = 256 * 1024


class Decoding(Protocol):
    """Bytes of an answer as they came to bytes as they mean."""

    broken: bool
    """What came cannot be read, or is more than is looked at: nothing more comes out."""

    def feed(self, piece: bytes) -> bytes:
        """What the piece adds; empty when nothing yet, or nothing any more."""
        ...


class Plain:
    """Bytes that are not compressed."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = False

    def feed(self, piece: bytes) -> bytes:
        return piece


class Unread:
    """An encoding that is not supported here (br, zstd): the body passes on, its usage stays unknown."""

    __slots__ = ("broken",)

    def __init__(self) -> None:
        self.broken = True

    def feed(self, piece: bytes) -> bytes:
        return b""


class Zlib:
    """gzip or deflate, at most ``bytes_max`` bytes of it unpacked."""

    __slots__ = ("_inflate", "_left", "broken")

    def __init__(self, window_bits: int, bytes_max: int) -> None:
        self._inflate = zlib.decompressobj(window_bits)
        self._left = bytes_max
        self.broken = False

    def feed(self, piece: bytes) -> bytes:
        if self.broken:
            return b""
        out = []
        try:
            while piece and self._left > 0:
                out.append(self._inflate.decompress(piece, min(self._left, _STEP_BYTES)))
                self._left -= len(out[-1])
                piece = self._inflate.unconsumed_tail
        except zlib.error:
            self.broken = True
        self.broken |= bool(piece)
        return b"".join(out)


def decoding_of(content_encoding: bytes | None, bytes_max: int) -> Decoding:
    """How to read a body of this ``Content-Encoding`` (None: as it is)."""
    name = (content_encoding or b"identity").strip().lower()
    if name == b"identity":
        return Plain()
    if name in _WINDOW_BITS:
        return Zlib(_WINDOW_BITS[name], bytes_max)
    return Unread()
