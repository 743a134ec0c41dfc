from __future__ import annotations

from typing import Any

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.export.wire import bodies

MESSAGES: dict[str, list[tuple[int, str, int, str | None, bool]]] = {
    "Label": [(1, "name", 9, None, False), (2, "value", 9, None, False)],
    "Sample": [(1, "value", 1, None, False), (2, "timestamp", 3, None, False)],
    "TimeSeries": [(1, "labels", 11, "Label", True), (2, "samples", 11, "Sample", True)],
    "WriteRequest": [(1, "timeseries", 11, "TimeSeries", True)],
}
"""Of prometheus/prompb (remote.proto, types.proto): number, name, protobuf's type, message, repeated."""


def write_request() -> Any:
    """The message class, by protobuf's own runtime."""
    file = descriptor_pb2.FileDescriptorProto(name="remote.proto", package="prometheus", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, label, kind, inner, repeated in fields:
            more = {} if inner is None else {"type_name": f".prometheus.{inner}"}
            message.field.add(name=label, number=number, type=kind, label=3 if repeated else 1, **more)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))


WRITE_REQUEST = write_request()


def unpacked(body: bytes) -> dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]:
    request = WRITE_REQUEST.FromString(bytes(cramjam.snappy.decompress_raw(body)))
    return {
        tuple((label.name, label.value) for label in one.labels): [(each.timestamp, each.value) for each in one.samples]
        for one in request.timeseries
    }


labels = st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=300), min_size=1, max_size=4)
samples = st.lists(st.tuples(st.integers(0, 2**62), st.floats(allow_nan=False)), min_size=1, max_size=4)


@given(st.dictionaries(labels.map(lambda each: tuple(sorted(each.items()))), samples, max_size=6), st.integers(1, 9))
def test_what_is_written_is_what_protobuf_reads(
    series: dict[tuple[tuple[str, str], ...], list[tuple[int, float]]], samples_max: int
) -> None:
    """Labels, times and values of every series, once, in requests of a bounded size."""
    read: dict[Any, Any] = {}
    for body, count in bodies(series, samples_max):
        part = unpacked(body)
        assert count == sum(map(len, part.values()))
        assert count <= samples_max or len(part) == 1
        read |= part

    assert read == series
