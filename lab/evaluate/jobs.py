"""The jobs under evaluation, as stages: the same steps, rules and evidence that run live."""

from __future__ import annotations

from fleetpulse.backtest.alerting import Stage
from schemas.limits import DEFAULT_LIMITS
from stream_jobs.alerts.evidence import Evidence
from stream_jobs.alerts.step import AlertStep
from stream_jobs.budgets.model import Budgets
from stream_jobs.finals.forward import ForwardStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.rules.model import RuleSet


def finals_stage(partitions: dict[str, int]) -> Stage:
    """The finals job over ``window.partials``; ``partitions`` of the source topics."""
    return Stage(FinalsStep(DEFAULT_LIMITS, partitions))


def forward_stage() -> Stage:
    """The finals job over what it passes on as it happens."""
    return Stage(ForwardStep(DEFAULT_LIMITS))


def budget_stage(budgets: Budgets) -> Stage:
    """The alert job with budgets and no rules."""
    return Stage(AlertStep(1, RuleSet(()), FleetDetector, Evidence, budgets=budgets))
