"""What a report of money says, as data: answers of named queries, put together. No I/O but ``ask``; whole nano-dollars.

How an engine's bill becomes a model's *full* cost: what its requests did not cause (waiting, start-up, unattributed)
is shared out to the models it served by what their requests cost, by largest remainder, so that full costs of all
models and what no model used add up to the engines' bills.

Prompt and generated tokens: a model's full cost is parted as its requests' cost was, computing prompts on one side,
generating and the cache that is held meanwhile on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetpulse.report import money
from fleetpulse.report.amounts import instant, ratio, usd_of
from fleetpulse.report.emissions import emissions
from fleetpulse.report.goodput import goodput_rows, slo_parameters
from fleetpulse.report.list_side import bounds_of, entries_of, list_sides
from fleetpulse.report.sources import sources
from fleetpulse.report.standings import history_ms, look_back_ms, months, standings
from schemas.errors import FleetpulseError
from stream_jobs.budgets.model import Budgets
from stream_jobs.prices.model import Prices
from stream_jobs.rules.model import SloClass

Row = dict[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[Row]]
"""Rows of a named query with its parameters."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a report is about. ``prices_file`` is only told; ``slo_classes`` empty: goodput is not judged."""

    from_ms: int
    to_ms: int
    now_ms: int
    prices: Prices = field(default_factory=Prices)
    prices_file: str = ""
    slo_classes: tuple[SloClass, ...] = ()
    budgets: Budgets = field(default_factory=Budgets)

    @property
    def bounds(self) -> dict[str, int]:
        """Parameters that every query takes."""
        return {"from_ms": self.from_ms, "to_ms": self.to_ms}


def gather(ask: Ask, asked: Asked) -> dict[str, Any]:
    """All figures of the range. Raises ``FleetpulseError`` where there is no bill in it."""

    def of(name: str, **more: Any) -> list[Row]:
        return ask(name, asked.bounds | more)

    bill = of("cost_bill")
    if not bill:
        told = f"no bill between {instant(asked.from_ms)} and {instant(asked.to_ms)} (UTC)"
        raise FleetpulseError(f"{told}; does the cost job run? `fleetpulse jobs costs`, and `fleetpulse status`")
    models, engines = _models(of, asked), of("cost_by_engine")
    places = of("cost_energy_by_place")
    return {
        "from_ms": asked.from_ms,
        "to_ms": asked.to_ms,
        "bill": bill[0],
        "split": of("cost_split"),
        "hours": of("cost_by_hour"),
        "models": models,
        "tenants": [money.unit_costs(row) for row in _by(of, "tenant")],
        "engines": [money.engine_costs(row, of_engine) for row, of_engine in money.by_engine(engines, of)],
        "gpu_models": [money.gpu_costs(row) for row in of("cost_by_gpu_model")],
        "goodput": goodput_rows(
            of("cost_goodput", **slo_parameters(asked.slo_classes)), _by(of, "slo_class"), asked.slo_classes
        ),
        "energy": emissions(places, asked.prices),
        "idle": of("cost_idle"),
        "failed": of("cost_failed"),
        "power_caps": of("cost_power_cap"),
        **_outlook(ask, asked),
        "prices": {
            "file": asked.prices_file,
            "version": asked.prices.version,
            "used": sources(of("cost_places"), asked.prices),
        },
    }


def _by(of: Callable[..., list[Row]], dimension: str) -> list[Row]:
    """Rows of ``cost_by``, the name of each under its dimension."""
    return [{dimension: row["name"]} | row for row in of("cost_by", dimension=dimension)]


def _models(of: Callable[..., list[Row]], asked: Asked) -> list[Row]:
    """Models with their full cost, list price and break-even."""
    rows = _by(of, "model")
    served = of("cost_engine_models")
    full = money.full_costs(of("cost_by_engine"), served)
    busy = money.busy_by_model(of("cost_utilisation"), served)
    entries = entries_of(asked.prices, [row["model"] for row in rows if row["model"]])
    sides = list_sides(entries, of("cost_list_tokens", bounds=bounds_of(entries)))
    by_model = {one.model: one for one in sides}
    found = []
    for row in rows:
        name = row["model"]
        made = money.model_costs(row, full.get(name))
        side = by_model.get(name)
        list_nusd = side.cost_nusd if side else None
        made["list_key"], made["list_note"] = (side.key, side.note) if side else (None, "")
        made["list_nusd"], made["list_usd"] = list_nusd, usd_of(list_nusd)
        made["busy"] = busy.get(name)
        made["break_even_traffic"] = ratio(made["full_nusd"], list_nusd)
        made["break_even_busy"] = money.product(made["busy"], made["break_even_traffic"])
        found.append(made)
    return found


def _outlook(ask: Ask, asked: Asked) -> dict[str, list[Row]]:
    """This month's forecast, and where budgets stand."""
    since_ms = [look_back_ms(one, asked.now_ms) for one in asked.budgets.budgets]
    days = ask("cost_by_day", {"from_ms": min([history_ms(asked.now_ms), *since_ms]), "to_ms": asked.now_ms})
    return {"months": months(days, asked.now_ms), "budgets": standings(asked.budgets, days, asked.now_ms)}
