"""*Tenants*: requests, latency, failures and cost by tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.latencies import latency_cells, percentile_column
from fleetpulse.dashboard.parts import ChartPanel, Column, Stats, TablePanel, choices, ends_columns, share_mood
from fleetpulse.dashboard.sql_parameters import question
from fleetpulse.dashboard.values import clean, percent, rate, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View
from fleetpulse.report.amounts import usd as dollars
from schemas.errors import FleetpulseError

LISTED = 200
NAMED = 7
"""Tenants with a line of their own; the rest is one line."""
OTHERS = "all others"
SHOWN = {"requests": "requests", "output_tokens": "generated tokens"}


def rates(
    rows: Sequence[Mapping[str, Any]], column: str, moments: Mapping[int, float]
) -> dict[str, list[tuple[int, float | None]]]:
    """Points a second by tenant at every moment (ms, with the seconds that it counts), the biggest first and the others
    last; None where nobody has any row."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        found.setdefault(str(row["name"]), {})[int(row["at_ms"])] = float(row[column] or 0)
    known = {at_ms for points in found.values() for at_ms in points}
    order = sorted(found, key=lambda name: (name == "", -sum(found[name].values()), name))
    return {
        name: [
            (at_ms, found[name].get(at_ms, 0.0) / each_s if at_ms in known else None)
            for at_ms, each_s in moments.items()
        ]
        for name in order
    }


def totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What all points over time come to; a point without any of something adds nothing."""
    return {
        name: sum(row[name] or 0 for row in rows) for name in ("requests", "client_fault", "failed", "output_tokens")
    }


def build(view: View) -> Refresh:
    """Counts, lines over time, the table of tenants, their failures."""
    return _Tenants(view).refresh


class _Tenants:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {"tenants": "Tenants", "requests": "Requests", "tokens": "Generated tokens", "failed": "Failed",
             "cost": "Cost"}
        )  # fmt: skip
        label = "Requests or tokens a second of the biggest tenants, over time"
        self._over_time = ChartPanel(view, "Over time", "a second, the biggest tenants", label, 220, "")
        with self._over_time.tools:
            choices("Show", SHOWN, view.choice("show", SHOWN), lambda value: view.set(show=value))
        self._table = TablePanel("Tenants", f"the biggest {LISTED}", self._columns(), page_rows=15)
        question(view, self._table, "Who changed?", "who_changed",
                 lambda: {"metric": view.choice("show", SHOWN)})  # fmt: skip
        self._errors = TablePanel(
            "Not answered in full",
            "most frequent first",
            _ERRORS,
            label="Requests not answered in full, by tenant and model",
        )

    def _columns(self) -> list[Column]:
        return [
            Column("tenant", "Tenant", href=partial(requests_link, self._view)),
            Column("requests", "Requests", text=short, right=True),
            *ends_columns(*_FAILED),
            Column("input_tokens", "Prompt", text=short, right=True),
            Column("cached", "Cached", text=percent, right=True),
            Column("output_tokens", "Generated", text=short, right=True),
            percentile_column("ttft", "p50"),
            percentile_column("ttft", "p95"),
            percentile_column("tpot", "p95"),
            percentile_column("e2e", "p95"),
            Column("cost", "Cost", text=dollars, right=True),
        ]

    async def refresh(self) -> None:
        view = self._view
        covered_s, bills, (listed, series, failed, flow) = await asyncio.gather(
            view.covered_s(),  # first, as it takes longest
            self._bills(),
            view.gather(
                view.ask("tenants", top=LISTED),
                view.ask("tenants_over_time", top=NAMED),
                view.ask("tenant_errors"),
                view.ask("requests_over_time"),
            ),
        )
        costs = {row["tenant"]: row["cost"] for row in bills if not row["nobody"]}
        latencies = await latency_cells(view, "tenant", [row["tenant"] for row in listed.records()])
        rows = [
            row
            | latencies[row["tenant"]]
            | {"cost": costs.get(row["tenant"] or ""), "cached": _share(row["cached_tokens"], row["input_tokens"])}
            for row in listed.records()
        ]
        tenants, cost = rows[0]["tenants"] if rows else 0, bills[0]["of_requests"] if bills else None
        self._show_stats(tenants, totals(flow.records()), cost, covered_s)
        self._show(rows, series.records(), failed.records())

    async def _bills(self) -> list[dict[str, Any]]:
        """Cost by tenant, an empty name for requests without one; nothing where no job has booked any, the tables are
        older than costs, or a cluster is chosen: bills do not know it."""
        if self._view.filter("cluster"):
            return []
        try:
            answer = await self._view.ask("cost_tenants")
        except FleetpulseError as error:
            if error.retriable:
                raise
            return []
        return answer.records()

    def _show(self, rows: list[dict[str, Any]], series: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
        self._table.rows(rows, *_NO_REQUESTS)
        if rows:
            self._show_chart(series)
            self._errors.rows(failed, "Every request was answered in full")
        else:
            self._over_time.empty(*_NO_REQUESTS)
            self._errors.empty(*_NO_REQUESTS)

    def _show_stats(self, tenants: int, of: Mapping[str, int], cost: int | None, covered_s: float | None) -> None:
        """Of all tenants, also those that the table has no room for."""
        requests, failures, tokens = of["requests"], of["failed"], of["output_tokens"]
        self._stats.show("tenants", f"{tenants:,}", "with requests")
        per_s = f"{short(rate(requests, covered_s))} a second {self._view.mean_of(covered_s)}"
        self._stats.show("requests", short(requests), per_s)
        self._stats.show("tokens", short(tokens), f"{short(rate(tokens, covered_s))} a second")
        valid = requests - of["client_fault"]
        share = failures / valid if valid else None
        self._stats.show(
            "failed",
            percent(share),
            f"{failures:,} of {valid:,} without client faults",
            share_mood(share, *_FAILED).removeprefix("fp-"),
        )
        self._stats.show("cost", "–" if cost is None else dollars(cost), cost_hint(cost, self._view.filter("cluster")))

    def _show_chart(self, series: Sequence[Mapping[str, Any]]) -> None:
        view = self._view
        shown, name = view.choice("show", SHOWN), "tenants_over_time"
        moments = {at_ms: view.counted_s(name, at_ms) for at_ms in view.moments(name)}
        lines = [
            Line(clean(tenant) if tenant else OTHERS, points, stack="all", area=True)
            for tenant, points in rates(series, shown, moments).items()
        ]
        self._over_time.draw(over_time(lines, view.range, view.palette))


def requests_link(view: View, row: Mapping[str, Any]) -> str:
    """Where the requests of a tenant are; of those without one nowhere: no filter means everybody's."""
    return view.link("/requests", tenant=row["tenant"]) if row["tenant"] else ""


def cost_hint(cost: int | None, cluster: str) -> str:
    """What stands below the cost, or why there is none."""
    if cluster:
        return "bills do not know clusters: choose none"
    return "start the cost job and give prices" if cost is None else "of requests with a price"


def _share(part: Any, whole: Any) -> float | None:
    return None if part is None or not whole else float(part) / float(whole)


_NO_REQUESTS = "No requests in this range", "Choose a longer range or fewer filters, or start a source."
_FAILED = 0.02, 0.1
"""Shares of failures that are worth a look, and bad."""
_ERRORS = [
    Column("tenant", "Tenant"),
    Column("model", "Model"),
    Column("status", "Ended"),
    Column("error_kind", "Error"),
    Column("requests", "Requests", text=short, right=True),
]

PAGE = PageSpec(
    path="/tenants",
    title="Tenants",
    icon="groups",
    about="Requests, latency, failures and cost by tenant",
    build=build,
    reads=("requests",),
    filters=("cluster", "region", "model", "tenant"),
    options={"show": "requests"},
)
