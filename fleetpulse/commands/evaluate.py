"""Commands that judge the judging: known faults on a virtual clock, and history played back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import err, out, print_json, print_rows
from schemas.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command(rich_help_panel="Proof")(evaluate)
    app.command(rich_help_panel="Proof")(backtest)


def seeds_of(seed: int, seeds: str | None) -> list[int]:
    """``1-5`` or ``1,4,7`` as numbers; ``seed`` where it is not given. Raises ``ConfigError`` for anything else."""
    if seeds is None:
        return [seed]
    found: list[int] = []
    for part in seeds.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or (dash and int(last) < int(first)):
            raise ConfigError("--seeds", seeds, "must be numbers or ranges: 1-5 or 1,4,7")
        found += range(int(first), int(last or first) + 1)
    return found


def evaluate(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the day: faults, places, times, load.")] = 1,
    seeds: Annotated[str | None, typer.Option(help="Several: 1-5 or 1,4,7.")] = None,
    hours: Annotated[
        float | None, typer.Option(min=0.5, help="Simulated hours of each seed. Default: 24; of --healthy azure 6.")
    ] = None,
    faults: Annotated[str | None, typer.Option(help="Only these kinds, separated by commas.")] = None,
    rules: Annotated[Path | None, typer.Option(help="Rules to judge by. Default: those that are shipped.")] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Seeds at one time.")] = 2,
    healthy: Annotated[str | None, typer.Option(help="Without faults instead: azure, thousand.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Through every job and codec; twice as long.")] = False,
    budgets: Annotated[
        bool, typer.Option("--budgets", help="Days on which a tenant overruns its budget instead, without rules.")
    ] = False,
    json: Json = False,
) -> None:
    """Simulated days full of faults through the real steps on a virtual clock: what is found, how soon, what is not.

    Exit 1 when a bound of docs/evaluation.md does not hold.

    Example: [bold]fleetpulse evaluate --seeds 11-20 --json[/bold]
    """
    from fleetpulse.bench.progress import Progress
    from fleetpulse.evaluate.report import Report
    from fleetpulse.evaluate.run import Options
    from fleetpulse.evaluate.run import evaluate as run_evaluate

    numbers = seeds_of(seed, seeds)
    if budgets and (hours, faults, rules, healthy, whole) != (None, None, None, None, False):
        raise ConfigError("--budgets", True, "goes with --seed, --seeds, --processes and --json alone")
    options = Options(hours, tuple(faults.split(",")) if faults else (), rules, processes, whole, healthy, budgets)
    with Progress() as progress, progress.task(f"{len(numbers)} simulated days") as tell:
        ran = run_evaluate(numbers, options, tell)
    report = Report(tuple(one.score for one in ran))
    if json:
        print_json({**report.as_dict(), "spent_s": [one.spent_s for one in ran]})
    else:
        show(report.as_dict())
    if not report.holds:
        raise typer.Exit(1)


_KINDS = (
    "fault",
    "count",
    "found",
    "within_s",
    "late_p50_s",
    "late_p95_s",
    "on_time",
    "cause_first",
    "doubles",
    "resolved",
)


def show(report: dict[str, Any]) -> None:
    """The report for people."""
    print_rows("Faults", _KINDS, [[kind[name] for name in _KINDS] for kind in report["kinds"]], empty="no faults")
    rows = [[b["name"], b["value"], b["bound"], "yes" if b["holds"] else "NO"] for b in report["bounds"]]
    print_rows("Bounds", ("what", "measured", "bound", "holds"), rows, empty="no bounds")
    wrong = ("false_alarms", "missed", "doubles", "wrong_cause", "late", "unresolved")
    for name in wrong:
        for one in report[name]:
            out.print(f"{name.replace('_', ' ')}: {_line(one)}", markup=False, highlight=False)
    if report["holds"]:
        err.print("every bound holds", style="green")


def _line(one: dict[str, Any]) -> str:
    names = ("seed", "fault", "where", "rule", "labels", "opened_ms", "late_s", "value", "baseline", "note")
    return ", ".join(f"{name}={one[name]}" for name in names if one.get(name) not in (None, ""))


def backtest(
    csv: Annotated[Path | None, typer.Option(help="A file `timestamp,value` instead of the database.")] = None,
    nab: Annotated[Path | None, typer.Option(help="A directory in the layout of NAB; scores are written.")] = None,
    labels: Annotated[Path | None, typer.Option(help="With --csv: JSON [[begin, end], ...] of what is wrong.")] = None,
    detector: Annotated[str, typer.Option(help="For files: deviation or moving_average.")] = "deviation",
    sigmas: Annotated[float, typer.Option(min=0.5, max=100, help="deviation: fires so far from expected.")] = 6.0,
    percent: Annotated[float, typer.Option(min=0.1, max=10_000, help="moving_average: fires so far from it.")] = 15.0,
    half_life: Annotated[str | None, typer.Option(help="What a baseline remembers: 12h. Default: 300 rows.")] = None,
    m: Annotated[int, typer.Option(min=1, max=64, help="Rows of the last --n that must be beyond.")] = 1,
    n: Annotated[int, typer.Option(min=1, max=64, help="See --m.")] = 1,
    results: Annotated[Path, typer.Option(help="With --nab: where scores are written.")] = Path("results"),
    last: Annotated[str, typer.Option(help="History: how far back, 2h or 7d.")] = "1d",
    from_: Annotated[str | None, typer.Option("--from", help="History: begin, ISO 8601 or seconds.")] = None,
    to: Annotated[str | None, typer.Option(help="History: end; default now.")] = None,
    rules: Annotated[Path | None, typer.Option(help="History: rules to judge by. Default: those shipped.")] = None,
    json: Json = False,
) -> None:
    """Rules over what was: the database's history, a CSV of one series, or a labelled directory.

    Example: [bold]fleetpulse backtest --last 7d --rules my-rules.yaml[/bold]
    """
    from fleetpulse.backtest import asked

    if csv is not None or nab is not None:
        preset = asked.preset(detector, sigmas, percent, half_life, m, n)
        found = asked.files(csv, nab, labels, preset, results)
    else:
        found = asked.history(last, from_, to, rules)
    if json:
        print_json(found)
    else:
        show_backtest(found)


def show_backtest(found: dict[str, Any]) -> None:
    """The result for people: alerts and figures."""
    series = found.get("series")
    if series is not None:
        columns = ("series", "points", "alerts", "labelled", "found", "precision", "recall", "late_p95_s")
        rows = [[len(one[c]) if c == "alerts" else one.get(c) for c in columns] for one in series]
        print_rows("Series", columns, rows, empty="no series")
    else:
        columns = ("rule", "severity", "labels", "opened_ms", "resolved_ms", "value", "baseline", "members")
        rows = [[str(one[c]) if c == "labels" else one[c] for c in columns] for one in found["alerts"]]
        print_rows("Alerts", columns, rows, empty="no rule would have woken anybody")
    figures = {name: value for name, value in found.items() if not isinstance(value, list | dict)}
    out.print(", ".join(f"{name} {value}" for name, value in figures.items()), markup=False)
