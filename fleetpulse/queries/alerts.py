"""Which alerts are open, and how far back one is looked for: written once for all queries that tell. Pure.

A query writes ``{kept:Alerts}`` for that time [ms], and ``{open_at_end:Alerts}`` or ``{open_at_begin:Alerts}`` for the
rows of table ``alerts`` that are the newest of those open at the end or the beginning of its range.
"""

from __future__ import annotations

from schemas.limits import DAY_MS

ALERTS_KEPT_MS = 367 * DAY_MS
"""How far back an alert is looked for that is open: those of budgets are published once in a period, of at most 366
days. Without any record for this long it counts as over."""
_KEPT = f"{ALERTS_KEPT_MS // DAY_MS} * {DAY_MS}"


def _open(at: str, kept: str) -> str:
    """Read from narrow columns, all columns of what they find alone. Where a row was written twice it comes once. Of a
    fingerprint the alert counts that was opened last: an event that came late opens one at its own time, which may lie
    before the end of the alert before."""
    return f"""(
    SELECT *
    FROM alerts FINAL
    WHERE (at_ms, fingerprint, number, log_offset) IN
    (
        SELECT newest.2, fingerprint, newest.3, newest.4
        FROM
        (
            SELECT fingerprint, max((opened_ms, at_ms, number, log_offset, ifNull(transition, 'resolved'))) AS newest
            FROM alerts
            WHERE at_ms >= {{to_ms:Int64}} - {kept} AND at_ms < {at}
            GROUP BY fingerprint
        )
        WHERE newest.5 != 'resolved'
    )
    LIMIT 1 BY fingerprint
)"""


_PIECES = {
    "kept": _KEPT,
    "open_at_end": _open("{to_ms:Int64}", "{kept_ms:Int64}"),
    "open_at_begin": _open("{from_ms:Int64}", _KEPT),
}


def with_alerts(sql: str) -> str:
    """The text with every piece in its place."""
    for name, piece in _PIECES.items():
        sql = sql.replace(f"{{{name}:Alerts}}", piece)
    return sql
