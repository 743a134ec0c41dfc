"""Evaluate seeds: each a process of its own, with a bar; a run is pure, so seeds can be shared out in any way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleetpulse.backtest.alerting import Transition, alert_stage, alerts_of
from lab.evaluate.overruns import budgets, overrun, run_overrun
from lab.evaluate.pipeline import Spent, Windows
from lab.evaluate.scenario import HEALTHY, STEP_MS, Scenario, scenario
from lab.evaluate.score import Score, score
from lab.evaluate.shared_out import shared_out
from lab.evaluate.shortcut import Shortcut
from lab.evaluate.table import BY_NAME, CASES, Case
from schemas.errors import ConfigError

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `fleetpulse evaluate`. ``hours`` None: as many as that day has. ``cases`` empty: all.
    ``whole``: through every job and codec. ``healthy``: a day of that name instead, without faults. ``budgets``: a day
    on which one is crossed instead, of its own length."""

    hours: float | None = None
    cases: tuple[str, ...] = ()
    rules: Path | None = None
    processes: int = 2
    whole: bool = False
    healthy: str | None = None
    budgets: bool = False


DEFAULT = Options()


@dataclass(frozen=True, slots=True)
class Ran:
    """A seed's result and what it cost."""

    score: Score
    transitions: tuple[Transition, ...]
    spent_s: dict[str, float]


def run(case: Scenario, options: Options = DEFAULT) -> Ran:
    """Run a scenario to its end and score it."""
    spent, path = Spent(), whole_path if options.whole else short_path
    transitions = list(path(case, options.rules, spent))
    return Ran(score(case.seed, case.troubles, transitions), tuple(transitions), spent.seconds)


def whole_path(case: Scenario, rules: Path | None, spent: Spent) -> Iterator[Transition]:
    """Every job, record by record."""
    windows, alerts = Windows(spent), alert_stage(rules)
    for step in case.fleet().steps(case.begin_ms, case.end_ms, STEP_MS):
        yield from alerts_of(alerts, windows.take(step))
        spent.on("alerts")


def short_path(case: Scenario, rules: Path | None, spent: Spent) -> Iterator[Transition]:
    """Without the wire."""
    shortcut = Shortcut(rules, spent)
    for step in case.fleet().steps(case.begin_ms, case.end_ms, STEP_MS):
        yield from shortcut.take(step)


def run_seed(seed: int, options: Options) -> Ran:
    """The day of a seed."""
    if not options.budgets:
        return run(case_of(seed, options), options)
    spent = Spent()
    case, transitions = run_overrun(overrun(seed), budgets(), spent)
    return Ran(score(seed, case.troubles, transitions), tuple(transitions), spent.seconds)


def case_of(seed: int, options: Options) -> Scenario:
    """What is simulated. Raises ``ConfigError`` for a name there is not, and for hours too short for the faults."""
    make: Callable[..., Scenario] = partial(scenario, cases=chosen(options.cases))
    if options.healthy is not None:
        if options.healthy not in HEALTHY:
            raise ConfigError("--healthy", options.healthy, f"must be one of {', '.join(HEALTHY)}")
        make = HEALTHY[options.healthy]
    return make(seed) if options.hours is None else make(seed, hours=options.hours)


def chosen(names: Iterable[str]) -> list[Case]:
    """The cases of these names; all where none is named. Raises ``ConfigError`` for one there is not."""
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise ConfigError("--faults", unknown[0], f"must be one of {', '.join(BY_NAME)}")
    return [BY_NAME[name] for name in names] or list(CASES)


def evaluate(seeds: Sequence[int], options: Options, on_progress: OnProgress = lambda done, total: None) -> list[Ran]:
    """All seeds, in the order given. One seed runs in this process."""
    if len(seeds) == 1:
        return [run_seed(seeds[0], options)]
    return shared_out(partial(run_seed, options=options), seeds, options.processes, on_progress)
