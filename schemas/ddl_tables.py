"""CREATE TABLE statements: raw events, partials, books, rejected, exemplars, alerts, usage, shares, rollups, notes.

Sort keys begin with what people filter by (time, grouping set) and hold the row's identity, so that
``ReplacingMergeTree`` keeps one row per identity. Partitions are functions of identity or window alone: the same row
written twice lands in the same partition. Raw partitions are days modulo 32, because an event's own time is anything a
sender claims: a thousand absurd dates must not make a thousand partitions.
"""

from __future__ import annotations

from dataclasses import replace

from schemas.costs import COST_KEY, COSTS
from schemas.ddl_columns import Column, codec_of, column_of, create, described
from schemas.fields import Event, Kind
from schemas.gpu_shares import SHARES
from schemas.limits import DAY_MS, MINUTE_MS, SECOND_MS, Limits
from schemas.merging import BY_LEVEL, LEVELS, labels_of, measures_of, rollup_table
from schemas.stored import LANDED, RAW, kept_of
from schemas.tables import (
    ALERT_HISTORY,
    BOOKS,
    EXEMPLARS,
    EXEMPLARS_OF,
    GROUPED,
    PARTIALS,
    PRODUCER_BOOKS,
    REJECTED,
    Table,
)
from schemas.usage import USAGE

_SETTINGS = "SETTINGS allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0"
_LOG_ORDER = "log_id, log_partition, log_offset, log_row"
NOTES = "dirty_windows"
SKETCH = "Map(Int16, UInt64)"
HISTORY = "schema_migrations"


def _kept(name: str, limits: Limits) -> str:
    return _ttl(*kept_of(name, limits))


def _ttl(column: str, kept_ms: int) -> str:
    return f"toDateTime(intDiv({column}, 1000)) + INTERVAL {kept_ms // SECOND_MS} SECOND"


def _engine(engine: str, partition: str, order: str, ttl: str) -> str:
    return f"ENGINE = {engine}\nPARTITION BY {partition}\nORDER BY ({order})\nTTL {ttl}\n{_SETTINGS}"


def _day(column: str) -> str:
    return f"toYYYYMMDD(toDateTime(intDiv({column}, 1000), 'UTC'))"


def _month(column: str) -> str:
    return f"toYYYYMM(toDateTime(intDiv({column}, 1000), 'UTC'))"


def raw(event: Event, limits: Limits) -> str:
    """The table of an event type's raw events. Of an event sent twice the first stands, as for the windows job."""
    table = RAW[event.topic]
    never_null = {field.name for field in table.fields if field.kind is Kind.LABEL and field.required}
    columns = [column_of(field, never_null) for field in table.fields]
    first = "UInt64 MATERIALIZED bitNot(offset)"
    columns.append(Column("first", first, "greatest for the first of all copies of an event", "Delta(8), ZSTD(1)"))
    behind = _engine(
        "ReplacingMergeTree(first)",
        f"intDiv(at_ms, {DAY_MS}) % 32",
        f"intDiv(at_ms, {MINUTE_MS}), source, boot, seq, row",
        _kept(table.name, limits),
    )
    return create("CREATE TABLE IF NOT EXISTS", table.name, columns, behind, f"{table.meaning}; read with FINAL")


def request_ids() -> str:
    """Requests are looked for by id among millions of an hour; parts that are there are indexed when they merge."""
    added = ", ".join(
        f"ADD INDEX IF NOT EXISTS by_{name} {name} TYPE bloom_filter(0.01) GRANULARITY 1"
        for name in ("request_id", "trace_id")
    )
    return f"ALTER TABLE {RAW[EXEMPLARS_OF].name} {added}"


def partials(event: Event, limits: Limits) -> str:
    """The table of an event type's additive 10 s rows."""
    table = LANDED[PARTIALS[event.topic].schema]
    columns = [column_of(field, {"grouping", "log_id"}) for field in table.fields]
    order, ttl = f"grouping, window_ms, {_LOG_ORDER}", _kept(table.name, limits)
    behind = _engine("ReplacingMergeTree", _day("window_ms"), order, ttl)
    return create("CREATE TABLE IF NOT EXISTS", table.name, columns, behind, f"{table.meaning}; read with FINAL")


def _log_table(table: Table, order: str, limits: Limits, *, monthly: bool = False) -> str:
    stored = LANDED[table.schema]
    time, kept_ms = kept_of(table.name, limits)
    never_null = {"log_id", *order.split(", ")}
    columns = [column_of(field, never_null) for field in stored.fields]
    partition = _month(time) if monthly else _day(time)
    behind = _engine("ReplacingMergeTree", partition, f"{order}, {_LOG_ORDER}", _ttl(time, kept_ms))
    return create("CREATE TABLE IF NOT EXISTS", table.name, columns, behind, f"{table.meaning}; read with FINAL")


def books(limits: Limits) -> str:
    """What became of every event, by commit of a job."""
    return _log_table(BOOKS, "job, topic, partition, offset_from", limits)


def producer_books(limits: Limits) -> str:
    """What every producer says it wrote: cumulative numbers, of which the greatest stand; repeats change nothing."""
    columns = [column_of(field, {"source", "topic"}) for field in PRODUCER_BOOKS.fields]
    columns = [
        one
        if one.name in ("source", "boot", "topic")
        else replace(one, type=f"SimpleAggregateFunction(max, {one.type})")
        for one in columns
    ]
    first = "SimpleAggregateFunction(min, Int64) DEFAULT at_ms"
    columns.append(Column("first_at_ms", first, "wall clock of the producer in its first line [ms]", "ZSTD(1)"))
    behind = _engine("AggregatingMergeTree", "tuple()", "source, boot, topic", _kept("producer_books", limits))
    return create(
        "CREATE TABLE IF NOT EXISTS", "producer_books", columns, behind, f"{PRODUCER_BOOKS.meaning}; read with FINAL"
    )


def rejected(limits: Limits) -> str:
    """What was refused, with reason and bytes."""
    return _log_table(REJECTED, "topic, appended_ms", limits)


def exemplars(limits: Limits) -> str:
    """Single requests that stand for the slow and the failed ones of a window."""
    return _log_table(EXEMPLARS, "metric, window_ms, model", limits)


def usage(limits: Limits) -> str:
    """When the work of requests was done: what costs are computed from, and computed again."""
    return _log_table(USAGE, "window_ms", limits)


def shares(limits: Limits) -> str:
    """What engines that share a GPU held of it."""
    return _log_table(SHARES, "window_ms", limits)


def costs(limits: Limits) -> str:
    """Bills with their parts; of the rows of a bill the greatest version stands."""
    stored = LANDED[COSTS.schema]
    columns = [column_of(field, {*COST_KEY, "log_id"}) for field in stored.fields]
    behind = _engine("ReplacingMergeTree(version)", _month("minute_ms"), ", ".join(COST_KEY), _kept(COSTS.name, limits))
    return create("CREATE TABLE IF NOT EXISTS", COSTS.name, columns, behind, f"{COSTS.meaning}; read with FINAL")


def alerts(limits: Limits) -> str:
    """Every transition of every alert."""
    return _log_table(ALERT_HISTORY, "at_ms, fingerprint, number", limits, monthly=True)


def rollup(event: Event, level: str, limits: Limits) -> str:
    """The table of a rollup level; a row replaces an earlier computation of the same key."""
    labels, measures = labels_of(event), measures_of(event)
    columns = [
        Column("window_ms", "Int64", f"start of the {level} bucket, event time, UTC [ms]", codec_of("window_ms", "")),
        Column("grouping", "LowCardinality(String)", "name of the grouping set", "ZSTD(1)"),
        *(column_of(field, ()) for field in labels),
        *(
            Column(one.name, one.type, described(one.meaning, one.unit), codec_of(one.name, one.type))
            for one in measures
        ),
        Column("version", "UInt64", "partial rows behind this row; the greatest wins", "ZSTD(1)"),
    ]
    order = ", ".join(["grouping", "window_ms", *(field.name for field in labels)])
    behind = _engine("ReplacingMergeTree(version)", _month("window_ms"), order, _ttl("window_ms", limits.rollup_ttl_ms))
    below = BY_LEVEL[level].below or "10 s"
    comment = f"{level} rows of {event.topic}, computed whole from the {below} rows; read with FINAL"
    return create("CREATE TABLE IF NOT EXISTS", rollup_table(event, level), columns, behind, comment)


def rollups(limits: Limits) -> list[str]:
    """All rollup tables."""
    return [rollup(event, level.name, limits) for event in GROUPED for level in LEVELS]


def sketch_codecs() -> list[str]:
    """Sketches of rollups are packed by LZ4: charts of six hours read most of a table's sketches, and unpacking ZSTD
    was three quarters of their time. Parts that are there are packed anew when they merge."""
    return [
        f"ALTER TABLE {rollup_table(event, level.name)} "
        + ", ".join(f"MODIFY COLUMN {one.name} CODEC(LZ4)" for one in measures_of(event) if one.type == SKETCH)
        for event in GROUPED
        for level in LEVELS
        if any(one.type == SKETCH for one in measures_of(event))
    ]


def notes() -> str:
    """Which buckets must be computed again: those with ``noted`` above ``done`` for any writer.

    A writer numbers its notes, so that no step of any clock can lose one. Notes that were dealt with go after a day.
    """
    latest, clock = "SimpleAggregateFunction(max, UInt64)", "SimpleAggregateFunction(max, Int64)"
    columns = [
        Column("level", "LowCardinality(String)", "rollup level to compute"),
        Column("topic", "LowCardinality(String)", "source topic of the rows"),
        Column("window_ms", "Int64", "start of the bucket [ms]"),
        Column("writer", "String", "who noted it, new at every start"),
        Column("noted", latest, "the writer's latest note, counted from 1"),
        Column("done", latest, "the latest of its notes that has been dealt with"),
        Column(
            "noted_ms",
            f"{clock} DEFAULT toUnixTimestamp64Milli(now64(3))",
            "when the latest note came, by this server's clock",
        ),
        Column("done_ms", clock, "when the bucket was computed last, by this server's clock; 0: never"),
    ]
    behind = (
        "ENGINE = AggregatingMergeTree\nORDER BY (level, topic, window_ms, writer)\n"
        "TTL toDateTime(intDiv(noted_ms, 1000)) + INTERVAL 1 DAY DELETE WHERE done >= noted\n"
        "SETTINGS non_replicated_deduplication_window = 0"
    )
    return create("CREATE TABLE IF NOT EXISTS", NOTES, columns, behind, "rollup buckets whose rows have changed")


def history() -> str:
    """Which migrations were applied."""
    columns = [
        Column("number", "UInt32", "number of the migration"),
        Column("name", "String", "its name"),
        Column("checksum", "String", "SHA-256 of its text when it was applied"),
        Column("applied_at", "DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')", "when"),
    ]
    behind = (
        "ENGINE = ReplacingMergeTree(applied_at)\nORDER BY number\nSETTINGS non_replicated_deduplication_window = 0"
    )
    return create("CREATE TABLE IF NOT EXISTS", HISTORY, columns, behind, "migrations applied; read with FINAL")
