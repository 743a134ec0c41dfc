"""Days on which a tenant overruns its budget: usage, bills, spend and budgets through the steps that run live.

Every tenant has a budget by the day, a tenth above its usual spend; one sends four times its requests for six hours.
What is true follows from the newest of each bill alone. No rule judges these days: every alert is about a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fleetpulse.backtest.alerting import Stage, Transition, alerts_of
from fleetpulse.services.jobs_and_sink import EXAMPLE_PRICES
from lab.evaluate.pipeline import ONE_EACH, Log, Spent, Windows
from lab.evaluate.scenario import BEGIN_MS, STEP_MS, Scenario, Trouble, daily_load, plan_of
from lab.evaluate.table import OVERRUN
from lab.simulator.faults import Fault
from lab.simulator.plan import DEFAULT_TENANTS
from schemas.codec import native
from schemas.codec.build import rows_of
from schemas.contract.record import Output, Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.costs import COSTS
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.model import PPM, Budget, Budgets, Level
from stream_jobs.costs.account import Pricing
from stream_jobs.costs.minute_buffer import BufferLimits
from stream_jobs.costs.step import CostStep
from stream_jobs.finals.spend import SpendStep
from stream_jobs.prices.load import load as load_prices
from stream_jobs.rules.model import RuleSet

USUAL_USD = {"acme": 653, "globex": 391, "initech": 261, "umbrella": 131, "hooli": 131}
"""What a tenant spends on a day without trouble: of seed 1, rounded. Budgets are a tenth above it."""
ABOVE_PPM = 1_100_000
BEGINS_H = (2.0, 8.0)
AFTER_MS = HOUR_MS
"""Of the next day: bills become final, and the period's alerts end."""
BEHIND_MS = DEFAULT_LIMITS.out_of_orderness_ms + WINDOW_MS
"""So far event time is behind the clock when a window is emitted."""


def budgets() -> Budgets:
    """A budget a day for every tenant, with an alert when it is used up."""
    return Budgets(
        tuple(
            Budget(f"{tenant} a day", usd * ABOVE_PPM * 10**9 // PPM, "tenant", tenant, 1, levels=(Level(PPM, "hard"),))
            for tenant, usd in USUAL_USD.items()
        )
    )


def overrun(seed: int) -> Scenario:
    """The day of a seed and an hour more."""
    random = np.random.default_rng([seed, 8])
    tenant = DEFAULT_TENANTS[int(random.integers(len(DEFAULT_TENANTS)))].name
    from_ms = BEGIN_MS + round(random.uniform(*BEGINS_H) * HOUR_MS / MINUTE_MS) * MINUTE_MS
    trouble = _trouble(tenant, from_ms, from_ms + OVERRUN.lasts_s * 1_000)
    return Scenario(seed, BEGIN_MS, BEGIN_MS + DAY_MS + AFTER_MS, plan_of(daily_load(), (trouble.fault,)), (trouble,))


def _trouble(tenant: str, from_ms: int, to_ms: int) -> Trouble:
    fault = Fault(OVERRUN.fault, "tenant", tenant, from_ms, to_ms, OVERRUN.strength)
    return Trouble(OVERRUN, fault, tenant, frozenset({("tenant", tenant)}))


@dataclass(slots=True)
class Truth:
    """``spent`` in nano-dollars by (tenant, start of the day), of the newest of every bill emitted; ``crossed``: the
    event time at which it first came to the tenant's budget."""

    amounts: dict[str, int]
    spent: dict[tuple[str, int], int] = field(default_factory=dict)
    crossed: dict[tuple[str, int], int] = field(default_factory=dict)
    _bills: dict[tuple[object, ...], dict[str, int]] = field(default_factory=dict)

    def take(self, records: Sequence[Record], now_ms: int) -> None:
        """Bills in the order in which they were emitted; each replaces the one before."""
        for record in records:
            for row in rows_of(COSTS.fields, native.decode(record.value or b"", COSTS.fields)):
                name = (row["minute_ms"], row["use"], row["owner"], row["placement_group"])
                parts = _by_tenant(row["part_tenant"], row["part_cost_nusd"])
                for sign, spend in ((-1, self._bills.get(name, {})), (1, parts)):
                    for tenant, amount in spend.items():
                        key = (tenant, row["minute_ms"] // DAY_MS * DAY_MS)
                        self.spent[key] = self.spent.get(key, 0) + sign * amount
                self._bills[name] = parts
        for key, amount in self.spent.items():
            if key not in self.crossed and amount >= self.amounts.get(key[0], amount + 1):
                self.crossed[key] = now_ms - BEHIND_MS

    def troubles(self, hit: Sequence[Trouble]) -> tuple[Trouble, ...]:
        """Every budget that was crossed, until its day ends, and whoever was hit without crossing any."""
        crossed = sorted(self.crossed.items())
        found = [_trouble(tenant, at_ms, day_ms + DAY_MS) for (tenant, day_ms), at_ms in crossed]
        return (*found, *(one for one in hit if one.value not in {tenant for tenant, _ in self.crossed}))


def _by_tenant(tenants: Sequence[str | None], costs: Sequence[int | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tenant, cost in zip(tenants, costs, strict=True):
        if tenant is not None and cost is not None:
            found[tenant] = found.get(tenant, 0) + cost
    return found


class Money:
    """The cost job and the finals job's part that turns its bills into spend; ``truth`` hears every bill."""

    def __init__(self, truth: Truth) -> None:
        prices = load_prices(EXAMPLE_PRICES)
        step = CostStep(DEFAULT_LIMITS, ONE_EACH, Pricing(prices), prices.version, buffer_limits=BufferLimits())
        self._costs, self._spend, self._log = Stage(step), Stage(SpendStep()), Log()
        self._truth = truth

    def take(self, partials: Sequence[Record], now_ms: int) -> list[Output]:
        """What a commit over these partials makes stand in ``window.finals``."""
        outputs = [one for one in self._costs.take(WINDOW_PARTIALS, 0, partials, now_ms) if one.topic == COSTS_TOPIC]
        bills = self._log.append_all(outputs, now_ms)
        self._truth.take(bills, now_ms)
        return self._spend.take(COSTS_TOPIC, 0, bills, now_ms) if bills else []


def budget_stage(given: Budgets) -> Stage:
    """The alert job with budgets and no rules."""
    return Stage(AlertStep(1, RuleSet(()), budgets=given))


def money_path(case: Scenario, given: Budgets, truth: Truth, spent: Spent) -> Iterator[Transition]:
    """From the fleet to alerts of budgets."""
    windows = Windows(spent, Money(truth).take)
    alerts = budget_stage(given)
    for step in case.fleet().steps(case.begin_ms, case.end_ms, STEP_MS):
        yield from alerts_of(alerts, windows.take(step))
        spent.on("alerts")


def run_overrun(case: Scenario, given: Budgets, spent: Spent) -> tuple[Scenario, list[Transition]]:
    """The day with what became true of it, and the alerts."""
    truth = Truth({one.of: one.amount_nusd for one in given.budgets if one.of is not None})
    transitions = list(money_path(case, given, truth, spent))
    return replace(case, troubles=truth.troubles(case.troubles)), transitions
