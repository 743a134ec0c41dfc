"""Books by minute, hour and day: what became of events, without who sent them.

Ten thousand GPUs write some 60,000 lines of books a minute, one for each sender, topic and commit; summed by job, topic
and verdict a minute is some 50 rows. Buckets are computed whole, as those of events are (``merging``), from the lines
by the time of their commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.ddl.columns import Column, codec_of, month, table
from schemas.ddl.merging import LEVELS, Level, ranges
from schemas.rows.tables import BOOKS

_LABELS = (
    ("job", "LowCardinality(String)", "who committed", "b.job"),
    ("topic", "LowCardinality(String)", "source topic", "b.topic"),
    ("verdict", "UInt64", "0 accepted, 1 late, 2 future, 3 rejected, 4 duplicate", "b.verdict"),
    ("identified", "UInt8", "1 where the sender has an identity", "b.source IS NOT NULL"),
)
_SUMS = (
    ("records", "UInt64", "records with an event of this verdict", "sum(b.records)", "sum(b.records)"),
    ("events", "UInt64", "events of this verdict", "sum(b.events)", "sum(b.events)"),
    ("last_commit_ms", "Int64", "wall clock of the latest commit [ms]", "max(b.committed_ms)", "max(b.last_commit_ms)"),
    ("version", "UInt64", "lines behind this row; the greatest wins", "count()", "sum(b.version)"),
)
COLUMNS = tuple(name for name, *_ in (*_LABELS, *_SUMS))


def table_of(level: str) -> str:
    """Name of the table of a level."""
    return f"{BOOKS.name}_rollup_{level}"


def tables() -> list[str]:
    """The tables of all levels."""
    return [_table(level) for level in LEVELS]


def _table(level: Level) -> str:
    columns = [Column("window_ms", "Int64", f"start of the {level.name} bucket [ms]", codec_of("window_ms", "Int64"))]
    named = [(name, kind, meaning) for name, kind, meaning, *_ in (*_LABELS, *_SUMS)]
    columns += [Column(name, kind, meaning, "ZSTD(1)") for name, kind, meaning in named]
    return table(
        table_of(level.name),
        columns,
        "ReplacingMergeTree(version)",
        f"window_ms, {', '.join(name for name, *_ in _LABELS)}",
        f"{level.name} rows of books by commit, computed whole from the {level.below or 'lines'}; read with FINAL",
        partition=month("window_ms"),
        settings="ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0",
    )


def insert(level: Level, buckets: Sequence[int]) -> str:
    """The statement that computes whole buckets again and replaces their rows. Lines only come, never go: a row that
    was there once is there in every later computation."""
    lines = level.below is None
    time = "b.committed_ms" if lines else "b.window_ms"
    labels = [(name, sql if lines else f"b.{name}") for name, _, _, sql in _LABELS]
    sums = [(name, of_lines if lines else of_rows) for name, _, _, of_lines, of_rows in _SUMS]
    picked = [f"intDiv({time}, {level.bucket_ms}) * {level.bucket_ms} AS bucket_ms"]
    picked += [f"{sql} AS of_{name}" for name, sql in labels] + [sql for _, sql in sums]
    columns = ["window_ms", *(name for name, _ in (*labels, *sums))]
    source = BOOKS.name if level.below is None else table_of(level.below)
    return (
        f"INSERT INTO {table_of(level.name)} ({', '.join(columns)})\n"
        f"SELECT {', '.join(picked)}\nFROM {source} AS b FINAL\nWHERE {ranges(time, level, buckets)}\n"
        f"GROUP BY bucket_ms, {', '.join(f'of_{name}' for name, _ in labels)}"
    )
