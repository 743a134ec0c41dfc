"""Unpacking of bodies: what comes in pieces, what is too long, what this process cannot unpack."""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import Any

import pytest
import zstandard

from fleetpulse_track.encodings import UNPACKED_BYTES_MAX, unpacker

TEXT = b"".join(b"line %d\n" % number for number in range(1_000))
PACKED = {"gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT), "zstd": zstandard.compress(TEXT)}


@pytest.mark.parametrize("encoding", list(PACKED))
@pytest.mark.parametrize("size", [1, 300, 100_000])
def test_pieces_are_unpacked_one_after_another(encoding: str, size: int) -> None:
    """However they were cut."""
    unpack, data = unpacker(encoding), PACKED[encoding]
    assert unpack is not None

    assert b"".join(unpack(data[start : start + size]) for start in range(0, len(data), size)) == TEXT


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(bytes(2 * UNPACKED_BYTES_MAX))),
        ("zstd", zstandard.compress(bytes(2 * UNPACKED_BYTES_MAX))),
    ],
    ids=["gzip", "zstd"],
)
def test_what_becomes_too_long_is_refused(encoding: str, data: bytes) -> None:
    """Some hundred bytes that would become millions."""
    unpack = unpacker(encoding)
    assert unpack is not None

    with pytest.raises(ValueError, match="too long"):
        unpack(data)


def test_an_encoding_without_its_package_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one that nobody knows."""
    gone: dict[str, Any] = dict.fromkeys(("brotli", "brotlicffi", "zstandard"))
    for name in gone:
        monkeypatch.setitem(sys.modules, name, None)

    assert [unpacker(encoding) for encoding in ("br", "zstd", "compress", "")] == [None] * 4
