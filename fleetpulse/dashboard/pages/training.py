"""*Training*: one job, its steps, loss and pace by rank. Without one: all, to choose from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.latencies import counted_text, percentile_column
from fleetpulse.dashboard.machine_tables import LISTED, engine_column, host_column, listed_of
from fleetpulse.dashboard.parts import ChartPanel, Column, Stats, TablePanel, grid, link_button, search_field
from fleetpulse.dashboard.values import ago, clean, microseconds, percentile_cells, short
from fleetpulse.dashboard.view import PageSpec, Refresh, View

RANKS_DRAWN = 8
OVER_TIME: Mapping[str, tuple[str, str, str]] = {
    "step_us": ("Step time", "us", "mean of each rank"),
    "loss": ("Loss", "", "mean of each rank"),
    "samples_per_s": ("Samples", "/s", "of each rank, in its steps"),
    "tokens_per_s": ("Tokens", "/s", "of each rank, in its steps"),
    "checkpoint_age_min": ("Age of the checkpoint", "min", "what a crash now would lose"),
}
"""Charts: title, unit and hint of each column."""
_PACE = (
    Column("samples_per_s", "Samples/s", text=short, right=True),
    Column("tokens_per_s", "Tokens/s", text=short, right=True),
    Column("ago_ms", "Last step", text=ago, right=True),
)


def build(view: View) -> Refresh:
    """One job when the address names it, else the list."""
    return _OneJob(view).refresh if view.option("job") else _list(view)


def _list(view: View) -> Refresh:
    columns = [
        Column("job", "Job", href=lambda row: view.link("/training", job=str(row["job"]))),
        Column("model_name", "Model"),
        Column("ranks", "Ranks", right=True),
        Column("hosts_used", "Hosts", right=True),
        Column("steps_most", "Steps", text=short, right=True),
        Column("loss_last", "Loss", text=short, right=True),
        percentile_column("step", "p50", "Step"),
        percentile_column("step", "p95", "Step"),
        Column("slowest_by_fastest", "Slowest rank", text=_times, right=True),
        *_PACE,
    ]
    panel = TablePanel("Training jobs", "", columns, page_rows=25)
    with panel.tools:
        search_field("Search", view.option("q"), lambda text: view.set(q=text), "job or model")

    async def refresh() -> None:
        answer = await view.ask("training", search=view.option("q"), top=LISTED)
        rows = [
            {**row, "ago_ms": max(0, view.until_ms - row["last_ms"]), **_percentiles(row)} for row in answer.records()
        ]
        panel.hint(listed_of(rows[0]["jobs"] if rows else 0))
        panel.rows(
            rows, "No training step in this range", "Jobs report steps by fleetpulse-track or a log that is read."
        )

    return refresh


class _OneJob:
    def __init__(self, view: View) -> None:
        self._view = view
        names = {"job": "Job", "ranks": "Ranks", "step": "Step p50", "uneven": "Slowest rank", "loss": "Loss"}
        self._stats = Stats({**names, "samples": "Samples/s", "tokens": "Tokens/s", "checkpoint": "Checkpoint"})
        with grid():
            self._charts = {
                column: ChartPanel(view, title, hint, f"{title} over time, by rank", 180)
                for column, (title, _unit, hint) in OVER_TIME.items()
            }
        self._ranks = TablePanel("Ranks", "the slowest first", _rank_columns(view), page_rows=15)
        with self._ranks.tools:
            link_button("All jobs", view.link("/training"), "arrow_back")

    async def refresh(self) -> None:
        view, job = self._view, self._view.option("job")
        jobs, ranks = await view.gather(
            view.ask("training", search=job, top=LISTED), view.ask("training_ranks", job=job, top=LISTED)
        )
        rows = [{**row, "ago_ms": max(0, view.until_ms - row["last_ms"])} for row in ranks.records()]
        self._ranks.rows(rows, "No step of this job in this range", "Choose a longer range.")
        self._show_stats(job, next((row for row in jobs.records() if row["job"] == job), {}))
        drawn = [row["of_rank"] for row in rows[:RANKS_DRAWN]]
        known = rows[0]["ranks"] if rows else 0
        self._ranks.hint(
            "the slowest first" + (f"; charts show {RANKS_DRAWN} of {known:,}" if known > RANKS_DRAWN else "")
        )
        self._draw((await view.ask("training_over_time", job=job, names=drawn)).records())

    def _draw(self, rows: Sequence[Mapping[str, Any]]) -> None:
        by_rank: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            by_rank[row["of_rank"]].append(row)
        for column, panel in self._charts.items():
            known = {rank: some for rank, some in by_rank.items() if any(row[column] is not None for row in some)}
            if not known:
                panel.empty("Not reported in this range")
                continue
            lines = [
                Line(f"rank {clean(rank)}" if rank else "all", [(row["at_ms"], row[column]) for row in some])
                for rank, some in sorted(known.items(), key=lambda one: (len(one[0]), one[0]))
            ]
            panel.draw(over_time(lines, self._view.range, self._view.palette, OVER_TIME[column][1]))

    def _show_stats(self, job: str, row: Mapping[str, Any]) -> None:
        show, steps = self._stats.show, _percentiles(row)
        show("job", clean(job), clean(row.get("model_name")))
        show("ranks", short(row.get("ranks")), f"on {short(row.get('hosts_used'))} hosts")
        show(
            "step",
            microseconds(steps["step_p50"]),
            f"p95 {microseconds(steps['step_p95'])} {counted_text(steps, 'step')}",
        )
        show("uneven", _times(row.get("slowest_by_fastest")), "of the fastest's step time")
        show("loss", short(row.get("loss_last")), f"after {short(row.get('steps_most'))} steps")
        show("samples", short(row.get("samples_per_s")), "all ranks")
        show("tokens", short(row.get("tokens_per_s")), "all ranks")
        show("checkpoint", ago(row.get("checkpoint_age_ms")), "its age at the last step")


def _rank_columns(view: View) -> list[Column]:
    return [
        Column("of_rank", "Rank"),
        host_column(view),
        engine_column(view, "of_engine"),
        Column("steps", "Steps", text=short, right=True),
        Column("step_mean_us", "Step, mean", text=microseconds, right=True),
        Column("step_longest_us", "longest", text=microseconds, right=True),
        Column("loss", "Loss", text=short, right=True),
        *_PACE,
    ]


def _percentiles(row: Mapping[str, Any]) -> dict[str, float | str | None]:
    return percentile_cells(("step",), [(row["step_us"], row["step_counted"]) if row else None])


def _times(share: float | None) -> str:
    return f"{short(share)}×" if share is not None else short(None)


PAGE = PageSpec(
    path="/training",
    title="Training",
    icon="model_training",
    about="One job: time of its steps, loss and pace, by rank",
    build=build,
    reads=("training steps",),
    filters=("cluster", "host"),
    options={"job": "", "q": ""},
)
