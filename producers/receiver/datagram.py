"""Decoder of the SDK's datagrams. Never raises: each datagram is accepted or rejected with a reason.

Layout, little-endian: ``HEADER`` (72 bytes), then ``times`` moments (UInt64, ns of one monotonic clock), then, where
flag ``MARKED`` is set, as many marks (UInt32: tokens in bits 0-19, 0 where not reported; choice in bits 20-29; bit 30:
reasoning alone), then ``json_bytes`` of a JSON object with fields of ``llm.requests``. Flag ``MERGED``: neighbouring
chunks of a long stream were merged, ``chunks`` is how many there were. A ``FAREWELL`` is a header alone: the client
ends. A ``STEP`` of training or a ``METRIC`` is a header and the JSON of its fields, in sequences of their own. A
``CLAIM`` is a header and JSON with the ``request_id`` of a request that its client will report, in no sequence. The
last byte of the magic is the version of the format.

Many datagrams are read at once: they stand one behind the other in one buffer, ``ends`` says where each one ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

Ints = npt.NDArray[np.int64]

HEADER = np.dtype(
    [
        ("magic", "S3"),
        ("version", "u1"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("json_bytes", "<u2"),
        ("times", "<u4"),
        ("chunks", "<u4"),
        ("pid", "<u4"),
        ("lost_run", "<u4"),
        ("start_ns", "<u8"),
        ("seq", "<u8"),
        ("lost", "<u8"),
        ("at_ms", "<u8"),
        ("begin_ns", "<u8"),
        ("end_ns", "<u8"),
    ]
)
"""``lost_run`` were dropped by the client between the datagram before and this one, ``lost`` since its start."""
HEADER_BYTES = HEADER.itemsize
_JSON_BYTES_AT, _PID_AT = 6, 16
DATAGRAM_BYTES_MAX = 65_536
MAGIC, VERSION = b"FPD", ord("1")
REQUEST, FAREWELL, STEP, METRIC, CLAIM = 1, 2, 3, 4, 5
KINDS = (REQUEST, FAREWELL, STEP, METRIC, CLAIM)
MARKED, MERGED = 1, 2
TOKENS_MASK, CHOICE_SHIFT, CHOICE_MASK, REASONING_BIT = 2**20 - 1, 20, 2**10 - 1, 1 << 30
_CLOCK_MAX = 2**62
"""Clocks beyond are damage: they would not fit signed arithmetic."""
SEQ_MAX = 2**40
"""No process ends so many requests (a year of 34,000 a second): a number beyond would be booked as that many lost."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "too_long": "longer than a datagram may be; cut by the kernel, not read",
        "not_ours": "does not begin as a datagram of the SDK",
        "version": "a version of the format that this agent does not read: upgrade the older of SDK and agent",
        "cut": "shorter than its header says, or than a header",
        "trailing": "longer than its header says",
        "contents": "an unknown kind or flag, or a clock or number beyond all bounds",
        "broken_json": "its fields are no JSON object, or nested deeper than any field is; declared as shed",
        "duplicate": "its number in the client's sequence was seen before",
        "series": "a metric of a series beyond ``metric_series_max``; declared as shed",
        "internal": "a defect of fleetpulse, logged; declared as shed",
    }
)
"""Why a datagram is not taken."""
_STRUCTURAL = ("not_ours", "version", "cut", "trailing", "contents")


def is_clock(value: int) -> bool:
    """Whether a clock may say so."""
    return value <= _CLOCK_MAX


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Datagrams that could be read, in order of arrival. ``starts`` is where each begins in the buffer."""

    heads: npt.NDArray[Any]
    """Of dtype ``HEADER``."""
    starts: Ints
    rejected: Mapping[str, int]
    """How many could not be read, by reason."""
    senders: npt.NDArray[np.uint32]
    """The process that sent each, by the kernel's word; 0: not known."""

    def __len__(self) -> int:
        return len(self.starts)

    def where(self, kept: npt.NDArray[np.bool_] | Ints) -> Datagrams:
        """Those of them (a mask), or these in this order (indexes); nothing rejected."""
        return Datagrams(self.heads[kept], self.starts[kept], {}, self.senders[kept])


def read(buffer: npt.NDArray[np.uint8], ends: Ints, senders: npt.NDArray[np.uint32] | None = None) -> Datagrams:
    """The headers of all datagrams in the buffer, with a reason for each that is not sound. ``senders``: of each;
    None: not known."""
    starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1]))
    sizes = ends - starts
    whole = sizes >= HEADER_BYTES
    heads = _heads(buffer, starts[whole])
    faults = np.zeros(len(ends), np.int64)
    faults[~whole] = [_of_short(bytes(buffer[a:b])) for a, b in zip(starts[~whole], ends[~whole], strict=True)]
    faults[whole] = _faults(heads, sizes[whole])
    good = faults == 0
    counts = np.bincount(faults, minlength=len(_STRUCTURAL) + 1).tolist()
    rejected = {reason: count for reason, count in zip(_STRUCTURAL, counts[1:], strict=True) if count}
    senders = np.zeros(len(ends), np.uint32) if senders is None else senders
    return Datagrams(heads[good[whole]], starts[good], rejected, senders[good])


def with_senders(buffer: npt.NDArray[np.uint8], ends: Ints, pids: npt.NDArray[np.uint32]) -> None:
    """Write into each datagram the process that sent it, by the kernel's word; 0: what the datagram says stays.

    So nobody takes part in the sequence of another process; and equal numbers of two containers are two clients.
    """
    starts = np.concatenate((np.zeros(min(1, len(ends)), np.int64), ends[:-1]))
    known = (ends - starts >= HEADER_BYTES) & (pids != 0)
    bytes_of_pid = np.arange(_PID_AT, _PID_AT + 4)
    buffer[starts[known, None] + bytes_of_pid] = pids[known].astype("<u4").view(np.uint8).reshape(-1, 4)


def _heads(buffer: npt.NDArray[np.uint8], starts: Ints) -> npt.NDArray[Any]:
    rows = np.lib.stride_tricks.sliding_window_view(buffer, HEADER_BYTES)[starts] if len(starts) else buffer[:0]
    return np.ascontiguousarray(rows).view(HEADER).reshape(len(starts))


def _of_short(data: bytes) -> int:
    """The fault of one that holds no whole header."""
    return _fault("cut" if data and (MAGIC + bytes([VERSION])).startswith(data[:4]) else "not_ours")


def _fault(reason: str) -> int:
    return _STRUCTURAL.index(reason) + 1


def _faults(heads: npt.NDArray[Any], sizes: Ints) -> Ints:
    """0 where a datagram is sound, else the number of the first reason that holds."""
    marked = (heads["flags"] & MARKED).astype(np.int64)
    needed = HEADER_BYTES + heads["times"].astype(np.int64) * (8 + 4 * marked) + heads["json_bytes"]
    tests = (
        ("not_ours", heads["magic"] != MAGIC),
        ("version", heads["version"] != VERSION),
        ("cut", needed > sizes),
        ("trailing", needed < sizes),
        ("contents", _strange(heads)),
    )
    return np.select([test for _, test in tests], [_fault(reason) for reason, _ in tests], 0)


def _strange(heads: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    kinds = ~np.isin(heads["kind"], KINDS)
    flags = heads["flags"] & ~np.uint8(MARKED | MERGED) != 0
    empty = (heads["kind"] != REQUEST) & (heads["times"] > 0) | (heads["kind"] == FAREWELL) & (heads["json_bytes"] > 0)
    counts = (heads["lost"] > heads["seq"]) | (heads["lost_run"] > heads["lost"]) | (heads["chunks"] < heads["times"])
    beyond = heads["seq"] > SEQ_MAX  # and so ``lost``, which is at most ``seq``
    for name in ("start_ns", "at_ms", "begin_ns", "end_ns"):
        beyond |= heads[name] > _CLOCK_MAX
    return kinds | flags | empty | counts | beyond


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of many requests; those of the i-th at ``[offsets[i], offsets[i + 1])``. ``marks`` None: all are 0."""

    offsets: Ints
    at_ns: Ints
    marks: npt.NDArray[np.uint32] | None

    @property
    def tokens(self) -> npt.NDArray[np.int32] | None:
        """Of each chunk, 0 where not reported; None where none is."""
        return None if self.marks is None else _or_none((self.marks & TOKENS_MASK).astype(np.int32))

    @property
    def choices(self) -> npt.NDArray[np.uint16] | None:
        """Of each chunk; None where all are the first."""
        return None if self.marks is None else _or_none((self.marks >> CHOICE_SHIFT & CHOICE_MASK).astype(np.uint16))

    @property
    def reasoning(self) -> npt.NDArray[np.bool_]:
        """Whether a chunk is reasoning alone."""
        return np.zeros(len(self.at_ns), np.bool_) if self.marks is None else self.marks & REASONING_BIT != 0


def _or_none(values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    return values if values.any() else None


def chunks_of(buffer: npt.NDArray[np.uint8], datagrams: Datagrams) -> Chunks:
    """The times and marks of the requests."""
    heads = datagrams.heads
    counts = heads["times"].astype(np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    first = datagrams.starts + HEADER_BYTES
    at_ns = _gathered(buffer, first, counts * 8).view("<u8")
    if len(at_ns) and at_ns.max() > _CLOCK_MAX:
        at_ns = np.minimum(at_ns, np.uint64(_CLOCK_MAX))
    marked = heads["flags"] & MARKED != 0
    marks = None
    if marked.any():
        marks = np.zeros(len(at_ns), np.uint32)
        given = _gathered(buffer, (first + counts * 8)[marked], counts[marked] * 4)
        marks[np.repeat(marked, counts)] = given.view("<u4")
    return Chunks(offsets, at_ns.view(np.int64), marks)


def _gathered(buffer: npt.NDArray[np.uint8], starts: Ints, sizes: Ints) -> npt.NDArray[np.uint8]:
    """The pieces ``[start, start + size)`` of the buffer, one behind the other."""
    view = buffer.data
    pieces = [view[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return np.frombuffer(b"".join(pieces), np.uint8)


def bytes_of(buffer: npt.NDArray[np.uint8], datagrams: Datagrams, index: int) -> bytes:
    """One of them, as it came."""
    head, start = datagrams.heads[index], int(datagrams.starts[index])
    marks = 4 if head["flags"] & MARKED else 0
    return bytes(buffer[start : start + HEADER_BYTES + int(head["times"]) * (8 + marks) + int(head["json_bytes"])])


def json_bytes_of(datagram: bytes) -> int:
    """How long the JSON of a sound datagram is."""
    return int.from_bytes(datagram[_JSON_BYTES_AT : _JSON_BYTES_AT + 2], "little")


def with_fields(datagram: bytes, added: Mapping[str, Any]) -> bytes:
    """A sound datagram, whose JSON is one for ``object_of``, with further fields in it."""
    if not added:
        return datagram
    head = np.frombuffer(datagram[:HEADER_BYTES], HEADER).copy()
    json_at = len(datagram) - int(head["json_bytes"][0])
    text = orjson.dumps({**orjson.loads(datagram[json_at:]), **added})
    head["json_bytes"] = len(text)
    return head.tobytes() + datagram[HEADER_BYTES:json_at] + text


def texts_of(buffer: npt.NDArray[np.uint8], datagrams: Datagrams) -> list[memoryview]:
    """The JSON of each request; views into the buffer."""
    heads = datagrams.heads
    marked = (heads["flags"] & MARKED).astype(np.int64)
    begins = datagrams.starts + HEADER_BYTES + heads["times"].astype(np.int64) * (8 + 4 * marked)
    ends = begins + heads["json_bytes"]
    view = buffer.data
    return [view[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
