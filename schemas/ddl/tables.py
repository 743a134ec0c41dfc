"""CREATE TABLE statements: raw events, partials, what comes over other topics, bills, rollups and notes of them.

Every table keeps one row per identity and is read with FINAL behind views:

- partial, books, rejected, exemplar, usage, share and alert rows: their place in the log (log id, partition, offset,
  row);
- cost rows: use, owner, placement group and minute; the version is that of the row itself;
- raw rows: the edge's own identity (source, boot, seq, row), or the log position; of copies the first stands;
- rollup rows: window, grouping set and dimensions; the version is the number of partial rows behind a row;
- rollup rows of books: minute, job, topic, verdict, and the number of lines behind a row; of costs: the minute, and the
  sum of the versions of its bills.

Sort keys begin with what people filter by (time, grouping set) and hold the row's identity, so that
``ReplacingMergeTree`` keeps one row per identity. Partitions are functions of identity or window alone: the same row
written twice lands in the same partition. Raw partitions are days modulo 32, because an event's own time is anything a
sender claims: a thousand absurd dates must not make a thousand partitions. Rows that are kept until the next day of
their partition comes go one by one, not with their parts (``schemas.ddl.kept``).
"""

from __future__ import annotations

from dataclasses import replace

from schemas.ddl import packing
from schemas.ddl.columns import Column, codec_of, column_of, day, described, month, table
from schemas.ddl.merging import BY_LEVEL, labels_of, measures_of, rollup_table
from schemas.ddl.stored import LANDED, RAW, kept_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Event, Kind
from schemas.limits import DAY_MS, DEFAULT_LIMITS, MINUTE_MS
from schemas.rows.costs import COST_KEY, COSTS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import ACTIONS, ALERT_HISTORY, BOOKS, EXEMPLARS, PARTIALS, PRODUCER_BOOKS, REJECTED, Table
from schemas.rows.usage import USAGE

_LOG_ORDER = "log_id, log_partition, log_offset, log_row"
RAW_PARTITIONS = 32
"""Of a raw table."""
NOTES = "dirty_windows"
REPLACED = "token_costs_replaced"


def raw(event: Event) -> str:
    """The table of an event type's raw events. Of an event sent twice the first stands, as for the windows job.

    Requests are looked for by id among millions of an hour, hence their indexes."""
    found = RAW[event.topic]
    never_null = {field.name for field in found.fields if field.kind is Kind.LABEL and field.required}
    columns = [column_of(field, never_null) for field in found.fields]
    first = "UInt64 MATERIALIZED bitNot(offset)"
    columns.append(Column("first", first, "greatest for the first of all copies of an event", "Delta(8), ZSTD(1)"))
    requests = event is LLM_REQUESTS
    ids = ("request_id", "trace_id") if requests else ()
    return table(
        found.name,
        packing.of_requests(columns) if requests else columns,
        "ReplacingMergeTree(first)",
        f"intDiv(at_ms, {MINUTE_MS}), source, boot, seq, row",
        f"{found.meaning}; read with FINAL",
        partition=f"intDiv(at_ms, {DAY_MS}) % {RAW_PARTITIONS}",
        settings=packing.RAW_SETTINGS,
        indexes=[f"by_{name} {name} TYPE bloom_filter(0.01) GRANULARITY 1" for name in ids],
    )


def partials(event: Event) -> str:
    """The table of an event type's additive 10 s rows."""
    found = LANDED[PARTIALS[event.topic].schema]
    columns = [column_of(field, {"grouping", "log_id"}) for field in found.fields]
    return table(
        found.name,
        packing.of_requests(columns) if event is LLM_REQUESTS else columns,
        "ReplacingMergeTree",
        f"grouping, window_ms, {_LOG_ORDER}",
        f"{found.meaning}; read with FINAL",
        partition=day("window_ms"),
        settings=packing.PARTIALS_SETTINGS,
    )


def _log_table(of: Table, order: str, *, monthly: bool = False, indexes: tuple[str, ...] = ()) -> str:
    time, _ = kept_of(of.name, DEFAULT_LIMITS)
    return table(
        of.name,
        [column_of(field, {"log_id", *order.split(", ")}) for field in LANDED[of.schema].fields],
        "ReplacingMergeTree",
        f"{order}, {_LOG_ORDER}",
        f"{of.meaning}; read with FINAL",
        partition=month(time) if monthly else day(time),
        indexes=indexes,
    )


def logs() -> list[str]:
    """Rows of derived topics that are known by their place in the log.

    Lines of books are sorted by offset: the index by time finds those of a minute without reading a day."""
    by_time = ("by_time committed_ms TYPE minmax GRANULARITY 1",)
    return [
        _log_table(BOOKS, "job, topic, partition, offset_from", indexes=by_time),
        producer_books(),
        _log_table(REJECTED, "topic, appended_ms"),
        _log_table(EXEMPLARS, "metric, window_ms, model"),
        _log_table(ALERT_HISTORY, "at_ms, fingerprint, number", monthly=True),
        _log_table(ACTIONS, "at_ms", monthly=True),
        _log_table(USAGE, "window_ms"),
        _log_table(SHARES, "window_ms"),
    ]


def producer_books() -> str:
    """What every producer wrote by its own count: cumulative, of which the greatest stand; repeats change nothing.
    Of a clock's skew the row inserted last stands."""
    columns = [column_of(field, {"source", "topic"}) for field in PRODUCER_BOOKS.fields]
    kept = {"clock_skew_ms": "anyLast"}
    columns = [
        one
        if one.name in ("source", "boot", "topic")
        else replace(one, type=f"SimpleAggregateFunction({kept.get(one.name, 'max')}, {one.type})")
        for one in columns
    ]
    first = "SimpleAggregateFunction(min, Int64) DEFAULT at_ms"
    columns.append(Column("first_at_ms", first, "wall clock of the producer in its first line [ms]", "ZSTD(1)"))
    comment = f"{PRODUCER_BOOKS.meaning}; read with FINAL"
    order = "source, boot, topic"
    return table(PRODUCER_BOOKS.name, columns, "AggregatingMergeTree", order, comment, partition="tuple()")


def costs() -> str:
    """Bills with their parts; of the rows of a bill the greatest version stands."""
    comment = f"{COSTS.meaning}; read with FINAL"
    key, by_month = ", ".join(COST_KEY), month("minute_ms")
    return table(COSTS.name, _bill(), "ReplacingMergeTree(version)", key, comment, partition=by_month)


def replaced() -> str:
    """Bills as they were before a rerate, each version once, so that both can be shown beside one another."""
    rerate = Column("rerate", "LowCardinality(String)", "id of the rerate that replaced it", "ZSTD(1)")
    key, comment = ", ".join((*COST_KEY, "version")), "bills that a rerate replaced; read with FINAL"
    return table(REPLACED, [*_bill(), rerate], "ReplacingMergeTree", key, comment, partition=month("minute_ms"))


def _bill() -> list[Column]:
    return [column_of(field, {*COST_KEY, "log_id"}) for field in LANDED[COSTS.schema].fields]


def rollup(event: Event, level: str) -> str:
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
    return table(
        rollup_table(event, level),
        packing.of_rollups(columns),
        "ReplacingMergeTree(version)",
        ", ".join(["grouping", "window_ms", *(field.name for field in labels)]),
        f"{level} rows of {event.topic}, computed whole from the {BY_LEVEL[level].below or '10 s'} rows;"
        " read with FINAL",
        partition=month("window_ms"),
    )


def notes() -> str:
    """Which buckets must be computed again: those with ``noted`` above ``done`` for any writer.

    A writer numbers its notes, so that no step of any clock can lose one. Notes that were dealt with go after a day.
    """
    latest, clock = "SimpleAggregateFunction(max, UInt64)", "SimpleAggregateFunction(max, Int64)"
    columns = [
        Column("level", "LowCardinality(String)", "rollup level to compute"),
        Column("topic", "LowCardinality(String)", "source topic of the rows"),
        Column("window_ms", "Int64", "start of the bucket [ms]"),
        Column("writer", "String", "process that noted it, new at every start"),
        Column("noted", latest, "the writer's latest note, counted from 1"),
        Column("done", latest, "the latest of its notes that has been dealt with"),
        Column(
            "noted_ms",
            f"{clock} DEFAULT toUnixTimestamp64Milli(now64(3))",
            "when the latest note came, by this server's clock",
        ),
        Column("done_ms", clock, "when the bucket was computed last, by this server's clock; 0: never"),
    ]
    return table(
        NOTES,
        columns,
        "AggregatingMergeTree",
        "level, topic, window_ms, writer",
        "rollup buckets whose rows have changed",
        settings="non_replicated_deduplication_window = 0",
    )
