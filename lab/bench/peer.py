"""The yardstick: ClickHouse's own Kafka engine, with materialized views that keep the same grouping sets.

Per source topic one Kafka table reads it, one view per grouping set aggregates each block of messages into an
AggregatingMergeTree (``quantilesDD`` states for sketches), and, for the whole path, one more view keeps raw rows.
Tables and views follow from the field tables, as the job's do.

Two amounts of work can be given to it: *lean* is what an operator would write by hand (events, sum and quantilesDD
per sketch; count, sum, min, max per gauge; sum per difference), *same* is everything our own partial rows hold
(also min and max per sketch, last per gauge, merged bins of inter-token gaps, the latest time).
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import Derived, GroupingSet, derived_of, sets_of
from schemas.fields import Event, Field, Role
from schemas.limits import WINDOW_MS

DATABASE = "fleetpulse_bench"
ACCURACY = 0.0109
FLUSH_MS = 7_500
QUANTILES = (0.5, 0.9, 0.95, 0.99)
FORMATS = {"native": "Native", "columns": "JSONColumns", "ndjson": "JSONEachRow"}
_DD = f"quantilesDDState({ACCURACY}, {', '.join(map(str, QUANTILES))})"


@dataclass(frozen=True, slots=True)
class Options:
    """How the engine is set up. ``block_rows`` is ``kafka_max_block_size``: larger blocks group better."""

    work: str = "lean"
    raw: bool = False
    format: str = "native"
    block_rows: int = 524_288


def stem(topic: str) -> str:
    """The topic's name as part of table names."""
    return topic.replace(".", "_")


def kafka_table(topic: str) -> str:
    """The table that reads the topic."""
    return f"{stem(topic)}_queue"


def group_table(grouping: GroupingSet) -> str:
    """The table that keeps one grouping set."""
    return f"{stem(grouping.topic)}_by_{grouping.name}"


def raw_table(topic: str) -> str:
    """The table that keeps the events themselves."""
    return f"{stem(topic)}_raw"


def tables(topic: str, options: Options, bootstrap: str, group: str) -> list[str]:
    """Statements that make everything but the views; nothing is read yet."""
    event = BY_TOPIC[topic]
    queue = f"{DATABASE}.{kafka_table(topic)}"
    statements = [_kafka_ddl(event, options, bootstrap, group)]
    statements += [
        f"CREATE TABLE {DATABASE}.{group_table(grouping)} ENGINE = AggregatingMergeTree ORDER BY ({_keys(grouping)})"
        f" SETTINGS allow_nullable_key = 1 EMPTY AS SELECT {_select(grouping, options)} FROM {queue}"
        f" GROUP BY {_keys(grouping)}"
        for grouping in sets_of(topic)
    ]
    if options.raw:
        statements.append(
            f"CREATE TABLE {DATABASE}.{raw_table(topic)} ({_columns(event.fields)}) ENGINE = MergeTree ORDER BY at_ms"
        )
    return statements


def views(topic: str, options: Options) -> list[str]:
    """Statements that make the views; the last one completes what the engine does with a block."""
    event = BY_TOPIC[topic]
    queue = f"{DATABASE}.{kafka_table(topic)}"
    selects = [
        (group_table(grouping), f"SELECT {_select(grouping, options)} FROM {queue} GROUP BY {_keys(grouping)}")
        for grouping in sets_of(topic)
    ]
    if options.raw:
        names = ", ".join(f.name for f in event.fields)
        selects.append((raw_table(topic), f"SELECT {names} FROM {queue}"))
    return [
        f"CREATE MATERIALIZED VIEW {DATABASE}.{table}_view TO {DATABASE}.{table} AS {select}"
        for table, select in selects
    ]


def _kafka_ddl(event: Event, options: Options, bootstrap: str, group: str) -> str:
    settings = {
        "kafka_broker_list": bootstrap,
        "kafka_topic_list": event.topic,
        "kafka_group_name": group,
        "kafka_format": FORMATS[options.format],
        "kafka_num_consumers": 1,
        "kafka_max_block_size": options.block_rows,
        "kafka_poll_max_batch_size": options.block_rows,
        "kafka_flush_interval_ms": FLUSH_MS,
        "input_format_skip_unknown_fields": 1,
    }
    text = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
    columns = _columns(_read(event, options))
    return f"CREATE TABLE {DATABASE}.{kafka_table(event.topic)} ({columns}) ENGINE = Kafka SETTINGS {text}"


def _columns(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"`{field.name}` {field.kind.value}" for field in fields)


def _read(event: Event, options: Options) -> tuple[Field, ...]:
    """The columns that the engine needs; others are skipped as cheaply as the format allows."""
    if options.raw:
        return event.fields
    used = {name for grouping in sets_of(event.topic) for name in grouping.dimensions}
    used |= {derived.field for derived in derived_of(event.topic)}
    bins = (Role.SKETCH_BINS,) if options.work == "same" else ()
    used |= {f.name for f in event.of(Role.TIME, Role.SKETCH, Role.GAUGE, Role.DIFFERENCE, *bins)}
    return tuple(f for f in event.fields if f.name in used)


def _keys(grouping: GroupingSet) -> str:
    return ", ".join(("window_ms", *grouping.dimensions))


def _select(grouping: GroupingSet, options: Options) -> str:
    parts = [f"intDiv(at_ms, {WINDOW_MS}) * {WINDOW_MS} AS window_ms"]
    derived = {d.name: d for d in derived_of(grouping.topic)}
    parts += [f"{_derived(derived[name])} AS {name}" if name in derived else name for name in grouping.dimensions]
    parts += [f"{text} AS {name}" for name, text in measures(BY_TOPIC[grouping.topic], options.work)]
    return ", ".join(parts)


def _derived(derived: Derived) -> str:
    cases = "".join(
        f"{derived.field} <= {bound}, '{word}', " for bound, word in zip(derived.bounds, derived.words, strict=False)
    )
    return f"if(isNull({derived.field}), NULL, multiIf({cases}'{derived.words[-1]}'))"


def measures(event: Event, work: str) -> list[tuple[str, str]]:
    """Name and expression of everything that is kept per window and series."""
    same = work == "same"
    found = [("event_count", "sumSimpleState(toUInt64(1))")]
    if same:
        found.append(("last_at_ms", "maxSimpleState(at_ms)"))
    for name in (field.name for field in event.of(Role.SKETCH)):
        found.append((f"{name}_sum", _sum(name)))
        found += _extremes(name) if same else []
        found.append((f"{name}_state", f"{_DD}({name})"))
    for name in (field.name for field in event.of(Role.GAUGE)):
        found += [(f"{name}_count", _count(name)), (f"{name}_sum", _sum(name)), *_extremes(name)]
        if same:
            found.append((f"{name}_last", f"argMaxState({name}, at_ms)"))
    found += [(f"{field.name}_sum", _sum(field.name)) for field in event.of(Role.DIFFERENCE)]
    if same:
        found += [(field.name, f"sumMapSimpleState({field.name})") for field in event.of(Role.SKETCH_BINS)]
    return found


def _sum(name: str) -> str:
    return f"sumSimpleState({name})"


def _count(name: str) -> str:
    return f"sumSimpleState(toUInt64(isNotNull({name})))"


def _extremes(name: str) -> list[tuple[str, str]]:
    return [(f"{name}_min", f"minSimpleState({name})"), (f"{name}_max", f"maxSimpleState({name})")]
