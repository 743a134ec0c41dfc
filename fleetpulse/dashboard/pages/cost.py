"""*Cost*: the bill and what it went to, unit costs, what stood idle, budgets with their forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.alerts.view import moment
from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.page import PageSpec
from fleetpulse.dashboard.pages.tenants import dollars
from fleetpulse.dashboard.parts import Chart, Column, Panel, Stats, Table, grid
from fleetpulse.dashboard.values import UNKNOWN, ago, energy, percent, rate, short
from fleetpulse.dashboard.view import Refresh, View, wall_ms
from schemas.errors import FleetpulseError
from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.budgets.model import Budgets
from stream_jobs.budgets.standing import Standing, standing
from stream_jobs.yaml_files.errors import FileError

HISTORY_DAYS = 120
WORDS = {
    "request": "requests",
    "failed": "failed requests",
    "start-up": "start-up",
    "__wasted__": "loaded, unused",
    "__unattributed__": "unattributed",
    "__idle__": "idle",
    "__training__": "training",
    "__unpriced__": "without a price",
}
"""What a bill goes to, in the order of the chart's layers."""
EMPTY = (
    "No costs in this range",
    "Give prices (fleetpulse prices import), then start the cost job: fleetpulse jobs costs. "
    "Bills come two minutes after their minute.",
)
_OLD = ("Costs have no tables yet", "Run fleetpulse migrate, then start the cost job: fleetpulse jobs costs.")


def stacked(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float | None]]]:
    """Dollars by point of time of each part that cost anything, in the order of ``WORDS``."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for row in rows:
        if row["cost"] is not None:
            found.setdefault(str(row["what"]), []).append((int(row["at_ms"]), row["cost"] / 1e9))
    order = [*WORDS, *sorted(found.keys() - WORDS.keys())]
    return {what: found[what] for what in order if what in found}


def standings(budgets: Budgets, days: Sequence[Mapping[str, Any]], now_ms: int) -> list[dict[str, Any]]:
    """A row for each budget: what was spent of it, what will be, when it is used up."""
    rows = []
    for budget in budgets.budgets:
        spent: dict[int, int] = {}
        for row in days:
            if row["cost"] is not None and budget.covers(row["tenant"], row["model"], budgets.teams):
                spent[int(row["day"])] = spent.get(int(row["day"]), 0) + int(row["cost"])
        rows.append(_budget_row(budget.amount_nusd, standing(budget, spent, now_ms)))
    return rows


def _budget_row(amount: int, stands: Standing) -> dict[str, Any]:
    return {
        "budget": stands.budget,
        "amount": amount,
        "spent": stands.spent_nusd,
        "share": stands.spent_nusd / amount,
        "forecast": stands.forecast_nusd,
        "between": _between(stands),
        "ends_ms": stands.end_ms,
        "exhausted_ms": stands.exhausted_ms,
        "over": stands.forecast_nusd is not None and stands.forecast_nusd > amount,
    }


def _between(stands: Standing) -> str:
    if stands.forecast_low_nusd is None or stands.forecast_high_nusd is None:
        return UNKNOWN
    return f"{dollars(stands.forecast_low_nusd)} to {dollars(stands.forecast_high_nusd)}"


def build(view: View) -> Refresh:
    """Totals, the split, models, tenants, idle GPUs, budgets."""
    return _Cost(view).refresh


class _Cost:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {"total": "Bill", "hour": "An hour", "idle": "Idle", "energy": "Energy", "unpriced": "Without a price",
             "provisional": "Provisional"}
        )  # fmt: skip
        self._split_panel = Panel("What it went to", "dollars an hour")
        with self._split_panel.body:
            self._split = Chart(view, "Dollars an hour by what they went to, over time", 230)
        with grid():
            self._models_panel = Panel("Models", "unit costs", "c7")
            with self._models_panel.body:
                self._models = Table(_MODELS, "Cost by model", page_rows=10)
            self._idle_panel = Panel("Idle and unused", "hosts without a model, engines without tokens", "c5")
            with self._idle_panel.body:
                self._idle = Table(_IDLE, "Cost of idle hosts and unused engines", page_rows=10)
            self._tenants_panel = Panel("Tenants", "what their requests cost", "c5")
            with self._tenants_panel.body:
                self._tenants = Table(self._tenant_columns(), "Cost by tenant", page_rows=10)
            self._budgets_panel = Panel("Budgets", "this period, forecast with an interval of four in five", "c7")
            with self._budgets_panel.body:
                self._budgets = Table(_BUDGETS, "Budgets", page_rows=10)

    def _tenant_columns(self) -> list[Column]:
        return [
            Column("tenant", "Tenant", href=lambda row: self._view.link("/tenants", tenant=str(row["tenant"]))),
            Column("cost", "Cost", text=dollars, right=True),
            Column("lost", "Failed", text=dollars, right=True),
            Column("used_mj", "Energy", text=_energy, right=True),
            Column("gpu_time_ms", "GPU hours", text=_hours, right=True),
        ]

    async def refresh(self) -> None:
        """Ask and show."""
        view = self._view
        try:
            total = (await view.ask("cost_total")).records()[0]
        except FleetpulseError as error:
            if error.retriable or "UNKNOWN_TABLE" not in str(error):
                raise
            self._nothing(*_OLD)
            return
        if not total["bills"]:
            self._nothing(*EMPTY)
            await self._show_budgets()
            return
        width_ms = view.bucket_ms("cost_over_time")
        parts, models, idle, tenants = await view.gather(
            view.ask("cost_over_time"),
            view.ask("cost_models"),
            view.ask("cost_idle_hosts"),
            view.ask("cost_tenants"),
        )
        billed_ms = width_ms * len({row["at_ms"] for row in parts.records()})
        self._show_stats(total, min(billed_ms, view.range.span_ms))
        self._show_split(parts.records(), width_ms)
        self._fill(self._models_panel, self._models, models.records(), "No model has a bill in this range")
        self._fill(self._idle_panel, self._idle, idle.records(), "Nothing stood idle in this range")
        self._fill(self._tenants_panel, self._tenants, tenants.records(), "No tenant has a bill in this range")
        await self._show_budgets()

    def _nothing(self, title: str, advice: str) -> None:
        for name in ("total", "hour", "idle", "energy", "unpriced", "provisional"):
            self._stats.show(name, UNKNOWN)
        self._split_panel.empty(title, advice)
        for panel in (self._models_panel, self._idle_panel, self._tenants_panel):
            panel.empty(title)
        self._budgets_panel.empty(*_NO_BUDGETS)

    @staticmethod
    def _fill(panel: Panel, table: Table, rows: Sequence[Mapping[str, Any]], none: str) -> None:
        if rows:
            panel.show()
            table.show(rows)
        else:
            panel.empty(none)

    def _show_stats(self, total: Mapping[str, Any], billed_ms: int) -> None:
        show, bill = self._stats.show, total["total"]
        hours = billed_ms / HOUR_MS
        show("total", dollars(bill), f"{_hours(total['gpu_time_ms'])} GPU hours")
        show("hour", dollars(rate(bill, hours) if bill is not None else None), f"over {ago(billed_ms)} of bills")
        share = total["idle"] / bill if bill and total["idle"] is not None else None
        show("idle", dollars(total["idle"]), f"{percent(share)} of the bill", "warn" if share and share > 0.2 else "")
        show("energy", _energy(total["used_mj"]), f"{dollars(total['energy'])} of the bill")
        missing = total["unpriced_ms"]
        show("unpriced", _hours(missing), "GPU hours", "warn" if missing else "good")
        show("provisional", f"{total['provisional']:,}", f"of {total['bills']:,} bills")

    def _show_split(self, rows: Sequence[Mapping[str, Any]], width_ms: int) -> None:
        view = self._view
        lines = [
            Line(WORDS.get(what, what), [(at, None if y is None else y * HOUR_MS / width_ms) for at, y in points],
                 stack="all", area=True)
            for what, points in stacked(rows).items()
        ]  # fmt: skip
        if not lines:
            self._split_panel.empty(
                "Nothing of this range has a price", "fleetpulse prices check says what is missing."
            )
            return
        self._split_panel.show()
        self._split.show(over_time(lines, view.range, view.palette, "USD"))

    async def _show_budgets(self) -> None:
        file = self._view.facts.budgets_file
        if file is None:
            self._budgets_panel.empty(*_NO_BUDGETS)
            return
        try:
            budgets = load_budgets(file)
        except FileError as error:
            self._budgets_panel.empty(f"{file.name} cannot be used", str(error))
            return
        now_ms = wall_ms()
        from_ms = (now_ms // DAY_MS - HISTORY_DAYS) * DAY_MS
        days = await self._view.ask("cost_days", from_ms=from_ms, to_ms=now_ms)
        self._budgets_panel.show()
        self._budgets.show(standings(budgets, days.records(), now_ms))


def _energy(millijoules: float | None) -> str:
    return energy(None if millijoules is None else millijoules / 1_000)


def _hours(milliseconds: float | None) -> str:
    return UNKNOWN if milliseconds is None else short(milliseconds / HOUR_MS)


_NO_BUDGETS = (
    "No budgets",
    "Write a file of budgets (fleetpulse/data/budgets/example.yaml is one to copy) and name it by --budgets.",
)
_MODELS = [
    Column("model", "Model"),
    Column("cost", "Cost", text=dollars, right=True),
    Column("per_million_in", "1M prompt", text=dollars, right=True),
    Column("per_million_out", "1M generated", text=dollars, right=True),
    Column("lost", "Failed", text=dollars, right=True),
    Column("mj_per_token", "A token", text=lambda mj: UNKNOWN if mj is None else f"{short(mj / 1e3)} J", right=True),
]
_IDLE = [
    Column("owner", "Host or engine"),
    Column("what", "Use"),
    Column("a_gpu", "GPU"),
    Column("gpu_time_ms", "GPU hours", text=_hours, right=True),
    Column("cost", "Cost", text=dollars, right=True),
]
_BUDGETS = [
    Column("budget", "Budget"),
    Column("amount", "Amount", text=dollars, right=True),
    Column("spent", "Spent", text=dollars, right=True),
    Column("share", "Share", text=percent, right=True, mood=lambda row: "fp-bad" if row["share"] >= 1 else ""),
    Column("forecast", "Forecast", text=dollars, right=True, mood=lambda row: "fp-warn" if row["over"] else ""),
    Column("between", "Between", right=True),
    Column("exhausted_ms", "Used up", text=lambda at_ms: moment(at_ms) or "not in this period", right=True),
]

PAGE = PageSpec(
    path="/cost",
    title="Cost",
    icon="payments",
    about="The bill, what it went to, unit costs, what stood idle, budgets",
    build=build,
    filters=("region", "model", "tenant"),
)
