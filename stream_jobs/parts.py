"""A snapshot's text, an opening and pieces of bytes, in parts that are never taken for those of another.

The text is the length of the opening in four bytes, the opening, and the pieces behind one another. It is cut into
parts of at most ``PART_BYTES_MAX``; each says what it belongs to (four bytes, the *magic*), which of how many it is and
the checksum of the whole. Equal texts give equal bytes. What stands in the opening, the lengths of the pieces among
it, is for whoever writes it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import zstandard

from schemas.errors import ContractError, NewerReleaseError

PART_BYTES_MAX = 512 * 1024

_PART = struct.Struct("<4sIII")
_SIZE = 4
_LEVEL = 1


def compress(data: bytes) -> bytes:
    """As zstandard at its fastest level; equal bytes for equal ones."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def compress_all(pieces: Sequence[bytes | memoryview]) -> bytes:
    """Of the pieces behind one another what ``decompress`` reads, without a copy of the whole; equal bytes for equal
    pieces."""
    one = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=sum(map(len, pieces)))
    return b"".join([*map(one.compress, pieces), one.flush()])


def decompress(data: bytes) -> bytes:
    """What was compressed. Raises ``ContractError`` where it is damaged."""
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ContractError(f"a part of the snapshot is damaged: {error}") from error


def cut(magic: bytes, opening: bytes, pieces: Iterable[bytes]) -> list[bytes]:
    """The parts, at least one."""
    data = b"".join((len(opening).to_bytes(_SIZE, "little"), opening, *pieces))
    room = PART_BYTES_MAX - _PART.size
    found = [data[start : start + room] for start in range(0, len(data), room)]
    check = zlib.crc32(data)
    return [_PART.pack(magic, index, len(found), check) + piece for index, piece in enumerate(found)]


def joined(magic: bytes, parts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The opening, and the pieces behind one another. Raises ``ContractError`` when the parts are not all the parts of
    one text of this magic, in order."""
    heads = [_PART.unpack_from(part) if len(part) >= _PART.size else (b"", 0, 0, 0) for part in parts]
    data = b"".join(part[_PART.size :] for part in parts)
    expected = [(magic, index, len(parts), zlib.crc32(data)) for index in range(len(parts))]
    if not parts or heads != expected:
        raise ContractError("the parts of the snapshot do not belong together")
    begin = _SIZE + int.from_bytes(data[:_SIZE], "little")
    return data[_SIZE:begin], data[begin:]


def check_head(head: Mapping[str, Any], version: int, **place: str | int) -> None:
    """Raise ``ContractError`` unless a snapshot's head says this version and this place (topic, partition);
    ``NewerReleaseError`` where its version is a later one."""
    if head["version"] != version:
        raise (NewerReleaseError if head["version"] > version else ContractError)(
            f"the snapshot has version {head['version']}, this release reads {version}; run the release that wrote it, "
            "or a newer one"
        )
    if (found := {name: head[name] for name in place}) != place:
        raise ContractError(f"the snapshot is of {found}, not of {place}; only this job may write its state topic")


def pieces_of(data: bytes, lengths: Iterable[int]) -> list[bytes]:
    """The first pieces of these lengths."""
    found, position = [], 0
    for length in lengths:
        found.append(data[position : position + length])
        position += length
    return found
