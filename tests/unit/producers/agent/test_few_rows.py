from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.agent.few_rows import ROWS_MAX, batches_of_few, encoded
from producers.batch import BatchBuilder
from schemas.codec.build import block_from_rows
from schemas.codec.native import encode
from schemas.events.event_types import EVENTS, GPU_EVENTS, GPU_SAMPLES, HOST_SAMPLES, LLM_REQUESTS
from schemas.fields import Event, Field, Kind

PLAIN = [event for event in EVENTS if not {Kind.TEXT, Kind.BINS} & {field.kind for field in event.fields}]


def values_of(field: Field) -> st.SearchStrategy[Any]:
    if field.kind in (Kind.LABEL, Kind.OPTIONAL_TEXT):
        return st.one_of(st.none(), st.sampled_from(["", "a", "Grüße", "x" * 300]))
    low, high = {"Int64": (-(2**63), 2**63 - 1), "UInt32": (0, 2**32 - 1), "UInt64": (0, 2**64 - 1)}.get(
        field.kind.value.removeprefix("Nullable(").removesuffix(")"), (-(2**31), 2**31 - 1)
    )
    numbers = st.integers(low, high)
    return st.one_of(st.none(), numbers) if field.kind.optional else numbers


@settings(max_examples=25)
@given(st.data())
def test_the_bytes_are_those_of_the_general_encoder(data: st.DataObject) -> None:
    """For any plain rows of any event."""
    event = data.draw(st.sampled_from(PLAIN))
    number = st.randoms(use_true_random=False)
    chance = data.draw(number)
    pools = {field.name: data.draw(st.lists(values_of(field), min_size=1, max_size=3)) for field in event.fields}
    rows = [{name: chance.choice(pool) for name, pool in pools.items()} for _ in range(data.draw(st.integers(1, 9)))]

    assert encoded(event, rows) == encode(event.fields, block_from_rows(event.fields, rows))


@pytest.mark.parametrize(
    ("event", "row"),
    [
        (HOST_SAMPLES, {"at_ms": None}),
        (HOST_SAMPLES, {"at_ms": "now"}),
        (HOST_SAMPLES, {"at_ms": 1, "processors": True}),
        (HOST_SAMPLES, {"at_ms": 1, "processors": 1.0}),
        (HOST_SAMPLES, {"at_ms": 1, "processors": 2**32}),
        (HOST_SAMPLES, {"at_ms": 1, "host": b"h"}),
        (HOST_SAMPLES, {"at_ms": 1, "host": "\ud800"}),
        (GPU_EVENTS, {"at_ms": 1, "message": 5}),
        (HOST_SAMPLES, {"at_ms": 1, "host": "h" * 300_000}),
        (LLM_REQUESTS, {"at_ms": 1, "request_id": "r"}),
    ],
    ids=[
        "no time",
        "a text for a number",
        "a truth value",
        "a float",
        "out of range",
        "bytes",
        "no Unicode",
        "a number for a text",
        "large",
        "a sketch",
    ],
)
def test_what_is_not_plain_is_left_to_the_builder(event: Event, row: dict[str, Any]) -> None:
    """It knows what to do with it."""
    assert batches_of_few(event, [row]) is None


def test_long_labels_are_not_kept() -> None:
    """What others send may have megabytes: only columns of short labels are kept encoded."""
    tracemalloc.start()
    try:
        for number in range(4):
            batches_of_few(GPU_SAMPLES, [{"at_ms": 1, "gpu_uuid": f"{number}" * 1_000_000}])
            many = [{"at_ms": 1, "gpu_uuid": f"{number}-{row}" + "u" * 300} for row in range(ROWS_MAX)]
            assert batches_of_few(GPU_SAMPLES, many)
            del many
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept_bytes < 100_000


def test_batches_are_those_of_the_builder() -> None:
    """One per key, in the order in which the keys came; up to a number of rows."""
    rows = [
        {"at_ms": number, "host": "h", "placement_group": "ab"[number % 2], "gpu_uuid": f"GPU-{number}"}
        for number in range(8)
    ]
    builder = BatchBuilder(GPU_SAMPLES)
    expected = [batch for row in rows for batch in builder.add(row, 0.0)] + builder.flush()

    assert batches_of_few(GPU_SAMPLES, rows) == expected
    assert [batch.key for batch in expected] == [b"a", b"b"]
    assert batches_of_few(GPU_SAMPLES, []) == []
    assert batches_of_few(GPU_SAMPLES, rows * (ROWS_MAX // 8)) is not None
    assert batches_of_few(GPU_SAMPLES, rows * (ROWS_MAX // 8) + rows[:1]) is None


def test_another_version_of_an_event_is_encoded_by_its_own_fields() -> None:
    """Though what is remembered of an event is found by its topic."""
    row = {"at_ms": 1, "processors": 4, "host": "h"}
    fewer = replace(HOST_SAMPLES, version=2, fields=HOST_SAMPLES.fields[:2])

    for event in (HOST_SAMPLES, fewer, HOST_SAMPLES):
        assert encoded(event, [row]) == encode(event.fields, block_from_rows(event.fields, [row]))
