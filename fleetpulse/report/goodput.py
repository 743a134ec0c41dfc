"""What good work cost: verdicts counted by the database, objectives and money beside them. Pure.

The verdicts are those of ``stream_jobs.costs.goodput``, in SQL (``cost_goodput``); a test holds both together. The
cost of a class is that of all its requests, also of failed and slow ones: it was spent to get the good ones. Of it what
slow answers cost is estimated by their share of the generated tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.report.amounts import USD_NUSD, per_million, ratio
from fleetpulse.report.money import product
from stream_jobs.costs.goodput import DEFINITION_VERSION, OBJECTIVES, Goodput
from stream_jobs.rules.model import SloClass


def slo_parameters(classes: Sequence[SloClass]) -> dict[str, Any]:
    """Parameters of ``cost_goodput``."""
    return {
        "slo_classes": [one.name for one in classes],
        **{f"slo_{name}": [getattr(one, name) for one in classes] for name in OBJECTIVES},
    }


def goodput_rows(
    counted: Sequence[Mapping[str, Any]], costs: Sequence[Mapping[str, Any]], classes: Sequence[SloClass]
) -> list[dict[str, Any]]:
    """A row for each class that is defined and has requests."""
    by_class = {row["slo_class"]: row for row in counted}
    spent = {row["slo_class"]: row["cost_nusd"] for row in costs}
    return [_row(slo, by_class[slo.name], spent.get(slo.name)) for slo in classes if slo.name in by_class]


def _row(slo: SloClass, row: Mapping[str, Any], cost_nusd: int | None) -> dict[str, Any]:
    counts = {name: row[name] for name in ("good", "missed", "failed", "left_out")}
    missed = {f"missed_{name}_us": row[f"missed_{name}"] for name in ("ttft", "tpot", "e2e")}
    tokens_of = {name: row[name] for name in ("good_input_tokens", "good_output_tokens")}
    found = Goodput(**counts, **missed, **tokens_of)
    late = ratio(row["missed_output_tokens"], row["all_output_tokens"])
    tokens = found.good_input_tokens + found.good_output_tokens
    return {
        **row,
        "share": slo.share,
        "definition_version": DEFINITION_VERSION,
        "attainment": found.attainment(),
        "error_budget_left": found.budget_left(slo),
        "burn_rate": found.burn_rate(slo),
        "cost_nusd": cost_nusd,
        "missed_usd": ratio(product(cost_nusd, late), USD_NUSD),
        "usd_per_good_request": ratio(cost_nusd, found.good * USD_NUSD),
        "usd_per_million_good_tokens": per_million(cost_nusd, tokens),
    }
