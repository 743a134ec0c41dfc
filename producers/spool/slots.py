"""A small value kept on disk that survives a kill or a power cut during its own writing, and a full disk.

The file holds two slots of fixed size, written in turn: generation, length and CRC-32, then the value. A reader takes
the whole slot with the higher generation, so a torn write leaves the value before it. The room is reserved when the
file is made: writing never needs more.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Self
from zlib import crc32

_HEAD = struct.Struct("<QII")

sync_data = getattr(os, "fdatasync", os.fsync)
"""Make a file's data safe against a power cut, without its times where the system knows how."""


def sync_file(path: Path) -> None:
    """Make a whole file's data safe against a power cut."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        sync_data(descriptor)
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size_bytes: int) -> None:
    """Let the file be as long as that, with zeros behind what it holds: a slot that is there stays."""
    at = os.fstat(descriptor).st_size
    while at < size_bytes:  # a disk that fills takes a part, and refuses only the next
        at += os.pwrite(descriptor, bytes(size_bytes - at), at)


class Slots:
    """``read`` what was last written whole, ``write`` a new value (at most ``room`` bytes)."""

    def __init__(self, descriptor: int, slot_bytes: int) -> None:
        self._descriptor = descriptor
        self._slot_bytes = slot_bytes
        self._generation = 0
        self._value: bytes | None = None
        for index in (0, 1):
            generation, value = self._slot(index)
            if value is not None and generation > self._generation:
                self._generation, self._value = generation, value

    @classmethod
    def open(cls, path: Path, slot_bytes: int) -> Self:
        """The slots in this file, made on first use. ``slot_bytes`` must stay the same for a file. Raises OSError where
        the disk has no room for all of it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _reserve(descriptor, 2 * slot_bytes)
            return cls(descriptor, slot_bytes)
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def room(self) -> int:
        """The longest value that fits."""
        return self._slot_bytes - _HEAD.size

    def read(self) -> bytes | None:
        """The value last written whole; None when there never was one."""
        return self._value

    def write(self, value: bytes, *, durable: bool = True) -> None:
        """Replace the value. Without ``durable`` it survives a kill of this process but perhaps no power cut."""
        if len(value) > self.room:
            raise OSError(f"{len(value)} bytes do not fit a slot of {self.room}")
        generation = self._generation + 1
        checksum = crc32(value, generation & 0xFFFF_FFFF)
        data = _HEAD.pack(generation, len(value), checksum) + value
        if os.pwrite(self._descriptor, data, generation % 2 * self._slot_bytes) != len(data):
            raise OSError("a slot was not written whole")
        if durable:
            sync_data(self._descriptor)
        self._generation, self._value = generation, value

    def close(self) -> None:
        os.close(self._descriptor)

    def _slot(self, index: int) -> tuple[int, bytes | None]:
        data = os.pread(self._descriptor, self._slot_bytes, index * self._slot_bytes)
        if len(data) < _HEAD.size:
            return 0, None
        generation, length, checksum = _HEAD.unpack_from(data)
        value = data[_HEAD.size : _HEAD.size + length]
        whole = len(value) == length and crc32(value, generation & 0xFFFF_FFFF) == checksum
        return (generation, value) if whole and generation else (0, None)
