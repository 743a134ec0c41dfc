"""Both sides of the whole path hold every event, or their CPU says nothing."""

from __future__ import annotations

import pytest

from lab.bench.landing import Cost
from lab.bench.whole_path import Side, _check
from lab.bench.workload import FLEET
from schemas.errors import FleetpulseError
from schemas.events.grouping import sets_of

SECONDS = 3
EACH = SECONDS * FLEET.events_per_s // (FLEET.requests_per_record + FLEET.gpus_per_host)
WHOLE = {
    name: EACH * share
    for topic, share in (("llm.requests", FLEET.requests_per_record), ("gpu.samples", FLEET.gpus_per_host))
    for name in (f"{topic} raw", *(grouping.name for grouping in sets_of(topic)))
}


def side(landed: dict[str, int]) -> Side:
    return Side({"job": 1.5, "sink": 0.25}, 2.0, 0.0, landed)


def test_a_side_costs_what_all_its_processes_cost() -> None:
    """Client and server of a landing likewise."""
    assert side({}).total_s == 1.75
    assert Cost(2.0, 0.5).total_us == 2.5


def test_a_side_that_holds_everything_passes() -> None:
    """Raw rows and every grouping set of both topics."""
    _check(side(WHOLE), FLEET, SECONDS * FLEET.events_per_s)

    assert len(WHOLE) > 4


@pytest.mark.parametrize("change", [-1, 1])
def test_an_event_too_few_or_too_many_ends_the_bench(change: int) -> None:
    """Both numbers are named."""
    name = next(iter(WHOLE))
    wrong = {**WHOLE, name: WHOLE[name] + change}

    with pytest.raises(FleetpulseError, match=f"not everything landed: .*{WHOLE[name] + change}"):
        _check(side(wrong), FLEET, SECONDS * FLEET.events_per_s)
