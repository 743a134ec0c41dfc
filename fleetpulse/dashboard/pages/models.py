"""*Models*: latencies of models over time beside what is usual, throughput, errors, goodput."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Band, Line, baseline_range, over_time, usual_band
from fleetpulse.dashboard.concurrency_table import AT_ONCE, CONCURRENCY, concurrency_hint, concurrency_rows
from fleetpulse.dashboard.latencies import IN_TABLES, latency_cells, percentile_column, percentile_lines
from fleetpulse.dashboard.parts import ChartPanel, Column, Stats, TablePanel, button, ends_columns, grid, search_field
from fleetpulse.dashboard.sql_parameters import written
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.values import clean, percent, rate, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View, wall_ms
from fleetpulse.queries.rise import RISE, SLOWED, WIDTHS_MS, bounds
from fleetpulse.report.amounts import dollars as usd
from fleetpulse.report.goodput import slo_parameters
from schemas.errors import FleetpulseError
from schemas.limits import HOUR_MS

LATENCIES = {
    "ttft_us_bins": ("TTFT", "received to first token"),
    "itl_bins": ("ITL", "gap between tokens"),
    "tpot_us_bins": ("TPOT", "mean time per token of a request"),
    "e2e_us_bins": ("E2E", "received to last byte"),
}
_SHOWN = {"ttft": ("p50", "p95", "p99")}
"""Percentiles in the table: the p99 that is watched most says which model got slow."""
TOP = 50
KINDS_MAX = 8
UNIT_COSTS = [
    Column("per_million_in", "1M uncached", text=usd, right=True, title=lambda _: "prompt tokens that were computed"),
    Column("per_million_out", "1M generated", text=usd, right=True, title=lambda _: "with the cache held meanwhile"),
]
"""As page *Cost* has them."""
GOODPUT_SPAN_MAX_MS = 6 * HOUR_MS
"""So far single requests are judged where windows hold no verdicts: beyond it that is too much work for a page."""


def priced(rows: Sequence[Mapping[str, Any]], costs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of models with their unit costs, of rows of ``cost_models``; null without a bill."""
    of = {row["model"]: row for row in costs if not row["nobody"]}
    return [{**row, **{one.name: of.get(row["model"], {}).get(one.name) for one in UNIT_COSTS}} for row in rows]


def build(view: View) -> Refresh:
    """Counts, four latencies, throughput, errors, goodput, the models."""
    return _Models(view).refresh


class _Models:
    def __init__(self, view: View) -> None:
        self._view = view
        self._stats = Stats(
            {
                "requests": "Requests",
                "rate": "Requests/s",
                "tokens": "Output tokens/s",
                "failed": "Failed",
                "cached": "Prompt from cache",
                "good": "Goodput",
            }
        )
        with grid():
            self._latency = {
                bins: ChartPanel(view, title, hint, f"{title}: percentiles over time", 210)
                for bins, (title, hint) in LATENCIES.items()
            }
            with self._latency["ttft_us_bins"].tools:
                button("Who slowed it?", self._who_slowed, "manage_search")
            ends, kinds = "requests per second by end", "Requests per second that were not answered in full, by kind"
            self._rate = ChartPanel(view, "Throughput", ends, "Requests per second over time", 210)
            self._tokens = ChartPanel(view, "Tokens", "per second", "Tokens per second over time", 210)
            self._errors = ChartPanel(view, "Errors", "not answered in full, per second by kind", kinds, 210)
            self._good = ChartPanel(view, "Goodput", "met all objectives of its class", "Goodput over time", 210)
        self._concurrency = TablePanel("Latency by concurrency", AT_ONCE, CONCURRENCY)
        self._table = TablePanel("Models", "by requests", self._columns(), label="Models by requests", page_rows=15)
        with self._table.tools:
            button("Tokens today", self._tokens_today, "manage_search")
            search_field("Search", view.option("q"), lambda text: view.set(q=text))

    def _columns(self) -> list[Column]:
        latencies = [percentile_column(name, p) for name in IN_TABLES for p in _SHOWN.get(name, ("p50", "p95"))]
        return [
            Column("model", "Model", href=self._model_link),
            Column("requests", "Requests", text=short, right=True, href=self._requests_link),
            *ends_columns(0.01, 0.05),
            *latencies,
            Column("input_tokens", "Tokens in", text=short, right=True),
            Column("output_tokens", "Tokens out", text=short, right=True),
            *UNIT_COSTS,
        ]

    async def _who_slowed(self) -> None:
        """To the answer for the minute in which a model's p99 of TTFT rose most within the range."""
        view, span = self._view, self._view.range
        measured, model = {"bins": "ttft_us_bins", "quantile": "0.99"}, view.filter("model")
        try:
            for width_ms in WIDTHS_MS:
                if rows := (await view.ask(RISE, width_ms=width_ms, **measured)).records():
                    found = bounds(rows[0], width_ms)
                    span, model = TimeRange(found["from_ms"], found["to_ms"]), rows[0]["model"]
                    break
        except FleetpulseError as error:
            view.on_notice(str(error))
            return
        view.open(view.link_over(span, "/sql", query=SLOWED, given=written({"model": model})))

    def _tokens_today(self) -> None:
        """To the tokens of each model and tenant today, against yesterday until this hour."""
        view, given = self._view, {name: self._view.filter(name) for name in ("model", "tenant")}
        span = view.zone.days("Today", wall_ms())
        view.open(view.link_over(span, "/sql", query="tokens_changed", given=written(given)))

    def _model_link(self, row: Mapping[str, Any]) -> str:
        return self._view.link("/models", model=str(row["model"]))

    def _requests_link(self, row: Mapping[str, Any]) -> str:
        return self._view.link("/requests", model=str(row["model"]))

    async def refresh(self) -> None:
        """Query everything at once, what takes longest first; each part shows itself as soon as it is answered."""
        parts = [self._ask_concurrency(), self._ask_models(), self._ask_flow(), self._ask_errors(), self._ask_goodput()]
        await asyncio.gather(*parts, *(self._ask_latency(bins) for bins in LATENCIES))

    async def _ask_latency(self, bins: str) -> None:
        view, panel = self._view, self._latency[bins]
        series, usual = await view.gather(
            view.ask("latency_over_time", bins=bins),
            view.ask_over(baseline_range(view.range), "latency_baseline", bins=bins),
        )
        rows = series.records()
        if not rows:
            panel.empty("No request reported this in the range")
            return
        palette = view.palette
        colours = {"p50": palette.series[1], "p95": palette.series[0], "p99": palette.series[2]}
        lines, of = percentile_lines(colours, rows, "percentiles", "counted")
        hours = {row["hour"]: row["hours"] for row in usual.records()}
        points = usual_band(hours, view.range)
        around = Band("usual p95", points) if points else None
        usually = "" if points else " · what is usual needs 3 h of history"
        panel.hint(f"{LATENCIES[bins][1]} · {of}{usually}")
        panel.draw(over_time(lines, view.range, palette, "us", around))

    async def _ask_flow(self) -> None:
        answer, covered_s = await asyncio.gather(self._view.ask("requests_over_time"), self._view.covered_s())
        self._show_stats(answer.records(), covered_s)
        self._show_flow(answer.records())

    def _show_stats(self, rows: list[dict[str, Any]], covered_s: float | None) -> None:
        requests = sum(row["requests"] for row in rows)
        mean = self._view.mean_of(covered_s)
        failed = sum(row["failed"] for row in rows)
        prompt = sum(row["input_tokens"] or 0 for row in rows)
        cached = sum(row["cached_tokens"] or 0 for row in rows)
        tokens = sum(row["output_tokens"] or 0 for row in rows)
        valid = requests - sum(row["client_fault"] for row in rows)
        share = failed / valid if valid else None
        self._stats.show("requests", short(requests), "in this range")
        self._stats.show("rate", short(rate(requests, covered_s)), mean)
        self._stats.show("tokens", short(rate(tokens, covered_s)), mean)
        self._stats.show(
            "failed",
            percent(share),
            f"{failed:,} of {valid:,} without client faults",
            "bad" if (share or 0) > 0.01 else "",
        )
        self._stats.show("cached", percent(cached / prompt if prompt else None), f"of {short(prompt)} tokens")

    def _show_flow(self, rows: list[dict[str, Any]]) -> None:
        view = self._view
        if not rows:
            for panel in (self._rate, self._tokens):
                panel.empty("No request in this range", "Choose a longer range.")
            return
        whole = view.whole_buckets("requests_over_time", rows)
        seconds = [view.counted_s("requests_over_time", row["at_ms"]) for row in whole]

        def per_s(name: str, column: str) -> Line:
            counts = [(row["at_ms"], row[column] or 0) for row in whole]
            return Line(name, [(at, count / each_s) for (at, count), each_s in zip(counts, seconds, strict=True)])

        ends = {"ok": "ok", "aborted": "aborted", "client faults": "client_fault", "failed": "failed"}
        tokens_of = {"output": "output_tokens", "prompt": "input_tokens", "from cache": "cached_tokens"}
        for panel, columns in ((self._rate, ends), (self._tokens, tokens_of)):
            lines = [per_s(name, column) for name, column in columns.items()]
            panel.draw(over_time(lines, view.range, view.palette, "/s"))

    async def _ask_errors(self) -> None:
        view, panel = self._view, self._errors
        errors, flow = await view.gather(view.ask("errors_over_time"), view.ask("requests_over_time"))
        rows = errors.records()
        if not rows:
            panel.empty("Every request was answered in full" if flow.rows else "No request in this range")
            return
        whole = view.whole_buckets("errors_over_time", rows)
        moments = sorted({*view.moments("errors_over_time"), *(row["at_ms"] for row in whole)})
        kinds: dict[str, dict[int, float]] = defaultdict(dict)
        for row in whole:
            kinds[clean(row["kind"])][row["at_ms"]] = row["requests"] / view.counted_s("errors_over_time", row["at_ms"])
        most = sorted(kinds, key=lambda kind: -sum(kinds[kind].values()))[:KINDS_MAX]
        lines = [Line(kind, [(at, kinds[kind].get(at, 0)) for at in moments], bar=True, stack="kinds") for kind in most]
        panel.draw(over_time(lines, view.range, view.palette, "/s"))

    async def _ask_goodput(self) -> None:
        """By the windows, over any range; where their job had no classes, by single requests and the classes here."""
        view, panel = self._view, self._good
        name, classes = "goodput_over_time", view.facts.slo_classes
        answer = await view.ask(name)
        if not answer.rows and classes and view.range.span_ms <= GOODPUT_SPAN_MAX_MS:
            name = "goodput_of_requests"
            answer = await view.ask(name, **slo_parameters(classes))
        rows = answer.records()
        judged, good = (sum(row[column] for row in rows) for column in ("judged", "good"))
        share = good / judged if judged else None
        below = f"of {short(judged)} judged" if judged else "nothing judged"
        self._stats.show("good", percent(share), below, "" if share is None or share > 0.95 else "warn")
        if not judged:
            panel.empty(
                "No request was judged in this range", "Objectives are slo_classes of rules: jobs windows --rules."
            )
            return
        whole = view.whole_buckets(name, rows, "bucket_at_ms")
        seconds = [view.counted_s(name, row["bucket_at_ms"]) for row in whole]
        lines = [
            Line(
                of,
                [(row["bucket_at_ms"], row[of] / each_s) for row, each_s in zip(whole, seconds, strict=True)],
                colour=colour,
            )
            for of, colour in (("judged", view.palette.muted), ("good", view.palette.good))
        ]
        panel.draw(over_time(lines, view.range, view.palette, "/s"))

    async def _ask_concurrency(self) -> None:
        grain_ms = self._view.query("latency_by_concurrency").grain_ms(self._view.range.span_ms)
        rows = (await self._view.ask("latency_by_concurrency", grain_ms=grain_ms)).records()
        self._concurrency.hint(concurrency_hint(rows, self._view.filter("tenant")))
        advice = "Engines report their running batch to the agent."
        self._concurrency.rows(concurrency_rows(rows), "No request beside a reported batch in this range", advice)

    async def _ask_models(self) -> None:
        view = self._view
        queries = [view.ask("models", search=view.option("q"), top=TOP)]
        if not view.filter("cluster"):  # bills do not know it
            queries.append(view.ask("cost_models"))
        models, *costs = await view.gather(*queries)
        rows = priced(models.records(), costs[0].records() if costs else [])
        known = rows[0]["models"] if rows else 0
        some = f"the {TOP} with most requests of {known:,}; search for others"
        self._table.hint("by requests" if known <= TOP else some)
        cells = await latency_cells(view, "model", [row["model"] for row in rows]) if rows else {}
        rows = [row | cells[row["model"]] for row in rows]
        self._table.rows(rows, "No model in this range", "Choose a longer range, fewer filters or another search.")


PAGE = PageSpec(
    path="/models",
    title="Models",
    icon="speed",
    about="Latency, throughput, errors, goodput and unit costs of what is served",
    build=build,
    reads=("requests",),
    filters=("cluster", "region", "model", "tenant"),
    options={"q": ""},
)
