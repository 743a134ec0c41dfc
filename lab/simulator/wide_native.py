"""A wide batch as the Native values of all its records: columns are encoded once and cut by record.

A step of 1,250 hosts is 2,500 records of some thirty columns. The bytes are those of ``schemas.codec.native.encode``
for each record's block, which alone would cost several times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lab.simulator.wide import EntityLabel, Of, Wide, WideColumn
from schemas.codec import native
from schemas.codec.block import Bins, Block, Labels, Numbers, Texts
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Field

Cut = Callable[[int, int, int], bytes]
"""What a column writes into a record of ``host`` with the rows [first, last)."""
_DICTIONARY = (1).to_bytes(8, "little") + (0x600).to_bytes(8, "little")


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one record: ``rows`` events of a host."""

    host: int
    rows: int
    value: bytes


class WideEncoder:
    """Encodes wide batches of one fleet; keeps the serialised dictionaries of its labels."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[EntityLabel, list[list[bytes]]]] = {}

    def encode(self, wide: Wide, rows_max: int) -> list[Value]:
        """The values of all records, each of at most ``rows_max`` events of one host, in order."""
        fields = BY_TOPIC[wide.topic].fields
        cuts = [self._cut(field, wide.columns[field.name], wide) for field in fields]
        head = native.varint(len(fields))
        return [
            Value(host, b - a, b"".join([head, native.varint(b - a), *(cut(host, a, b) for cut in cuts)]))
            for host, a, b in wide.records(rows_max)
        ]

    def _cut(self, field: Field, column: WideColumn, wide: Wide) -> Cut:
        if isinstance(column, Of):
            codes = column.label.host_codes[wide.entity]
            return _labels(native.column_prefix(field), codes, self._dictionaries(column.label))
        if isinstance(column, Labels):
            return _labels(native.column_prefix(field), column.codes, [_serialised(column.words)] * len(wide.ends))
        _, _, *pieces = native.pieces((field,), Block(wide.rows, {field.name: column}))
        prefix, *data = map(bytes, pieces)
        if isinstance(column, Numbers):
            return _numbers(prefix, data, wide.rows)
        return _bins(prefix, data, column) if isinstance(column, Bins) else _texts(prefix, data, column)

    def _dictionaries(self, label: EntityLabel) -> list[list[bytes]]:
        kept = self._kept.get(id(label))
        if kept is None:
            kept = self._kept[id(label)] = (label, [_serialised(words) for words in label.host_words])
        return kept[1]


def _serialised(words: Sequence[bytes | None]) -> list[bytes]:
    assert len(words) <= 256, "a code is one byte"
    return [native.varint(len(word or b"")) + (word or b"") for word in words]


def _numbers(prefix: bytes, data: list[bytes], rows: int) -> Cut:
    """Values, and where they may be unknown a byte for each before them."""
    values, width = data[-1], len(data[-1]) // max(rows, 1)
    if len(data) == 1:
        return lambda host, a, b: prefix + values[a * width : b * width]
    unknown = data[0]
    return lambda host, a, b: prefix + unknown[a:b] + values[a * width : b * width]


def _labels(prefix: bytes, codes: npt.NDArray[np.integer], dictionaries: list[list[bytes]]) -> Cut:
    """Dictionary and codes; a dictionary of more words than rows (and null) holds the words in use only."""
    every, head = codes.astype(np.uint8).tobytes(), prefix + _DICTIONARY
    whole = [head + _u64(len(words)) + b"".join(words) for words in dictionaries]

    def cut(host: int, a: int, b: int) -> bytes:
        own, words = every[a:b], dictionaries[host]
        if len(words) <= b - a + 1:
            return whole[host] + _u64(b - a) + own
        used = sorted({0, *own})
        own = own.translate(bytes.maketrans(bytes(used), bytes(range(len(used)))))
        return head + _u64(len(used)) + b"".join([words[code] for code in used]) + _u64(b - a) + own

    return cut


def _bins(prefix: bytes, data: list[bytes], column: Bins) -> Cut:
    keys, counts, ends = data[1], data[2], [0, *column.ends.tolist()]

    def cut(host: int, a: int, b: int) -> bytes:
        low, high = ends[a], ends[b]
        own = (column.ends[a:b] - low).astype("<i8").tobytes()
        return prefix + own + keys[2 * low : 2 * high] + counts[8 * low : 8 * high]

    return cut


def _texts(prefix: bytes, data: list[bytes], column: WideColumn) -> Cut:
    assert isinstance(column, Texts)
    lengths = np.diff(column.ends, prepend=0)
    texts, ends = data[-1], [0, *np.cumsum(lengths + 1 + (lengths >= 1 << 7) + (lengths >= 1 << 14)).tolist()]
    unknown = data[0] if len(data) == 2 else None
    if unknown is None:
        return lambda host, a, b: prefix + texts[ends[a] : ends[b]]
    return lambda host, a, b: prefix + unknown[a:b] + texts[ends[a] : ends[b]]


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
