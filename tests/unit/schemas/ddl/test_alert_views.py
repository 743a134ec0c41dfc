"""The view of alerts: every field of a record is shown. The statement runs in tests/integration/test_ddl.py."""

from __future__ import annotations

import re
from dataclasses import fields

from schemas.contract.alerts import Alert
from schemas.ddl.alert_views import ALERT_VIEW, views


def test_every_field_of_an_alert_is_a_column() -> None:
    """What the contract gains, the history shows."""
    (view,) = views()
    columns = re.findall(r"^    (\w+) .* COMMENT '", view, re.M)

    assert view.startswith(f"CREATE OR REPLACE VIEW {ALERT_VIEW}\n")
    assert {field.name for field in fields(Alert)} - set(columns) == set()
    assert len(columns) == len(set(columns))


def test_a_transition_told_twice_is_shown_once() -> None:
    """A log that is judged again appends its transitions again: the last copy stands."""
    (view,) = views()

    assert "ORDER BY log_offset DESC\n    LIMIT 1 BY fingerprint, opened_ms, number" in view
