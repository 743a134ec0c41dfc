"""Commands of other distributions: modules named by entry points of the group ``fleetpulse.commands``.

The lab (``fleetpulse-lab``) is one. An entry point names a module with two functions: ``register`` adds commands to the
command line, ``compiled`` names what ``fleetpulse compile`` shall compile for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

import typer
from typer.core import TyperGroup

GROUP = "fleetpulse.commands"
LAB = "fleetpulse-lab"
LAB_COMMANDS = ("demo", "simulate", "replay", "bench", "chaos", "evaluate", "soak", "oracle", "drills")


class Extension(Protocol):
    """What an entry point names."""

    def register(self, app: typer.Typer) -> None:
        """Add commands."""

    def compiled(self) -> Mapping[str, Callable[[], None]]:
        """Loops to compile ahead of time, by the command that needs them; each compiles or loads its own."""


@cache
def extensions() -> tuple[Extension, ...]:
    """The modules of all installed entry points."""
    return tuple(point.load() for point in entry_points(group=GROUP))


class Commands(TyperGroup):
    """The command line's root: says where a command of the lab comes from while the lab is not installed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, ...]:
        """As a group does; a usage error (exit code 2) for a command of the lab that is not there."""
        if args[0] in LAB_COMMANDS and args[0] not in self.commands:
            ctx.fail(
                f"`{args[0]}` is a command of the distribution {LAB}, which is not installed here."
                f" Install it beside fleetpulse: pip install {LAB}, or pip install ./lab in a checkout."
            )
        return super().resolve_command(ctx, args)
