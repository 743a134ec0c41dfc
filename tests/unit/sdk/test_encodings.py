"""Unpacking of bodies: what comes in pieces, what is too long, what this process cannot unpack."""

from __future__ import annotations

import gzip
import sys
import zlib
from importlib import import_module
from types import ModuleType
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
    gone: dict[str, Any] = dict.fromkeys(("brotli", "brotlicffi", "zstandard", "compression.zstd", "backports.zstd"))
    for name in gone:
        monkeypatch.setitem(sys.modules, name, None)

    assert [unpacker(encoding) for encoding in ("br", "zstd", "compress", "")] == [None] * 4


@pytest.mark.parametrize("module", ["compression.zstd", "backports.zstd"])
def test_zstd_is_unpacked_by_whichever_module_there_is(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard library's of Python 3.14 and its backport, which ``httpx2`` uses."""
    zstd = import_module("backports.zstd")
    for name in ("zstandard", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    if module == "compression.zstd":
        monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, module, zstd)
    unpack, data = unpacker("zstd"), PACKED["zstd"]
    assert unpack is not None

    assert b"".join(unpack(data[start : start + 7]) for start in range(0, len(data), 7)) == TEXT
