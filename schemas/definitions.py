"""What people see of requests, each metric defined once: views, pages, boards, reports and rules take it from here.

A query writes ``{failed:Metric}`` over rows of windows or rollups of ``llm.requests``. ``{failed:End}`` is the
condition for what has ``status`` and ``error_kind`` as columns, ``{unanswered:End}`` for bills, which have ``status``.
``{hours:Covered}`` and its like are the pieces of what tells how much of a range has data, ``{of_bills:Billed}`` how
much of it is billed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemas.ddl.merging import rollup_table
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.rows.costs import COSTS

METRIC = "Metric"
"""The type of a place that becomes a metric's expression."""
CONDITION = "End"
"""The type of a place that becomes the condition of an end."""
COVERAGE = "Covered"
"""The type of a place that becomes a piece of ``COVERED``."""
BILLS = "Billed"
"""The type of a place that becomes one of ``BILLED``."""
END = {
    "ok": "ifNull(status, '') = 'ok'",
    "aborted": "ifNull(status, '') = 'aborted'",
    "client_fault": "ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') = 'client'",
    "failed": "ifNull(status, '') NOT IN ('ok', 'aborted') AND ifNull(error_kind, '') != 'client'",
}
"""How a request ended: exactly one of these holds."""


def end_of(status: str | None, error_kind: str | None) -> str:
    """How a request ended, where no SQL is asked: the name of the one of ``END`` that holds."""
    if status in ("ok", "aborted"):
        return status
    return "client_fault" if error_kind == "client" else "failed"


def ended(name: str, status: str, error_kind: str = "error_kind") -> str:
    """The condition of an end where these columns have other names."""
    return f"({END[name].replace('error_kind', error_kind).replace('(status', f'({status}')})"


UNANSWERED = "ifNull(status, '') NOT IN ('ok', 'aborted')"
"""Failed, or a client fault: bills keep how requests ended and not why, so that they have no more than this."""


JUDGED = {
    "left_out": "ifNull(error_kind, '') = 'client' OR (ifNull(status, '') = 'aborted' AND NOT missed)",
    "good": "ifNull(status, '') = 'ok' AND NOT missed",
}
"""Of single requests of a class, which have ``missed`` beside: those that goodput leaves out, and the good ones."""


@dataclass(frozen=True, slots=True)
class Metric:
    """``sql`` is its expression over rows of ``over``: windows of requests, those of them that are judged, parts of
    bills, view ``covered_time``, or an amount beside billed time. ``of``: what a share is of; ``clock``: what a rate
    divides by."""

    name: str
    unit: str
    meaning: str
    sql: str
    of: str = ""
    clock: str = ""
    over: str = "windows"


def _count(name: str, meaning: str) -> Metric:
    return Metric(name, "requests", meaning, f"sumIf(event_count, {END[name]})")


def _share(name: str, meaning: str) -> Metric:
    part, valid = _count(name.removesuffix("_share"), "").sql, f"sumIf(event_count, NOT ({END['client_fault']}))"
    return Metric(name, "share", meaning, f"{part} / nullIf({valid}, 0)", of="requests that were no client fault")


_COVERED = "time of the range that has data (view `covered_time`)"
_METRICS = (
    Metric("requests", "requests", "all that ended, however they ended", "sum(event_count)"),
    _count("ok", "answered in full"),
    _count("aborted", "the client went away before the end"),
    _count("client_fault", "rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client"),
    _count("failed", "failed on our side: errors of server, engine and network, timeouts, rejections for overload"),
    _share("failed_share", "error rate: failed of those that were no client fault; what budgets are burnt by"),
    Metric("requests_per_s", "requests/s", "throughput; `covered` is that time [s]",
           "sum(event_count) / nullIf(covered, 0)", clock=_COVERED),
    Metric("output_tokens_per_s", "tokens/s", "throughput of generated tokens, likewise",
           "sum(output_tokens_sum) / nullIf(covered, 0)", clock=_COVERED),
)  # fmt: skip
REPORTING = {
    "llm.requests": "service",
    "gpu.samples": "gpu",
    "host.samples": "host",
    "engine.samples": "engine_sample",
}
"""Topics that tell whether anything reported, and a grouping that all of their events are in."""
GAP_MS = 5 * MINUTE_MS
BY_WINDOW_MS, BY_MINUTE_MS = HOUR_MS, 6 * HOUR_MS
"""Longest ranges that are looked at by windows, and by minutes."""
_FROM, _TO = "{from_ms:Int64}", "{to_ms:Int64}"


def _hours() -> str:
    """Hours of a long range that have data, those of them that count whole, and those that are looked into."""
    each = "\n            UNION ALL\n".join(
        f"            SELECT window_ms FROM {rollup_table(BY_TOPIC[topic], '1h')} WHERE grouping = '{grouping}'\n"
        f"                AND window_ms > {_FROM} - {HOUR_MS} AND window_ms < {_TO}"
        for topic, grouping in REPORTING.items()
    )
    first, last = (f"intDiv({end}, {HOUR_MS})" for end in (_FROM, _TO))
    return f"""WITH
    (
        SELECT groupUniqArray(intDiv(window_ms, {HOUR_MS}))
        FROM
        (
{each}
        )
        WHERE {_TO} - {_FROM} > {BY_MINUTE_MS}
    ) AS hours,
    arrayFilter(hour -> has(hours, hour - 1) AND has(hours, hour + 1), hours) AS whole_hours,
    arrayConcat(
        arrayFilter(hour -> NOT has(whole_hours, hour), hours),
        if({_TO} - {_FROM} > {BY_MINUTE_MS}, [{first}, {last}], range({first}, {last} + 1))) AS looked_into"""


COVERED = {
    "hours": _hours(),
    "whole": f"SELECT arrayJoin(whole_hours) * {HOUR_MS} AS start_ms, toInt64({HOUR_MS}) AS width_ms",
    "looked_into": f"intDiv(start_ms, {HOUR_MS}) IN (SELECT arrayJoin(looked_into))",
    "covered_ms": f"""arraySum(arrayMap(
        (one, next_ms) -> if(next_ms - one.1 <= greatest(one.2, {GAP_MS}), next_ms - one.1, one.2),
        windows,
        if(empty(windows), emptyArrayInt64(), arrayPushBack(arrayMap(one -> one.1, arrayPopFront(windows)),
            toInt64(9000000000000000)))))""",
}
"""Pieces of how much of a range has data: what stands before the query, whole hours as rows of ``start_ms`` and
``width_ms``, the condition for finer rows beside them, and the time [ms] of ``windows``: all such rows, each once, in
order."""


def _billed(table: str, minute: str, gpu_ms: str) -> str:
    """Time [ms] of the range that is billed, as a scalar subquery: each minute whole, but one with no bill before it,
    or none after it, for as much as its GPU time is of the minute beside it: a fleet seldom starts on the minute."""
    return f"""(
    WITH
        (
            SELECT arraySort(groupUniqArray({minute}))
            FROM {table}
            WHERE {minute} >= {_FROM} AND {minute} < {_TO}
        ) AS minutes,
        arrayDifference(minutes) AS since,
        arrayFilter(one -> one.1 != one.2, arrayMap(
            (at_ms, before, after) -> (at_ms, at_ms + multiIf(
                before = {MINUTE_MS} AND after = {MINUTE_MS}, 0, after = {MINUTE_MS}, {MINUTE_MS},
                before = {MINUTE_MS}, -{MINUTE_MS}, 0)),
            minutes, since, arrayResize(arrayPopFront(since), length(since), 0))) AS ends
    SELECT toInt64(round({MINUTE_MS} * (length(minutes) - arraySum(
        one -> 1 - least(1, ifNull(gpu_ms[one.1] / nullIf(gpu_ms[one.2], 0), 1)), ends))))
    FROM
    (
        SELECT mapFromArrays(groupArray(at_ms), groupArray(ms)) AS gpu_ms
        FROM
        (
            SELECT {minute} AS at_ms, sum(toFloat64({gpu_ms})) AS ms
            FROM {table}
            WHERE {minute} IN (SELECT arrayJoin(arrayConcat(ends.1, ends.2)))
            GROUP BY at_ms
        )
    )
)"""


BILLED = {
    "of_bills": _billed("costs", "minute_ms", "gpu_ms"),
    "of_rollup": _billed(f"{COSTS.name}_rollup_1m FINAL", "window_ms", "arraySum(one -> ifNull(one, 0), bill_gpu_ms)"),
}
"""The same of bills, and of their rollup by the minute, which pages read."""
_TIME = (
    Metric("covered_ms", "ms", "time of the range that has data: windows of 10 s in which anything reported, whatever"
           " the filters, and gaps up to 5 min between them; beyond an hour by minutes; beyond six hours an hour"
           " between two with data counts whole", "covered_ms", over="covered_time"),
    Metric("coverage", "share", "how much of the range has data: what rates are the mean of",
           f"covered_ms / nullIf({_TO} - {_FROM}, 0)", of="the range", over="covered_time"),
    Metric("of_30_days_nusd", "nUSD", "an amount of the range for 30 days, at the rate of the time that is billed:"
           " minutes with a bill; one with no bill before it, or none after it, counts for as much as its GPU time is"
           " of the minute beside it", f"{30 * DAY_MS} * (nusd / nullIf(billed_ms, 0))",
           clock="billed time", over="billed"),
)  # fmt: skip
_GOOD, _JUDGED = (f"sum(toInt128({name}_requests_sum))" for name in ("good", "judged"))
_FAILED = f"sumIf(toInt128(judged_requests_sum), {UNANSWERED})"
_GOODPUT = (
    Metric("judged", "requests", "those of a class, less client faults and those whose client went away before an"
           " objective was missed", _JUDGED, over="judged"),
    Metric("good", "requests", "of the judged those answered in full with every objective of their class met; a latency"
           " that is not known is not judged", _GOOD, over="judged"),
    Metric("judged_failed", "requests", "of the judged those that failed", _FAILED, over="judged"),
    Metric("missed", "requests", "of the judged those answered, or left, after an objective was missed",
           f"{_JUDGED} - {_GOOD} - {_FAILED}", over="judged"),
    Metric("good_tokens", "tokens", "prompt and generated tokens of good requests", "sum(toInt128(good_tokens_sum))",
           over="judged"),
    Metric("good_share", "share", "goodput, or attainment: good of the judged", f"{_GOOD} / nullIf({_JUDGED}, 0)",
           of="judged requests", over="judged"),
    Metric("good_per_s", "requests/s", "goodput as a rate", f"{_GOOD} / nullIf(covered, 0)", clock=_COVERED,
           over="judged"),
)  # fmt: skip
UNITS = {"USD": "{} / 1e9", "kWh": "{} / 3.6e9", "g": "{} / 1e6"}
"""From nUSD, mJ and ug, which bills count in."""
UNIT_OF = {"USD": "cost_nusd", "kWh": "meter_mj", "g": "carbon_ug"}
"""What of a part is shown in this unit: energy at the meter and CO2e, both with the PUE of the bill."""
_OUTPUT = "ifNull(sumIf(toInt128(amount), kind = 'decode'), 0) > 0"
_PROMPT, _WITH_CACHE, _ANSWER = (
    f"sumIf(toInt128({{0}}), kind IN ({kinds}))" for kinds in ("'prefill'", "'prefill', 'kv'", "'decode', 'kv'")
)
_SIDES = {
    "uncached": ("prompt token that was computed", "prefill", f"if({_OUTPUT}, {_PROMPT}, {_WITH_CACHE})"),
    "output": ("generated token, with the cache that is held meanwhile", "decode", f"if({_OUTPUT}, {_ANSWER}, NULL)"),
}
"""By side: its token, the kind of part that counts them, the sum of an amount. What an answer holds of the cache is
paid with its tokens; where none are generated, with those of the prompt. Cached tokens have no price of their own."""


def _unit_costs() -> Iterator[Metric]:
    for side, (token, kind, amount) in _SIDES.items():
        tokens = f"sumIf(toInt128(amount), kind = '{kind}' AND {{}} IS NOT NULL)"
        yield Metric(
            f"{side}_tokens", "tokens", f"{token}, where it has a price", tokens.format("cost_nusd"), over="parts"
        )
        yield Metric(f"{side}_nusd", "nUSD", f"cost by {token}", amount.format("cost_nusd"), over="parts")
        for unit, column in UNIT_OF.items():
            each = f"{UNITS[unit].format(amount.format(column))} / nullIf({tokens.format(column)}, 0) * 1e6"
            yield Metric(f"{unit.lower()}_per_million_{side}", unit, f"a million of: {token}", each, over="parts")


UNIT_COSTS = tuple(_unit_costs())
METRICS: Mapping[str, Metric] = {one.name: one for one in (*_METRICS, *_GOODPUT, *_TIME, *UNIT_COSTS)}


def written(sql: str) -> str:
    """The text with the expression of every metric, and the condition of every end, in its place."""
    for one in METRICS.values():
        sql = sql.replace(f"{{{one.name}:{METRIC}}}", one.sql)
    for name, condition in (END | JUDGED | {"unanswered": UNANSWERED}).items():
        sql = sql.replace(f"{{{name}:{CONDITION}}}", f"({condition})")
    for kind, pieces in ((COVERAGE, COVERED), (BILLS, BILLED)):
        for name, piece in pieces.items():
            sql = sql.replace(f"{{{name}:{kind}}}", piece)
    return sql
