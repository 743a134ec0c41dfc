"""Bounds the decompressed size of Kafka batches, since the broker bounds only their compressed size, and reads those
whose headers have names that are no UTF-8, which the broker does not look at and aiokafka raises for.

aiokafka decompresses a batch whole before it returns a record; zeros compress ten thousand to one, so one batch that
the broker accepts could fill any memory, at every restart. ``bound_fetches`` puts two things into aiokafka:

- its decoders (names in the module of its record batch, compiled or not) give up beyond ``batch_bytes_max``;
- a batch that was given up yields *stand-ins*: a record for every offset from the first to the last that its header
  says, none of them with anything of what was sent, all of them too large for admission to take. Where a header's name
  cannot be read they begin with that record, and have no headers: a batch is of one sender. Whoever reads the batch
  sees the same ones, now and later, so job and sink agree about them.

The broker's own batches (transaction markers) are handed on as they are. What is not bounded:
batches of the formats before Kafka 0.11 (brokers from 4.0 on take none), and the window of a zstd frame (the decoder's
own limit: 128 MiB). The broker checks that offsets have no gaps in what it is sent; a compacted topic may show
stand-ins for records that are gone.
"""

from __future__ import annotations

import functools
import gzip
import io
import logging
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import cramjam
import numpy as np
import zstandard
from aiokafka import codec
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from runtime import kept_zstd
from schemas.limits import Limits

_log = logging.getLogger(__name__)

DECODERS = ("gzip_decode", "snappy_decode", "lz4_decode", "zstd_decode")
"""What aiokafka's record batch calls, by the names in its module."""
CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SCRATCH_BYTES = 1024 * 1024
"""Batches up to this size are unpacked into memory that is there; larger ones are tried again with more."""
GROWTH = 16
CHUNK_BYTES = 256 * 1024
XERIAL_HEADER_BYTES = 16
HEADERS = (("schema", b"unread"), ("content-type", b"unread"))
"""Of a stand-in: right in form, so that size is the reason, and without identity."""
_FULL = "failed to write whole buffer"  # all that cramjam says of an output that is too small
_scratch = threading.local()

Decoder = Callable[[Any], Any]


class BatchTooLargeError(Exception):
    """A packed batch unpacks to more bytes than allowed. Never leaves this module."""


class StandIn(NamedTuple):
    """In place of a record that was not unpacked; the attributes are those of aiokafka's records."""

    offset: int
    timestamp: int
    timestamp_type: int
    value: bytes
    key: bytes | None = None
    checksum: None = None
    headers: tuple[tuple[str, bytes], ...] = HEADERS


def decoders(bytes_max: int) -> dict[str, Decoder]:
    """By name in aiokafka, decoders that return what aiokafka's own do up to ``bytes_max`` bytes, and beyond raise
    ``BatchTooLargeError`` without having held more than that (a third above for gzip)."""
    return {
        "gzip_decode": functools.partial(_gzip, bytes_max),
        "snappy_decode": functools.partial(_snappy, bytes_max),
        "lz4_decode": functools.partial(_into, cramjam.lz4.decompress_into, bytes_max),
        "zstd_decode": functools.partial(_zstd, bytes_max),
    }


def _zstd(bytes_max: int, payload: Any) -> Any:
    """A single frame that says its size is unpacked at once. Whatever is unusual or broken takes the careful way."""
    try:
        if 0 < zstandard.frame_content_size(payload) <= bytes_max:
            return kept_zstd.unpack(payload)
    except zstandard.ZstdError:
        pass  # several frames, or a broken one
    return _into(cramjam.zstd.decompress_into, bytes_max, payload)


def _into(decompress_into: Callable[[Any, Any], int], bytes_max: int, payload: Any) -> Any:
    """Unpack into memory of a given size, larger from try to try: nothing is trusted, and little is done twice."""
    size = min(SCRATCH_BYTES, bytes_max)
    while True:
        room: Any = _scratch_of(size) if size <= SCRATCH_BYTES else np.empty(size, dtype=np.uint8)
        try:
            filled = memoryview(room)[: decompress_into(payload, room)]
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise
            if size >= bytes_max:
                raise BatchTooLargeError from error
            size = min(size * GROWTH, bytes_max)
        else:
            return bytes(filled) if size <= SCRATCH_BYTES else filled


def _scratch_of(size: int) -> Any:
    """Memory of this thread: decoders let go of the interpreter's lock."""
    room = getattr(_scratch, "room", None)
    if room is None:
        room = _scratch.room = np.empty(SCRATCH_BYTES, dtype=np.uint8)
    return room[:size]


def _gzip(bytes_max: int, payload: Any) -> Any:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(payload), mode="r") as packed:
        while chunk := packed.read(CHUNK_BYTES):
            if out.tell() + len(chunk) > bytes_max:
                raise BatchTooLargeError
            out.write(chunk)
    return out.getvalue()


def _snappy(bytes_max: int, payload: Any) -> Any:
    """A block says its size first, and a decoder that finds another one refuses it."""
    if snappy_bytes(payload) > bytes_max:
        raise BatchTooLargeError
    return codec.snappy_decode(payload)


def snappy_bytes(payload: Any) -> int:
    """The size that the blocks of a snappy payload, framed by xerial or not, say they unpack to."""
    if not codec._detect_xerial_stream(payload):
        return int(cramjam.snappy.decompress_raw_len(payload))
    view, at, total = memoryview(payload), XERIAL_HEADER_BYTES, 0
    while at < len(view):
        (size,) = struct.unpack_from("!i", view, at)
        at += 4
        if size <= 0:
            raise cramjam.DecompressionError(f"a snappy block of {size} bytes")
        total += int(cramjam.snappy.decompress_raw_len(view[at : at + size]))
        at += size
    return total


@functools.lru_cache(maxsize=2)
def stand_in_value(limits: Limits) -> bytes:
    """One byte more than admission takes, beginning with a sentence for who looks at what was refused."""
    text = (
        "fleetpulse did not read this record: the batch it was sent in unpacks to more than "
        f"batch_bytes_max = {limits.batch_bytes_max} bytes. Send smaller batches.\n"
    )
    return text.encode().ljust(limits.record_bytes_max + 1, b" ")


UNREADABLE = b"fleetpulse did not read this record: a header of it or of one before has a name that is no UTF-8.\n"


class ReadBatch:
    """A batch of aiokafka with what the fetcher asks of it (copied: a look-through costs more than a batch of
    one record is worth); its records, or their stand-ins."""

    __slots__ = (
        "_batch", "_limits", "base_offset", "is_control_batch", "is_transactional", "next_offset", "producer_id",
        "validate_crc",
    )  # fmt: skip

    def __init__(self, batch: Any, limits: Limits) -> None:
        self._batch = batch
        self._limits = limits
        self.base_offset = batch.base_offset
        self.next_offset = batch.next_offset
        self.producer_id = batch.producer_id
        self.is_control_batch = batch.is_control_batch
        self.is_transactional = batch.is_transactional
        self.validate_crc = batch.validate_crc

    def __iter__(self) -> Iterator[Any]:
        try:
            records = iter(self._batch)
        except BatchTooLargeError:
            facts = {"codec": CODECS.get(self._batch.compression_type), "batch_bytes_max": self._limits.batch_bytes_max}
            _log.warning("compressed batch too large; its records are rejected (too_large)", extra=self._about(facts))
            return self._stand_ins(self.base_offset, stand_in_value(self._limits), HEADERS)
        return self._each(records)

    def _each(self, records: Iterator[Any]) -> Iterator[Any]:
        """One after another, as they are taken; from the first one that cannot be read on, stand-ins."""
        offset = self.base_offset
        try:
            for record in records:
                yield record
                offset = record.offset + 1
        except (UnicodeDecodeError, CorruptRecordException) as error:
            if not isinstance(error.__cause__ or error, UnicodeDecodeError):
                raise
            _log.warning(
                "header names of a batch are no UTF-8; its records from there on are rejected",
                extra=self._about({"first_offset": offset}),
            )
            yield from self._stand_ins(offset, UNREADABLE, ())

    def _about(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {"first_offset": self.base_offset, "last_offset": self.next_offset - 1, **facts}

    def _stand_ins(self, first: int, value: bytes, headers: tuple[tuple[str, bytes], ...]) -> Iterator[StandIn]:
        at, kind = self._batch.max_timestamp, self._batch.timestamp_type
        offsets = range(first, self.next_offset)
        return (StandIn(offset, at, kind, value, headers=headers) for offset in offsets)  # one value, not copied


class BoundedRecords:
    """In place of aiokafka's ``MemoryRecords``: the batches of a fetch."""

    __slots__ = ("_limits", "_records", "has_next", "size_in_bytes")

    def __init__(self, limits: Limits, data: bytes) -> None:
        self._limits = limits
        self._records = records = MemoryRecords(data)
        self.has_next = records.has_next
        self.size_in_bytes = records.size_in_bytes

    def next_batch(self) -> Any:
        batch: Any = self._records.next_batch()
        read = type(batch) is DefaultRecordBatch and not batch.is_control_batch
        return ReadBatch(batch, self._limits) if read else batch


def bound_fetches(limits: Limits) -> None:
    """From now on no consumer of this process unpacks a batch to more than ``batch_bytes_max`` bytes; a later call sets
    another limit. Raises ``AssertionError`` for an aiokafka built otherwise than the one this was written for."""
    module = sys.modules[DefaultRecordBatch.__module__]
    assert all(hasattr(module, name) for name in DECODERS), f"aiokafka's {module.__name__} has other decoders"
    assert hasattr(fetcher, "MemoryRecords"), "aiokafka's fetcher reads batches in another way"
    for name, decode in decoders(limits.batch_bytes_max).items():
        setattr(module, name, decode)
    fetcher.MemoryRecords = functools.partial(BoundedRecords, limits)
