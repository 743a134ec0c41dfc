"""Position in a log file: which file, and the offset to read on from. Pure.

A file is identified by device and inode, and by a digest of the first bytes read of it: inodes are used again, and a
file that was copied and cut (copytruncate) keeps its inode and has its past elsewhere.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace

import orjson

HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Position:
    """``offset``: where to read on. ``head_length`` bytes at the file's begin, never beyond ``offset``, have ``head``
    as digest."""

    device: int
    inode: int
    offset: int = 0
    head_length: int = 0
    head: str = ""
    skipping: bool = False

    def is_of(self, head: bytes, size: int) -> bool:
        """Whether a file that begins with ``head`` and has ``size`` bytes holds what was read."""
        return size >= self.offset and len(head) >= self.head_length and digest(head[: self.head_length]) == self.head

    def moved(self, offset: int, skipping: bool, head: bytes) -> Position:
        """Read on to ``offset``; ``head`` are the file's first bytes, ``HEAD_BYTES`` at most."""
        length = min(len(head), offset, HEAD_BYTES)
        return replace(self, offset=offset, skipping=skipping, head_length=length, head=digest(head[:length]))


def digest(head: bytes) -> str:
    """Of the first bytes of a file; empty for none."""
    return hashlib.blake2b(head, digest_size=16).hexdigest() if head else ""


def encode(position: Position) -> bytes:
    """For the disk."""
    return orjson.dumps(asdict(position))


def decode(value: bytes | None) -> Position | None:
    """None where there is none, or none that can be read: the file is then a new one."""
    try:
        plain = orjson.loads(value or b"null")
        return Position(**plain) if isinstance(plain, dict) else None
    except (orjson.JSONDecodeError, TypeError):
        return None
