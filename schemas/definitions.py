"""What people see of requests, each metric defined once: views, pages, boards, reports and rules take it from here.

A query writes ``{failed:Metric}`` over rows of windows or rollups of ``llm.requests``. ``{failed:End}`` is the
condition for what has ``status`` and ``error_kind`` as columns, ``{unanswered:End}`` for bills, which have ``status``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

METRIC = "Metric"
"""The type of a place that becomes a metric's expression."""
CONDITION = "End"
"""The type of a place that becomes the condition of an end."""
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


@dataclass(frozen=True, slots=True)
class Metric:
    """``sql`` is its expression over rows of ``over``: windows of requests, or parts of bills. ``of``: what a share is
    of; ``clock``: what a rate divides by."""

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
METRICS: Mapping[str, Metric] = {one.name: one for one in (*_METRICS, *UNIT_COSTS)}


def written(sql: str) -> str:
    """The text with the expression of every metric, and the condition of every end, in its place."""
    for one in METRICS.values():
        sql = sql.replace(f"{{{one.name}:{METRIC}}}", one.sql)
    for name, condition in (END | {"unanswered": UNANSWERED}).items():
        sql = sql.replace(f"{{{name}:{CONDITION}}}", f"({condition})")
    return sql
