from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.batch import Batch, BatchBuilder, BatchLimits, Format, batches_of, key_of, slice_block
from schemas.codec import json_columns, native, ndjson
from schemas.codec.block import Labels
from schemas.codec.build import block_from_rows, rows_of
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON
from schemas.errors import RejectedError
from schemas.events.event_types import GPU_SAMPLES, LLM_REQUESTS

LIMITS = BatchLimits(events_max=5, bytes_max=100_000, linger_ms=1_000)
DECODE = {NATIVE: native.decode, NDJSON: ndjson.decode, JSON_COLUMNS: json_columns.decode}


def request(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "at_ms": 1_000 + number,
        "host": "host-1",
        "model": f"model-{number % 3}",
        "status": "ok",
        "origin": "simulated",
        "request_id": f"request-{number}",
        "trace_id": "ab" * 16 if number % 2 else None,
        "ttft_us": number * 1_000 if number % 5 else None,
        "itl_bins": {300: number + 1, 310: 2} if number % 4 else {},
        **fields,
    }


def ids(batches: list[Batch]) -> list[list[str]]:
    return [
        [
            row["request_id"]
            for row in rows_of(LLM_REQUESTS.fields, DECODE[b.content_type](b.value, LLM_REQUESTS.fields))
        ]
        for b in batches
    ]


@pytest.mark.parametrize("format", ["native", "ndjson", "columns"])
@given(count=st.integers(0, 23), events_max=st.integers(1, 7), bytes_max=st.sampled_from([2_500, 5_000, 1_000_000]))
def test_batches_hold_every_event_once_in_order(format: Format, count: int, events_max: int, bytes_max: int) -> None:
    """Wherever a block is cut, its events come out whole, in order, within both limits."""
    rows = [request(number) for number in range(count)]
    limits = BatchLimits(events_max, bytes_max, 0)
    block = block_from_rows(LLM_REQUESTS.fields, rows)

    batches = batches_of(LLM_REQUESTS, b"key", block, format, limits)

    read = [
        row
        for batch in batches
        for row in rows_of(LLM_REQUESTS.fields, DECODE[batch.content_type](batch.value, LLM_REQUESTS.fields))
    ]
    assert read == rows_of(LLM_REQUESTS.fields, block)
    assert all(0 < batch.count <= events_max and len(batch.value) <= bytes_max for batch in batches)
    assert sum(batch.count for batch in batches) == count


@given(rows=st.integers(0, 12), data=st.data())
def test_a_slice_of_a_block_is_the_block_of_the_slice(rows: int, data: st.DataObject) -> None:
    """Texts, sketches and labels move with their rows."""
    given_rows = [request(number) for number in range(rows)]
    start = data.draw(st.integers(0, rows))
    end = data.draw(st.integers(start, rows))

    part = slice_block(block_from_rows(LLM_REQUESTS.fields, given_rows), start, end)

    expected = block_from_rows(LLM_REQUESTS.fields, given_rows[start:end])
    assert part.rows == end - start
    assert rows_of(LLM_REQUESTS.fields, part) == rows_of(LLM_REQUESTS.fields, expected)
    model = part.columns["model"]
    assert isinstance(model, Labels)
    assert model.words[0] is None
    assert len(model.words) <= max(2, end - start + 1)


def test_a_batch_is_cut_when_it_is_full() -> None:
    """One event below the limit waits, the last one cuts."""
    builder = BatchBuilder(LLM_REQUESTS, limits=LIMITS)

    assert [builder.add(request(number), now_ms=0) for number in range(4)] == [[], [], [], []]
    assert builder.due_ms is not None
    assert ids(builder.add(request(4), now_ms=0)) == [[f"request-{number}" for number in range(5)]]
    assert builder.due_ms is None


def test_a_batch_is_cut_when_its_oldest_event_has_waited() -> None:
    """At the linger, not one millisecond before; each key on its own."""
    builder = BatchBuilder(LLM_REQUESTS, limits=LIMITS)
    builder.add(request(0, host="a"), now_ms=100)
    builder.add(request(1, host="b"), now_ms=600)
    builder.add(request(2, host="a"), now_ms=900)

    assert builder.due_ms == 1_100
    assert builder.due(1_099) == []
    assert ids(builder.due(1_100)) == [["request-0", "request-2"]]
    assert builder.due_ms == 1_600
    assert ids(builder.flush()) == [["request-1"]]


def test_the_key_is_the_first_known_of_the_events_key_fields() -> None:
    """The placement group where the agent knows it, else the host."""
    assert key_of(LLM_REQUESTS, {"placement_group": "group", "host": "host"}) == b"group"
    assert key_of(LLM_REQUESTS, {"placement_group": None, "host": "host"}) == b"host"
    assert key_of(LLM_REQUESTS, {"host": 7}) == b""


def test_an_event_that_does_not_fit_its_table_travels_apart() -> None:
    """It reaches the pipeline as JSON, to be rejected with its reason; its neighbours are not touched."""
    builder = BatchBuilder(LLM_REQUESTS, limits=LIMITS)
    rows = [request(0), request(1, ttft_us="fast"), request(2), request(3, itl_bins={1: {2, 3}})]
    for row in rows:
        builder.add(row, now_ms=0)

    batches = builder.flush()

    assert [(batch.content_type, batch.count) for batch in batches] == [
        (NATIVE, 1),
        (NDJSON, 1),
        (NATIVE, 1),
        (NDJSON, 1),
    ]
    assert orjson.loads(batches[1].value)["ttft_us"] == "fast"
    assert builder.oversized_events == 0
    with pytest.raises(RejectedError, match="wrong_type"):
        ndjson.decode(batches[1].value, LLM_REQUESTS.fields)


@pytest.mark.parametrize("depth", [300, 1_000])
def test_an_event_nested_deeper_than_can_be_written_travels_apart(depth: int) -> None:
    """It is rejected with its reason, as one that does not fit."""
    builder = BatchBuilder(LLM_REQUESTS, limits=LIMITS)
    builder.add(request(0, ttft_us=orjson.loads(b"[" * depth + b"]" * depth)), now_ms=0)

    (batch,) = builder.flush()

    assert orjson.loads(batch.value) == {"unreadable": "a value nested more than 100 deep"}


def test_an_event_no_record_can_hold_is_counted() -> None:
    """Others of its batch are not lost with it."""
    builder = BatchBuilder(LLM_REQUESTS, limits=BatchLimits(5, 2_500, 0))
    builder.add(request(0), now_ms=0)
    builder.add(request(1, request_id="x" * 5_000), now_ms=0)
    builder.add(request(2, request_id={"text": "x" * 5_000}), now_ms=0)

    assert ids(builder.flush()) == [["request-0"]]
    assert builder.oversized_events == 2


def test_a_block_with_an_oversized_event_is_refused_whole() -> None:
    """The producer of columns is our own code: it has to know."""
    block = block_from_rows(LLM_REQUESTS.fields, [request(0), request(1, request_id="x" * 5_000)])

    with pytest.raises(RejectedError, match="too_large"):
        batches_of(LLM_REQUESTS, b"", block, "native", BatchLimits(5, 2_000, 0))


def test_a_batch_says_what_it_holds() -> None:
    """Schema, format and key are what the record's headers will say."""
    rows = [{"at_ms": 1, "host": "h", "gpu_uuid": "GPU-1", "origin": "measured"}]
    block = block_from_rows(GPU_SAMPLES.fields, rows)

    (batch,) = batches_of(GPU_SAMPLES, b"h", block)

    assert batch == Batch("gpu.samples", "gpu.samples/1", NATIVE, b"h", 1, native.encode(GPU_SAMPLES.fields, block))
