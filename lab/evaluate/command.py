"""``fleetpulse evaluate``, and its report for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fleetpulse.commands.output import Result, answers, err, out, print_rows
from schemas.errors import ConfigError


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


@answers
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
) -> Result:
    """Simulated days full of faults through the real steps on a virtual clock: what is found, how soon, what is not.

    Exit 1 when a bound of docs/why/evaluation.md does not hold.

    Example: [bold]fleetpulse evaluate --seeds 11-20 --json[/bold]
    """
    from fleetpulse.commands.progress import Progress
    from lab.evaluate.report import Report
    from lab.evaluate.run import Options
    from lab.evaluate.run import evaluate as run_evaluate

    numbers = seeds_of(seed, seeds)
    if budgets and (hours, faults, rules, healthy, whole) != (None, None, None, None, False):
        raise ConfigError("--budgets", True, "goes with --seed, --seeds, --processes and --json alone")
    options = Options(hours, tuple(faults.split(",")) if faults else (), rules, processes, whole, healthy, budgets)
    with Progress() as progress, progress.task(f"{len(numbers)} simulated days") as on_progress:
        ran = run_evaluate(numbers, options, on_progress)
    report = Report(tuple(one.score for one in ran))
    data = {**report.as_dict(), "spent_s": [one.spent_s for one in ran]}
    return Result(data, lambda: show(data), wrong=not report.holds)


_KINDS = (
    "fault", "count", "found", "within_s", "late_p50_s", "late_p95_s", "on_time", "cause_first", "doubles", "resolved",
)  # fmt: skip


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
