"""View ``fault_impact(from_ms = ..., to_ms = ...)``: what faults of GPUs that began in a range did to requests.

A **fault** is all that GPUs of one engine reported (``info`` left out) with no more than ``SPLIT_MS`` between one event
and the next; it is named by the engine that the GPU served at that moment, so a GPU whose loss shows as an XID and as
missing counts once, and so does a host with eight GPUs under one engine. GPUs that served none have their own.

It is **over** when the engine has answered a request well that began after the last one that was lost: of the kinds
``LOST``, each at most ``SPLIT_MS`` after the one before it, or after the fault. Looked at is ``AFTER_MS``; not over by
then, ``recovered_ms`` is null and ``until_ms`` the end of that time. **Its requests** are those of the engine that were
open at any moment until then; ``lost`` are those of the kinds ``LOST``, one by one. Failures of other kinds are shown
beside: they may have happened anyway.

Parameters because a view over all that is kept would read all raw requests, and a filter outside cannot be seen inside.
"""

from __future__ import annotations

from schemas.ddl.columns import Column, create
from schemas.definitions import ended
from schemas.events.event_types import GPU_SAMPLES
from schemas.limits import MINUTE_MS
from schemas.rows.tables import PARTIALS

NAME = "fault_impact"
SPLIT_MS = MINUTE_MS
AFTER_MS = 15 * MINUTE_MS
SEEN_MS = 5 * MINUTE_MS
"""A GPU served what it was last seen to serve, at most so long ago."""
LOST = ("engine_lost", "network")
_ONE_LOST = (
    "Tuple(request_id String, tenant Nullable(String), model String, error_kind String, began_ms Int64, at_ms Int64,"
    " output_tokens Nullable(UInt32), trace_id Nullable(String))"
)

_SHOWN = (
    (Column("fault", "DateTime64(3, 'UTC')", "when the first event came"), "fromUnixTimestamp64Milli(s.began, 'UTC')"),
    (Column("fault_ms", "Int64", "the same, UTC [ms]"), "s.began"),
    (Column("engine_id", "Nullable(String)", "engine that the GPU served then; null: none"), "s.engine"),
    (Column("host", "String", "machine of the GPU that was the first"), "s.fault[1].3"),
    (
        Column("gpu_uuids", "Array(String)", "GPUs that reported, the first at the front"),
        "arrayDistinct(arrayMap(one -> toString(one.2), s.fault))",
    ),
    (
        Column("kinds", "Array(String)", "kinds of their events"),
        "arrayDistinct(arrayMap(one -> toString(one.4), s.fault))",
    ),
    (
        Column("codes", "Array(UInt32)", "XID numbers"),
        "arrayMap(one -> assumeNotNull(one), arrayDistinct(arrayFilter(one -> one IS NOT NULL, s.fault.5)))",
    ),
    (Column("events", "UInt64", "how many"), "length(s.fault)"),
    (Column("recovered_ms", "Nullable(Int64)", "end of the first request that was answered well again [ms]"), "q.over"),
    (
        Column("until_ms", "Int64", "the same, or until when it was looked for [ms]"),
        f"ifNull(q.over, s.began + {AFTER_MS})",
    ),
    (Column("requests", "UInt64", "requests of the engine that were open from then until then"), "length(q.open)"),
    (Column("failed", "UInt64", "of them those that were lost with the engine"), "arrayCount(one -> one.5, q.open)"),
    (
        Column("lost", f"Array({_ONE_LOST})", "these, one by one, with when they began and ended [ms]"),
        f"CAST(q.lost, 'Array({_ONE_LOST})')",
    ),
    (
        Column("other_failed", "UInt64", "of them those that failed otherwise, client faults aside"),
        f"arrayCount(one -> NOT one.5 AND {ended('failed', 'one.3', 'one.4')}, q.open)",
    ),
    (
        Column("aborted", "UInt64", "of them those whose client went away"),
        f"arrayCount(one -> {ended('aborted', 'one.3')}, q.open)",
    ),
    (
        Column("client_fault", "UInt64", "of them those rejected for what the client sent"),
        f"arrayCount(one -> {ended('client_fault', 'one.3', 'one.4')}, q.open)",
    ),
    (Column("tenants", "UInt64", "how many tenants they were of"), "arrayUniq(q.of_tenant)"),
    (
        Column("most_of_them", "Array(String)", "the tenants with the most of them"),
        "arrayReduce('topK(5)', q.of_tenant)",
    ),
    (Column("input_tokens", "Nullable(Int64)", "their prompt tokens"), "arrayReduce('sum', q.open.7)"),
    (Column("output_tokens", "Nullable(Int64)", "their generated tokens"), "arrayReduce('sum', q.open.8)"),
)


def view() -> str:
    """Its CREATE statement."""
    columns = [column for column, _ in _SHOWN]
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in _SHOWN)
    behind = f"AS WITH\n{_faults()},\n{_hit()}\nSELECT\n    {picked}\n{_FROM}"
    comment = "faults of GPUs that began in a range, with their requests"
    return create("CREATE OR REPLACE VIEW", NAME, columns, behind, comment)


_FROM = "FROM faults AS s\nLEFT JOIN hit AS q ON s.began = q.began AND s.named = q.named"
_LOOKED_AT = f"""intDiv(e.at_ms, {MINUTE_MS}) >= intDiv({{from_ms:Int64}} - {AFTER_MS}, {MINUTE_MS})
                AND e.at_ms >= {{from_ms:Int64}} - {AFTER_MS} AND e.at_ms < {{to_ms:Int64}} + {AFTER_MS}
                AND e.verdict = 'accepted' AND e.severity != 'info'"""
_SERVED = f"""SELECT w.gpu_uuid AS uuid, w.window_ms AS seen_ms, w.engine_id AS engine
            FROM {PARTIALS[GPU_SAMPLES.topic].name} AS w FINAL
            WHERE w.grouping = 'gpu' AND w.engine_id IS NOT NULL
                AND w.window_ms >= {{from_ms:Int64}} - {SEEN_MS + AFTER_MS}
                AND w.window_ms < {{to_ms:Int64}} + {AFTER_MS}
                AND w.gpu_uuid IN (SELECT e.gpu_uuid FROM gpu_events AS e WHERE {_LOOKED_AT} AND e.engine_id IS NULL)"""


def _faults() -> str:
    """Faults by engine, else by GPU. Events of some time before the range tell whether one had begun there."""
    return f"""    seen AS (
        SELECT
            g.at_ms AS at, g.gpu_uuid AS gpu, g.host AS machine, g.kind AS sign, g.code AS number,
            ifNull(g.engine_id, if(v.seen_ms >= g.at_ms - {SEEN_MS}, v.engine, NULL)) AS engine
        FROM (
            SELECT e.at_ms AS at_ms, e.gpu_uuid AS gpu_uuid, e.host AS host, e.kind AS kind, e.code AS code,
                e.engine_id AS engine_id
            FROM gpu_events AS e FINAL
            WHERE {_LOOKED_AT}
        ) AS g
        ASOF LEFT JOIN (
            {_SERVED}
        ) AS v ON g.gpu_uuid = v.uuid AND g.at_ms >= v.seen_ms
    ),
    faults AS (
        SELECT
            named, any(of_engine) AS engine,
            arraySort(groupArray((at, gpu, machine, sign, number))) AS signs,
            arrayMap(i -> i > 1 AND signs[i].1 - signs[i - 1].1 > {SPLIT_MS}, arrayEnumerate(signs)) AS apart,
            arrayJoin(arraySplit((one, is_apart) -> is_apart, signs, apart)) AS fault,
            fault[1].1 AS began
        FROM (SELECT *, toString(ifNull(engine, gpu)) AS named, CAST(engine AS Nullable(String)) AS of_engine FROM seen)
        GROUP BY named
        HAVING began >= {{from_ms:Int64}} AND began < {{to_ms:Int64}}
    )"""


def _requests() -> str:
    """Requests of the range and after it; one that has no latency is taken to have begun when it ended."""
    lost = ", ".join(f"'{kind}'" for kind in LOST)
    return f"""SELECT
                l.engine_id AS engine, l.at_ms AS at, l.at_ms - intDiv(ifNull(l.e2e_us, 0), 1000) AS start,
                l.status AS status, ifNull(l.error_kind, '') AS kind, kind IN ({lost}) AS lost,
                CAST(l.tenant AS Nullable(String)) AS tenant, l.input_tokens AS prompt, l.output_tokens AS generated,
                l.request_id AS id, l.model AS model, l.trace_id AS trace
            FROM llm_requests AS l FINAL
            WHERE intDiv(l.at_ms, {MINUTE_MS}) >= intDiv({{from_ms:Int64}}, {MINUTE_MS})
                AND intDiv(l.at_ms, {MINUTE_MS}) <= intDiv({{to_ms:Int64}} + {AFTER_MS}, {MINUTE_MS})
                AND l.verdict = 'accepted' AND l.engine_id IN (SELECT engine FROM faults WHERE engine IS NOT NULL)"""


def _hit() -> str:
    """Each fault with an engine that had requests: when it was over, and those that were open until then."""
    return f"""    hit AS (
        SELECT
            f.named AS named, f.began AS began,
            groupArray((r.start, r.at, r.status, r.kind, r.lost, r.tenant, r.prompt, r.generated)) AS ended,
            arraySort(arrayMap(one -> one.2, arrayFilter(one -> one.5, ended))) AS losses,
            arrayFirstIndex((one, before) -> one - before > {SPLIT_MS}, losses,
                arrayPopBack(arrayPushFront(losses, f.began))) AS apart,
            if(apart = 1 OR empty(losses), f.began, losses[if(apart = 0, length(losses), apart - 1)]) AS last,
            nullIf(arrayMin(arrayMap(one -> one.2,
                arrayFilter(one -> one.1 >= last AND {ended("ok", "one.3")}, ended))), 0) AS over,
            ifNull(over, f.began + {AFTER_MS}) AS until,
            arrayFilter(one -> one.1 < until, ended) AS open,
            groupArrayIf((r.id, r.tenant, r.model, r.kind, r.start, r.at, r.generated, r.trace), r.lost) AS all_lost,
            arrayFilter(one -> one.5 < until, all_lost) AS lost,
            arrayMap(one -> assumeNotNull(one), arrayFilter(one -> one IS NOT NULL, open.6)) AS of_tenant
        FROM faults AS f
        INNER JOIN (
            {_requests()}
        ) AS r ON f.engine = r.engine
        WHERE r.at >= f.began AND r.at < f.began + {AFTER_MS}
        GROUP BY f.named, f.began
    )"""
