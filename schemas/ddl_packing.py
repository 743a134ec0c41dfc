"""How columns and parts of the tables that take the most rows are packed: raw events and partial rows.

Numbers of requests are nearly all small for their width: ``T64`` leaves out the bytes that a block of them does not
use, so that less is left for the general codec. With it an insert and a merge cost the server a fifth to a half less
than with ``ZSTD(1)`` alone; a raw request takes 4 % less room to 8 % more. Numbers of machines repeat from second to
second, which ``ZSTD`` alone packs best (a simulated GPU's sample 15 bytes, by ``T64`` 25): theirs were put back
(``repeating``). Columns that rise in sort order, labels and texts stay as they were.

A part below ``WIDE_BYTES`` is one file instead of three for every column; what an insert makes is mostly that small,
what merges make soon is not. Columns of partial rows are merged one by one (``VERTICAL_ROWS``) also where rows are few:
these are wide. ``merges`` takes away what merges do for nobody: sketches of every column's distinct values, which would
serve plans of queries that ours are not, and steps of a few thousand rows.
"""

from __future__ import annotations

from schemas.ddl_columns import codec_of
from schemas.ddl_tables import SKETCH
from schemas.events import EVENTS, LLM_REQUESTS
from schemas.fields import Field, Kind
from schemas.stored import LANDED, RAW
from schemas.tables import GROUPED, PARTIALS, Table

WIDE_BYTES = 64 * 1024 * 1024
"""Of data before it is packed."""
VERTICAL_ROWS = 8_192
STEP_ROWS = 65_536
"""Taken at once from partial rows that merge, as far as they stay below 10 MiB."""
_NUMBERS, _SKETCHES = "T64, LZ4", "T64, ZSTD(1)"


def statements() -> list[str]:
    """What packs new parts so; parts that are there are packed anew when they merge."""
    raw, partials = _tables()
    wide, vertical = "min_bytes_for_wide_part", "vertical_merge_algorithm_min_rows_to_activate"
    return [
        *(_columns(table, _NUMBERS) for table in (*raw, *partials)),
        *(f"ALTER TABLE {table.name} MODIFY SETTING {wide} = {WIDE_BYTES}" for table in raw),
        *(
            f"ALTER TABLE {table.name} MODIFY SETTING {wide} = {WIDE_BYTES}, {vertical} = {VERTICAL_ROWS}"
            for table in partials
        ),
    ]


def repeating() -> list[str]:
    """Numbers of machines as they were packed before."""
    requests = (RAW[LLM_REQUESTS.topic], LANDED[PARTIALS[LLM_REQUESTS.topic].schema])
    raw, partials = _tables()
    return [_columns(table, "ZSTD(1)") for table in (*raw, *partials) if table not in requests]


def merges() -> list[str]:
    """What makes merges cheaper: a twentieth of raw events, a tenth to a third of partial rows."""
    raw, partials = _tables()
    no_statistics = "auto_statistics_types = ''"
    return [
        *(f"ALTER TABLE {table.name} MODIFY SETTING {no_statistics}" for table in raw),
        *(
            f"ALTER TABLE {table.name} MODIFY SETTING {no_statistics}, merge_max_block_size = {STEP_ROWS}"
            for table in partials
        ),
    ]


def _tables() -> tuple[list[Table], list[Table]]:
    """Raw and partials."""
    return [RAW[event.topic] for event in EVENTS], [LANDED[PARTIALS[event.topic].schema] for event in GROUPED]


def _columns(table: Table, numbers: str) -> str:
    packed = [f"MODIFY COLUMN {one.name} CODEC({codec})" for one in table.fields if (codec := _codec(one, numbers))]
    return f"ALTER TABLE {table.name} " + ", ".join(packed)


def _codec(field: Field, numbers: str) -> str:
    """The codec of a number or sketch; empty for what stays as it was."""
    kind: Kind = field.kind
    if kind.value == SKETCH:
        return _SKETCHES
    return numbers if kind.numpy and codec_of(field.name, kind.value) == "ZSTD(1)" else ""
