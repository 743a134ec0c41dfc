"""View ``gpu_coverage(from_ms = ..., to_ms = ...)``: GPUs of the inventory, those that reported, what silence costs.

The **inventory** is whatever GPU was read in the last ``KEPT_MS``: a GPU belongs to it from its first reading until so
long after its last. Its time without a reading is **silent**: minutes without any, and what is left of a minute after
its last reading. No bill has these: what they cost stands beside the bills, as ``__unobserved__``, and nothing counts
twice. What of a minute lies before the first reading in it is in neither.

A silent GPU costs what an hour of its type in its region was billed at, GPU and host without energy, in that hour or
the latest one before it. Looked at are minutes before the newest that any GPU has: what is under way is not silent.

What of an hour has passed is looked at whole first: readings that cover all but ten seconds of it leave nothing silent,
and minutes are read of other hours alone, and of those that are not rolled up yet. Of all hours before the range
nothing counts but the last reading.

Parameters because a filter outside would not be seen inside. MIG devices count as the GPU they are slices of.
"""

from __future__ import annotations

from schemas.ddl import cost_rollups
from schemas.ddl.columns import Column, create
from schemas.ddl.gpu_history import GPU, table_of
from schemas.ddl.merging import BY_LEVEL, rollup_table
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, WINDOW_MS

NAME = "gpu_coverage"
PART = "__unobserved__"
KEPT_MS = DAY_MS
_LABEL = "LowCardinality(String)"
_FROM, _TO = (f"intDiv({{{name}:Int64}} + {MINUTE_MS - 1}, {MINUTE_MS}) * {MINUTE_MS}" for name in ("from_ms", "to_ms"))
_BEGIN = f"intDiv({{from_ms:Int64}} - {KEPT_MS}, {HOUR_MS}) * {HOUR_MS}"
_OF = "cluster, region, gpu_model"
_READ = "ifNull(g.parent_uuid, g.gpu_uuid) AS gpu, g.gpu_uuid AS device"
_LABELS = "(ifNull(g.cluster, ''), ifNull(g.region, ''), ifNull(g.gpu_model, ''), ifNull(g.host, ''))"

_SHOWN = (
    (Column("hour", "DateTime('UTC')", "start of the hour, event time"), "toDateTime(intDiv(a.of_ms, 1000), 'UTC')"),
    (Column("hour_ms", "Int64", "the same, UTC [ms]"), "a.of_ms"),
    (Column("cluster", _LABEL, "cluster of the GPUs; empty: none, or of bills over several hosts"), "a.cluster"),
    (Column("region", _LABEL, "region of the GPUs; empty: none, or of bills over several"), "a.region"),
    (Column("gpu_model", _LABEL, "product name; empty: of bills over several types"), "a.gpu_model"),
    (Column("gpus", "UInt64", "GPUs of the inventory"), "a.gpus"),
    (Column("silent_gpus", "UInt64", "of them those that were silent at any time"), "a.silent_gpus"),
    (Column("inventory_gpu_ms", "Int64", "GPU time of the inventory [ms]"), "a.inventory"),
    (Column("reporting_gpu_ms", "Int64", "of it what is not silent [ms]"), "a.reporting"),
    (Column("billed_gpu_ms", "Int64", "GPU time that bills hold [ms]"), "a.billed"),
    (Column("silent_gpu_ms", "Int64", "time of the inventory without a reading: in no bill [ms]"), "a.silent"),
    (Column("nusd_per_gpu_hour", "Nullable(Int128)", "what an hour of a GPU was billed at; null: no price [nUSD]"),
     "r.rate"),
    (Column("unobserved_nusd", "Nullable(Int128)", f"what silent time costs, {PART}; null: no price [nUSD]"),
     f"if(a.silent = 0, 0, intDiv(toInt128(a.silent) * r.rate + {HOUR_MS // 2}, {HOUR_MS}))"),
)  # fmt: skip


def view() -> str:
    """Its CREATE statement."""
    columns = [column for column, _ in _SHOWN]
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in _SHOWN)
    steps = ",\n".join((_rolled_up(), _readings(), _seen(), _spans(), _hours(), _bills()))
    behind = (
        f"AS WITH\n{steps}\nSELECT\n    {picked}\nFROM (\n{_all()}\n) AS a\n"
        "ASOF LEFT JOIN rates AS r ON a.gpu_model = r.gpu_model AND a.region = r.region AND a.of_ms >= r.of_ms"
    )
    return create(
        "CREATE OR REPLACE VIEW", NAME, columns, behind, "GPUs that reported, were billed, were silent, by hour"
    )


def _rolled_up() -> str:
    """The newest minute of all, where hours that are rolled up end, and which before that are not."""
    return f"""    (
        SELECT least(max(n.window_ms), {_TO}) FROM {rollup_table(GPU, "1m")} AS n
        WHERE n.window_ms >= {_FROM} - {KEPT_MS} AND n.window_ms <= {_TO} + {KEPT_MS}
    ) AS stop,
    (
        SELECT (max(n.window_ms) + {HOUR_MS}, groupUniqArray(intDiv(n.window_ms, {HOUR_MS})))
        FROM {table_of("1h")} AS n
        WHERE n.grouping = 'gpu' AND n.window_ms >= {_BEGIN} AND n.window_ms < {_TO}
    ) AS rolled,
    greatest({_BEGIN}, least(rolled.1, intDiv(assumeNotNull(stop), {HOUR_MS}) * {HOUR_MS})) AS edge,
    arrayFilter(hour -> NOT has(rolled.2, hour),
        range(intDiv({_BEGIN}, {HOUR_MS}), intDiv(edge, {HOUR_MS}))) AS lacking"""


def _readings() -> str:
    """Readings of each device and hour: of hours, those before the range as one, and where these are not rolled up, of
    minutes."""
    return f"""    readings AS (
        SELECT {_READ}, max(g.window_ms) AS of_ms, of_ms AS first, argMax({_LABELS}, g.last_at_ms) AS labels,
            max(g.last_at_ms) AS newest_ms, toInt64(ifNull(sum(g.interval_ms_sum), 0)) AS covered
        FROM {table_of("1h")} AS g FINAL
        WHERE g.grouping = 'gpu' AND g.window_ms >= {_BEGIN} AND g.window_ms < edge
        GROUP BY gpu, device, if(g.window_ms <= {_FROM} - {HOUR_MS}, 0, g.window_ms)
        UNION ALL
        SELECT {_READ}, intDiv(g.window_ms, {HOUR_MS}) * {HOUR_MS}, min(g.window_ms), argMax({_LABELS}, g.last_at_ms),
            max(g.last_at_ms), toInt64(ifNull(sum(g.interval_ms_sum), 0))
        FROM {rollup_table(GPU, "1m")} AS g FINAL
        WHERE g.grouping = 'gpu' AND g.window_ms < stop
            AND (g.window_ms >= edge
                OR intDiv(g.window_ms, {HOUR_MS}) IN (SELECT arrayJoin(lacking)))
        GROUP BY gpu, device, intDiv(g.window_ms, {HOUR_MS})
    ),
    judged AS (
        SELECT *, least(of_ms + {HOUR_MS}, stop) AS until,
            (until <= {_FROM} OR covered >= until - of_ms - {WINDOW_MS}) AS whole
        FROM readings
    )"""


def _seen() -> str:
    """Time with readings of each GPU and hour, before the newest minute of all; labels are its latest.

    After the last reading of a minute it is silent, as for bills: unless that is of the minute's last ten seconds.
    """
    return f"""    seen AS (
        SELECT gpu, intDiv(of_ms, {HOUR_MS}) AS of_hour, argMax(labels, newest_ms) AS of_labels,
            min(first) AS first, max(last) AS last, max(reported) AS reported
        FROM (
            SELECT gpu, of_ms, labels, newest_ms, first,
                if(until <= {_FROM}, intDiv(newest_ms, {MINUTE_MS}) * {MINUTE_MS} + {MINUTE_MS}, until) AS last,
                greatest(until - greatest(of_ms, {_FROM}), 0) AS reported
            FROM judged
            WHERE whole
            UNION ALL
            SELECT m.gpu, intDiv(m.at, {HOUR_MS}) * {HOUR_MS} AS of_ms, argMax(m.labels, m.at), max(m.newest_ms),
                min(m.at), max(m.at) + {MINUTE_MS}, sumIf({MINUTE_MS} - m.tail, m.at >= {_FROM})
            FROM (
                SELECT
                    ifNull(g.parent_uuid, g.gpu_uuid) AS gpu, g.window_ms AS at,
                    argMax({_LABELS}, g.last_at_ms) AS labels, max(g.last_at_ms) AS newest_ms,
                    newest_ms - at AS into_ms,
                    toInt64(ifNull(sum(g.interval_ms_sum), 0)) AS covered,
                    if(into_ms < {MINUTE_MS - WINDOW_MS},
                        least({MINUTE_MS} - into_ms, greatest({MINUTE_MS} - covered, 0)), 0) AS tail
                FROM {table_of("1m")} AS g FINAL
                WHERE g.grouping = 'gpu' AND g.window_ms < stop
                    AND (g.gpu_uuid, intDiv(g.window_ms, {HOUR_MS}) * {HOUR_MS}) IN (
                        SELECT device, of_ms FROM judged WHERE NOT whole
                    )
                GROUP BY gpu, at
            ) AS m
            GROUP BY gpu, of_ms
        )
        GROUP BY gpu, of_ms
    )"""


def _spans() -> str:
    """From a GPU's first reading in an hour until that in its next, or until it is of the inventory no more."""
    ahead = "OVER (PARTITION BY gpu ORDER BY of_hour ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)"
    return f"""    spans AS (
        SELECT *, leadInFrame(first, 1, toInt64(0)) {ahead} AS again,
            if(again = 0 OR again - last > {KEPT_MS}, last + {KEPT_MS}, again) AS kept_until,
            least(kept_until, stop) AS until
        FROM seen
    )"""


def _hours() -> str:
    """Time of each GPU in each hour of the range."""
    return f"""    hours AS (
        SELECT s.gpu AS gpu, s.of_labels AS labels, each_hour * {HOUR_MS} AS of_ms,
            sum(greatest(least(s.until, of_ms + {HOUR_MS}) - greatest(s.first, of_ms, {_FROM}), 0)) AS inventory,
            sum(if(each_hour = s.of_hour, toInt64(s.reported), 0)) AS reporting
        FROM spans AS s
        ARRAY JOIN arrayMap(n -> toInt64(n),
            range(toUInt64(s.of_hour), toUInt64(intDiv(s.until - 1, {HOUR_MS})) + 1)) AS each_hour
        GROUP BY gpu, labels, of_ms
        HAVING inventory > 0
    )"""


def _bills() -> str:
    """GPU time billed by hour, and what an hour was billed at: whole hours, whatever the range, with those before.

    An hour is read from its rollup where there is one, an hour after it is over; else, and where the range has a part
    of it, from bills.
    """
    hour, rollup = f"intDiv(c.minute_ms, {HOUR_MS})", f"{cost_rollups.table_of('1h')} AS c FINAL"
    owners = ", ".join(f"c.owner_{name} AS each_{name}" for name in ("host", "region", "gpu_model", "gpu_ms"))
    sums = ("region", "gpu_model", "gpu_nusd", "host_nusd", "gpu_ms", "unpriced_gpu_ms")
    bills = ", ".join(f"c.bill_{name} AS each_{name}" for name in sums)
    rate = "ifNull(each_region, '') AS region, ifNull(each_gpu_model, '') AS gpu_model"
    return f"""    {cost_rollups.PENDING},
    (
        SELECT groupUniqArray(intDiv(window_ms, {HOUR_MS}))
        FROM {cost_rollups.table_of("1h")} FINAL
        WHERE {cost_rollups.current(BY_LEVEL["1h"])}
            AND window_ms >= {_BEGIN} - {HOUR_MS} AND window_ms < {_TO}
    ) AS summed_hours,
    arrayFirst(hour -> NOT has(summed_hours, hour),
        range(intDiv({_BEGIN}, {HOUR_MS}) - 1, intDiv({_TO}, {HOUR_MS}) + 2)) * {HOUR_MS} AS first_bill,
    billed AS (
        SELECT of_ms, host, region, gpu_model, sum(gpu_ms) AS billed
        FROM (
            SELECT c.window_ms AS of_ms, ifNull(each_host, '') AS host, {rate}, ifNull(each_gpu_ms, 0) AS gpu_ms
            FROM {rollup} ARRAY JOIN {owners}
            WHERE {_is_summed(f"intDiv(c.window_ms, {HOUR_MS})")}
            UNION ALL
            SELECT {hour} * {HOUR_MS}, ifNull(c.host, ''), ifNull(c.region, ''), ifNull(c.gpu_model, ''), c.gpu_ms
            FROM costs AS c
            WHERE c.minute_ms >= {_FROM} AND c.minute_ms < stop AND NOT ({_is_summed(hour)})
                AND (c.minute_ms < {_FROM} + {HOUR_MS} OR c.minute_ms >= first_bill OR c.minute_ms >= stop - {HOUR_MS})
        )
        GROUP BY of_ms, host, region, gpu_model
    ),
    rates AS (
        SELECT of_ms, region, gpu_model, sum(toInt128(part_nusd)) AS nusd, sum(gpu_ms) AS billed,
            toInt128(intDiv(nusd * {HOUR_MS} + intDiv(billed, 2), nullIf(billed, 0))) AS rate
        FROM (
            SELECT c.window_ms AS of_ms, {rate}, toInt128(each_gpu_nusd) + ifNull(each_host_nusd, 0) AS part_nusd,
                ifNull(each_gpu_ms, 0) AS gpu_ms
            FROM {rollup} ARRAY JOIN {bills}
            WHERE has(summed_hours, intDiv(c.window_ms, {HOUR_MS}))
                AND each_gpu_nusd IS NOT NULL AND each_unpriced_gpu_ms = 0
            UNION ALL
            SELECT {hour} * {HOUR_MS}, ifNull(c.region, ''), ifNull(c.gpu_model, ''),
                toInt128(c.gpu_nusd) + ifNull(c.host_nusd, 0), c.gpu_ms
            FROM costs AS c
            WHERE c.minute_ms >= first_bill AND c.minute_ms < {_TO} + {HOUR_MS} AND NOT has(summed_hours, {hour})
                AND c.gpu_nusd IS NOT NULL AND c.unpriced_gpu_ms = 0
        )
        GROUP BY of_ms, region, gpu_model
    )"""


def _is_summed(hour: str) -> str:
    """Whether an hour of the range is read from its rollup."""
    return f"has(summed_hours, {hour}) AND {hour} * {HOUR_MS} >= {_FROM} AND {hour} * {HOUR_MS} + {HOUR_MS} <= stop"


def _all() -> str:
    """Bills are of hosts: their cluster is that of a GPU there."""
    return f"""    SELECT of_ms, {_OF}, sum(n) AS gpus, sum(quiet) AS silent_gpus, sum(inventory_ms) AS inventory,
        sum(reporting_ms) AS reporting, sum(billed_ms) AS billed, sum(inventory_ms - reporting_ms) AS silent
    FROM (
        SELECT *, if(n = 0, max(of_cluster) OVER (PARTITION BY host), of_cluster) AS cluster
        FROM (
            SELECT of_ms, labels.1 AS of_cluster, labels.2 AS region, labels.3 AS gpu_model, labels.4 AS host,
                count() AS n, countIf(inventory > reporting) AS quiet, sum(inventory) AS inventory_ms,
                sum(reporting) AS reporting_ms, toInt64(0) AS billed_ms
            FROM hours
            GROUP BY of_ms, labels
            UNION ALL
            SELECT of_ms, '', region, gpu_model, host, 0, 0, 0, 0, billed FROM billed
        )
    )
    GROUP BY of_ms, {_OF}"""
