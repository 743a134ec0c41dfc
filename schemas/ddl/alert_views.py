"""The view of alerts.

The table ``alerts`` keeps every transition with its whole record as JSON; ``alert_history`` takes the record apart.
A log that is judged again may hold a transition twice: of these the last in the log is shown.
"""

from __future__ import annotations

from schemas.ddl.columns import Column, create

ALERT_VIEW = "alert_history"
_MOMENT = "fromUnixTimestamp64Milli({0}, 'UTC')"
_WHEN = "DateTime64(3, 'UTC')"
_LABEL = "LowCardinality(Nullable(String))"


def views() -> list[str]:
    """All of them."""
    return [alert_history()]


def alert_history() -> str:
    """One row per transition with the fields of its record."""
    shown = [
        *(_moment(name, meaning) for name, meaning in _MOMENTS),
        (Column("resolved", f"Nullable({_WHEN})", "when it was resolved; null while open"), _moment_or_null()),
        *((Column(name, kind, meaning), f"a.{name}") for name, kind, meaning in _KEPT),
        *(_taken(name, kind, meaning) for name, kind, meaning in _IN_RECORD),
        (Column("members", "UInt64", "other things the same cause did"), "JSONLength(a.record, 'members')"),
        (Column("evidence", "String", "what it was concluded from, as JSON"), "JSONExtractRaw(a.record, 'evidence')"),
    ]
    source = (
        "(\n    SELECT *\n    FROM alerts FINAL\n    ORDER BY log_offset DESC\n"
        "    LIMIT 1 BY fingerprint, opened_ms, number\n) AS a"
    )
    return _view(ALERT_VIEW, shown, source, "every transition of every alert, with the fields of its record")


_MOMENTS = (
    ("at", "when the transition happened, event time"),
    ("opened", "when the alert was opened"),
    ("since", "when what it is about began"),
)
_KEPT = (
    ("at_ms", "Int64", "when the transition happened, event time, UTC [ms]"),
    ("opened_ms", "Int64", "when the alert was opened [ms]"),
    ("since_ms", "Int64", "when what it is about began [ms]"),
    ("resolved_ms", "Nullable(Int64)", "when it was resolved; null while open [ms]"),
    ("fingerprint", "LowCardinality(String)", "id of the alert: 16 hex digits"),
    ("number", "UInt64", "of this transition within the alert: 1 opens it"),
    ("transition", _LABEL, "opened, updated or resolved"),
    ("rule", _LABEL, "rule of the headline"),
    ("severity", _LABEL, "the worst so far"),
    ("summary", "String", "one sentence for people"),
)
_IN_RECORD = (
    ("value", "Nullable(Float64)", "what was measured"),
    ("baseline", "Nullable(Float64)", "what was to be expected"),
    ("low", "Nullable(Float64)", "lower end of the expected range"),
    ("high", "Nullable(Float64)", "upper end of the expected range"),
    ("unit", "String", "unit of the four"),
    ("count", "Int64", "events behind the value"),
    ("labels", "Map(String, String)", "what it is about"),
    ("note", "String", "a likely cause in words"),
    ("advice", "String", "what to do"),
    ("muted_until_ms", "Nullable(Int64)", "no notification before this [ms]"),
    ("transition_id", "String", "the same in every run over the same input"),
)


def _moment(name: str, meaning: str) -> tuple[Column, str]:
    return Column(name, _WHEN, meaning), _MOMENT.format(f"a.{name}_ms")


def _moment_or_null() -> str:
    return f"if(a.resolved_ms IS NULL, NULL, {_MOMENT.format('assumeNotNull(a.resolved_ms)')})"


def _taken(name: str, kind: str, meaning: str) -> tuple[Column, str]:
    return Column(name, kind, meaning), f"JSONExtract(a.record, '{name}', '{kind}')"


def _view(name: str, shown: list[tuple[Column, str]], source: str, comment: str) -> str:
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in shown)
    behind = f"AS SELECT\n    {picked}\nFROM {source}"
    return create("CREATE OR REPLACE VIEW", name, [column for column, _ in shown], behind, comment)
