"""``fleetpulse backtest``: rules over history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, out, print_rows
from fleetpulse.report.cells import readable
from schemas.errors import ConfigError

_OF_HISTORY = ("last", "from_", "to", "rules")
_OF_SERIES = (
    "labels",
    "detector",
    "direction",
    "scale",
    "sigmas",
    "percent",
    "half_life",
    "m",
    "n",
    "results",
    "explain",
)


@answers
def backtest(
    ctx: typer.Context,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", "--file", help="A file `timestamp,value` (CSV, Parquet) instead of the database."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--dir", "--nab", help="All files below, as NAB lays them out; scores are written.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="SQL with columns timestamp, value and perhaps series; scores are written.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="With --csv: JSON [[begin, end], ...] of what is wrong.")] = None,
    detector: Annotated[
        str | None,
        typer.Option(help="For files: novelty, deviation (if --sigmas is given) or moving_average (--percent)."),
    ] = None,
    direction: Annotated[str, typer.Option(help="For files: above, below or both.")] = "both",
    scale: Annotated[
        str | None, typer.Option(help="Where a step is one: auto (if not given), linear, log; of novelty also root.")
    ] = None,
    sigmas: Annotated[
        float | None, typer.Option(min=0.5, max=100, help="deviation: fires so far from expected; 6 if not given.")
    ] = None,
    percent: Annotated[
        float | None, typer.Option(min=0.1, max=10_000, help="moving_average: fires so far from it; 15 if not given.")
    ] = None,
    half_life: Annotated[
        str | None, typer.Option(help="What a baseline remembers: 12h. Default: 300 rows, of novelty a day.")
    ] = None,
    m: Annotated[int, typer.Option(min=1, max=64, help="Rows of the last --n that must be beyond.")] = 1,
    n: Annotated[int, typer.Option(min=1, max=64, help="See --m.")] = 1,
    results: Annotated[Path, typer.Option(help="With --dir and --query: where scores are written.")] = Path("results"),
    explain: Annotated[
        str | None,
        typer.Option(help="Draw this series below --results, as HTML and SVG: value, expected, limits, alerts."),
    ] = None,
    last: Annotated[str, typer.Option(help="History: how far back, 2h or 7d.")] = "1d",
    from_: Annotated[str | None, typer.Option("--from", help="History: begin, ISO 8601 or seconds.")] = None,
    to: Annotated[str | None, typer.Option(help="History: end; default now.")] = None,
    rules: Annotated[Path | None, typer.Option(help="History: rules to judge by. Default: those shipped.")] = None,
) -> Result:
    """Rules over what was: the database's history; or one detector over series of a file, a directory or a query.

    Example: [bold]fleetpulse backtest --last 7d --rules my-rules.yaml[/bold],
    [bold]fleetpulse backtest --csv queue.csv --direction above[/bold],
    [bold]fleetpulse backtest --dir series --results scores --explain web/latency.csv[/bold]
    """
    if csv is None and folder is None and query is None:
        _refuse(ctx, _OF_SERIES, "is of --csv, --dir and --query")
        from fleetpulse.backtest.replay import backtest_history

        found = backtest_history(last, from_, to, rules)
    else:
        _refuse(ctx, _OF_HISTORY, "is of the database's history, without --csv, --dir and --query")
        if csv is None:
            _refuse(ctx, ("labels",), "is of --csv")
        elif explain is None:
            _refuse(ctx, ("results",), "is of --dir, --query and --explain")
        from fleetpulse.backtest.files import backtest_files, preset

        chosen = preset(detector, sigmas, percent, half_life, m, n, direction, scale)
        found = backtest_files(csv, folder, query, labels, chosen, results, explain)
    return Result(found, lambda: show_backtest(found))


def _refuse(ctx: typer.Context, names: Sequence[str], why: str) -> None:
    """Raise ``ConfigError`` for the first of these parameters that was given."""
    for one in ctx.command.params:
        source = ctx.get_parameter_source(one.name or "")
        if one.name in names and source is not None and source.name != "DEFAULT":
            raise ConfigError(one.opts[0], str(ctx.params[one.name]), why)


def show_backtest(found: dict[str, Any]) -> None:
    """The result for people: alerts and numbers."""
    series = found.get("series")
    if series is not None:
        columns = ("series", "points", "alerts", "labelled", "found", "precision", "recall", "late_p95_s")
        rows = [[len(one[c]) if c == "alerts" else one.get(c) for c in columns] for one in series]
        print_rows("Series", columns, rows, empty="no series")
    else:
        columns = ("rule", "severity", "labels", "opened_ms", "resolved_ms", "value", "baseline", "members")
        rows = [[str(one[c]) if c == "labels" else readable(c, one[c]) for c in columns] for one in found["alerts"]]
        print_rows("Alerts", columns, rows, empty="no rule would have fired")
    for path in found.get("drawn", []):
        out.print(f"drawn: {path}", markup=False, highlight=False, soft_wrap=True)
    numbers = {name: readable(name, value) for name, value in found.items() if not isinstance(value, list | dict)}
    line = ", ".join(f"{name} {value}" for name, value in numbers.items())
    out.print(line, markup=False, highlight=False, soft_wrap=True)
