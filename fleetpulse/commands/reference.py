"""Pages of the command tree, of questions and queries, and of the processes' metrics: ``python -m
fleetpulse.commands.reference`` writes all."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from fleetpulse import queries
from fleetpulse.cli import app
from fleetpulse.extensions import LAB, extensions
from fleetpulse.queries.questions import QUESTIONS, numbered
from fleetpulse.sql.query import parameters_of
from runtime.counters import PREFIX, exported_name
from runtime.metric_catalogue import METRICS, Metric

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
_INTRODUCTION = """# Commands

<!-- Written by `python -m fleetpulse.commands.reference`; a test keeps it equal to the command tree. -->

Every command has `--help` with an example; what prints data takes `--json`. Data goes to standard output, everything
else to standard error, so that `fleetpulse ... | jq` works. Ctrl-C and SIGTERM end every command cleanly.

| exit code | meaning |
|---|---|
| 0 | done; a service was stopped by SIGTERM |
| 1 | something is wrong: a difference in the books, a finding of `doctor`, a server away, SQL that is rejected |
| 2 | wrong use or configuration: the sentence names key, value and bound |
| 70 | `jobs` alone: a fatal error; restart it after 2 s, always |
| 130, 143 | ended by Ctrl-C or SIGTERM before it was done |

Settings come from flags, then `FLEETPULSE_*`, then `fleetpulse.toml`; `fleetpulse config show` shows where each
value came from.

Completion: `fleetpulse --install-completion` for the shell in use (bash, zsh, fish, PowerShell), or
`fleetpulse --show-completion >> ~/.bashrc` to see and keep it yourself.
"""
METRICS_PAGE = PAGE.with_name("process-metrics.md")
_METRICS_INTRODUCTION = """# Metrics of the processes

<!-- Written by `python -m fleetpulse.commands.reference` from `runtime/metric_catalogue.py`. -->

What `/metrics` of agents, proxies, jobs, sink, deliver and dashboard says about fleetpulse itself, and what is normal.
About the fleet: [metrics](metrics.md). Times are in seconds; a metric *since the epoch* is subtracted from `time()`. A
gauge by partition is the worker's that owns it; whoever lost it reports it no more, or as 0.
`deploy/prometheus/pipeline.yaml` records the series that follow, and the Grafana board *fleetpulse itself* shows them.
"""
QUESTIONS_PAGE = PAGE.with_name("questions.md")
_QUESTIONS_INTRODUCTION = """# Questions and ready-made queries

<!-- Written by `python -m fleetpulse.commands.reference` from `fleetpulse/queries/`. -->

`fleetpulse ask` answers these in your words, of the range that words or options name, and prints the SQL with `--sql`:

```
fleetpulse ask tenant behind the p99 spike of llama-70b
fleetpulse ask tokens of llama-70b today against yesterday
fleetpulse ask whom did each GPU fault hit --from 2026-11-28 --to 2026-11-29
```

`fleetpulse query NAME` runs a ready-made query with the parameters that you give (`--param name=value`). Other
questions have SQL in the [cookbook](../how-to/cookbook.md).
"""
_RANGE = {"from_ms", "to_ms", "before_from_ms", "before_to_ms"}
_QUESTIONS = (
    ("how far behind is a job", "job_lag_records:topic", "not growing"),
    ("for how long has a record waited, at most", "job_lag_seconds:topic", "below 10 s; 0 where nothing waits"),
    ("how long has a job not committed, while records wait", "job_uncommitted_seconds:topic", "below 10 s"),
    ("how late are windows", "windows_delay_seconds:max", "below 40 s"),
    ("how late are events when they are appended, by source", "watermark_delay_seconds:topic", "below 10 s"),
    ("how much would a takeover read", "snapshot_bytes:topic", "settled"),
    ("how old is that", "snapshot_age_seconds:topic", "below 2 min"),
    ("does Kafka hold jobs up: how long is a commit", "job_commit_seconds:topic", "below half a second"),
    ("does ClickHouse hold the sink up: its share of the time", "sink_insert_share:table", "below half"),
    ("do workers come and go", "rebalances:rate10m", "0"),
    ("what waits at the edges", "spool_bytes:sum", "1 MB a host or less"),
    ("since when", "spool_oldest_seconds:max", "below 2 s"),
    ("which records were sent twice, and dropped", "duplicates:topic", "0"),
    ("how many rows a second are written", "sink_rows:table", "as the fleet is busy"),
    ("how many of its series has a grouping set", "series_used:set", "below 80 %"),
    ("which labels have no room (tenants: page *Pipeline*)", "labels_overflow:dimension", "0"),
)
"""What people ask, the rule that records the answer, what is normal."""
_GROUPS = {
    "Edges: agent, proxy, simulator": ("edge", "sampler", "agent", "receiver", "otlp", "proxy", "requests"),
    "Stream jobs": ("job",),
    "Sink": ("sink", "rollup"),
    "Finals and costs": ("finals", "spend", "cost"),
    "Alerts": ("alerts", "alert", "insight", "deliver"),
    "Dashboard and export": ("dashboard", "export"),
    "Every process": ("cause", "process", "build", "errors", "trace"),
}
_HELP = re.compile(r"^\* `--help`.*\n", re.MULTILINE)
_BOLD = re.compile(r"\[/?bold\]")


def page() -> str:
    """The whole page, command by command as typer describes them."""
    tree: Any = get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in tree.commands.items():
        text = get_docs_for_click(obj=command, ctx=typer.Context(tree), indent=2, name=name, call_prefix="fleetpulse")
        panels.setdefault(command.rich_help_panel, []).append(text)
    listed = [f"## {panel}\n\n{''.join(texts)}" for panel, texts in panels.items()]
    text = _BOLD.sub("`", _HELP.sub("", "\n".join((_INTRODUCTION, *listed))))
    return text.replace("**Options**:\n\n\n", "").replace("\\[", "[").replace(f"{PAGE.parents[2]}/", "").rstrip() + "\n"


def questions_page() -> str:
    """Every question by who asks it, and every ready-made query with what it says and takes beside its range."""
    places = {one.text: number for number, one in numbered().items()}
    parts = [_QUESTIONS_INTRODUCTION]
    for who, group in QUESTIONS.items():
        rows = (f"| {places[one.text]} | {one.text} | `{one.query}` | {one.last} |\n" for one in group)
        parts.append(f"## {who}\n\n| | question | query | without a range |\n|---|---|---|---|\n" + "".join(rows))
    rows = (_query_row(name) for name in queries.names())
    parts.append("## Ready-made queries\n\n| query | what | parameters |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _query_row(name: str) -> str:
    sql = queries.text(name)
    what = sql.splitlines()[0].removeprefix("-- ").replace("|", "\\|")
    own = ", ".join(f"`{one}`" for one in parameters_of(sql) if one not in _RANGE)
    return f"| `{name}` | {what} | {own} |\n"


def metrics_page() -> str:
    """Every metric of the catalogue under its name at ``/metrics``, by kind of process."""
    questions = (f"| {question} | `fleetpulse:{rule}` | {normal} |\n" for question, rule, normal in _QUESTIONS)
    parts = [_METRICS_INTRODUCTION, "| question | recorded as | normal |\n|---|---|---|\n" + "".join(questions)]
    for title, firsts in _GROUPS.items():
        rows = [_row(metric) for metric in METRICS if metric.name.split("_")[0] in firsts]
        parts.append(f"## {title}\n\n| metric | labels | what | normal |\n|---|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    name = PREFIX + exported_name(metric.name) + ("_total" if metric.kind == "counter" else "")
    unit = "seconds" if metric.unit == "ms" else metric.unit
    return f"| `{name}` | {', '.join(metric.labels)} | {unit}: {metric.meaning} | {metric.normal} |\n"


if __name__ == "__main__":
    if not extensions():
        sys.exit(f"the page also lists the commands of {LAB}: pip install --editable ./lab")
    PAGE.write_text(page(), encoding="utf-8")
    QUESTIONS_PAGE.write_text(questions_page(), encoding="utf-8")
    METRICS_PAGE.write_text(metrics_page(), encoding="utf-8")
