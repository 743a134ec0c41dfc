"""Rows of many partials records at once, by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from schemas.codec import native, native_walk, native_words
from schemas.codec.block import Block
from schemas.codec.select import select
from schemas.contract.record import Record
from schemas.errors import ContractError, RejectedError
from schemas.rows.tables import BY_TABLE_SCHEMA, Table
from stream_jobs.finals.upstream import TABLES

_TIME_BITS = 44
"""Enough for times until the year 2527."""
_TEXT_BYTES_ANY = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of records of one schema: ``record_of`` and ``windows`` (ms) per row."""

    table: Table
    block: Block
    record_of: npt.NDArray[np.int64]
    windows: npt.NDArray[np.int64]

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """(record, window in ms, rows) of every record and window that has rows, rising."""
        keys, counts = np.unique(self.record_of << _TIME_BITS | self.windows, return_counts=True)
        records, windows = keys >> _TIME_BITS, keys & (1 << _TIME_BITS) - 1
        yield from zip(records.tolist(), windows.tolist(), counts.tolist(), strict=True)

    def of(self, window_ms: int, dropped: Sequence[int]) -> Block:
        """The rows of a window but for those of the records ``dropped``."""
        keep = self.windows == window_ms
        if dropped:
            keep &= ~np.isin(self.record_of, dropped)
        return select(self.block, keep)


def decode(records: Sequence[Record], schemas: Sequence[str], tables: Mapping[str, Table] = TABLES) -> list[Decoded]:
    """The rows of all records of these tables, by schema (one per record) in the order in which these first come.
    Raises ``ContractError`` for a value that is no block of its schema."""
    groups: dict[str, list[int]] = {}
    for number, (record, schema) in enumerate(zip(records, schemas, strict=True)):
        if record.value and schema in tables:  # without a value: progress alone
            groups.setdefault(schema, []).append(number)
    found = [_decoded(tables[schema], records, numbers) for schema, numbers in groups.items()]
    return [decoded for decoded in found if decoded is not None]


def _decoded(table: Table, records: Sequence[Record], numbers: list[int]) -> Decoded | None:
    values = [records[number].value or b"" for number in numbers]
    measured = native_walk.measure(table.fields, values)
    if (measured.rows < 0).any():
        canonical = zip(numbers, values, (measured.rows < 0).tolist(), strict=True)
        values = [_again(table, records[number]) if is_strange else value for number, value, is_strange in canonical]
        measured = native_walk.measure(table.fields, values)
    if not (measured.rows > 0).any():
        return None
    filled = native_walk.fill(measured, _dictionaries(table.schema), _TEXT_BYTES_ANY)
    windows = filled.block.numbers("window_ms").values
    return Decoded(table, filled.block, np.array(numbers, np.int64)[filled.record_of], windows)


def _again(table: Table, record: Record) -> bytes:
    """The record's rows as we would write them: columns may come in another order or be more than we know."""
    try:
        return native.encode(table.fields, native.decode(record.value or b"", table.fields))
    except RejectedError as error:
        raise ContractError(f"{record.where} cannot be read as {table.schema}: {error}") from error


@lru_cache(maxsize=64)
def _dictionaries(schema: str) -> native_words.Dictionaries:
    return native_words.Dictionaries(BY_TABLE_SCHEMA[schema].fields, native_words.any_word)
