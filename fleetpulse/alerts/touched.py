"""What an alert touched and what that cost, by the tables: requests of its engine or host, and their bills.

The alert itself cannot say: bills of a minute come when the minute is over, and are revised after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetpulse.sql.database import Reader
from schemas.contract.alerts import Alert
from schemas.errors import FleetpulseError

BEFORE_MS = 60_000
AFTER_MS = 300_000
"""Requests from so long before it began to so long after it was over."""
_REQUESTS = """
SELECT
    count() AS requests,
    countIf(status != 'ok') AS failed,
    uniqExactIf(tenant, tenant IS NOT NULL) AS tenants,
    topKIf(5)(tenant, tenant IS NOT NULL) AS most_of_them,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens
FROM llm_requests FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64} AND verdict = 'accepted'
    AND if({engine:String} != '', engine_id = {engine:String}, host = {host:String})
"""
_BILLS = """
SELECT
    count() AS minutes,
    countIf(total_nusd IS NULL) AS unpriced,
    sum(toInt128(total_nusd)) AS nusd
FROM costs
WHERE minute_ms > {from_ms:Int64} - 60000 AND minute_ms < {to_ms:Int64} AND use = 'engine'
    AND if({engine:String} != '', owner = {engine:String}, host = {host:String})
"""


def touched(database: Reader, alert: Alert, now_ms: int) -> dict[str, Any] | None:
    """Requests, failed ones, tenants, tokens, and ``dollars`` that the engine (else all engines of the host) was billed
    meanwhile; these are None while there is no bill or a part of it has no price. None for an alert about neither."""
    where = _scope(alert, now_ms)
    if where is None:
        return None
    (requests,) = database.sql(_REQUESTS, where).records()
    return {**requests, "dollars": _dollars(database, where)}


def _scope(alert: Alert, now_ms: int) -> dict[str, Any] | None:
    engine, host = alert.labels.get("engine_id", ""), alert.labels.get("host", "")
    if not engine and not host:
        return None
    over_ms = now_ms if alert.resolved_ms is None else alert.resolved_ms
    return {"engine": engine, "host": host, "from_ms": alert.since_ms - BEFORE_MS, "to_ms": over_ms + AFTER_MS}


def _dollars(database: Reader, where: Mapping[str, Any]) -> float | None:
    try:
        (bill,) = database.sql(_BILLS, where).records()
    except FleetpulseError:  # a database without tables of costs
        return None
    known = bill["minutes"] and not bill["unpriced"]
    return bill["nusd"] / 1e9 if known else None
