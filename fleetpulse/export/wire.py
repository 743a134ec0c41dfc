"""``prometheus.WriteRequest`` of remote write 1.0, packed. Pure.

Source: https://prometheus.io/docs/specs/prw/remote_write_spec/ (protocol, headers, the message). The message is four
fields deep, so it is written by hand; a test reads it with protobuf's own runtime.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import cramjam

from fleetpulse.export.series import Labels
from runtime.protobuf_wire import field, varint

HEADERS: Mapping[str, str] = {
    "content-type": "application/x-protobuf",
    "content-encoding": "snappy",
    "x-prometheus-remote-write-version": "0.1.0",
}
Samples = Sequence[tuple[int, float]]


def bodies(series: Mapping[Labels, Samples], samples_max: int) -> Iterator[tuple[bytes, int]]:
    """Packed requests with at most ``samples_max`` samples each (or one series), and how many are in it."""
    parts, count = list[bytes](), 0
    for labels, samples in series.items():
        if parts and count + len(samples) > samples_max:
            yield _packed(parts), count
            parts, count = [], 0
        parts.append(field(1, _series(labels, samples)))
        count += len(samples)
    if parts:
        yield _packed(parts), count


def _packed(parts: Sequence[bytes]) -> bytes:
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def _series(labels: Labels, samples: Samples) -> bytes:
    """``TimeSeries``: labels = 1 {name = 1, value = 2}, samples = 2 {value = 1, timestamp = 2}."""
    named = [field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in labels]
    timed = [field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at_ms)) for at_ms, value in samples]
    return b"".join(named + timed)
