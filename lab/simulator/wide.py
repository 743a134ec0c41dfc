"""A wide batch: the events of one kind of all hosts in one step, sorted by host, to be cut into one block per host.

Labels that follow from who emitted (an engine, a GPU) are kept once per *entity*; a host's block gets a dictionary of
its own words only, computed once per fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.select import select as block_select
from schemas.fields import Event, Field, Kind

Codes = npt.NDArray[np.uint16]
HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), "S2")


@dataclass(frozen=True, slots=True)
class EntityLabel:
    """A label of entities. ``words[codes[i]]`` is that of entity ``i`` in the fleet's dictionary, and
    ``host_words[h][host_codes[i]]`` the same in the dictionary of its host ``h``."""

    codes: Codes
    words: list[bytes | None]
    host_codes: npt.NDArray[np.uint8]
    host_words: list[list[bytes | None]]


def entity_label(values: Sequence[str | None], host_of: Sequence[int], hosts: int) -> EntityLabel:
    """The label of entities with these values, standing on these hosts."""
    words: dict[bytes | None, int] = {None: 0}
    host_words: list[dict[bytes | None, int]] = [{None: 0} for _ in range(hosts)]
    codes, host_codes = np.zeros(len(values), np.uint16), np.zeros(len(values), np.uint8)
    for index, (value, host) in enumerate(zip(values, host_of, strict=True)):
        word = None if value is None else value.encode()
        codes[index] = words.setdefault(word, len(words))
        host_codes[index] = host_words[host].setdefault(word, len(host_words[host]))
    return EntityLabel(codes, list(words), host_codes, [list(table) for table in host_words])


@dataclass(frozen=True, slots=True)
class Of:
    """A column whose label follows from the row's entity."""

    label: EntityLabel


WideColumn = Column | Of


@dataclass(frozen=True, slots=True)
class Wide:
    """Rows ``[ends[h-1], ends[h])`` are those of host ``h``; ``entity`` is who emitted each row."""

    topic: str
    entity: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    columns: dict[str, WideColumn]

    @property
    def rows(self) -> int:
        """Events of the step."""
        return len(self.entity)

    def blocks(self, rows_max: int) -> Iterator[tuple[int, Block]]:
        """``(host, block)`` of every host with events, each of at most ``rows_max`` rows, in order."""
        columns = {
            name: (column.label, column.label.host_codes[self.entity]) if isinstance(column, Of) else column
            for name, column in self.columns.items()
        }
        for host, first, last in self.records(rows_max):
            yield host, _cut(columns, host, first, last)

    def records(self, rows_max: int) -> Iterator[tuple[int, int, int]]:
        """Host, first row and end of every record."""
        begin = 0
        for host, end in enumerate(self.ends.tolist()):
            for first in range(begin, end, rows_max):
                yield host, first, min(end, first + rows_max)
            begin = end

    def fleet_labels(self, name: str) -> tuple[Codes, list[bytes | None]]:
        """Codes and words of a label column in the fleet's dictionary."""
        column = self.columns[name]
        if isinstance(column, Of):
            return column.label.codes[self.entity], column.label.words
        assert isinstance(column, Labels)
        return column.codes.astype(np.uint16), column.words


def select(wide: Wide, keep: npt.NDArray[np.bool_]) -> Wide:
    """The rows where ``keep`` holds, in order; the batch itself when that is all of them."""
    if keep.all():
        return wide
    own = Block(wide.rows, {name: column for name, column in wide.columns.items() if not isinstance(column, Of)})
    kept = block_select(own, keep).columns
    columns = {name: column if isinstance(column, Of) else kept[name] for name, column in wide.columns.items()}
    ends = np.concatenate([[0], np.cumsum(keep)])[wide.ends]
    return Wide(wide.topic, wide.entity[keep], ends, columns)


def _cut(columns: dict[str, Any], host: int, first: int, last: int) -> Block:
    block: dict[str, Column] = {}
    for name, column in columns.items():
        kind = type(column)
        if kind is Numbers:
            known = column.known
            block[name] = Numbers(column.values[first:last], None if known is None else known[first:last])
        elif kind is tuple:
            block[name] = Labels(column[1][first:last], column[0].host_words[host])
        elif kind is Labels:
            block[name] = Labels(column.codes[first:last], column.words)
        elif kind is Bins:
            base, end = _span(column.ends, first, last)
            block[name] = Bins(column.ends[first:last] - base, column.keys[base:end], column.counts[base:end])
        else:
            base, end = _span(column.ends, first, last)
            known = None if column.known is None else column.known[first:last]
            block[name] = Texts(column.data[base:end], column.ends[first:last] - base, known)
    return Block(last - first, block)


def _span(ends: npt.NDArray[np.int64], first: int, last: int) -> tuple[int, int]:
    return (int(ends[first - 1]) if first else 0), int(ends[last - 1])


def constant_label(word: str, rows: int) -> Labels:
    """A label that is the same in every row."""
    return Labels(np.ones(rows, np.uint8), [None, word.encode()])


def completed(event: Event, columns: dict[str, WideColumn], rows: int) -> dict[str, WideColumn]:
    """All fields of the event in wire order; null where there is no column."""
    return {field.name: columns.get(field.name) or _unknown(field, rows) for field in event.fields}


def _unknown(field: Field, rows: int) -> WideColumn:
    if field.kind is Kind.LABEL:
        return Labels(np.zeros(rows, np.uint8), [None])
    if field.kind is Kind.OPTIONAL_TEXT:
        return Texts(b"", np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
    assert field.kind.numpy, field.name
    return Numbers(np.zeros(rows, field.kind.numpy), np.zeros(rows, np.bool_))


def hex_texts(prefix: bytes, numbers: npt.NDArray[np.uint8]) -> Texts:
    """One text per row of bytes: the prefix and the bytes as hex digits."""
    rows, width = len(numbers), len(prefix) + 2 * numbers.shape[1]
    texts = np.empty((rows, width), np.uint8)
    texts[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    texts[:, len(prefix) :] = HEX[numbers].view(np.uint8).reshape(rows, 2 * numbers.shape[1])
    return Texts(texts.tobytes(), np.arange(1, rows + 1, dtype=np.int64) * width)


def optional(values: npt.NDArray[Any], known: npt.NDArray[np.bool_], dtype: str) -> Numbers:
    """A column of numbers with nulls where they are not known (0 stands there)."""
    return Numbers(np.where(known, values, 0).astype(dtype), known)


def number(values: npt.NDArray[Any], dtype: str) -> Numbers:
    """A column of numbers that are all known."""
    return Numbers(values.astype(dtype))
