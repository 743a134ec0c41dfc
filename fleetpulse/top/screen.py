"""The terminal of ``fleetpulse top``: asks the database every few seconds, listens to keys, then leaves."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.live import Live

from fleetpulse.top.table import Row, View, screen, table_of
from runtime.clock import Clock
from schemas.errors import FleetpulseError

_AROUND_ROWS = 8
"""Lines of a screen that are no rows: title, heading, frame, keys."""
_LOOK_S = 0.1


@contextlib.contextmanager
def _keys(descriptor: int) -> Iterator[Callable[[float], str | None]]:
    """A function that waits so many seconds for a key: a character, or all that an arrow key sends. The terminal gives
    single keys meanwhile, unechoed."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSADRAIN)  # the default throws away what was typed already

    def character(within_s: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], within_s)
        return os.read(descriptor, 1).decode("ascii", "replace") if ready else ""

    def key(within_s: float) -> str | None:
        pressed = character(within_s)
        if pressed == "\x1b":
            pressed += (more := character(0))
            while more and not (more.isalpha() and more != "O") and more != "~":
                pressed += (more := character(0))
        return pressed or None

    try:
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def run(ask: Callable[[View], Sequence[Row]], view: View, console: Console, clock: Clock, *, every_s: float) -> None:
    """Show the fleet, asked for in the order of the view, until q, Escape or Ctrl-C. While the database is away the
    last answer stays, with the reason."""
    gpus, said, asked_s = ask(view), "", clock.monotonic_s()
    with _keys(sys.stdin.fileno()) as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            page = max(1, console.size.height - _AROUND_ROWS)
            live.update(screen(gpus, view, page, said), refresh=True)
            pressed = key(_LOOK_S)
            if pressed is not None:
                after = view.pressed(pressed, len(table_of(gpus, view)), page)
                if after is None:
                    return
                view = after
            if clock.monotonic_s() - asked_s >= every_s:
                try:
                    gpus, said = ask(view), ""
                except FleetpulseError as error:
                    said = f"   (as of before: {error})"
                asked_s = clock.monotonic_s()
