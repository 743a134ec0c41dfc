"""What the demo shows, as rich renderables made from answers; no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fleetpulse.commands.output import show, table
from fleetpulse.commands.table import FittedTable
from fleetpulse.reconcile.compare import TopicBooks
from fleetpulse.report.amounts import ratio, share, usd
from fleetpulse.report.tables import PARTS
from fleetpulse.sql.database import Answer

_EMPTY = Answer((), ())


@dataclass(frozen=True, slots=True)
class Picture:
    """One moment of the demo. ``counts`` are (name, events so far) by source topic."""

    elapsed_s: float
    seconds: float
    counts: Sequence[tuple[str, int]]
    events_per_s: float
    models: Answer = _EMPTY
    gpus: Answer = _EMPTY
    alerts: Answer = _EMPTY
    notes: Sequence[str] = ()


def live(picture: Picture) -> RenderableType:
    """The live table while the demo runs."""
    bar = ProgressBar(total=picture.seconds, completed=min(picture.elapsed_s, picture.seconds), width=40)
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"{picture.elapsed_s:4.0f} of {picture.seconds:.0f} s"),
        bar,
        Text(f"{picture.events_per_s:,.0f} events/s landed", style="bold"),
    )
    parts: list[RenderableType] = [head, _counts(picture.counts)]
    if picture.models.rows:
        parts.append(latency_table("Latency by model, last 30 s (ms)", picture.models))
    if picture.gpus.rows:
        parts.append(answer_table("GPUs, last 30 s", picture.gpus))
    parts += [_alert_line(record) for record in picture.alerts.records()]
    parts += [Text(note, style="yellow") for note in picture.notes]
    return Panel(Group(*parts), title="fleetpulse demo", border_style="cyan", expand=False)


def line(picture: Picture) -> str:
    """The same in one line, where there is no terminal."""
    counts = ", ".join(f"{name} {events:,}" for name, events in picture.counts if events)
    said = f"{picture.elapsed_s:.0f} of {picture.seconds:.0f} s: {counts or 'nothing yet'}; "
    said += f"{picture.events_per_s:,.0f} events/s landed"
    alerts = [f"{record['severity']}: {record['summary']}" for record in picture.alerts.records()]
    return "; ".join([said, *alerts, *picture.notes])


def _counts(counts: Sequence[tuple[str, int]]) -> RenderableType:
    line = Text()
    for name, events in counts:
        line.append(f"{name} ", style="dim")
        line.append(f"{events:,}   ", style="bold")
    return line


def answer_table(title: str, answer: Answer) -> FittedTable:
    """An answer of the database as a table; underscores in names become blanks."""
    return table(title, [name.replace("_", " ") for name in answer.columns], answer.rows)


def latency_table(title: str, answer: Answer) -> FittedTable:
    """Rows of ``percentiles_by_model`` with one line for each model: p50 and p99 of each latency."""
    rows: dict[str, dict[str, Any]] = {}
    for one in answer.records():
        row = rows.setdefault(one["model"], {"model": one["model"], "requests": one["requests"]})
        row |= {f"{one['latency']} {rank}": one[f"{rank}_ms"] for rank in ("p50", "p99")}
    columns = ("model", "requests", *(f"{name} {rank}" for name in ("TTFT", "TPOT", "E2E") for rank in ("p50", "p99")))
    return table(title, columns, [[row.get(name) for name in columns] for row in rows.values()])


_COLOURS = {"critical": "bold red", "warning": "yellow"}


def _alert_line(record: Mapping[str, Any]) -> RenderableType:
    """An open alert in one line."""
    line = Text(f"{record['severity']} ", style=_COLOURS.get(record["severity"], ""))
    return line.append(str(record["summary"]), style="none")


def alerts_table(answer: Answer) -> FittedTable:
    """Rows of ``alert_history``: what was notified, how soon after it began, and how long it lasted."""
    rows = [
        (one["worst"], one["began"], one["lasted_s"] if one["lasted_s"] is not None else "open", one["said"])
        for one in answer.records()
    ]
    return table("Alerts: one for each cause", ("severity", "began", "lasted s", "what"), rows)


def books_table(topics: Sequence[TopicBooks]) -> FittedTable:
    """The books by topic."""
    columns = ("topic", "produced", "accepted", "late", "future", "rejected", "shed", "re-sent (dropped)")
    rows = [(b.topic, b.produced, b.accepted, b.late, b.future, b.rejected, b.shed, b.duplicate) for b in topics]
    return table("Books: produced = accepted + late + future + rejected", columns, rows)


def costs_table(split: Answer, models: Answer) -> FittedTable:
    """Rows of ``cost_split`` and ``cost_by`` models: what the money went to, and what requests of each model
    cost, one of those whose bill has a cost."""
    spent = split.records()
    total = sum(one["cost_nusd"] or 0 for one in spent)
    rows: list[tuple[str, str, str, str | None]] = [
        (PARTS.get(f"{one['part']} {one['what']}".strip(), one["part"]), usd(one["cost_nusd"]),
         share(ratio(one["cost_nusd"], total)), None)
        for one in spent
    ]  # fmt: skip
    rows += [
        (f"requests of {one['name'] or 'no model'}", usd(one["cost_nusd"]), share(ratio(one["cost_nusd"], total)),
         usd(ratio(one["cost_nusd"], one["priced_requests"])))
        for one in models.records()
        if not one["nobody"]
    ]  # fmt: skip
    columns = ("what for", "cost", "of the bill", "a request")
    title = "Costs of the minutes that have ended (shipped example prices)"
    return table(title, columns, rows, right=columns[1:])


def query_panel(title: str, sql: str) -> RenderableType:
    """A query one can paste."""
    return Panel(Text(sql), title=title, border_style="dim", expand=False)


def facts(values: Sequence[tuple[str, object]]) -> RenderableType:
    """Name and value, a line each."""
    grid = Table.grid(padding=(0, 2))
    for name, value in values:
        grid.add_row(Text(name, style="dim"), Text(show(value)))
    return grid
