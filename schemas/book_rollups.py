"""Books by minute, hour and day: what became of events, without who sent them.

Ten thousand GPUs write some 60,000 lines of books a minute, one for each sender, topic and commit; summed by job, topic
and verdict a minute is some 50 rows. Buckets are computed whole, as those of events are (``merging``), from the lines
by the time of their commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.ddl_columns import Column, codec_of, create
from schemas.limits import DAY_MS, SECOND_MS, Limits
from schemas.merging import LEVELS, Level, noted, ranges
from schemas.tables import BOOKS

_LABELS = (
    ("job", "LowCardinality(String)", "who committed", "b.job"),
    ("topic", "LowCardinality(String)", "source topic", "b.topic"),
    ("verdict", "UInt64", "schemas.verdicts.Verdict", "b.verdict"),
    ("identified", "UInt8", "1 where the sender has an identity", "b.source IS NOT NULL"),
)
_SUMS = (
    ("records", "UInt64", "records with an event of this verdict", "sum(b.records)", "sum(b.records)"),
    ("events", "UInt64", "events of this verdict", "sum(b.events)", "sum(b.events)"),
    ("last_commit_ms", "Int64", "wall clock of the latest commit [ms]", "max(b.committed_ms)", "max(b.last_commit_ms)"),
    ("version", "UInt64", "lines behind this row; the greatest wins", "count()", "sum(b.version)"),
)


def table_of(level: str) -> str:
    """Name of the table of a level."""
    return f"{BOOKS.name}_rollup_{level}"


def tables(limits: Limits) -> list[str]:
    """The tables of all levels."""
    return [_table(level, limits) for level in LEVELS]


def _table(level: Level, limits: Limits) -> str:
    columns = [Column("window_ms", "Int64", f"start of the {level.name} bucket [ms]", codec_of("window_ms", "Int64"))]
    named = [(name, kind, meaning) for name, kind, meaning, *_ in (*_LABELS, *_SUMS)]
    columns += [Column(name, kind, meaning, "ZSTD(1)") for name, kind, meaning in named]
    behind = (
        "ENGINE = ReplacingMergeTree(version)\n"
        "PARTITION BY toYYYYMM(toDateTime(intDiv(window_ms, 1000), 'UTC'))\n"
        f"ORDER BY (window_ms, {', '.join(name for name, *_ in _LABELS)})\n"
        f"TTL toDateTime(intDiv(window_ms, 1000)) + INTERVAL {limits.rollup_ttl_ms // SECOND_MS} SECOND\n"
        "SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0"
    )
    comment = f"{level.name} rows of books by commit, computed whole from the {level.below or 'lines'}; read with FINAL"
    return create("CREATE TABLE IF NOT EXISTS", table_of(level.name), columns, behind, comment)


def by_time() -> str:
    """An index by time for the lines, which are sorted by offset: those of a minute are found without reading a day."""
    return f"ALTER TABLE {BOOKS.name} ADD INDEX IF NOT EXISTS by_time committed_ms TYPE minmax GRANULARITY 1"


def note_before() -> str:
    """Notes of what was there before the tables: the lines of a day. The sink computes them when it has time."""
    return noted(BOOKS.name, BOOKS.name, "committed_ms", DAY_MS)


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
