"""How columns and parts of the tables that take the most rows are packed: raw events and partial rows.

Numbers of requests are nearly all small for their width: ``T64`` leaves out the bytes that a block of them does not
use, so that less is left for the general codec. With it an insert and a merge cost the server a fifth to a half less
than with ``ZSTD(1)`` alone; a raw request takes 4 % less room to 8 % more. Numbers of machines repeat from second to
second, which ``ZSTD`` alone packs best (a simulated GPU's sample 15 bytes, by ``T64`` 25): theirs stay as they were, as
do columns that rise in sort order, labels and texts. Sketches of rollups are packed by LZ4: charts of six hours read
most of a table's sketches, and unpacking ZSTD was three quarters of their time.

A part below ``WIDE_BYTES`` is one file instead of three for every column; what an insert makes is mostly that small,
what merges make soon is not. Columns of partial rows are merged one by one (``VERTICAL_ROWS``) also where rows are few:
these are wide. Merges make no sketches of every column's distinct values: they would serve plans of queries that ours
are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from schemas.ddl.columns import SETTINGS, Column
from schemas.fields import Kind

SKETCH = "Map(Int16, UInt64)"
WIDE_BYTES = 64 * 1024 * 1024
"""Of data before it is packed."""
VERTICAL_ROWS = 8_192
STEP_ROWS = 65_536
"""Taken at once from partial rows that merge, as far as they stay below 10 MiB."""
RAW_SETTINGS = f"{SETTINGS}, min_bytes_for_wide_part = {WIDE_BYTES}, auto_statistics_types = ''"
PARTIALS_SETTINGS = (
    f"{RAW_SETTINGS}, vertical_merge_algorithm_min_rows_to_activate = {VERTICAL_ROWS},"
    f" merge_max_block_size = {STEP_ROWS}"
)
_NUMBERS = frozenset(kind.value for kind in Kind if kind.numpy)


def of_requests(columns: Iterable[Column]) -> list[Column]:
    """Columns of requests, with the codecs of their numbers and sketches."""
    return [_packed(column) for column in columns]


def _packed(column: Column) -> Column:
    if column.type == SKETCH:
        return replace(column, codec="T64, ZSTD(1)")
    packs = column.type in _NUMBERS and column.codec == "ZSTD(1)"
    return replace(column, codec="T64, LZ4") if packs else column


def of_rollups(columns: Iterable[Column]) -> list[Column]:
    """Columns of a rollup, with the codec of sketches."""
    return [replace(column, codec="LZ4") if column.type == SKETCH else column for column in columns]
