"""The cost report as data: its query with the files it reads, and answers of named queries, put together.

All amounts are whole nano-dollars.

How an engine's bill becomes a model's *full* cost: what its requests did not cause (waiting, start-up, unattributed)
is shared out to the models it served by what their requests cost, by largest remainder, so that full costs of all
models and what no model used add up to the engines' bills.

Prices of tokens are of what requests caused: computing prompts on one side, generating and the cache that is held
meanwhile on the other, cached tokens at nothing. Prices times tokens are the requests' cost; what no request caused
stands beside it, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, tzinfo
from pathlib import Path
from typing import Any

from fleetpulse.queries import dashboard
from fleetpulse.queries.calendar_days import midnight
from fleetpulse.queries.data_ends import Lack
from fleetpulse.report import money
from fleetpulse.report.amounts import instant, ratio, usd_of
from fleetpulse.report.goodput import counted, goodput_rows
from fleetpulse.report.list_side import bounds_of, entries_of, list_sides
from fleetpulse.report.places import emissions, sources
from fleetpulse.report.standings import history_ms, look_back_ms, months, standings
from fleetpulse.sql.database import Database
from fleetpulse.sql.lookups import lacking
from runtime.config import ClickHouseConfig
from schemas.errors import ConfigError, FleetpulseError
from schemas.limits import DAY_MS, DEFAULT_LIMITS, MINUTE_MS, Limits
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.budgets.model import Budgets
from stream_jobs.prices.load import load as load_prices
from stream_jobs.prices.model import Prices, instant_of, is_example
from stream_jobs.rules.load import load_set
from stream_jobs.rules.model import SloClass

Row = dict[str, Any]
Ask = Callable[[str, Mapping[str, Any]], list[Row]]
"""Rows of a named query with its parameters."""


class NoBillError(FleetpulseError):
    """There is no bill in the range of a report."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What a report is about. ``prices_file`` is only shown; ``slo_classes`` empty: goodput is not judged."""

    from_ms: int
    to_ms: int
    now_ms: int
    prices: Prices = field(default_factory=Prices)
    prices_file: str = ""
    slo_classes: tuple[SloClass, ...] = ()
    budgets: Budgets = field(default_factory=Budgets)
    raw_ttl_ms: int = DEFAULT_LIMITS.raw_ttl_ms

    @property
    def bounds(self) -> dict[str, int]:
        """Parameters that every query takes."""
        return {"from_ms": self.from_ms, "to_ms": self.to_ms}

    def requests_kept(self, first_ms: int) -> bool:
        """Whether all single requests of the range are still there. ``first_ms``: where its bills begin."""
        return max(self.from_ms, first_ms) >= (self.now_ms - self.raw_ttl_ms) // MINUTE_MS * MINUTE_MS


def gather(ask: Ask, query: ReportQuery) -> dict[str, Any]:
    """The whole report of the range. Raises ``NoBillError`` where there is no bill in it."""

    def of(name: str, **more: Any) -> list[Row]:
        return ask(name, query.bounds | more)

    bill = of("cost_bill")
    if not bill:
        empty = f"no bill between {instant(query.from_ms)} and {instant(query.to_ms)} (UTC)"
        raise NoBillError(f"{empty}; does the cost job run? `fleetpulse jobs costs`, and `fleetpulse status`")
    kept = query.requests_kept(bill[0]["first_ms"])
    models, engines, coverage = _models(of, query, kept), of("cost_by_engine"), of("cost_coverage")
    return {
        "from_ms": query.from_ms,
        "to_ms": query.to_ms,
        "bill": bill[0],
        "split": of("cost_split"),
        "unobserved": coverage,
        "hours": of("cost_by_hour"),
        "models": models,
        "tenants": [money.unit_costs(row) for row in _by(of, "tenant")],
        "engines": [money.engine_costs(row, of_engine) for row, of_engine in money.by_engine(engines, of)],
        "gpu_models": [*map(money.gpu_costs, money.with_silence(of("cost_by_gpu_model"), coverage))],
        "goodput": goodput_rows(
            counted(of, query.to_ms - query.from_ms, query.slo_classes),
            _by(of, "slo_class"),
            query.slo_classes,
            kept,
        ),
        "energy": emissions(of("cost_energy_by_place")),
        "idle": of("cost_idle"),
        "failed": of("cost_failed"),
        "power_caps": of("cost_power_cap"),
        **_outlook(ask, query),
        "joins": of("joins"),
        "prices": {
            "file": query.prices_file,
            "version": query.prices.version,
            "example": any(map(is_example, (query.prices.version, *bill[0]["prices_versions"]))),
            "used": sources(of("cost_places"), query.prices),
        },
    }


def _by(of: Callable[..., list[Row]], dimension: str) -> list[Row]:
    """Rows of ``cost_by``, the name of each under its dimension."""
    return [{dimension: row["name"]} | row for row in of("cost_by", dimension=dimension)]


def _models(of: Callable[..., list[Row]], query: ReportQuery, kept: bool) -> list[Row]:
    """Models with their full cost, list price and break-even, which compares answered requests: not all of them have a
    bill. ``kept``: whether the requests of the range are."""
    rows = _by(of, "model")
    served = of("cost_engine_models")
    full = money.full_costs(of("cost_by_engine"), served)
    busy = money.busy_by_model(of("cost_utilisation"), served)
    entries = entries_of(query.prices, [row["model"] for row in rows if row["model"] and not row["nobody"]])
    lacks = "" if kept else f"single requests are kept for {query.raw_ttl_ms // DAY_MS} days, the range begins before"
    sides = list_sides(entries, [] if lacks else of("cost_list_tokens", bounds=bounds_of(entries)), lacks)
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
        ours, hosted = ratio(made["full_nusd"], row["priced_answered"]), ratio(list_nusd, side.requests if side else 0)
        made["break_even_traffic"] = ratio(ours, hosted)
        made["break_even_busy"] = money.product(made["busy"], made["break_even_traffic"])
        found.append(made)
    return found


def _outlook(ask: Ask, query: ReportQuery) -> dict[str, list[Row]]:
    """This month's forecast, and where budgets stand."""
    since_ms = [look_back_ms(one, query.now_ms) for one in query.budgets.budgets]
    days = ask("cost_by_day", {"from_ms": min([history_ms(query.now_ms), *since_ms]), "to_ms": query.now_ms})
    return {"months": months(days, query.now_ms), "budgets": standings(query.budgets, days, query.now_ms)}


def span(last_ms: int, from_: str | None, to: str | None, now_ms: int, zone: tzinfo | None = None) -> tuple[int, int]:
    """[from, to) in ms, whole minutes: the last so long up to the end of this minute, or as given; days begin at
    midnight of the zone, without one UTC."""
    to_ms = -(-(now_ms if to is None else _instant("--to", to, zone)) // MINUTE_MS) * MINUTE_MS
    from_ms = to_ms - last_ms if from_ is None else _instant("--from", from_, zone)
    bounds = from_ms // MINUTE_MS * MINUTE_MS, to_ms
    if bounds[0] >= bounds[1]:
        raise ConfigError("--from", from_ or from_ms, "must lie before --to")
    return max(0, bounds[0]), bounds[1]


def _instant(option: str, text: str, zone: tzinfo | None) -> int:
    try:
        if zone and len(text) == len("2026-01-31"):
            return midnight(date.fromisoformat(text), zone)
        return instant_of(text)
    except (ValueError, OverflowError):
        raise ConfigError(option, text, "must be a day (2026-01-31) or a whole minute (2026-01-31T06:00:00Z)") from None


def report_query(
    bounds: tuple[int, int],
    now_ms: int,
    prices: Path,
    slo: Path | None = None,
    budgets: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ReportQuery:
    """The query, with its files read. Raises ``ConfigError`` with every mistake of a file."""
    return ReportQuery(
        *bounds,
        now_ms,
        load_prices(prices),
        str(prices),
        () if slo is None else load_set(slo).slo_classes,
        Budgets() if budgets is None else load_budgets(budgets),
        limits.raw_ttl_ms,
    )


def without_bills(config: ClickHouseConfig, bounds: tuple[int, int]) -> Lack | None:
    """Where bills lie, for a range that has none."""
    with closing(Database(config)) as database:
        return lacking(database, ["bills"], bounds)


def cost_report(config: ClickHouseConfig, query: ReportQuery) -> dict[str, Any]:
    """The whole report from a database, read as the reader."""
    database = Database(config)

    def ask(name: str, parameters: Mapping[str, Any]) -> list[Row]:
        if name == "joins":  # of the dashboard: its tables follow from the range
            sql = dashboard.query(name).at_levels(query.to_ms - query.from_ms, parameters)
            return database.sql(sql, parameters).records()
        return database.named(name, parameters).records()

    try:
        return gather(ask, query)
    finally:
        database.close()
