"""SQL functions and views: what people and dashboards read.

A view over 10 s rows merges the partial rows of each window and series; the same view over a rollup level reads rows
that are merged already. Both show the percentiles of every row and the merged bins beside them, so that any group over
any range can be merged again: ``p(0.99, ttft_us_bins)``. Columns that a query does not name are not
computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.ddl.columns import Column, create, described
from schemas.ddl.merging import LATEST, LEVELS, Measure, labels_of, measures_of, rollup_table
from schemas.definitions import END, METRICS
from schemas.events.event_types import BY_TOPIC as EVENT_BY_TOPIC
from schemas.events.event_types import ENGINE_SAMPLES, GPU_SAMPLES, HOST_SAMPLES, LLM_REQUESTS
from schemas.events.grouping import GROUPING_SETS, GroupingSet, sets_of
from schemas.fields import Event, Field, Kind, Role
from schemas.limits import MINUTE_MS
from schemas.rows.tables import PARTIALS
from schemas.sketch import BINS_PER_OCTAVE, ZERO_BIN

PERCENTILES = (50, 90, 95, 99)
FRESH_MS = 5 * MINUTE_MS
"""How far back ``fleet_now`` looks: a GPU without a sample for longer is not shown."""
FLEET_NOW = "fleet_now"
LINEAR, LINEAR_OF_MANY = "fp_quantile_linear", "fp_quantiles_linear"
P_BODY = (
    f"{LINEAR}(q + throwIf(NOT (q BETWEEN 0 AND 1), 'p(q, bins): q is a share, such as 0.99 for p99'), sumMap(bins))"
)
_TIME_OF_DAY = "formatDateTime(toDateTime(intDiv(m.window_ms, 1000), 'UTC'), '%H:%i', 'UTC')"
_GAMMA = f"pow(2., 1. / {BINS_PER_OCTAVE})"
_VALUE = f"if({{k}} = {ZERO_BIN}, 0., 2. * pow({_GAMMA}, {{k}}) / ({_GAMMA} + 1.))"
_KEY = "mapKeys(bins)[arrayFirstIndex({name} -> {name} > {rank}, arrayCumSum(mapValues(bins)))]"
_LOWER_RANK = "floor({q} * (arraySum(mapValues(bins)) - 1))"
_PREFIXES = {"service": "request", "engine": "engine_request", "engine_sample": "engine"}


def view_name(grouping: GroupingSet, level: str | None = None) -> str:
    """Name of a grouping set's view: ``request_windows`` for 10 s, ``request_windows_1m`` for a rollup level."""
    name = f"{_PREFIXES.get(grouping.name, grouping.name)}_windows"
    return name if level is None else f"{name}_{level}"


def functions() -> list[str]:
    """``p(q, bins)`` merges bins of rows and reads them, for people; ``fp_quantile_linear(q, merged)`` and
    ``fp_quantiles_linear([q, ...], merged)`` read what is merged. All three are ``linear`` as ``schemas.sketch`` has
    it; ``fp_quantile`` and ``fp_quantiles``, of release 0.1.0, are ``lower``.

    NULL for no values. Keys of the map must rise; those of partials, views and ``sumMap`` do. Functions belong to the
    server, and views of other databases and releases were made with them: what a name means never changes, another
    meaning has another name. A ``p`` that somebody else made on the server stays theirs, so nothing of ours calls it.
    """
    return [
        f"CREATE OR REPLACE FUNCTION fp_quantile AS (q, bins) -> if(empty(bins), NULL, {_lower_one()})",
        f"CREATE OR REPLACE FUNCTION fp_quantiles AS (qs, bins) -> if(empty(bins), [], {_lower_many()})",
        f"CREATE OR REPLACE FUNCTION {LINEAR} AS (q, bins) -> if(empty(bins), NULL, {_linear('q')})",
        f"CREATE OR REPLACE FUNCTION {LINEAR_OF_MANY} AS (qs, bins) -> if(empty(bins), [], {_linear_many()})",
        f"CREATE FUNCTION IF NOT EXISTS p AS (q, bins) -> {P_BODY}",
    ]


def _lower_one() -> str:
    return f"arrayMap(k -> {_VALUE.format(k='k')}, [{_KEY.format(name='c', rank=_LOWER_RANK.format(q='q'))}])[1]"


def _lower_many() -> str:
    key = _KEY.format(name="c", rank=_LOWER_RANK.format(q="quantile"))
    return f"arrayMap(k -> {_VALUE.format(k='k')}, arrayMap(quantile -> {key}, qs))"


def _linear_many() -> str:
    """The same as ``_linear`` for each. What it names once ClickHouse resolves once, and a view has all its columns
    resolved whatever is asked of it."""
    ranks = (f"arrayFirstIndex(fp_seen -> fp_seen > {side}(fp_place), fp_sums)" for side in ("floor", "ceil"))
    below, above = (_VALUE.format(k=key) for key in ("fp_below", "fp_above"))
    between = f"{below} * (1. - (fp_place - floor(fp_place))) + {above} * (fp_place - floor(fp_place))"
    one = f"arrayMap((fp_below, fp_above) -> {between}, {', '.join(f'[fp_keys[{rank}]]' for rank in ranks)})[1]"
    each = f"arrayMap(fp_place -> {one}, arrayMap(fp_q -> fp_q * (fp_sums[-1] - 1), qs))"
    return f"arrayMap((fp_keys, fp_sums) -> {each}, [mapKeys(bins)], [arrayCumSum(mapValues(bins))])[1]"


def _linear(q: str) -> str:
    """Written out, without an array of both values: ClickHouse computes once a row what the parts share. Names of
    arguments that no alias of a query has, since ``bins`` may be of a table with one."""
    place = f"({q} * (arraySum(mapValues(bins)) - 1))"
    keys = [_KEY.format(name="fp_seen", rank=f"{side}{place}") for side in ("floor", "ceil")]
    below, above = (_VALUE.format(k=key) for key in keys)
    return f"{below} * (1. - ({place} - floor{place})) + {above} * ({place} - floor{place})"


def views() -> list[str]:
    """Every grouping set over 10 s windows and over each rollup level, and the state of the fleet."""
    found = [_windows(grouping) for grouping in GROUPING_SETS]
    found += [_rollup(grouping, level.name) for grouping in GROUPING_SETS for level in LEVELS]
    return [*found, fleet_now()]


def _labels(grouping: GroupingSet) -> list[Field]:
    return [field for field in labels_of(_event(grouping)) if field.name in grouping.dimensions]


def _event(grouping: GroupingSet) -> Event:
    return EVENT_BY_TOPIC[grouping.topic]


def _percentiles(measure: Measure) -> list[tuple[Column, str]]:
    if not _is_sketch(measure):
        return []
    stem = measure.name.removesuffix("_bins")
    stem = stem if stem.endswith(f"_{measure.unit}") else f"{stem}_{measure.unit}"
    meaning = measure.meaning.removeprefix("sketch of: ").removeprefix("sketch of ")
    read = f"fp_{measure.name}"
    return [
        (
            Column(f"{stem}_p{p}", "Nullable(Float64)", described(f"{_of_row(p, measure)}: {meaning}", measure.unit)),
            f"if(empty({read}), NULL, {read}[{place}])",
        )
        for place, p in enumerate(PERCENTILES, 1)
    ]


def _read(measures: Iterable[Measure]) -> str:
    """Every sketch read once, for the columns of its percentiles."""
    shares = ", ".join(f"{p / 100}" for p in PERCENTILES)
    reads = [f"{LINEAR_OF_MANY}([{shares}], m.{one.name}) AS fp_{one.name}" for one in measures if _is_sketch(one)]
    return "WITH\n    " + ",\n    ".join(reads) + "\n" if reads else ""


def _is_sketch(measure: Measure) -> bool:
    return measure.name.endswith("_bins")


def _of_row(p: int, measure: Measure) -> str:
    """Whoever reads the column sees that it is no percentile of anything larger, and what is."""
    return f"percentile {p} of this row alone, of several p({p / 100}, {measure.name}), of"


def _shown(grouping: GroupingSet, bucket: str) -> list[tuple[Column, str]]:
    """The view's columns, each with what it is in terms of merged rows ``m``."""
    measures = measures_of(_event(grouping))
    shown = [
        (
            Column("window", "DateTime('UTC')", f"start of the {bucket} window, event time"),
            "toDateTime(intDiv(m.window_ms, 1000), 'UTC')",
        ),
        (Column("window_ms", "Int64", f"start of the {bucket} window, event time, UTC [ms]"), "m.window_ms"),
        (Column("time_of_day", "String", "time of day of window as text, UTC, such as 14:05"), _TIME_OF_DAY),
    ]
    shown += [(Column(one.name, one.kind.value, one.meaning), f"m.{one.name}") for one in _labels(grouping)]
    shown += [(Column(one.name, one.type, described(one.meaning, one.unit)), f"m.{one.name}") for one in measures]
    for one in measures:
        shown += _percentiles(one)
    return [*shown, *(_ends() if grouping.topic == LLM_REQUESTS.topic else ())]


def _ends() -> list[tuple[Column, str]]:
    """How the requests of a row ended: all of them in the same way, so that three of the four are 0."""
    return [
        (Column(f"requests_{end}", "UInt64", f"requests: {METRICS[end].meaning}"), f"if({held}, m.event_count, 0)")
        for end, held in END.items()
    ]


def _view(name: str, shown: list[tuple[Column, str]], source: str, comment: str, before: str = "") -> str:
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in shown)
    behind = f"AS {before}SELECT\n    {picked}\nFROM {source}"
    return create("CREATE OR REPLACE VIEW", name, [column for column, _ in shown], behind, comment)


def _merged(event: Event, where: str, labels: list[str], keys: list[str]) -> str:
    """A subquery that merges partial rows by ``keys``."""
    picked = [*(f"p.{name} AS {name}" for name in labels)]
    picked += [f"{measure.sql} AS {measure.name}" for measure in measures_of(event)]
    return _grouped(event, picked, where, keys)


def _windows(grouping: GroupingSet) -> str:
    keys = ["window_ms", *(field.name for field in _labels(grouping))]
    source = _merged(_event(grouping), f"p.grouping = '{grouping.name}'", keys, keys) + " AS m"
    comment = f"{grouping.topic} by 10 s window and {', '.join(grouping.dimensions)}"
    return _view(view_name(grouping), _shown(grouping, "10 s"), source, comment, _read(measures_of(_event(grouping))))


def _rollup(grouping: GroupingSet, level: str) -> str:
    source = f"{rollup_table(_event(grouping), level)} AS m FINAL\nWHERE m.grouping = '{grouping.name}'"
    comment = f"{grouping.topic} by {level} window and {', '.join(grouping.dimensions)}"
    read = _read(measures_of(_event(grouping)))
    return _view(view_name(grouping, level), _shown(grouping, level), source, comment, read)


def fleet_now() -> str:
    """The latest state of every GPU with a sample within ``FRESH_MS``, with that of its host and engine."""
    shown: list[tuple[Column, str]] = [
        (
            Column("seen", "DateTime64(3, 'UTC')", "time of the GPU's latest sample"),
            "fromUnixTimestamp64Milli(g.last_at_ms, 'UTC')",
        ),
        (
            Column("age_ms", "Int64", "how long ago that was, by this server's clock [ms]"),
            "toUnixTimestamp64Milli(now64(3)) - g.last_at_ms",
        ),
    ]
    shown += _latest_columns(GPU_SAMPLES, "g", "")
    shown += _latest_columns(HOST_SAMPLES, "h", "host_", labels=False)
    shown += _latest_columns(ENGINE_SAMPLES, "e", "engine_", labels=False)
    source = (
        f"{_latest(GPU_SAMPLES, ('gpu_uuid',))} AS g\n"
        f"LEFT JOIN {_latest(HOST_SAMPLES, ('cluster', 'host'))} AS h\n"
        "    ON g.cluster <=> h.cluster AND g.host = h.host\n"
        f"LEFT JOIN {_latest(ENGINE_SAMPLES, ('engine_id',))} AS e ON g.engine_id = e.engine_id"
    )
    return _view(
        FLEET_NOW, shown, source, f"every GPU with a sample in the last {FRESH_MS // MINUTE_MS} minutes, as it is"
    )


def _latest_columns(event: Event, table: str, prefix: str, *, labels: bool = True) -> list[tuple[Column, str]]:
    found = []
    if labels:
        kept = [field for field in _latest_labels(event) if field.kind is Kind.LABEL]
        found += [(Column(one.name, one.kind.value, one.meaning), f"{table}.{one.name}") for one in kept]
    elif event is ENGINE_SAMPLES:
        found.append((Column("model", Kind.LABEL.value, "model the engine serves"), f"{table}.model"))
    for gauge in event.of(Role.GAUGE):
        meaning = described(f"latest: {gauge.meaning}", gauge.unit)
        found.append((Column(f"{prefix}{gauge.name}", "Nullable(Int64)", meaning), f"{table}.{gauge.name}"))
    return found


def _latest_labels(event: Event) -> list[Field]:
    (grouping,) = sets_of(event.topic)
    return [field for field in labels_of(event) if field.name in grouping.dimensions]


def _latest(event: Event, keys: tuple[str, ...]) -> str:
    """A subquery: one row per key with the labels and gauges of its latest partial row."""
    (grouping,) = sets_of(event.topic)
    labels = [field.name for field in _latest_labels(event) if field.name not in keys]
    # A tuple keeps nulls: argMax alone would skip a row whose label is null and show a label of yesterday.
    picked = [f"p.{name} AS {name}" for name in keys]
    picked += [f"tupleElement(argMax(tuple(p.{name}), p.last_at_ms), 1) AS {name}" for name in labels]
    picked += ["max(p.last_at_ms) AS last_at_ms"]
    picked += [f"{LATEST.format(f'{gauge.name}_last')} AS {gauge.name}" for gauge in event.of(Role.GAUGE)]
    fresh = f"p.window_ms >= toUnixTimestamp64Milli(now64(3)) - {FRESH_MS}"
    return _grouped(event, picked, f"p.grouping = '{grouping.name}' AND {fresh}", keys)


def _grouped(event: Event, picked: list[str], where: str, keys: Sequence[str]) -> str:
    columns = ",\n        ".join(picked)
    return (
        f"(\n    SELECT\n        {columns}\n    FROM {PARTIALS[event.topic].name} AS p FINAL\n    WHERE {where}\n"
        f"    GROUP BY {', '.join(f'p.{name}' for name in keys)}\n)"
    )
