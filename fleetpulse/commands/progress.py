"""Progress of what takes long: on a terminal that can draw a bar or a spinner, elsewhere a line every few seconds.

Nothing is printed about what is done in a moment, and no lines where a program reads (``--json``).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from fleetpulse.commands.output import err, for_program

Report = Callable[[int, int], None]
"""Takes (done, all)."""
QUIET_S, LINE_EVERY_S, LINES_APART_S = 3.0, 5.0, 2.0
"""Without a terminal: seconds of a step without a line, seconds between two lines about it, and how soon another text
may get its own."""


def line_of(text: str, elapsed_s: float, done: int = 0, total: int | None = None) -> str:
    """A step, how far it is where that is known, and since when: ``compile: 40 %, 12 s``."""
    return f"{text}: " + (f"{100 * done / total:.0f} %, " if total else "") + f"{elapsed_s:.0f} s"


class Lines:
    """Lines about a step: after ``QUIET_S``, then every ``LINE_EVERY_S`` till it is left. ``so_far`` is (done, all)."""

    def __init__(self, console: Console, text: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._text = text
        self._now_s = now_s
        self._begun_s = now_s()
        self._next_s = self._begun_s + QUIET_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.go_on, args=(self._ended.wait,), daemon=True)
        self.so_far: tuple[int, int | None] = (0, None)

    def __enter__(self) -> Lines:
        if for_program():
            self._next_s = float("inf")
        else:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def change(self, text: str) -> None:
        """Another text for the step: a line of its own unless it is early or one was printed just now."""
        self._text = text
        if self._now_s() >= self._next_s:
            self._print(text)

    def go_on(self, ended: Callable[[float], bool]) -> None:
        """Print a line each time that ``ended``, which waits so many seconds, says no."""
        wait_s = QUIET_S
        while not ended(wait_s):
            self._print(line_of(self._text, self._now_s() - self._begun_s, *self.so_far))
            wait_s = LINE_EVERY_S

    def _print(self, line: str) -> None:
        self._next_s = self._now_s() + LINES_APART_S
        self._console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


class Progress:
    """Shows one step at a time: a bar that is gone when the step is done; without such a terminal lines that stay."""

    def __init__(self, console: Console = err) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._console = console
        self._bars = Bars(*columns, console=console, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_interactive:
            self._bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._console.is_interactive:
            self._bars.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(text, style="dim", highlight=False)

    @contextlib.contextmanager
    def task(self, text: str) -> Iterator[Report]:
        """One step; what it yields takes (done, all)."""
        if not self._console.is_interactive:
            with Lines(self._console, text) as lines:
                yield lambda done, total: setattr(lines, "so_far", (done, total))
            return
        task = self._bars.add_task(text, total=None)
        try:
            yield lambda done, total: self._bars.update(task, completed=done, total=total)
        finally:
            self._bars.remove_task(task)


@contextlib.contextmanager
def spinner(text: str, console: Console = err, *, lines: bool = True) -> Iterator[Callable[[str], None]]:
    """A spinner beside a text, which what it yields replaces; without a terminal ``lines``, or nothing."""
    if console.is_interactive:
        with console.status(text) as status:
            yield status.update
    elif lines:
        with Lines(console, text) as told:
            yield told.change
    else:
        yield lambda _: None
