"""Batches of events: one record's worth of one event type and one key, encoded once.

A batch is cut when it holds ``events_max`` events, when its oldest event has waited ``linger_ms``, or when the caller
asks; one whose bytes exceed ``bytes_max`` is halved. Events that do not fit their own field table (a text where a
number belongs) travel apart, as JSON lines: the pipeline rejects them with a reason into the dead-letter topic,
and no other events are lost. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import orjson

from schemas.codec import json_columns, native, ndjson
from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.build import block_from_rows
from schemas.codec.values import is_deep, shown
from schemas.contract import headers
from schemas.contract.placement import first_known
from schemas.errors import RejectedError
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Event, Field
from schemas.limits import DEFAULT_LIMITS, Limits

Format = Literal["native", "ndjson", "columns"]
Row = Mapping[str, Any]

_ENCODE: Mapping[str, tuple[str, Callable[[Sequence[Field], Block], bytes]]] = MappingProxyType(
    {
        "native": (headers.NATIVE, native.encode),
        "ndjson": (headers.NDJSON, ndjson.encode),
        "columns": (headers.JSON_COLUMNS, json_columns.encode),
    }
)
_EXPECTED_EVENT_BYTES = 256
"""A guess that only decides how often a large block is encoded twice."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The value of one record and what its headers and key say. ``count`` events, at least one."""

    topic: str
    schema: str
    content_type: str
    key: bytes
    count: int
    value: bytes


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """``events_max`` events, ``bytes_max`` bytes a batch; an event waits at most ``linger_ms`` for company."""

    events_max: int
    bytes_max: int
    linger_ms: int

    @classmethod
    def of(cls, limits: Limits = DEFAULT_LIMITS) -> BatchLimits:
        """The part of the table of limits that batches keep to."""
        return cls(limits.batch_events_max, limits.record_bytes_max, limits.edge_linger_ms)


def key_of(event: Event, row: Row) -> bytes:
    """The record key of an event: the first of its key fields that is known."""
    return first_known(_text(row.get(name)) for name in event.key)


def _text(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else None


def batches_of(
    event: Event, key: bytes, block: Block, format: Format = "native", limits: BatchLimits | None = None
) -> list[Batch]:
    """The block as batches within the limits, in order. Raises ``RejectedError('too_large')`` when a single event
    exceeds ``bytes_max``; nothing is returned then."""
    limits = limits or BatchLimits.of()
    content_type, encode = _ENCODE[format]
    out: list[Batch] = []
    waiting = [(at, min(at + limits.events_max, block.rows)) for at in range(0, block.rows, limits.events_max)]
    waiting.reverse()
    while waiting:
        start, end = waiting.pop()
        whole = start == 0 and end == block.rows
        if (end - start) * _EXPECTED_EVENT_BYTES <= limits.bytes_max or end - start == 1:
            value = encode(event.fields, block if whole else slice_block(block, start, end))
            if len(value) <= limits.bytes_max:
                out.append(Batch(event.topic, event.schema, content_type, key, end - start, value))
                continue
            if end - start == 1:
                raise RejectedError("too_large", f"one event of {len(value)} bytes; at most {limits.bytes_max}")
        middle = (start + end) // 2
        waiting += [(middle, end), (start, middle)]
    return out


def parts_of(topic: str, key: bytes, batch: Batch | Block, limits: BatchLimits) -> Sequence[Batch]:
    """The batch, or those that a block of this topic is cut into; ``RejectedError`` as ``batches_of``."""
    if isinstance(batch, Batch):
        assert batch.topic == topic, "a batch of another topic"
        return (batch,)
    return batches_of(BY_TOPIC[topic], key, batch, limits=limits)


def slice_block(block: Block, start: int, end: int) -> Block:
    """Rows ``[start, end)`` of the block; numbers are views, larger dictionaries are cut to its words."""
    return Block(end - start, {name: _slice(column, start, end) for name, column in block.columns.items()})


def _slice(column: Column, start: int, end: int) -> Column:
    if isinstance(column, Numbers):
        return Numbers(column.values[start:end], None if column.known is None else column.known[start:end])
    if isinstance(column, Labels):
        return _slice_labels(column, start, end)
    begin = int(column.ends[start - 1]) if start else 0
    stop = int(column.ends[end - 1]) if end else 0
    ends = column.ends[start:end] - np.int64(begin)
    if isinstance(column, Bins):
        return Bins(ends, column.keys[begin:stop], column.counts[begin:stop])
    assert isinstance(column, Texts), "no event holds lists"
    return Texts(column.data[begin:stop], ends, None if column.known is None else column.known[start:end])


def _slice_labels(column: Labels, start: int, end: int) -> Labels:
    codes = column.codes[start:end]
    if len(column.words) <= end - start + 1:
        return Labels(codes, column.words)
    used, inverse = np.unique(np.append(codes, 0), return_inverse=True)  # word 0, null, comes first
    return Labels(inverse[:-1].astype(codes.dtype), [column.words[code] for code in used.tolist()])


class BatchBuilder:
    """Collects single events of one type and cuts batches by key.

    ``oversized_events`` counts events that no record could hold; the caller declares them shed.
    """

    def __init__(self, event: Event, format: Format = "native", limits: BatchLimits | None = None) -> None:
        self._event = event
        self._format: Format = format
        self._limits = limits or BatchLimits.of()
        self._waiting: dict[bytes, list[Row]] = {}
        self._since_ms: dict[bytes, float] = {}
        self.oversized_events = 0

    @property
    def due_ms(self) -> float | None:
        """When ``due`` has something to cut, on the clock of ``now_ms``; None while nothing waits."""
        first = next(iter(self._since_ms.values()), None)  # keys stand in order of their oldest event
        return None if first is None else first + self._limits.linger_ms

    def add(self, row: Row, now_ms: float) -> list[Batch]:
        """Take one event; the batches that are full now. ``now_ms`` never goes back: use monotonic time."""
        key = key_of(self._event, row)
        rows = self._waiting.get(key)
        if rows is None:
            rows = self._waiting[key] = []
            self._since_ms[key] = now_ms
        rows.append(row)
        return self._cut(key) if len(rows) >= self._limits.events_max else []

    def due(self, now_ms: float) -> list[Batch]:
        """The batches whose oldest event has waited long enough."""
        ripe = [key for key, since in self._since_ms.items() if since + self._limits.linger_ms <= now_ms]
        return [batch for key in ripe for batch in self._cut(key)]

    def flush(self) -> list[Batch]:
        """Everything that waits, as batches."""
        return [batch for key in list(self._waiting) for batch in self._cut(key)]

    def _cut(self, key: bytes) -> list[Batch]:
        del self._since_ms[key]
        return list(self._encode(key, self._waiting.pop(key)))

    def _encode(self, key: bytes, rows: list[Row]) -> Iterator[Batch]:
        """Batches of the rows; halves until what does not fit, or is too large, stands alone."""
        try:
            block = block_from_rows(self._event.fields, rows)
            yield from batches_of(self._event, key, block, self._format, self._limits)
            return
        except RejectedError as error:
            refused = error
        if len(rows) > 1:
            middle = len(rows) // 2
            yield from self._encode(key, rows[:middle])
            yield from self._encode(key, rows[middle:])
        elif refused.reason != "too_large" and len(line := _line(rows[0])) <= self._limits.bytes_max:
            yield Batch(self._event.topic, self._event.schema, headers.NDJSON, key, 1, line)
        else:
            self.oversized_events += 1


def _line(row: Row) -> bytes:
    """The row as a line of JSON, with ``repr`` of what JSON has no word for; ``shown`` where it is nested deep."""
    options, row = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY, dict(row)
    try:
        return orjson.dumps(row, default=repr, option=options)
    except orjson.JSONEncodeError:
        return orjson.dumps({"unreadable": shown(row) if is_deep(row) else repr(row)}, option=options)
