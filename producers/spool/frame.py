"""Frames of a spool segment: one record each, checksummed, readable after a kill at any byte.

A segment begins with a header (magic, boot, number). A frame is the length and CRC-32 of its body, then the body:
sequence number, time, partition, event count, lengths, and the bytes of topic, schema, content type, key and value.
Everything a re-send needs stands in the frame, partition included, so that it is the same record for ever. Pure.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

MAGIC = b"FPSPOOL1"
_HEADER = struct.Struct("<8sQQ")
_PREFIX = struct.Struct("<II")
_BODY = struct.Struct("<QqIIHHHH")
HEADER_BYTES = _HEADER.size + 4
FRAME_BYTES_MIN = _PREFIX.size + _BODY.size
ORDINAL_MAX = 10**15 - 1
"""Of a boot, a segment and a record: a million a second for thirty years."""


class Spooled(NamedTuple):
    """A record as stored in the spool. (boot, seq) with the spool's id is its identity."""

    boot: int
    seq: int
    at_ms: int
    topic: str
    partition: int
    schema: str
    content_type: str
    key: bytes
    events: int
    value: bytes


class BadFrame(Exception):
    """The checksum does not fit, or what fits it is no record. ``end`` is where the next frame would begin if the
    length is right."""

    def __init__(self, end: int, why: str = "a frame's checksum does not fit") -> None:
        super().__init__(why)
        self.end = end


def encode_header(boot: int, number: int) -> bytes:
    """The first bytes of a segment."""
    header = _HEADER.pack(MAGIC, boot, number)
    return header + crc32(header).to_bytes(4, "little")


def decode_header(data: bytes) -> tuple[int, int] | None:
    """(boot, number) of a segment, or None when these bytes are no whole header."""
    if len(data) < HEADER_BYTES or crc32(data[: _HEADER.size]) != int.from_bytes(
        data[_HEADER.size : HEADER_BYTES], "little"
    ):
        return None
    magic, boot, number = _HEADER.unpack_from(data)
    return (boot, number) if magic == MAGIC and boot <= ORDINAL_MAX and number <= ORDINAL_MAX else None


def encode_frame(record: Spooled) -> bytes:
    """The record as one frame (its boot stands in the segment's header)."""
    topic, schema, content_type = record.topic.encode(), record.schema.encode(), record.content_type.encode()
    fixed = _BODY.pack(
        record.seq,
        record.at_ms,
        record.partition,
        record.events,
        len(topic),
        len(schema),
        len(content_type),
        len(record.key),
    )
    body = b"".join((fixed, topic, schema, content_type, record.key, record.value))
    return _PREFIX.pack(len(body), crc32(body)) + body


def frame_end(data: bytes, at: int) -> int | None:
    """Where the frame that begins at ``at`` would end; None when its prefix is cut off or says nonsense."""
    if at + _PREFIX.size > len(data):
        return None
    length, _ = _PREFIX.unpack_from(data, at)
    return None if length < _BODY.size else at + _PREFIX.size + int(length)


def decode_frame(data: bytes, at: int, boot: int) -> tuple[Spooled, int] | None:
    """The record of the frame at ``at`` and where the next begins; None when the frame is not whole.

    Raises ``BadFrame`` when all its bytes are there and they are no record.
    """
    end = frame_end(data, at)
    if end is None or end > len(data):
        return None
    _, checksum = _PREFIX.unpack_from(data, at)
    begin = at + _PREFIX.size
    if crc32(memoryview(data)[begin:end]) != checksum:
        raise BadFrame(end)
    seq, at_ms, partition, events, *lengths = _BODY.unpack_from(data, begin)
    begin += _BODY.size
    if seq > ORDINAL_MAX or not events or sum(lengths) > end - begin:
        raise BadFrame(end, "a frame's numbers are out of bounds")
    texts: list[bytes] = []
    for length in lengths:
        texts.append(data[begin : begin + length])
        begin += length
    *names, key = texts
    value = data[begin:end]
    try:
        topic, schema, content_type = (name.decode() for name in names)
    except UnicodeDecodeError as error:
        raise BadFrame(end, "a frame's names are no text") from error
    record = Spooled(boot, seq, at_ms, topic, partition, schema, content_type, key, events, value)
    return record, end
