"""What an alert hit and what that cost, by the tables: requests of its engine or host, and their bills.

An alert of a GPU whose fault is in the tables has the requests that ``fault_impact`` gives it; any other has those that
were open while it was. The alert itself cannot say: bills of a minute come when the minute is over, and are revised
after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleetpulse.sql.database import Reader
from schemas.contract.alerts import Alert
from schemas.ddl.fault_view import NAME, SPLIT_MS
from schemas.definitions import END
from schemas.errors import FleetpulseError

_FAULT = f"""
SELECT requests, failed, other_failed, aborted, client_fault, tenants, most_of_them, input_tokens, output_tokens,
    fault_ms, until_ms AS over_ms, ifNull(engine_id, '') AS engine
FROM {NAME}(from_ms = {{from_ms:Int64}}, to_ms = {{to_ms:Int64}})
WHERE has(gpu_uuids, {{gpu:String}})
ORDER BY fault_ms DESC
LIMIT 1
"""
_REQUESTS = f"""
SELECT
    count() AS requests,
    {", ".join(f"countIf({condition}) AS {end}" for end, condition in END.items())},
    uniqExactIf(tenant, tenant IS NOT NULL) AS tenants,
    topKIf(5)(tenant, tenant IS NOT NULL) AS most_of_them,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens
FROM llm_requests FINAL
WHERE at_ms >= {{from_ms:Int64}} AND at_ms - intDiv(ifNull(e2e_us, 0), 1000) < {{to_ms:Int64}}
    AND at_ms < {{to_ms:Int64}} + 3600000 AND verdict = 'accepted'
    AND if({{engine:String}} != '', engine_id = {{engine:String}}, host = {{host:String}})
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
    fault = _fault(database, alert)
    if fault is not None:
        engine, since_ms, over_ms = (fault.pop(name) for name in ("engine", "fault_ms", "over_ms"))
        bounds = {"engine": engine, "host": "", "from_ms": since_ms, "to_ms": over_ms}
        return {**fault, "dollars": _dollars(database, bounds) if engine else None}
    where = _scope(alert, now_ms)
    if where is None:
        return None
    (requests,) = database.sql(_REQUESTS, where).records()
    return {**requests, "dollars": _dollars(database, where)}


def _fault(database: Reader, alert: Alert) -> dict[str, Any] | None:
    """The fault that an alert of a GPU is about."""
    gpu = alert.labels.get("gpu_uuid", "")
    if not gpu:
        return None
    around = {"gpu": gpu, "from_ms": alert.since_ms - SPLIT_MS, "to_ms": alert.since_ms + SPLIT_MS}
    return next(iter(database.sql(_FAULT, around).records()), None)


def _scope(alert: Alert, now_ms: int) -> dict[str, Any] | None:
    engine, host = alert.labels.get("engine_id", ""), alert.labels.get("host", "")
    if not engine and not host:
        return None
    over_ms = now_ms if alert.resolved_ms is None else alert.resolved_ms
    return {"engine": engine, "host": host, "from_ms": alert.since_ms, "to_ms": over_ms}


def _dollars(database: Reader, where: Mapping[str, Any]) -> float | None:
    try:
        (bill,) = database.sql(_BILLS, where).records()
    except FleetpulseError:  # a database without tables of costs
        return None
    known = bill["minutes"] and not bill["unpriced"]
    return bill["nusd"] / 1e9 if known else None
