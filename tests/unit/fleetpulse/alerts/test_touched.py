"""Whom an alert touched: what the tables are queried for, and when dollars are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleetpulse.alerts.touched import touched
from fleetpulse.sql.database import Answer
from schemas.errors import FleetpulseError
from tests.unit.schemas.contract.test_alerts import ALERT

OF_ENGINE = replace(ALERT, labels={"engine_id": "e1", "host": "h-1"}, since_ms=1_000_000, resolved_ms=2_000_000)
REQUESTS = {"requests": 3, "failed": 1}
LATER_MS = 9_000_000


class Tables:
    """Answers with what it is given and remembers its queries; without a bill there are no tables of costs."""

    def __init__(self, bill: tuple[int, int, int | None] | None) -> None:
        self._bill = bill
        self.queries: list[Mapping[str, Any] | None] = []

    def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> Answer:
        self.queries.append(parameters)
        if "FROM costs" not in text:
            return Answer(tuple(REQUESTS), (tuple(REQUESTS.values()),))
        if self._bill is None:
            raise FleetpulseError("Unknown table expression identifier 'costs'")
        return Answer(("minutes", "unpriced", "nusd"), (self._bill,))


@pytest.mark.parametrize(
    ("bill", "dollars"),
    [
        pytest.param((2, 0, 4_500_000_000), 4.5, id="billed"),
        pytest.param((2, 0, 0), 0.0, id="billed nothing"),
        pytest.param((2, 1, 7), None, id="a minute without a price"),
        pytest.param((0, 0, None), None, id="no bill yet"),
        pytest.param(None, None, id="no tables of costs"),
    ],
)
def test_dollars_are_those_of_whole_bills(bill: tuple[int, int, int | None] | None, dollars: float | None) -> None:
    """Unknown, never 0, while anything is missing."""
    assert touched(Tables(bill), OF_ENGINE, LATER_MS) == {**REQUESTS, "dollars": dollars}


@pytest.mark.parametrize(("resolved_ms", "to_ms"), [(2_000_000, 2_000_000), (None, LATER_MS)])
def test_requests_while_it_was_open_are_asked_for(resolved_ms: int | None, to_ms: int) -> None:
    """Both questions are about the same time and place; what goes on lasts until now."""
    tables = Tables((0, 0, None))

    touched(tables, replace(OF_ENGINE, resolved_ms=resolved_ms), LATER_MS)

    assert tables.queries == [{"engine": "e1", "host": "h-1", "from_ms": 1_000_000, "to_ms": to_ms}] * 2


@pytest.mark.parametrize(("engine", "dollars"), [("e2", 4.5), ("", None)])
def test_an_alert_of_a_gpu_has_the_requests_of_its_fault(engine: str, dollars: float | None) -> None:
    """And the bill of the engine that the fault names, for as long as it lasted; a GPU that served none has no bill."""

    class Faults(Tables):
        def sql(self, text: str, parameters: Mapping[str, Any] | None = None) -> Answer:
            answer = super().sql(text, parameters)
            if "fault_impact" not in text:
                return answer
            found = {**REQUESTS, "fault_ms": 1_000_500, "over_ms": 1_090_000, "engine": engine}
            return Answer(tuple(found), (tuple(found.values()),))

    tables = Faults((2, 0, 4_500_000_000))
    alert = replace(OF_ENGINE, labels={"gpu_uuid": "GPU-1", "host": "h-1", "engine_id": "e1"})

    assert touched(tables, alert, LATER_MS) == {**REQUESTS, "dollars": dollars}
    asked = [{"gpu": "GPU-1", "from_ms": 940_000, "to_ms": 1_060_000}]
    asked += [{"engine": engine, "host": "", "from_ms": 1_000_500, "to_ms": 1_090_000}] if engine else []
    assert tables.queries == asked


def test_an_alert_about_no_machine_is_not_asked_about() -> None:
    """Of a model or tenant everything is touched."""
    tables = Tables(None)

    assert touched(tables, replace(OF_ENGINE, labels={"model": "m"}), LATER_MS) is None
    assert tables.queries == []
