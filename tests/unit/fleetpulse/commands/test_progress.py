"""Progress without a terminal is lines: at once, every few seconds, and when another step begins."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from fleetpulse.commands import progress
from fleetpulse.commands.progress import LINE_EVERY_S, Lines, Progress, line_of, spinner


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


def test_lines_go_on_until_the_step_has_ended(console: Console) -> None:
    """One for each wait that does not find it ended."""
    waits: Iterator[bool] = iter([False, False, True])
    waited: list[float] = []

    def ended(within_s: float) -> bool:
        waited.append(within_s)
        return next(waits)

    step = Lines(console, "compile")
    step.so_far = (1, 4)
    step.go_on(ended)

    assert lines(console) == ["compile: 25 %, 0 s"] * 2
    assert waited == [LINE_EVERY_S] * 3


def test_a_task_is_a_line_without_a_terminal(console: Console) -> None:
    """What happens is said before it is done."""
    with Progress(console) as shown, shown.task("rating again") as tell:
        said = lines(console)
        tell(1, 2)

    assert said == ["rating again"]


def test_a_spinner_is_a_line_for_each_text(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not for texts that follow at once."""
    monkeypatch.setattr(progress, "LINES_APART_S", 0.0)
    with spinner("starting the stack", console) as tell:
        tell("starting kafka")
    monkeypatch.setattr(progress, "LINES_APART_S", 60.0)
    with spinner("settling", console) as tell:
        tell("1 record")

    assert lines(console) == ["starting the stack", "starting kafka", "settling"]
