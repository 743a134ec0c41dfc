"""Which partition a key belongs to: one stable hash for every writer, in every language and process.

CRC-32 (ISO 3309, zlib's) of the key's bytes modulo the contract's number of partitions. Python's own ``hash`` changes
from process to process and Kafka clients differ in theirs, so neither is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

SEPARATOR = b"\x1f"
NULL = b"\x00"


def place(key: bytes, partitions: int) -> int:
    """The partition in [0, partitions) of a key. The same key always lands in the same place."""
    return crc32(key) % partitions


def join_key(words: Iterable[bytes | None]) -> bytes:
    """The key of several labels; null differs from the empty text."""
    return SEPARATOR.join(NULL if word is None else word for word in words)


def first_known(words: Iterable[bytes | None]) -> bytes:
    """The first label that is known, else the empty key: such as ``placement_group``, else ``host``."""
    return next((word for word in words if word is not None), b"")
