"""Claimed: few datagrams that are nothing but reports of requests that proxies of this host claimed. Pure.

Where a proxy claims its requests, a plug-in's reports are no events: their fields go to the proxy. They come a few at a
time, and an array call costs as much for one datagram as for a thousand: these are read one by one, in a fifth of the
time. What is anything else, or not sound, is left to the arrays, with all that came with it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from mmap import mmap
from typing import NamedTuple

from producers.receiver.client_fields import Row
from producers.receiver.datagram import HEADER_BYTES, MAGIC, MARKED, MERGED, REQUEST, SEQ_MAX, VERSION, is_clock
from producers.receiver.gaps import Arrival
from producers.receiver.once import Once
from schemas.codec.json_text import object_of

FEW = 64
"""More are cheaper as arrays."""
_HEAD = struct.Struct("<3sBBBHIIIIQQQQQQ")
"""As ``datagram.HEADER``."""
_SOUND = (MAGIC, VERSION, REQUEST)


class Report(NamedTuple):
    """A sound datagram: its place in its client's sequence, the fields that were sent, and the process that sent them,
    by the kernel's word (0: not known)."""

    arrival: Arrival
    row: Row
    pid: int


def claimed_reports(
    buffer: bytearray | mmap, ends: Sequence[int], pids: Sequence[int], once: Once
) -> list[Report] | None:
    """The datagrams that end at ``ends``, sent by ``pids`` (0: as they say themselves), in order of arrival; None
    unless each of them is a sound report of a claimed request, and there are few."""
    if not 0 < len(ends) <= FEW:
        return None
    view, begin, reports = memoryview(buffer), 0, list[Report]()
    for end, pid in zip(ends, pids, strict=True):
        report = _report(view[begin:end], pid)
        if report is None or not once.has_claim(report.row):
            return None
        reports.append(report)
        begin = end
    return reports


def _report(datagram: memoryview, pid: int) -> Report | None:
    if len(datagram) < HEADER_BYTES:
        return None
    magic, version, kind, flags, json_bytes, times, chunks, said, *clocks = _HEAD.unpack_from(datagram)
    lost_run, start_ns, seq, lost, *moments = clocks
    json_at = HEADER_BYTES + times * (12 if flags & MARKED else 8)
    if (
        (magic, version, kind) != _SOUND
        or flags & ~(MARKED | MERGED)
        or json_at + json_bytes != len(datagram)
        or not lost_run <= lost <= seq <= SEQ_MAX
        or chunks < times
        or not all(map(is_clock, (start_ns, *moments)))
    ):
        return None
    row = object_of(datagram[json_at:])
    return None if row is None else Report(Arrival((pid or said, start_ns), seq, lost, lost_run), row, pid)
