"""What people see of requests, each metric defined once: views, pages, boards, reports and rules take it from here.

A query writes ``{failed:Metric}`` over rows of windows or rollups of ``llm.requests``. ``{failed:End}`` is the
condition for what has ``status`` and ``error_kind`` as columns, ``{unanswered:End}`` for bills, which have ``status``.
"""

from __future__ import annotations

from collections.abc import Mapping
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
UNANSWERED = "ifNull(status, '') NOT IN ('ok', 'aborted')"
"""Failed, or a client fault: bills keep how requests ended and not why, so that they have no more than this."""


@dataclass(frozen=True, slots=True)
class Metric:
    """``sql`` is its expression over rows of windows. ``of``: what a share is of; ``clock``: what a rate divides by."""

    name: str
    unit: str
    meaning: str
    sql: str
    of: str = ""
    clock: str = ""


def _count(name: str, meaning: str) -> Metric:
    return Metric(name, "requests", meaning, f"sumIf(event_count, {END[name]})")


def _share(name: str, meaning: str) -> Metric:
    part, valid = _count(name.removesuffix("_share"), "").sql, f"sumIf(event_count, NOT ({END['client_fault']}))"
    return Metric(name, "share", meaning, f"{part} / nullIf({valid}, 0)", of="requests that were no client fault")


_METRICS = (
    Metric("requests", "requests", "all that ended, however they ended", "sum(event_count)"),
    _count("ok", "answered in full"),
    _count("aborted", "the client went away before the end"),
    _count("client_fault", "rejected for what the client sent: 4xx other than 408 and 429, `error_kind` client"),
    _count("failed", "failed on our side: errors of server, engine and network, timeouts, rejections for overload"),
    _share("failed_share", "error rate: failed of those that were no client fault; what budgets are burnt by"),
)
METRICS: Mapping[str, Metric] = {one.name: one for one in _METRICS}


def written(sql: str) -> str:
    """The text with the expression of every metric, and the condition of every end, in its place."""
    for one in _METRICS:
        sql = sql.replace(f"{{{one.name}:{METRIC}}}", one.sql)
    for name, condition in (END | {"unanswered": UNANSWERED}).items():
        sql = sql.replace(f"{{{name}:{CONDITION}}}", f"({condition})")
    return sql
