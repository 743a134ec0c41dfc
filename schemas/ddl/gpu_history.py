"""One GPU over time: the minutes and hours of GPUs once more, sorted by GPU.

Rollups are sorted by time, as queries about the whole fleet need it: of ten thousand GPUs one has a row in every
block of them, and the signals of one over six hours meant unpacking all (1.8 s). The copies hold what a page of one GPU
shows, sorted by GPU, so that the same is one stretch. They are written by the insert into the rollup itself, with its
version: repeats and later computations replace rows here as they do there, nothing is added up.
"""

from __future__ import annotations

from schemas.ddl.columns import Column, codec_of, column_of, described, month, table
from schemas.ddl.merging import Measure, labels_of, measures_of, rollup_table
from schemas.events.event_types import BY_TOPIC
from schemas.rows.tables import PARTIALS

LEVELS = ("1m", "1h")
GPU = BY_TOPIC["gpu.samples"]
_ONLY_MAX = ("memory_total_bytes_max", "power_limit_mw_max", "temperature_c_max")


def table_of(level: str) -> str:
    """The table that a level of one GPU is read from: a copy where there is one."""
    if level in LEVELS:
        return f"gpu_history_{level}"
    return PARTIALS[GPU.topic].name if level == "10s" else rollup_table(GPU, level)


def measures() -> tuple[Measure, ...]:
    """What is copied of the measures: counts and sums, three upper ends, and the time of the last sample."""
    ends = ("_count", "_sum")
    return tuple(
        one
        for one in measures_of(GPU)
        if one.name.endswith(ends) or one.name in _ONLY_MAX or one.name in ("last_at_ms", "definition_version")
    )


def statements() -> list[str]:
    """The tables and what fills them."""
    return [*map(_table, LEVELS), *map(_filling, LEVELS)]


def _filling(level: str) -> str:
    return f"CREATE MATERIALIZED VIEW IF NOT EXISTS {table_of(level)}_copy TO {table_of(level)} AS\n{_copied(level)}"


def _columns() -> str:
    names = ["window_ms", "grouping", *(one.name for one in labels_of(GPU)), *(one.name for one in measures())]
    return ", ".join([*names, "version"])


def _copied(level: str) -> str:
    return f"SELECT {_columns()}\nFROM {rollup_table(GPU, level)}"


def _table(level: str) -> str:
    labels = [field for field in labels_of(GPU) if field.name != "gpu_uuid"]
    columns = [
        Column(
            "window_ms", "Int64", f"start of the {level} bucket, event time, UTC [ms]", codec_of("window_ms", "Int64")
        ),
        Column("grouping", "LowCardinality(String)", "name of the grouping set", "ZSTD(1)"),
        *(column_of(field, ()) for field in labels_of(GPU)),
        *(
            Column(one.name, one.type, described(one.meaning, one.unit), codec_of(one.name, one.type))
            for one in measures()
        ),
        Column("version", "UInt64", "partial rows behind this row; the greatest wins", "ZSTD(1)"),
    ]
    return table(
        table_of(level),
        columns,
        "ReplacingMergeTree(version)",
        f"grouping, gpu_uuid, window_ms, {', '.join(field.name for field in labels)}",
        f"{level} rows of gpu.samples sorted by GPU, a copy of part of their rollup; read with FINAL",
        partition=month("window_ms"),
    )
