"""Unpacks the bodies of responses piece by piece, with what this process has.

An HTTP library asks for ``br`` and ``zstd`` only where it can unpack them, and does so with the packages that are used
here (``brotli`` or ``brotlicffi``; httpx: ``zstandard``, httpx2: ``compression.zstd`` or ``backports.zstd``): what
cannot be unpacked here is seldom sent.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Unpack = Callable[[bytes], bytes]

UNPACKED_BYTES_MAX = 1024 * 1024
"""Of the bytes that come at once; what becomes longer is not unpacked to its end."""
_SLICE_BYTES = 256


def unpacker(encoding: str) -> Unpack | None:
    """What unpacks the next bytes of such a body; it raises for what is broken and beyond ``UNPACKED_BYTES_MAX``. None
    for an encoding that this process cannot unpack."""
    begin = _ENCODINGS.get(encoding)
    try:
        return None if begin is None else begin()
    except ImportError:
        return None


def _zlib() -> Unpack:
    inflate = import_module("zlib").decompressobj(47)  # the widest window, header of gzip or zlib

    def unpack(data: bytes) -> bytes:
        text: bytes = inflate.decompress(data, UNPACKED_BYTES_MAX)
        if inflate.unconsumed_tail:
            raise ValueError("too long")
        return text

    return unpack


def _brotli() -> Unpack:
    try:
        package = import_module("brotli")
    except ImportError:
        package = import_module("brotlicffi")
    decompressor = package.Decompressor()
    return _bounded(getattr(decompressor, "process", None) or decompressor.decompress)


def _zstd() -> Unpack:
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            return _bounded(import_module(name).ZstdDecompressor().decompress)
    return _bounded(import_module("zstandard").ZstdDecompressor().decompressobj().decompress)


def _bounded(decompress: Any) -> Unpack:
    """Slice by slice, for packages that know no bound of their own."""

    def unpack(data: bytes) -> bytes:
        found: list[bytes] = []
        size = 0
        for start in range(0, len(data), _SLICE_BYTES):
            found.append(decompress(data[start : start + _SLICE_BYTES]))
            size += len(found[-1])
            if size > UNPACKED_BYTES_MAX:
                raise ValueError("too long")
        return b"".join(found)

    return unpack


_ENCODINGS: dict[str, Callable[[], Unpack]] = {"gzip": _zlib, "deflate": _zlib, "br": _brotli, "zstd": _zstd}
