"""Budgets on a virtual clock: what is true follows from bills, what is told from the jobs."""

from __future__ import annotations

from dataclasses import replace

from lab.evaluate.overruns import BEHIND_MS, USUAL_USD, Truth, budgets, overrun, run_overrun
from lab.evaluate.pipeline import Spent
from lab.evaluate.report import Report
from lab.evaluate.scenario import BEGIN_MS, CHAT, Scenario
from lab.evaluate.score import score
from lab.simulator.load import PoissonLoad, Share
from lab.simulator.plan import DEFAULT_TENANTS, EnginePlan, FleetPlan, HostPlan
from schemas.limits import DAY_MS, MINUTE_MS
from stream_jobs.budgets.model import PPM, Budget, Budgets, Level
from tests.unit.stream_jobs.budgets.spend_cases import DOLLAR, a_bill, a_cost_record

MIDNIGHT_MS = BEGIN_MS + DAY_MS


def a_night() -> Scenario:
    """A host with two engines, from five minutes before midnight until 32 after it: bills come later than their day."""
    host = HostPlan("h", "c", "r", "H100", 2)
    engines = tuple(EnginePlan(f"h/{slot}", "h", CHAT, "chat@1", "bf16", slot) for slot in range(2))
    plan = FleetPlan((host,), engines, PoissonLoad(4.0, (Share(CHAT, 1.0),)))
    return Scenario(5, MIDNIGHT_MS - 5 * MINUTE_MS, MIDNIGHT_MS + 32 * MINUTE_MS, plan, ())


def a_budget(tenant: str, usd_cent: int) -> Budget:
    return Budget(tenant, usd_cent * DOLLAR // 100, "tenant", tenant, 1, levels=(Level(PPM, "hard"),))


def test_a_budget_that_is_used_up_is_told_once_and_ends_with_its_day() -> None:
    """One tenant spends its five cents before midnight, another has a hundred dollars, nobody has begun to spend."""
    given = Budgets((a_budget("acme", 5), a_budget("globex", 10_000)))

    case, told = run_overrun(a_night(), given, Spent())

    found = score(5, case.troubles, told)
    outcome = found.outcomes[0]
    assert {one.trouble.value for one in found.outcomes} == {"acme"}
    assert outcome.late_s is not None
    assert 0 <= outcome.late_s <= 120
    assert (outcome.cause_first, outcome.resolved, outcome.doubles) == (True, True, ())
    assert outcome.story is not None
    assert outcome.story.resolved_ms == MIDNIGHT_MS
    assert found.false_alarms == ()


def test_the_newest_of_every_bill_counts() -> None:
    """A bill that is told again takes the place of what was told of it; a part of nobody is nobody's."""
    truth = Truth({"acme": 3 * DOLLAR})
    first = [a_bill(BEGIN_MS, [("acme", "m", 2 * DOLLAR), (None, "m", 7 * DOLLAR)])]
    again = [
        a_bill(BEGIN_MS, [("acme", "m", DOLLAR), ("acme", "n", DOLLAR)], 2),
        a_bill(BEGIN_MS, [("b", "m", 1)], 1, "e-2"),
    ]

    truth.take([a_cost_record(0, first)], BEGIN_MS + 60_000)
    truth.take([a_cost_record(1, again)], BEGIN_MS + 120_000)
    assert truth.spent == {("acme", BEGIN_MS): 2 * DOLLAR, ("b", BEGIN_MS): 1}
    assert truth.crossed == {}
    truth.take([a_cost_record(2, [a_bill(BEGIN_MS + MINUTE_MS, [("acme", "m", DOLLAR)])])], BEGIN_MS + 180_000)

    assert truth.crossed == {("acme", BEGIN_MS): BEGIN_MS + 180_000 - BEHIND_MS}


def test_a_tenant_that_overran_nothing_counts_as_missed() -> None:
    """The day was meant to cross its budget: without that it shows nothing, and says so."""
    case = overrun(3)

    found = replace(case, troubles=Truth({}).troubles(case.troubles))

    assert not Report((score(3, found.troubles, []),)).holds


def test_every_tenant_has_a_budget() -> None:
    """A tenth above what it usually spends in a day."""
    found = {one.of: one.amount_nusd for one in budgets().budgets}

    assert found == {tenant.name: USUAL_USD[tenant.name] * 1_100_000_000 for tenant in DEFAULT_TENANTS}
