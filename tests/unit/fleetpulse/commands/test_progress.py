"""Progress without a terminal is lines: none at first, then every few seconds and when another step begins."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from fleetpulse.commands.output import Result, answers
from fleetpulse.commands.progress import (
    LINE_EVERY_S,
    LINES_APART_S,
    QUIET_S,
    Lines,
    Progress,
    line_of,
    spinner,
)


@pytest.fixture
def console() -> Console:
    """Not a terminal."""
    return Console(file=io.StringIO(), width=200)


def lines(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (0, None, "compile: 12 s"),
        (0, 0, "compile: 12 s"),
        (2, 5, "compile: 40 %, 12 s"),
        (5, 5, "compile: 100 %, 12 s"),
    ],
)
def test_a_line_says_how_far_a_step_is_where_that_is_known(done: int, total: int | None, line: str) -> None:
    """A step of unknown length has its time alone."""
    assert line_of("compile", 12.3, done, total) == line


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


def times(count: int, waited: list[float], clock: Clock) -> Callable[[float], bool]:
    """An ``ended`` that lets time pass and says no so many times."""
    answers: Iterator[bool] = iter([False] * count + [True])

    def ended(within_s: float) -> bool:
        waited.append(within_s)
        clock.at_s += within_s
        return next(answers)

    return ended


def test_lines_go_on_until_the_step_has_ended(console: Console) -> None:
    """The first after a while, then one for each wait that does not find it ended."""
    clock, waited = Clock(), list[float]()
    step = Lines(console, "compile", clock)
    step.so_far = (1, 4)
    step.go_on(times(2, waited, clock))

    assert lines(console) == ["compile: 25 %, 3 s", "compile: 25 %, 8 s"]
    assert waited == [QUIET_S, LINE_EVERY_S, LINE_EVERY_S]


def test_what_ends_soon_has_no_line(console: Console) -> None:
    """Neither a task nor a spinner, whatever they report."""
    with Progress(console) as shown, shown.task("rating again") as report:
        report(1, 2)
    with spinner("starting the stack", console) as change:
        change("starting kafka")

    assert lines(console) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_who_waits_for_an_answer_sees_it_at_a_terminal_alone(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program reads has nothing of it, however long it takes."""
    monkeypatch.setattr("fleetpulse.commands.progress.QUIET_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80)

    with spinner("asking ClickHouse", console, lines=False) as change:
        change("asking ClickHouse again")

    assert ("asking ClickHouse" in "".join(lines(console))) == terminal


def test_a_terminal_that_cannot_draw_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich shows neither a spinner nor a bar there."""
    told: list[str] = []

    class Told:
        def __init__(self, _console: Console, text: str) -> None:
            self.change = told.append
            told.append(text)

        def __enter__(self) -> Told:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("fleetpulse.commands.progress.Lines", Told)
    console = Console(file=io.StringIO(), force_terminal=True)
    with spinner("starting the stack", console) as change:
        change("starting kafka")
    with Progress(console) as progress, progress.task("compile") as report:
        report(1, 2)

    assert (told, lines(console)) == (["starting the stack", "starting kafka", "compile"], [])


def test_another_text_is_a_line_but_not_early_nor_behind_another_one(console: Console) -> None:
    """On the boundary and just before it."""
    clock = Clock()
    step = Lines(console, "starting the stack", clock)
    for at_s in (QUIET_S - 0.1, QUIET_S, QUIET_S + LINES_APART_S - 0.1, QUIET_S + LINES_APART_S):
        clock.at_s = 100.0 + at_s
        step.change(f"{at_s:g} s")

    assert lines(console) == ["3 s", "5 s"]


@pytest.mark.parametrize(("words", "printed"), [((), ["late: 3 s"]), (("--json",), [])], ids=["people", "program"])
def test_a_program_reads_no_lines(console: Console, words: tuple[str, ...], printed: list[str]) -> None:
    """However long it takes; the same command has lines for people."""
    app, clock = typer.Typer(), Clock()

    @app.command()
    @answers
    def late() -> Result:
        with Lines(console, "late", clock) as step:
            clock.at_s += QUIET_S
            step.change(line_of("late", QUIET_S))
        return Result(None, lambda: None)

    assert CliRunner().invoke(app, words).exit_code == 0
    assert lines(console) == printed
