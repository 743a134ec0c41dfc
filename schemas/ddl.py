"""ClickHouse tables, views and functions, made from the field tables.

The numbered files in ``schemas/migrations`` hold what this module makes; a test keeps both equal.

Every table is a ReplacingMergeTree whose sorting key holds the row's identity, read with FINAL behind views:

- partial, books and rejected rows: where they stood in the log (log id, partition, offset, row);
- raw rows: the edge's own identity (source, boot, seq, row), or the log position where there is none;
- rollup rows: window, grouping set and series; the version is the number of partial rows behind a row.

Partitions are functions of identity or window alone. Raw tables have none: an event's time is the sender's word, and
a sender with a wrong clock must not be able to open a thousand partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.events import EVENTS
from schemas.fields import Event, Field, Kind, Role
from schemas.grouping import derived_of, sets_of
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, MINUTE_MS
from schemas.tables import BOOKS, PARTIALS, PRODUCER_BOOKS, REJECTED, Table

DAY_MS = 24 * HOUR_MS
FOLDER = Path(__file__).with_name("migrations")
LEVELS = {"1m": MINUTE_MS, "1h": HOUR_MS}
"""Rollup levels: suffix and width of a bucket in ms."""


def _identity(*fields: tuple[str, Kind, str]) -> tuple[Field, ...]:
    return tuple(Field(name, kind, Role.ATTRIBUTE, "", meaning) for name, kind, meaning in fields)


POSITION = _identity(
    ("log_id", Kind.LABEL, "random id of the log (topic) the row was read from"),
    ("log_partition", Kind.UINT32, "partition of the log"),
    ("log_offset", Kind.UINT64, "offset of the record in the partition"),
    ("log_row", Kind.UINT32, "row in the record's block"),
)
"""Identity of rows of derived topics."""

EDGE = _identity(
    ("source", Kind.LABEL, "spool id of the sender; log-ID for records without identity"),
    ("boot", Kind.UINT64, "boot of the sender; the log's partition for records without identity"),
    ("seq", Kind.UINT64, "number of the record in the boot; its offset for records without identity"),
    ("row", Kind.UINT32, "row in the record's batch"),
    ("appended_ms", Kind.INT64, "append time of the record, ms since the epoch, UTC"),
    ("verdict", Kind.UINT32, "0 accepted, 1 late, 2 future (schemas.verdicts)"),
)
"""Identity of raw rows, and what the pipeline said of them."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file: statements that are applied once, in order."""

    number: int
    name: str
    statements: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Such as ``0001_raw.sql``."""
        return f"{self.number:04d}_{self.name}.sql"

    @property
    def text(self) -> str:
        """The file: statements separated by a semicolon and an empty line."""
        return ";\n\n".join(self.statements) + ";\n"


def raw_table(event: Event) -> str:
    """Name of the raw table of an event type: ``llm.requests`` -> ``llm_requests``."""
    return event.topic.replace(".", "_")


def rollup_table(topic: str, level: str) -> str:
    """Name of a rollup table, such as ``llm_requests_rollup_1m``."""
    return f"{topic.replace('.', '_')}_rollup_{level}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _column(field: Field, key: Sequence[str]) -> str:
    unit = f" [{field.unit}]" if field.unit else ""
    source = f" ({field.source})" if field.source else ""
    return f"    `{field.name}` {_type(field, key)}{_codec(field)} COMMENT {_quoted(field.meaning + unit + source)}"


def _type(field: Field, key: Sequence[str]) -> str:
    """As on the wire, but a label in a sorting key is never null."""
    if field.kind is Kind.LABEL and field.name in key:
        return "LowCardinality(String)"
    return field.kind.value


def _codec(field: Field) -> str:
    if field.name in ("at_ms", "window_ms", "appended_ms", "last_at_ms", "log_offset", "seq"):
        return " CODEC(Delta, ZSTD(1))"
    return " CODEC(ZSTD(1))"


def create_table(
    name: str,
    fields: Iterable[Field],
    *,
    order_by: Sequence[str],
    partition_by: str,
    version: str,
    ttl: str,
    comment: str,
) -> str:
    """A CREATE TABLE statement with a comment on every column."""
    columns = ",\n".join(_column(field, order_by) for field in fields)
    return (
        f"CREATE TABLE IF NOT EXISTS {name}\n(\n{columns}\n)\nENGINE = ReplacingMergeTree({version})\n"
        + (f"PARTITION BY {partition_by}\n" if partition_by else "")
        + f"ORDER BY ({', '.join(order_by)})\n"
        + (f"TTL {ttl}\n" if ttl else "")
        + f"COMMENT {_quoted(comment)}"
    )


def _expires(column: str, ttl_ms: int) -> str:
    return f"toDateTime(intDiv({column}, 1000), 'UTC') + INTERVAL {ttl_ms // 1000} SECOND"


def _raw(event: Event) -> str:
    return create_table(
        raw_table(event),
        (*event.fields, *EDGE),
        order_by=("at_ms", "source", "boot", "seq", "row"),
        partition_by="",
        version="",
        ttl=_expires("appended_ms", DEFAULT_LIMITS.raw_ttl_ms),
        comment=f"{event.meaning}; one row per event; read with FINAL",
    )


def _derived(table: Table, *, order_by: Sequence[str], partition_by: str, ttl_column: str, ttl_ms: int) -> str:
    return create_table(
        table.name,
        (*table.fields, *POSITION),
        order_by=(*order_by, "log_id", "log_partition", "log_offset", "log_row"),
        partition_by=partition_by,
        version="",
        ttl=_expires(ttl_column, ttl_ms),
        comment=f"{table.meaning}; read with FINAL",
    )


_VERSION = Field("version", Kind.UINT64, Role.ATTRIBUTE, "", "partial rows behind this row; the greatest counts")
_SERIES = Field("series", Kind.UINT64, Role.ATTRIBUTE, "", "hash of the dimensions")


def rollup_fields(topic: str) -> tuple[Field, ...]:
    """Columns of a rollup table: those of the partials, the series' hash and the version."""
    return (*PARTIALS[topic].fields, _SERIES, _VERSION)


def _rollup(topic: str, level: str) -> str:
    return create_table(
        rollup_table(topic, level),
        rollup_fields(topic),
        order_by=("grouping", "window_ms", "series"),
        partition_by=f"intDiv(window_ms, {30 * DAY_MS})",
        version="version",
        ttl=_expires("window_ms", DEFAULT_LIMITS.rollup_ttl_ms),
        comment=f"{PARTIALS[topic].name} merged to {level}; replaced by key, never added to; read with FINAL",
    )


def dimensions_of(topic: str) -> tuple[str, ...]:
    """All dimensions of a partials table, derived ones included."""
    fields = [field.name for event in EVENTS if event.topic == topic for field in event.of(Role.DIMENSION)]
    return (*fields, *(derived.name for derived in derived_of(topic)))


def merged_columns(topic: str) -> list[tuple[str, str]]:
    """(name, expression) of every measure of a partials table merged over rows of alias ``p``."""
    columns = []
    for field in PARTIALS[topic].fields:
        merged = _merge(field)
        if merged:
            columns.append((field.name, merged))
    return columns


def _merge(field: Field) -> str:
    name = field.name
    if field.role is Role.SKETCH_BINS:
        return f"sumMap(p.{name})"
    if name.endswith("_min"):
        return f"min(p.{name})"
    if name.endswith("_max") or name in ("last_at_ms", "definition_version"):
        return f"max(p.{name})"
    if name.endswith("_last"):
        return f"argMax(p.{name}, (p.last_at_ms, p.{name}))"
    if name.endswith(("_sum", "_count")):
        return f"sum(p.{name})"
    return ""


VIEWS = {
    "request_windows": "service",
    "engine_request_windows": "engine",
    "gpu_windows": "gpu",
    "gpu_event_windows": "gpu_event",
    "host_windows": "host",
    "engine_windows": "engine_sample",
}
"""View name by grouping set; the minute and hour views add ``_1m`` and ``_1h``."""
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def _view(name: str, grouping: str, topic: str, table: str, width_ms: int) -> str:
    dimensions = next(found.dimensions for found in sets_of(topic) if found.name == grouping)
    keys = ", ".join(f"p.{key}" for key in ("window_ms", *dimensions))
    measures = ",\n        ".join(f"{merged} AS {column}" for column, merged in merged_columns(topic))
    bins = [field.name for field in PARTIALS[topic].fields if field.role is Role.SKETCH_BINS]
    quantiles = "".join(
        f",\n    fp_quantile({q}, {column}) AS {column.removesuffix('_bins')}_{label}"
        for column in bins
        for label, q in _QUANTILES.items()
    )
    return (
        f"CREATE OR REPLACE VIEW {name} AS\nSELECT\n"
        f"    fromUnixTimestamp64Milli(window_ms, 'UTC') AS window,\n    *{quantiles}\n"
        f"FROM\n(\n    SELECT\n        {keys},\n        {measures}\n    FROM {table} AS p FINAL\n"
        f"    WHERE p.grouping = '{grouping}'\n    GROUP BY {keys}\n)\n"
        f"COMMENT {_quoted(f'windows of {width_ms // 1000} s by the dimensions of grouping set {grouping}')}"
    )


_FUNCTIONS = (
    "CREATE OR REPLACE FUNCTION fp_bin_value AS (bin) -> if(bin = -1, 0., 2 * pow(2, bin / 32) / (pow(2, 1 / 32) + 1))",
    "CREATE OR REPLACE FUNCTION fp_quantile AS (q, bins) ->"
    " if(empty(bins), NULL, fp_bin_value(mapKeys(bins)[arrayFirstIndex("
    "seen -> seen > floor(q * (arraySum(mapValues(bins)) - 1)), arrayCumSum(mapValues(bins)))]))",
    "CREATE OR REPLACE FUNCTION fp_quantiles AS (qs, bins) -> arrayMap(one -> fp_quantile(one, bins), qs)",
)

_FLEET_NOW = """CREATE OR REPLACE VIEW fleet_now AS
SELECT
    gpu_uuid,
    argMax(cluster, window_ms) AS cluster,
    argMax(region, window_ms) AS region,
    argMax(host, window_ms) AS host,
    argMax(gpu_model, window_ms) AS gpu_model,
    argMax(engine_id, window_ms) AS engine_id,
    argMax(workload, window_ms) AS workload,
    fromUnixTimestamp64Milli(max(last_at_ms), 'UTC') AS last_seen,
    argMax(util_gpu_pct_last, window_ms) AS util_gpu_pct,
    argMax(memory_used_bytes_last, window_ms) AS memory_used_bytes,
    argMax(memory_total_bytes_last, window_ms) AS memory_total_bytes,
    argMax(power_mw_last, window_ms) AS power_mw,
    argMax(temperature_c_last, window_ms) AS temperature_c
FROM gpu_windows
WHERE window_ms >= toUnixTimestamp64Milli(now64(3)) - 300000
GROUP BY gpu_uuid
COMMENT 'latest state of every GPU seen within five minutes'"""

_DIRTY = """CREATE TABLE IF NOT EXISTS dirty_windows
(
    `level` LowCardinality(String) COMMENT 'rollup level, such as 1m',
    `topic` LowCardinality(String) COMMENT 'source topic of the partial rows',
    `bucket_ms` Int64 COMMENT 'start of the bucket whose partial rows changed',
    `noted_ms` Int64 COMMENT 'when the sink noted it (wall clock)'
)
ENGINE = ReplacingMergeTree(noted_ms)
ORDER BY (level, topic, bucket_ms)
TTL toDateTime(intDiv(noted_ms, 1000), 'UTC') + INTERVAL 40 DAY
COMMENT 'buckets to roll up again; noted before the sink commits'"""

_ROLLED = """CREATE TABLE IF NOT EXISTS rolled_windows
(
    `level` LowCardinality(String) COMMENT 'rollup level',
    `topic` LowCardinality(String) COMMENT 'source topic of the partial rows',
    `bucket_ms` Int64 COMMENT 'start of the bucket',
    `partial_rows` UInt64 COMMENT 'partial rows the rollup was made of; only grows'
)
ENGINE = ReplacingMergeTree(partial_rows)
ORDER BY (level, topic, bucket_ms)
TTL toDateTime(intDiv(bucket_ms, 1000), 'UTC') + INTERVAL 40 DAY
COMMENT 'buckets that were rolled up, and from how many partial rows'"""


def migrations() -> tuple[Migration, ...]:
    """All migrations in order."""
    day = f"intDiv(window_ms, {DAY_MS})"
    limits = DEFAULT_LIMITS
    partials = [
        _derived(
            table,
            order_by=("grouping", "window_ms"),
            partition_by=day,
            ttl_column="window_ms",
            ttl_ms=limits.partials_ttl_ms,
        )
        for table in PARTIALS.values()
    ]
    books = [
        _derived(
            BOOKS,
            order_by=("topic", "partition", "offset_from"),
            partition_by="",
            ttl_column="committed_ms",
            ttl_ms=limits.partials_ttl_ms,
        ),
        _derived(
            PRODUCER_BOOKS,
            order_by=("source", "boot", "topic"),
            partition_by="",
            ttl_column="at_ms",
            ttl_ms=limits.partials_ttl_ms,
        ),
        _derived(
            REJECTED,
            order_by=("topic", "partition", "offset"),
            partition_by="",
            ttl_column="appended_ms",
            ttl_ms=limits.partials_ttl_ms,
        ),
    ]
    rollups = [_rollup(event.topic, level) for event in EVENTS for level in LEVELS]
    views = []
    for name, grouping in VIEWS.items():
        topic = next(event.topic for event in EVENTS if any(s.name == grouping for s in sets_of(event.topic)))
        views.append(_view(name, grouping, topic, PARTIALS[topic].name, 10_000))
        views += [
            _view(f"{name}_{level}", grouping, topic, rollup_table(topic, level), width)
            for level, width in LEVELS.items()
        ]
    return (
        Migration(1, "functions", _FUNCTIONS),
        Migration(2, "raw", tuple(_raw(event) for event in EVENTS)),
        Migration(3, "partials", tuple(partials)),
        Migration(4, "books", tuple(books)),
        Migration(5, "rollups", (*rollups, _DIRTY, _ROLLED)),
        Migration(6, "views", (*views, _FLEET_NOW)),
    )


def write(folder: Path = FOLDER) -> list[Path]:
    """Write the numbered files anew and return their paths."""
    folder.mkdir(exist_ok=True)
    paths = []
    for migration in migrations():
        path = folder / migration.file_name
        path.write_text(migration.text, encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    write()
