"""Small parts of the evaluation: a log in memory, jobs as stages, days on which nothing is wrong.

Covers lab.evaluate.pipeline and lab.evaluate.scenario.
"""

from __future__ import annotations

import pytest

from fleetpulse.backtest.alerting import Stage
from lab.evaluate.overruns import budget_stage
from lab.evaluate.pipeline import Log
from lab.evaluate.scenario import BEGIN_MS, HEALTHY, THOUSAND_COPIES, fleet_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.budgets.model import Budgets
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.step import FinalsStep


def test_offsets_count_by_topic_and_partition() -> None:
    """In order, beginning at 0; append times are those of the call."""
    log = Log()
    outputs = [
        Output("a", 0, None, b"1", (("h", b"v"),)),
        Output("a", 1, b"k", b"2", ()),
        Output("b", 0, None, None, ()),
    ]

    first = log.append("a", 0, b"0", (), 5)

    assert first == Record("a", 0, 0, 5, None, b"0", ())
    assert log.append_all([*outputs, outputs[0]], 7) == [
        Record("a", 0, 1, 7, None, b"1", (("h", b"v"),)),
        Record("a", 1, 0, 7, None, b"2", ()),
        Record("b", 0, 0, 7, None, None, ()),
        Record("a", 0, 2, 7, None, b"1", (("h", b"v"),)),
    ]


def test_a_job_to_which_nothing_came_emits_nothing() -> None:
    """On its first commit, whichever job it is."""
    assert Stage(FinalsStep(DEFAULT_LIMITS, {"gpu.samples": 1})).take(WINDOW_PARTIALS, 0, [], BEGIN_MS) == []
    assert Stage(ForwardStep(DEFAULT_LIMITS)).take("gpu.events", 0, [], BEGIN_MS) == []
    assert budget_stage(Budgets(())).take(COSTS_TOPIC, 0, [], BEGIN_MS) == []


@pytest.mark.parametrize(("name", "hours"), [("azure", 6.0), ("thousand", 24.0)])
def test_a_healthy_day_has_no_fault(name: str, hours: float) -> None:
    """As long as usual, or as long as was asked."""
    usual, short = HEALTHY[name](3), HEALTHY[name](3, hours=0.5)

    assert (usual.end_ms - usual.begin_ms) / 3_600_000 == hours
    assert (short.end_ms - short.begin_ms) / 3_600_000 == 0.5
    assert (usual.seed, usual.begin_ms, usual.troubles, usual.plan.faults) == (3, BEGIN_MS, (), ())


def test_the_thousand_series_are_the_fleet_several_times() -> None:
    """Hosts and engines alike."""
    plan = HEALTHY["thousand"](1).plan
    hosts, engines = fleet_of(1)

    assert len(plan.hosts) == THOUSAND_COPIES * len(hosts)
    assert len(plan.engines) == THOUSAND_COPIES * len(engines)
