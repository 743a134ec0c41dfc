"""The result of an audit: exact or not, and what its lines say."""

from __future__ import annotations

from fleetpulse.audit.checks import Check, rollups
from fleetpulse.audit.report import Audit


def test_an_audit_is_exact_only_when_all_agree() -> None:
    """No bill, or a difference: each is not exact."""

    def made(bills: int = 5, differing: int = 0) -> bool:
        return Audit(0, 1, [Check("parts", bills, differing, differing)], 1, 1, 1, 1, ()).exact

    assert [made(), made(bills=0), made(differing=1)] == [True, False, False]


def test_lines_of_an_audit_name_what_differs_and_what_is_late() -> None:
    """Where to look, and what mends it."""
    audit = Audit(
        0, 1, [Check("parts", 1, 1, 7, ["engine e, 2026: off by 7"])], 1, 1, 1, 1, (), "another file", ["costs: x"]
    )

    assert list(audit.lines()) == [
        "parts: engine e, 2026: off by 7",
        "declared missing by costs: x",
        "not priced again: another file",
        "1 rows of GPU readings, 1 of usage and 1 of shares came when their minute was no longer kept"
        " (1 group-minutes):",
        "  `fleetpulse rerate` takes them in",
    ]
    assert "costs_1d" in rollups("day")
    assert "cost_parts_1h" in rollups("hour")
