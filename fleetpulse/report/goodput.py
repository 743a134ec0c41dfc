"""What good work cost: verdicts counted by the database, objectives and money beside them. Pure.

The verdicts are those of ``stream_jobs.costs.goodput``: up to six hours of single requests, by SQL (``cost_goodput``),
which also say what was missed; of longer ranges as windows hold them (``cost_goodput_windows``), and where these hold
none, by single requests again, as far as they are kept. Tests hold all three together. The
cost of a class is that of all its requests, also of failed and slow ones: it was spent to get the good ones. Of it what
slow answers cost is estimated by their share of the generated tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleetpulse.report.amounts import USD_NUSD, per_million, ratio
from fleetpulse.report.money import product
from schemas.definitions import END
from schemas.limits import HOUR_MS
from stream_jobs.costs.goodput import DEFINITION_VERSION, OBJECTIVES, Goodput
from stream_jobs.rules.model import SloClass

REQUESTS_SPAN_MAX_MS = 6 * HOUR_MS
"""Up to this range single requests are judged, one by one."""
VERDICTS = ("good", "missed", "failed", "left_out")
OF_REQUESTS = ("missed_ttft", "missed_tpot", "missed_e2e", "good_input_tokens", "good_output_tokens",
               "missed_output_tokens", "all_output_tokens")  # fmt: skip
"""What ``cost_goodput`` alone says."""


def slo_parameters(classes: Sequence[SloClass]) -> dict[str, Any]:
    """Parameters of ``cost_goodput``."""
    return {
        "slo_classes": [one.name for one in classes],
        **{f"slo_{name}": [getattr(one, name) for one in classes] for name in OBJECTIVES},
    }


def counted(of: Callable[..., list[dict[str, Any]]], span_ms: int, classes: Sequence[SloClass]) -> list[dict[str, Any]]:
    """Verdicts by class of a range of this length; ``of`` queries it, unless there is no class to judge."""
    if not classes:
        return []
    windows = [] if span_ms <= REQUESTS_SPAN_MAX_MS else of("cost_goodput_windows")
    return windows or of("cost_goodput", **slo_parameters(classes))


def goodput_rows(
    counted: Sequence[Mapping[str, Any]],
    costs: Sequence[Mapping[str, Any]],
    classes: Sequence[SloClass],
    requests_kept: bool = True,
) -> list[dict[str, Any]]:
    """A row for each class that is defined and has requests. What windows do not hold is None in theirs. Where verdicts
    are of a part of the range, what good work cost is None: the cost is of all of it. Those of single requests are,
    unless all are kept (``requests_kept``). Where bills of some requests have no cost it is None, too: verdicts do not
    know which."""
    by_class = {row["slo_class"]: row for row in counted}
    spent = {row["slo_class"]: row for row in costs}
    return [
        _row(slo, by_class[slo.name], spent.get(slo.name, {}), requests_kept) for slo in classes if slo.name in by_class
    ]


def _judged_all(found: Goodput, cost: Mapping[str, Any]) -> bool:
    """Whether windows that judged requests hold as many of the class as all windows do."""
    return found.good + found.missed + found.failed + found.left_out >= sum(cost.get(end, 0) for end in END)


def _row(slo: SloClass, row: Mapping[str, Any], cost: Mapping[str, Any], requests_kept: bool) -> dict[str, Any]:
    found, cost_nusd = Goodput(**{name: row[name] for name in VERDICTS}), cost.get("cost_nusd")
    whole = requests_kept if "missed_ttft" in row else _judged_all(found, cost)
    priced = cost.get("priced_requests", 0) >= cost.get("requests", 0)
    of_good = cost_nusd if whole and priced else None
    late = ratio(row.get("missed_output_tokens"), row.get("all_output_tokens"))
    return {
        **dict.fromkeys(OF_REQUESTS),
        **row,
        "share": slo.share,
        "definition_version": DEFINITION_VERSION,
        "attainment": found.attainment(),
        "error_budget_left": found.budget_left(slo),
        "burn_rate": found.burn_rate(slo),
        "cost_nusd": cost_nusd,
        "missed_usd": ratio(product(of_good, late), USD_NUSD),
        "usd_per_good_request": ratio(of_good, found.good * USD_NUSD),
        "usd_per_million_good_tokens": per_million(of_good, row["good_tokens"]),
    }
