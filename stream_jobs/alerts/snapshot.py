"""The alert job's state as parts: a JSON head, compressed, and named sections of bytes, cut at 512 KiB, with one
checksum. Every commit that tells alerts writes one; so sections are made of what is packed already.

Each part says which of how many it is and the checksum of the whole, so that parts of two snapshots are never taken
for one. Equal states give equal bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import zstandard

from schemas.errors import ContractError

PART_BYTES_MAX = 512 * 1024
VERSION = 2
_READ = (1, VERSION)
_LEVEL = 1

_PART = struct.Struct("<4sIII")
_MAGIC = b"FPA1"


def dump(head: Mapping[str, Any], sections: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    """Head and sections as parts of at most ``PART_BYTES_MAX`` bytes."""
    lengths = {name: [len(piece) for piece in pieces] for name, pieces in sections.items()}
    told = orjson.dumps({"version": VERSION, "head": head, "sections": lengths})
    opening = zstandard.ZstdCompressor(level=_LEVEL).compress(told)
    pieces = [piece for told in sections.values() for piece in told]
    return _cut(b"".join((len(opening).to_bytes(4, "little"), opening, *pieces)))


def load(parts: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Head and sections. Raises ``ContractError`` when the parts are not those of one snapshot of this version."""
    data = _joined(parts)
    opening = int.from_bytes(data[:4], "little")
    told = orjson.loads(_unpacked(data[4 : 4 + opening]))
    if told["version"] not in _READ:
        raise ContractError(f"snapshot of alerts has version {told['version']}, this release reads {VERSION}")
    sections: dict[str, list[bytes]] = {}
    position = 4 + opening
    for name, lengths in told["sections"].items():
        sections[name] = []
        for length in lengths:
            sections[name].append(data[position : position + length])
            position += length
    return told["head"], sections


def _unpacked(opening: bytes) -> bytes:
    """Version 1 did not compress it."""
    return opening if opening.startswith(b"{") else zstandard.ZstdDecompressor().decompress(opening)


def _cut(data: bytes) -> list[bytes]:
    room = PART_BYTES_MAX - _PART.size
    cut = [data[start : start + room] for start in range(0, len(data), room)]
    check = zlib.crc32(data)
    return [_PART.pack(_MAGIC, index, len(cut), check) + piece for index, piece in enumerate(cut)]


def _joined(parts: Sequence[bytes]) -> bytes:
    heads = [_PART.unpack_from(part) if len(part) >= _PART.size else (b"", 0, 0, 0) for part in parts]
    data = b"".join(part[_PART.size :] for part in parts)
    expected = [(_MAGIC, index, len(parts), zlib.crc32(data)) for index in range(len(parts))]
    if not parts or heads != expected:
        raise ContractError("the parts of the snapshot do not belong together")
    return data
