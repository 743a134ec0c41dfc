"""Views of a range, which is their parameter: a filter outside could not be seen inside.

``slow_requests(from_ms = ..., to_ms = ...)``: single requests, with the GPUs of their engine at their end and where the
time went. Order and cut it as you like: ``ORDER BY e2e_us DESC LIMIT 20``.

``covered_time(from_ms = ..., to_ms = ...)``: how much of the range has data, the clock of rates: the windows in which
anything reported, and gaps up to 5 min between them. Up to an hour by windows of 10 s, else by minutes, and so what of
it lies before the first window that is kept; beyond six hours an hour between two hours with data counts whole.

``who_changed(from_ms = ..., to_ms = ..., before_from_ms = ..., before_to_ms = ...)``: how each metric of each tenant,
model, version, host and engine changed between two ranges, and which share of the whole change that explains: what
would not have happened had it alone stayed as it was before. For a sum that is its part of the change; for a percentile
the sketch of all is taken without its values of now and with those of before, scaled to the requests of now. Sums are
compared as they are: take ranges of one length. Whole hours are read from their rollups once these hold all their rows,
and whole minutes around them once they are a day old, since windows of 10 s are not kept for as long; what is left from
these windows.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.ddl.columns import Column, create
from schemas.ddl.merging import LEVELS, rollup_table
from schemas.ddl.tables import NOTES
from schemas.ddl.views import LINEAR
from schemas.definitions import BY_WINDOW_MS, COVERED, END, METRICS, REPORTING
from schemas.events.event_types import BY_TOPIC, LLM_REQUESTS
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS

SLOW, TIME, CHANGED = "slow_requests", "covered_time", "who_changed"
_SLOW = (
    (Column("ended", "DateTime64(3, 'UTC')", "when it ended"), "fromUnixTimestamp64Milli(r.at_ms, 'UTC')"),
    (Column("at_ms", "Int64", "the same, UTC [ms]"), "r.at_ms"),
    (Column("request_id", "String", "id of the request"), "r.request_id"),
    (Column("trace_id", "Nullable(String)", "W3C trace id"), "r.trace_id"),
    (Column("tenant", "Nullable(String)", "who sent it"), "r.tenant"),
    (Column("model", "Nullable(String)", "model that answered"), "r.model"),
    (Column("model_version", "Nullable(String)", "its version"), "r.model_version"),
    (Column("host", "Nullable(String)", "machine"), "r.host"),
    (Column("engine_id", "Nullable(String)", "engine"), "r.engine_id"),
    (Column("gpu_uuids", "Array(String)", "GPUs of the engine in the minute of its end"), "g.uuids"),
    (Column("status", "String", "how it ended"), "r.status"),
    (Column("error_kind", "Nullable(String)", "why it failed"), "r.error_kind"),
    (Column("ttft_us", "Nullable(UInt32)", "received to first token [us]"), "r.ttft_us"),
    (Column("e2e_us", "Nullable(UInt32)", "received to last byte [us]"), "r.e2e_us"),
    (Column("queue_us", "Nullable(UInt32)", "of it: waiting for the engine; null: it does not say [us]"), "r.queue_us"),
    (Column("prefill_us", "Nullable(UInt32)", "of it: scheduled to first token, likewise [us]"), "r.prefill_us"),
    (
        Column("generation_us", "Nullable(Int64)", "of it: first token to last byte [us]"),
        "toInt64(r.e2e_us) - toInt64(r.ttft_us)",
    ),
    (
        Column("other_us", "Nullable(Int64)", "of it: to the first token, neither queue nor prefill [us]"),
        "toInt64(r.ttft_us) - toInt64(r.queue_us) - toInt64(r.prefill_us)",
    ),
    (Column("input_tokens", "Nullable(UInt32)", "prompt tokens"), "r.input_tokens"),
    (Column("cached_tokens", "Nullable(UInt32)", "of them from the prefix cache"), "r.cached_tokens"),
    (Column("output_tokens", "Nullable(UInt32)", "generated tokens"), "r.output_tokens"),
)
_SLOW_FROM = f"""FROM (
    SELECT *
    FROM llm_requests FINAL
    WHERE intDiv(at_ms, {MINUTE_MS}) >= intDiv({{from_ms:Int64}}, {MINUTE_MS})
        AND intDiv(at_ms, {MINUTE_MS}) <= intDiv({{to_ms:Int64}}, {MINUTE_MS})
        AND at_ms >= {{from_ms:Int64}} AND at_ms < {{to_ms:Int64}} AND verdict = 'accepted'
) AS r
LEFT JOIN (
    SELECT engine_id, intDiv(window_ms, {MINUTE_MS}) AS minute,
        arraySort(arrayMap(one -> toString(one), groupUniqArray(gpu_uuid))) AS uuids
    FROM gpu_windows
    WHERE window_ms >= intDiv({{from_ms:Int64}}, {MINUTE_MS}) * {MINUTE_MS}
        AND window_ms < {{to_ms:Int64}} + {MINUTE_MS} AND engine_id IS NOT NULL
    GROUP BY engine_id, minute
) AS g ON r.engine_id = g.engine_id AND intDiv(r.at_ms, {MINUTE_MS}) = g.minute"""

_FROM, _TO = "{from_ms:Int64}", "{to_ms:Int64}"
_NOW = "(SELECT toUnixTimestamp64Milli(now64(3)))"
_COVERED = (
    (Column("covered_ms", "Int64", "time of the range that has data [ms]"), COVERED["covered_ms"]),
    (Column("first_ms", "Nullable(Int64)", "first window with data; null: none [ms]"),
     "if(empty(windows), NULL, windows[1].1)"),
    (Column("end_ms", "Nullable(Int64)", "end of the last one [ms]"),
     "if(empty(windows), NULL, windows[-1].1 + windows[-1].2)"),
    (Column("coverage", "Nullable(Float64)", "share of the range that has data"), METRICS["coverage"].sql),
)  # fmt: skip
_CHANGED = (
    (Column("metric", "String", "what changed: requests, failed, ttft_p99_us, cost_nusd, ..."), "metric"),
    (Column("dimension", "String", "tenant, model, model_version, host or engine_id"), "dimension"),
    (Column("name", "Nullable(String)", "which of them; null: nobody in particular"), "name"),
    (Column("before", "Nullable(Float64)", "its value over the range before"), "was"),
    (Column("now", "Nullable(Float64)", "its value over the range"), "is"),
    (Column("all_before", "Nullable(Float64)", "that of all together before"), "all_was"),
    (Column("all_now", "Nullable(Float64)", "that of all together"), "all_is"),
    (
        Column("explains", "Nullable(Float64)", "share of the change of all that would not be had it not changed"),
        "(all_is - without) / nullIf(all_is - all_was, 0)",
    ),
)
_OF_SERVICE, _OF_ENGINE = ("tenant", "model", "model_version"), ("host", "engine_id")
_OF_COST = ("tenant", "model", "engine_id")
_SUMS = ("requests", "failed", "input_tokens", "cached_tokens", "output_tokens")
_SKETCHES = ("ttft_us", "tpot_us", "e2e_us")
METRICS_OF_CHANGES = (*_SUMS, *(f"{one.removesuffix('_us')}_p99_us" for one in _SKETCHES), "cost_nusd")
"""Values of column ``metric`` of view ``who_changed``."""
_OF_METRIC = ("metric", "was", "is", "all_was", "all_is", "without")
_NOTED_MS = 10 * MINUTE_MS
"""So long after an hour its last rows have landed and are noted."""
_RANGES = {"is": ("{from_ms:Int64}", "{to_ms:Int64}"), "was": ("{before_from_ms:Int64}", "{before_to_ms:Int64}")}


def views() -> list[str]:
    """Their CREATE statements."""
    comment = "requests of a range: where their time went, on which GPUs"
    slow = _view(SLOW, _SLOW, "", _SLOW_FROM, comment)
    comment = "how much of a range has data"
    covered = _view(TIME, _COVERED, COVERED["hours"], f"FROM (\n{_covered()}\n)", comment)
    behind = f"WITH\n{_pending()},\n{_rows()},\n{_groups()},\n{_bills()}"
    comment = "who explains most of a change between two ranges"
    return [slow, covered, _view(CHANGED, _CHANGED, behind, f"FROM\n(\n{_changes()}\n)", comment)]


def _view(name: str, shown: Iterable[tuple[Column, str]], before: str, source: str, comment: str) -> str:
    listed = list(shown)
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in listed)
    behind = "\n".join(part for part in (f"AS {before}".strip(), f"SELECT\n    {picked}", source) if part)
    return create("CREATE OR REPLACE VIEW", name, [column for column, _ in listed], behind, comment)


def _covered() -> str:
    """All windows, minutes and hours with data, each once, in order."""
    begun, over = (
        f"intDiv({_FROM} + {MINUTE_MS - 1}, {MINUTE_MS}) * {MINUTE_MS}",
        f"intDiv({_TO}, {MINUTE_MS}) * {MINUTE_MS}",
    )
    minutes = f"{_TO} - {_FROM} > {BY_WINDOW_MS} AND window_ms >= {begun} AND window_ms < {over}"
    parts = []
    for topic, grouping in REPORTING.items():
        windows = PARTIALS[topic].name
        short = f"window_ms >= {_FROM} AND window_ms < {_TO} AND {_TO} - {_FROM} <= {BY_WINDOW_MS}"
        kept = f"SELECT minOrNull(window_ms) FROM {windows} WHERE {short}"
        gone = f"{short} AND window_ms < intDiv(ifNull(({kept}), {_TO}), {MINUTE_MS}) * {MINUTE_MS}"
        for table, width_ms, where in (
            (windows, WINDOW_MS, f"NOT ({minutes})"),
            (rollup_table(BY_TOPIC[topic], "1m"), MINUTE_MS, f"({minutes} OR {gone})"),
        ):
            parts.append(
                f"SELECT DISTINCT window_ms AS start_ms, toInt64({width_ms}) AS width_ms FROM {table}\n"
                f"            WHERE grouping = '{grouping}' AND window_ms >= {_FROM} AND window_ms < {_TO} AND {where}"
            )
    union = "\n            UNION ALL\n            ".join(parts)
    return f"""    SELECT arraySort(groupUniqArray((start_ms, width_ms))) AS windows
    FROM (
        {COVERED["whole"]}
        UNION ALL
        SELECT start_ms, width_ms
        FROM (
            {union}
        )
        WHERE {COVERED["looked_into"]}
    )"""


def _pending() -> str:
    """Hours of which a rollup, or one of a minute in them, is still to be computed, or to be computed again."""
    levels = ", ".join(f"'{level.name}'" for level in LEVELS if level.bucket_ms <= HOUR_MS)
    return f"""    (
        SELECT groupUniqArray(intDiv(window_ms, {HOUR_MS}) * {HOUR_MS})
        FROM (
            SELECT level, window_ms FROM {NOTES} WHERE topic = '{LLM_REQUESTS.topic}' AND level IN ({levels})
            GROUP BY level, window_ms, writer HAVING max(noted) > max(done)
        )
    ) AS pending_hours"""


def _rows() -> str:
    """Rows of windows of both ranges, each with the ranges that it is of."""
    columns = (
        "grouping", *_OF_SERVICE, *_OF_ENGINE, "event_count", "status", "error_kind",
        *(f"{name}_sum" for name in _SUMS[2:]), *(f"{name}_bins" for name in _SKETCHES),
    )  # fmt: skip
    parts = []
    for table, width_ms in (
        (PARTIALS[LLM_REQUESTS.topic].name, None),
        (rollup_table(LLM_REQUESTS, "1m"), MINUTE_MS),
        (rollup_table(LLM_REQUESTS, "1h"), HOUR_MS),
    ):
        of = [f"({_read(*ends, width_ms)}) AS in_{name}" for name, ends in _RANGES.items()]
        where = " OR ".join(f"(window_ms >= {first} AND window_ms < {end})" for first, end in _RANGES.values())
        parts.append(
            f"        SELECT {', '.join(columns)}, {', '.join(of)}\n        FROM {table} FINAL\n"
            f"        WHERE grouping IN ('service', 'engine') AND ({where}) AND (in_is OR in_was)\n"
        )
    return "    read AS (\n" + "        UNION ALL\n".join(parts) + "    )"


def _read(first: str, end: str, width_ms: int | None) -> str:
    """Whether a row of windows, minutes or hours is read for a range: hours that are computed, and minutes of old, that
    lie in it as a whole, and what is in none that is wider."""

    def whole(of_ms: int) -> str:
        begin = f"intDiv(window_ms, {of_ms}) * {of_ms}"
        summed = {
            MINUTE_MS: f"{begin} < {_NOW} - {DAY_MS}",
            HOUR_MS: f"{begin} + {HOUR_MS + _NOTED_MS} <= {_NOW} AND NOT has(pending_hours, {begin})",
        }
        return f"{begin} >= {first} AND {begin} + {of_ms} <= {end} AND {summed[of_ms]}"

    held = f"window_ms >= {first} AND window_ms < {end}" if width_ms is None else whole(width_ms)
    wider = [of_ms for of_ms in (MINUTE_MS, HOUR_MS) if of_ms > (width_ms or 0)]
    return " AND ".join([held, *(f"NOT ({whole(of_ms)})" for of_ms in wider)])


def _groups() -> str:
    """Sums and sketches of each tenant, model, ... of both ranges."""
    measures = {"requests": "event_count", "failed": f"if({END['failed']}, event_count, 0)"}
    measures |= {name: f"toInt128({name}_sum)" for name in _SUMS[2:]}
    picked = []
    for name in _RANGES:
        picked += [f"{_known_sum(sql, f'in_{name}')} AS {metric}_{name}" for metric, sql in measures.items()]
        picked += [f"sumMapIf({metric}_bins, in_{name}) AS {metric}_bins_{name}" for metric in _SKETCHES]
    return f"""    groups AS (
        SELECT one.1 AS dimension, one.2 AS name,
            {(f",{chr(10)}            ").join(picked)}
        FROM read
        ARRAY JOIN if(grouping = 'service', {_named(_OF_SERVICE)}, {_named(_OF_ENGINE)}) AS one
        GROUP BY dimension, name
    )"""


def _known_sum(sql: str, where: str) -> str:
    """A sum that is 0 where there is no row, and null where no row knows."""
    return f"if(countIf({where}) = 0, 0, sumIf({sql}, {where}))"


def _named(columns: Iterable[str]) -> str:
    return "[" + ", ".join(f"('{name}', CAST({name} AS Nullable(String)))" for name in columns) + "]"


def _bills() -> str:
    """What each tenant, model and engine cost in both ranges, by the minutes that begin in them."""
    sums = ", ".join(
        f"{_known_sum('toInt128(cost_nusd)', f'minute_ms >= {first} AND minute_ms < {end}')} AS cost_{name}"
        for name, (first, end) in _RANGES.items()
    )
    where = " OR ".join(f"(minute_ms >= {first} AND minute_ms < {end})" for first, end in _RANGES.values())
    named = _named(_OF_COST).replace("CAST(engine_id", "CAST(if(use = 'engine', owner, NULL)")
    return f"""    bills AS (
        SELECT one.1 AS dimension, one.2 AS name, {sums}
        FROM cost_parts
        ARRAY JOIN {named} AS one
        WHERE {where}
        GROUP BY dimension, name
    )"""


def _changes() -> str:
    """A row for each metric: its values, those of all, and that of all had it alone stayed as it was."""
    sketches = [f"{metric}_bins" for metric in _SKETCHES]
    of_requests = [_sum(one, one) for one in _SUMS] + [_percentile(one) for one in _SKETCHES]
    read = ", ".join(f"{_read_sketches(one)} AS {one}_p99s" for one in _SKETCHES)
    named = ", ".join(f"m.{number} AS {name}" for number, name in enumerate(_OF_METRIC, 1))
    return "\n    UNION ALL\n".join(
        f"""    SELECT {named}, dimension, name
    FROM ({source})
    ARRAY JOIN [{", ".join(metrics)}] AS m"""
        for source, metrics in (
            (f"SELECT *, {read} FROM (SELECT *, {_of_all(_SUMS, sketches)} FROM groups)", of_requests),
            (f"SELECT *, {_of_all(('cost',), ())} FROM bills", [_sum("cost_nusd", "cost")]),
        )
    )


def _of_all(sums: Iterable[str], bins: Iterable[str]) -> str:
    """Sums and sketches of all of a dimension, in both ranges."""
    each = [(name, "sum") for name in sums] + [(name, "sumMap") for name in bins]
    return ", ".join(
        f"{function}({name}_{one}) OVER (PARTITION BY dimension) AS all_{name}_{one}"
        for name, function in each
        for one in _RANGES
    )


def _sum(metric: str, column: str) -> str:
    """A metric that adds up, as a tuple of ``_OF_METRIC``."""
    values = (f"{column}_was", f"{column}_is", f"all_{column}_was", f"all_{column}_is")
    numbers = [f"CAST({value} AS Nullable(Float64))" for value in values]
    return f"('{metric}', {', '.join(numbers)}, {numbers[3]} - {numbers[1]} + {numbers[0]})"


def _percentile(metric: str) -> str:
    """The p99 of a latency, likewise."""
    was, now, all_was, all_now, whole, without = (f"{metric}_p99s[{place}]" for place in range(1, 7))
    return (
        f"('{metric.removesuffix('_us')}_p99_us', {was}, {now}, {all_was}, {all_now}, {all_now} - {whole} + {without})"
    )


def _read_sketches(metric: str) -> str:
    """The p99 of a latency: of both ranges, of all in both, of all now as it is and without the change. Of these two
    thousandths of requests are counted: what is scaled keeps its small numbers.

    One array: ClickHouse resolves an argument of a function of ours as often as that names it, for every query.
    """
    was, now, all_was, all_now = (f"{part}{metric}_bins_{name}" for part in ("", "all_") for name in ("was", "is"))
    count_now, count_was = (f"arraySum(mapValues({bins}))" for bins in (all_now, all_was))
    thousandths = f"ifNull(1000. * {count_now} / nullIf({count_was}, 0), 0)"
    whole, others = (
        f"mapApply((k, v) -> (k, 1000 * v), {bins})" for bins in (all_now, f"mapSubtract({all_now}, {now})")
    )
    instead = f"mapApply((k, v) -> (k, toUInt64(round({thousandths} * v))), {was})"
    without = f"mapFilter((k, v) -> v > 0, mapAdd({others}, {instead}))"
    return f"arrayMap(of -> {LINEAR}(0.99, of), [{', '.join((was, now, all_was, all_now, whole, without))}])"
