"""Progress of long measurements on stderr: one bar per step, gone when it is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from fleetpulse.commands.output import err

Tell = Callable[[int, int], None]


class Progress:
    """Shows one step at a time; quiet where stderr is no terminal but for a line per step."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=err, transient=True)

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._bars.console.print(text, style="dim", highlight=False)

    @contextlib.contextmanager
    def task(self, text: str) -> Iterator[Tell]:
        """One step; what it yields takes (done, all)."""
        if not err.is_terminal:
            self.say(text)
        task = self._bars.add_task(text, total=None)
        try:
            yield lambda done, total: self._bars.update(task, completed=done, total=total)
        finally:
            self._bars.remove_task(task)
