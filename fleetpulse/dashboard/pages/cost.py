"""*Cost*: the bill and what it went to, unit costs, what stood idle, budgets with their forecast."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.parts import ChartPanel, Column, Panel, Stats, TablePanel, grid
from fleetpulse.dashboard.sql_parameters import question
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import UNKNOWN, energy, gpu_name, percent, rate, short
from fleetpulse.dashboard.view import SETTLED_MS, PageSpec, Refresh, View, wall_ms
from fleetpulse.dashboard.zone import Zone
from fleetpulse.queries.dashboard import query
from fleetpulse.report import standings as report
from fleetpulse.report.amounts import carbon, decimal
from fleetpulse.report.amounts import dollars as usd
from fleetpulse.report.amounts import usd as dollars
from schemas.errors import FleetpulseError
from schemas.limits import DAY_MS, DERIVED_SETTLE_MS, HOUR_MS, MINUTE_MS
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.budgets.model import Budgets
from stream_jobs.prices.model import is_example
from stream_jobs.yaml_files.errors import FileError

SILENCE_SPAN_MAX_MS = DAY_MS
BILLED_MS = DERIVED_SETTLE_MS + SETTLED_MS
"""So long after its end a point of the chart has its bills."""
WORDS = {
    "request": "requests",
    "not answered in full": "requests not answered in full",
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


def hourly(
    points: Sequence[tuple[int, float | None]], span: TimeRange, width_ms: int
) -> list[tuple[int, float | None]]:
    """Dollars an hour at points of this width, by the minutes of the range that each counts."""
    return [(at, None if y is None else y * 3_600 / span.counted_s(at, width_ms, MINUTE_MS)) for at, y in points]


def silent_rows(types: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Types of GPU of which any was silent, as rows of what stood idle."""
    same = {"owner": "silent GPUs", "what": "no reading, in no bill"}
    return [
        {**same, "a_gpu": one["gpu_model"], "gpu_time_ms": one["silent_gpu_ms"], "cost": one["unobserved_nusd"]}
        for one in types
        if one["silent_gpu_ms"]
    ]


def listed(what: str, rows: int, most: int | None) -> str:
    """What a table holds; as many rows as a query brings at most are the dearest of more."""
    return what if most is None or rows < most else f"{what}; the {most:,} dearest, no more fit"


def whose(rows: Sequence[Mapping[str, Any]], column: str) -> list[Mapping[str, Any]]:
    """The same rows, those that are nobody's named by their part of the bills: anybody may be called as one is."""
    words = {**WORDS, "__overhead__": "start-up"}
    return [{**row, column: words.get(row[column], row[column])} if row["nobody"] else row for row in rows]


def lacking(unpriced_ms: int, no_gpu_price_ms: int) -> str:
    """Which price GPU time lacks, of so much of it [ms]: that of the GPU, or that of its host alone."""
    no_host_price_ms = unpriced_ms - no_gpu_price_ms
    if not unpriced_ms:
        return "GPU hours"
    if not (no_gpu_price_ms and no_host_price_ms):
        return f"GPU hours without the {'host' if no_host_price_ms else 'GPU'}'s price"
    which = f"{_hours(no_gpu_price_ms)} without the GPU's price, {_hours(no_host_price_ms)} without the host's alone"
    return f"GPU hours: {which}"


def standings(budgets: Budgets, days: Sequence[Mapping[str, Any]], now_ms: int) -> list[dict[str, Any]]:
    """A row for each budget: what was spent of it, what will be, when it is used up."""
    return [_budget_row(one) for one in report.standings(budgets, days, now_ms)]


def _budget_row(row: Mapping[str, Any]) -> dict[str, Any]:
    low, forecast, high = (row[f"forecast{end}_nusd"] for end in ("_low", "", "_high"))
    return {
        **row,
        "share": row["spent_nusd"] / row["amount_nusd"],
        "between": UNKNOWN if low is None or high is None else f"{dollars(low)} to {dollars(high)}",
        "over": forecast is not None and forecast > row["amount_nusd"],
    }


def build(view: View) -> Refresh:
    """Totals, the split, models, tenants, idle GPUs, budgets."""
    return _Cost(view).refresh


class _Cost:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {"total": "Bill", "hour": "An hour", "idle": "Idle", "energy": "Energy", "carbon": "CO2e",
             "unobserved": "Silent GPUs", "unpriced": "Lacks a price",
             "provisional": "Provisional"}
        )  # fmt: skip
        split = "Dollars an hour by what they went to, over time"
        self._split = ChartPanel(view, "What it went to", "dollars an hour", split, 230, "")
        question(view, self._split, "Who changed?", "who_changed", lambda: {"metric": "cost_nusd"})
        with grid():
            forecast = "this period, forecast with an interval of four in five"
            tenants = self._tenant_columns()
            self._models = TablePanel("Models", _UNIT_COSTS, _MODELS, "c7", label="Cost by model")
            self._idle = TablePanel(
                "Idle and unused", _UNUSED, _IDLE, "c5", label="Cost of idle hosts and unused engines"
            )
            question(view, self._idle, "By type, for a month", "idle_gpus", dict)
            self._tenants = TablePanel("Tenants", _OF_TENANTS, tenants, "c5", label="Cost by tenant")
            self._budgets = TablePanel("Budgets", forecast, budget_columns(view.zone), "c7")

    def _tenant_columns(self) -> list[Column]:
        return [
            Column("tenant", "Tenant", href=self._tenant_link),
            Column("cost", "Cost", text=dollars, right=True),
            *_NOT_OK,
            Column("used_mj", "Energy", text=_energy, right=True),
            Column("emitted_ug", "CO2e", text=carbon, right=True),
            Column("gpu_time_ms", "GPU hours", text=_hours, right=True),
        ]

    def _tenant_link(self, row: Mapping[str, Any]) -> str:
        return "" if row["nobody"] else self._view.link("/tenants", tenant=str(row["tenant"]))

    async def refresh(self) -> None:
        silence = asyncio.ensure_future(self._ask_silence())  # first, as it takes longest
        try:
            await self._show(silence)
        finally:
            silence.cancel()
            await asyncio.gather(silence, return_exceptions=True)

    async def _show(self, silence: Awaitable[list[dict[str, Any]] | None]) -> None:
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
        of_bills = ("cost_over_time", "cost_models", "cost_idle_hosts", "cost_tenants", "cost_prices")
        silent_types, (parts, models, idle, tenants, prices), _ = await asyncio.gather(
            silence,
            view.gather(*map(view.ask, of_bills)),
            self._show_budgets(),
        )
        example = any(is_example(row["version"]) for row in prices.records())
        self._show_stats(total, total["billed_ms"], example=example)
        silent = self._show_silence(silent_types)
        points = parts.records()
        self._show_split(view.whole_buckets("cost_over_time", points, settled_ms=BILLED_MS), width_ms)
        self._models.rows(whose(models.records(), "model"), "No model has a bill in this range")
        unused = sorted([*idle.records(), *silent], key=lambda row: -(row["cost"] or 0))
        self._idle.rows(unused, "Nothing stood idle in this range")
        self._tenants.rows(whose(tenants.records(), "tenant"), "No tenant has a bill in this range")
        for panel, what, name, answer in (
            (self._models, _UNIT_COSTS, "cost_models", models),
            (self._idle, _UNUSED, "cost_idle_hosts", idle),
            (self._tenants, _OF_TENANTS, "cost_tenants", tenants),
        ):
            panel.hint(listed(what, len(answer.rows), query(name).listed_max))

    def _nothing(self, title: str, advice: str) -> None:
        for name in ("total", "hour", "idle", "energy", "carbon", "unobserved", "unpriced", "provisional"):
            self._stats.show(name, UNKNOWN)
        self._split.empty(title, advice)
        panels: tuple[Panel, ...] = (self._models, self._idle, self._tenants)
        for panel in panels:
            panel.empty(title)
        self._budgets.empty(*_NO_BUDGETS)

    def _show_stats(self, total: Mapping[str, Any], billed_ms: int, *, example: bool) -> None:
        show, bill = self._stats.show, total["total"]
        hours = billed_ms / HOUR_MS
        note = "example prices" if example else f"{_hours(total['gpu_time_ms'])} GPU hours"
        if self._view.filter("model") or self._view.filter("tenant"):
            note = f"of all models and tenants, {note}"
        show("total", dollars(bill), note, "warn" if example else "")
        show(
            "hour",
            dollars(rate(bill, hours) if bill is not None else None),
            self._view.mean_of(billed_ms / 1_000, "bills"),
        )
        share = total["idle"] / bill if bill and total["idle"] is not None else None
        month = rate(30 * 24 * total["idle"], hours) if total["idle"] is not None else None
        note = f"{percent(share)} of the bill, {dollars(month)} in 30 days at this rate"
        show("idle", dollars(total["idle"]), note, "warn" if share and share > 0.2 else "")
        unmetered = total["unmetered_mj"]
        note = (
            f"{_energy(unmetered)} without a PUE" if unmetered else f"with PUE, {dollars(total['energy'])} of the bill"
        )
        show("energy", _energy(total["used_mj"]), note, "warn" if unmetered else "")
        uncounted = total["uncounted_mj"]
        note = f"{_energy(uncounted)} without an intensity" if uncounted else "with PUE"
        show("carbon", carbon(total["emitted_ug"]), note, "warn" if uncounted else "")
        missing = total["unpriced_ms"]
        show("unpriced", _hours(missing), lacking(missing, total["no_gpu_price_ms"]), "warn" if missing else "good")
        show("provisional", f"{total['provisional']:,}", f"of {total['bills']:,} bills")

    async def _ask_silence(self) -> list[dict[str, Any]] | None:
        """Time of GPUs without any reading, by type; None for a range that is too long for a page."""
        view = self._view
        if view.range.span_ms > SILENCE_SPAN_MAX_MS:
            return None
        return (await view.ask("silent_gpus")).records()

    def _show_silence(self, rows: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """Beside the bill; by type as rows of what stood idle."""
        if rows is None:
            self._stats.show("unobserved", UNKNOWN, "beside the bill; of up to 24 h")
            return []
        silent_ms = sum(row["silent_gpu_ms"] for row in rows)
        known = [row["unobserved_nusd"] for row in rows if row["unobserved_nusd"] is not None]
        cost = sum(known) if known or not silent_ms else None
        hint = f"beside the bill, {_hours(silent_ms)} GPU hours without a reading"
        self._stats.show("unobserved", dollars(cost), hint, "warn" if silent_ms else "good")
        return silent_rows(rows)

    def _show_split(self, rows: Sequence[Mapping[str, Any]], width_ms: int) -> None:
        view = self._view
        lines = [
            Line(WORDS.get(what, what), hourly(points, view.past, width_ms), stack="all", area=True)
            for what, points in stacked(rows).items()
        ]
        if not lines:
            self._split.empty("Nothing of this range has a price", "fleetpulse prices check says what is missing.")
            return
        self._split.draw(over_time(lines, view.range, view.palette, "USD"))

    async def _show_budgets(self) -> None:
        file = self._view.facts.budgets_file
        if file is None:
            self._budgets.empty(*_NO_FILE)
            return
        try:
            budgets = load_budgets(file)
        except FileError as error:
            self._budgets.empty(f"{file.name} cannot be used", str(error))
            return
        now_ms = wall_ms() // MINUTE_MS * MINUTE_MS  # bills are of whole minutes, and equal queries share an answer
        since_ms = [report.look_back_ms(one, now_ms) for one in budgets.budgets]
        from_ms = min([report.history_ms(now_ms), *since_ms])
        days = await self._view.ask("cost_by_day", from_ms=from_ms, to_ms=now_ms)
        self._budgets.rows(standings(budgets, days.records(), now_ms), *_NO_BUDGETS)


def _energy(millijoules: float | None) -> str:
    return energy(None if millijoules is None else millijoules / 1_000)


def _hours(milliseconds: float | None) -> str:
    return UNKNOWN if milliseconds is None else short(milliseconds / HOUR_MS)


_UNIT_COSTS = "unit costs"
_UNUSED = "hosts without a model, engines without tokens; silent GPUs of up to 24 h"
_OF_TENANTS = "what their requests cost"
_NO_FILE = (
    "This dashboard knows no budgets",
    "Name the file of the alert job here, too: --budgets, or the setting budgets, which both read.",
)
_NO_BUDGETS = (
    "No budgets",
    "Write a file of budgets (fleetpulse/data/budgets/example.yaml is one to copy) and name it by --budgets.",
)
_NOT_OK = [
    Column("aborted", "Aborted", text=dollars, right=True),
    Column("unanswered", "Unanswered", text=dollars, right=True, title=lambda _: "failed, or the client's fault"),
]
_MODELS = [
    Column("model", "Model"),
    Column("cost", "Cost", text=dollars, right=True),
    Column("tokens_in", "Uncached", text=short, right=True),
    Column("per_million_in", "1M uncached", text=usd, right=True),
    Column("tokens_out", "Generated", text=short, right=True),
    Column("per_million_out", "1M generated", text=usd, right=True),
    *_NOT_OK,
    Column("kwh_per_million_out", "Energy of 1M generated", text=lambda kwh: decimal(kwh, "kWh"), right=True),
    Column("g_per_million_out", "CO2e of 1M generated", text=lambda g: decimal(g, "g"), right=True),
]
_IDLE = [
    Column("owner", "Owner"),
    Column("cost", "Cost", text=dollars, right=True),
    Column("a_gpu", "GPU", text=gpu_name),
    Column("gpu_time_ms", "Hours", text=_hours, right=True),
    Column("what", "Use"),
]


def budget_columns(zone: Zone) -> list[Column]:
    """Where budgets stand; moments of this zone."""
    return [
        Column("budget", "Budget"),
        Column("amount_nusd", "Amount", text=dollars, right=True),
        Column("spent_nusd", "Spent", text=dollars, right=True),
        Column("share", "Share", text=percent, right=True, mood=lambda row: "fp-bad" if row["share"] >= 1 else ""),
        Column(
            "forecast_nusd", "Forecast", text=dollars, right=True, mood=lambda row: "fp-warn" if row["over"] else ""
        ),
        Column("between", "Between", right=True),
        Column("exhausted_ms", "Used up", text=lambda at_ms: zone.said(at_ms) or "not yet", right=True),
    ]


PAGE = PageSpec(
    path="/cost",
    title="Cost",
    icon="payments",
    about="The bill, what it went to, unit costs, what stood idle, budgets",
    build=build,
    reads=("bills",),
    filters=("region", "model", "tenant"),
)
