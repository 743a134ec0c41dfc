"""Which alerts are open, as all queries that tell have it."""

from __future__ import annotations

from importlib.resources import files

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.alerts import ALERTS_KEPT_MS, with_alerts
from schemas.limits import DAY_MS

OF_PAGES = "fleetpulse.queries.dashboard"


def test_how_far_back_an_open_alert_is_looked_for_is_written_once() -> None:
    """No file of the catalogue has it; its text has, as days that people read."""
    days = str(ALERTS_KEPT_MS // DAY_MS)
    texts = [
        entry.read_text(encoding="utf-8")
        for folder in ("fleetpulse.queries", OF_PAGES)
        for entry in files(folder).iterdir()
        if entry.name.endswith(".sql")
    ]

    assert [line for text in texts for line in text.splitlines() if days in line and not line.startswith("--")] == []
    for name in ("open_alerts", "alert_history"):
        assert f"{{to_ms:Int64}} - {days} * {DAY_MS}" in queries.text(name)


def test_what_is_open_is_chosen_alike_at_both_ends_of_a_range() -> None:
    """As far back from its end as the query is asked to look, or as the history does."""
    at_end, at_begin = (with_alerts(f"{{open_at_{one}:Alerts}}") for one in ("end", "begin"))
    kept = f"{ALERTS_KEPT_MS // DAY_MS} * {DAY_MS}"

    assert at_begin == at_end.replace("< {to_ms:Int64}", "< {from_ms:Int64}").replace("{kept_ms:Int64}", kept)
    assert at_end in dashboard.query("alerts_open").sql
    assert at_begin in dashboard.query("alerts_history").sql
    assert dict(dashboard.query("alerts_open").parameters).keys() >= {"kept_ms", "to_ms"}


def test_of_a_fingerprint_the_alert_counts_that_was_opened_last() -> None:
    """In all queries: an event that came late opens one before the end of the alert before, whose end is none of it."""
    assert "max((opened_ms, at_ms, number, " in with_alerts("{open_at_end:Alerts}")
    for name in ("open_alerts", "alert_history"):
        newest = queries.text(name).partition("LIMIT 1 BY fingerprint\n")[0].rpartition("ORDER BY ")[2]
        assert newest.strip() == "opened_ms DESC, at_ms DESC, number DESC"
    assert "ORDER BY opened_ms DESC, at_ms DESC, number DESC, " in dashboard.query("alert_transitions").sql
