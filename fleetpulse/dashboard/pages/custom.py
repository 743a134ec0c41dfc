"""*Metrics*: what applications report of their own, one metric over time. Without one: all, to choose from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.machine_tables import LISTED, listed_of
from fleetpulse.dashboard.parts import ChartPanel, Column, TablePanel, link_button, search_field
from fleetpulse.dashboard.values import ago, clean, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View

_ADVICE = "Applications report them by fleetpulse-track, OTLP or the agent's socket."


def build(view: View) -> Refresh:
    """The chart of a metric when the address names one, and the list of all."""
    return _Metrics(view).refresh


class _Metrics:
    def __init__(self, view: View) -> None:
        self._view = view
        self._chart: ChartPanel | None = None
        if metric := clean(view.option("metric")) if view.option("metric") else "":
            self._chart = ChartPanel(view, metric, "", f"{metric} over time", 260, "")
            with self._chart.tools:
                link_button("All metrics", view.link(PAGE.path), "arrow_back")
        self._table = TablePanel("Metrics of applications", "", self._columns(), page_rows=25)
        with self._table.tools:
            about = "metric, service or attribute"
            search_field("Search", view.option("q"), lambda text: view.set(q=text), about)

    def _columns(self) -> list[Column]:
        return [
            Column("metric", "Metric", href=self._link),
            Column("of_service", "Service"),
            Column("in_unit", "Unit"),
            Column("series_seen", "Series", right=True),
            Column("value_last", "Last", text=short, right=True),
            Column("value_least", "Least", text=short, right=True),
            Column("value_most", "Most", text=short, right=True),
            Column("increase", "Increase", text=short, right=True),
            Column("ago_ms", "Last seen", text=ago, right=True),
        ]

    def _link(self, row: Mapping[str, Any]) -> str:
        return self._view.link(PAGE.path, metric=str(row["metric"]), service=row["of_service"])

    async def refresh(self) -> None:
        view = self._view
        answer = await view.ask("custom", search=view.option("q"), top=LISTED)
        rows = [{**row, "ago_ms": max(0, view.until_ms - row["last_ms"])} for row in answer.records()]
        self._table.hint(listed_of(rows[0]["metrics"] if rows else 0))
        self._table.rows(rows, "No metric of an application in this range", _ADVICE)
        if self._chart is not None:
            metric, service = view.option("metric"), view.option("service")
            found = await view.ask("custom_over_time", metric=metric, service=service)
            self._draw(self._chart, found.records(), clean(unit_of(rows, metric, service)))

    def _draw(self, panel: ChartPanel, rows: list[dict[str, Any]], unit: str) -> None:
        """Levels where there are any, else what a counter grew by."""
        view, name = self._view, "custom_over_time"
        grows = all(row["level"] is None for row in rows)
        counted_s = partial(view.counted_s, name)
        series = series_of(view.whole_buckets(name, rows), counted_s) if grows else series_of(rows)
        if not series:
            panel.empty("Not reported in this range", "Choose a longer range.")
            return
        panel.hint(f"{unit} per second" if grows else unit)
        lines = [Line(clean(name), points) for name, points in series.items()]
        panel.draw(over_time(lines, view.range, view.palette, "/s" if grows else ""))


def unit_of(rows: Sequence[Mapping[str, Any]], metric: str, service: str) -> str:
    """The unit in which this service reports the metric, without a service all do; empty where units differ."""
    units = {row["in_unit"] for row in rows if row["metric"] == metric and service in ("", row["of_service"])}
    return units.pop() if len(units) == 1 else ""


def series_of(
    rows: Sequence[Mapping[str, Any]], counted_s: Callable[[int], float] | None = None
) -> dict[str, list[tuple[int, float]]]:
    """Points of each series: its level; with the seconds that a point counts, what a counter grew by a second. Of
    several services each has series of its own."""
    several = len({row["of_service"] for row in rows}) > 1
    labels = ("of_service", "of_host", "with_attributes") if several else ("of_host", "with_attributes")
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        value, each_s = (row["increase"], counted_s(row["at_ms"])) if counted_s else (row["level"], 1)
        if value is not None:
            found[" ".join(filter(None, (row[one] for one in labels)))].append((row["at_ms"], value / each_s))
    return found


PAGE = PageSpec(
    path="/applications",
    title="Metrics",
    icon="query_stats",
    about="What applications report of their own",
    build=build,
    filters=("cluster", "host"),
    options={"metric": "", "service": "", "q": ""},
)
