"""Evidence as tables: known kinds in order and with units, unknown ones as they are."""

from __future__ import annotations

import pytest

from fleetpulse.dashboard.alert_evidence import ROWS_MAX, EvidenceTable, costs, tables, written
from fleetpulse.report.amounts import usd


def test_kinds_come_in_the_order_for_people() -> None:
    """Expected first, requests by list, what nobody knows last; empty lists are left out."""
    evidence = {
        "zzz": 1,
        "requests": {"slowest": [{"engine_id": "e", "value_us": 1_500, "request_id": "r"}], "failed": []},
        "expected": {"value": 0.5, "unit": "MHz"},
    }

    assert tables(evidence) == [
        EvidenceTable("Measured and expected", ("", ""), (("value", "0.5"), ("unit", "MHz"))),
        EvidenceTable("Slowest requests", ("request id", "engine id", "value"), (("r", "e", "1.5 ms"),)),
        EvidenceTable("zzz", ("",), (("1",),)),
    ]


def test_rows_may_lack_columns_and_have_a_limit() -> None:
    """A column of any row is one of the table; what a row lacks is a dash; so many rows and no more."""
    (table,) = tables({"deployment": [{"version": "2"}, {"kind": "marked"}] * ROWS_MAX})

    assert table.columns == ("version", "kind")
    assert table.rows[:2] == (("2", "–"), ("–", "marked"))
    assert len(table.rows) == ROWS_MAX


def test_nothing_gives_nothing() -> None:
    """No evidence, no table."""
    assert tables({}) == []
    assert tables({"touched": {}, "requests": {"failed": []}}) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("value_us", 2_000_000, "2 s"),
        ("throttled_share", 0.25, "25.0 %"),
        ("window_ms", 1_800_000_000_000, "2027-01-15 08:00:00 UTC"),
        ("lag_ms", 1_500, "1.5 s"),
        ("tokens", 12_345, "12.3k"),
        ("tenants", {"acme": 5, "<b>": 1}, "acme 5, <b> 1"),
        ("hosts", ["a", "b"], "a, b"),
        ("new", True, "True"),
        ("dollars", None, "–"),
    ],
)
def test_values_have_the_unit_of_their_name(name: str, value: object, text: str) -> None:
    """The end of a name says the unit; what has none stays a plain number or text."""
    assert written(name, value) == text


def test_money_of_requests_stands_by_tenant() -> None:
    """Unknown money is a dash, nobody's requests too; bills that may change are said."""
    known = {"name": "acme", "requests": 1_200, "ok": 1_190, "aborted": 3, "unanswered": 7,
             "cost_nusd": 2_500_000_000, "unanswered_nusd": 10_000_000}  # fmt: skip
    unknown = {"name": "", "requests": 1, "ok": 1, "aborted": 0, "unanswered": 0, "cost_nusd": None,
               "unanswered_nusd": None}  # fmt: skip
    rows = [known | {"all_final": 1}, unknown | {"all_final": 0}]

    assert costs(rows) == EvidenceTable(
        "What the requests cost, provisional",
        ("tenant", "requests", "ok", "aborted", "unanswered", "cost", "of it unanswered"),
        (
            ("acme", "1,200", "1,190", "3", "7", usd(2_500_000_000), usd(10_000_000)),
            ("–", "1", "1", "0", "0", "–", "–"),
        ),
    )
    assert costs(rows[:1]).title == "What the requests cost"
    assert costs([]).rows == ()
