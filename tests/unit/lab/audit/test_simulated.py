"""The audit of a simulated day: exact, and what the simulation adds to its lines."""

from __future__ import annotations

import pytest

from fleetpulse.audit.checks import Check
from lab.audit.simulated import SimulatedAudit

GOOD = {"commits_unlike_undisturbed": 0, "late_rows": 3}


def audit(simulated: dict[str, int], differing: int = 0) -> SimulatedAudit:
    """One with three late rows."""
    return SimulatedAudit(0, 1, [Check("parts", 5, differing, differing)], 1, 1, 1, 1, (), simulated=simulated)


@pytest.mark.parametrize(
    ("found", "exact"),
    [
        pytest.param(audit(GOOD), True, id="all agrees"),
        pytest.param(audit(GOOD, differing=1), False, id="a bill differs"),
        pytest.param(audit({**GOOD, "late_rows": 2}), False, id="another number of late rows"),
        pytest.param(audit({**GOOD, "commits_unlike_undisturbed": 1}), False, id="a killed job emitted something else"),
    ],
)
def test_a_simulated_day_is_exact_only_when_the_simulation_agrees_too(found: SimulatedAudit, exact: bool) -> None:
    """Bills, late rows and what the killed job emitted."""
    assert found.exact is exact
    assert found.as_dict()["exact"] is exact
    assert found.as_dict()["simulated"] == found.simulated


def test_the_last_line_is_the_simulation_s() -> None:
    """Behind what an audit of live tables says."""
    assert list(audit(GOOD).lines())[-1] == "commits unlike undisturbed 0, late rows 3"
