"""The command line: one group per kind of user, every command with an example.

Exit codes: 0 done, 1 found something wrong (a difference in the books, a rejected alert, a stack that would not
start), 2 wrong use or configuration. Commands import what they need when they run, so that ``--help`` is quick.

SIGTERM ends a command on the way of Ctrl-C: what it started is stopped again, then the process ends by that signal.
Services listen themselves, and commit first. The end of the terminal (SIGHUP) is a SIGTERM, but for ``nohup``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Annotated, NoReturn

import typer

from fleetpulse.commands import (
    alerts,
    ask,
    backtest,
    baseline,
    config,
    dashboard,
    deliver,
    doctor,
    edge,
    export,
    money,
    people,
    plan,
    prices,
    query,
    reconcile,
    repair,
    rules,
    services,
    stack,
    top,
    users,
    vram,
)
from fleetpulse.commands.output import err, sentence_of
from fleetpulse.extensions import Commands, extensions
from fleetpulse.services.processes import end_with_parent
from runtime.runbook import cause_of
from runtime.version import version
from schemas.errors import ConfigError, FleetpulseError

_INTERRUPTED = 128 + signal.SIGINT
"""What typer makes of a ``KeyboardInterrupt`` that no command has caught."""

app = typer.Typer(
    name="fleetpulse",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Telemetry for GPU fleets and LLM serving: exact books, percentiles that merge.\n\n"
    "Start with [bold]fleetpulse demo[/bold].",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleetpulse {version()}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the command line itself."""


PANELS: Mapping[str, Mapping[str, Callable[..., None] | typer.Typer]] = {
    "Local stack": {"up": stack.up, "down": stack.down, "status": stack.status, "migrate": stack.migrate},
    "Edge": {"agent": edge.agent, "proxy": edge.proxy},
    "Services": {
        "jobs": services.jobs,
        "sink": services.sink,
        "compile": services.compile_ahead,
        "deliver": deliver.deliver,
        "export": export.group,
    },
    "Proof": {
        "reconcile": reconcile.reconcile,
        "repair": repair.repair,
        "backtest": backtest.backtest,
        "audit": money.audits,
    },
    "People": {
        "ask": ask.ask,
        "percentiles": people.percentiles,
        "tail": people.tail,
        "dashboard": dashboard.dashboard,
        "users": users.group,
        "query": query.query,
        "top": top.top,
        "doctor": doctor.doctor,
        "vram": vram.vram,
        "baseline": baseline.baseline,
        "plan": plan.plan,
        "size": plan.size,
        "rerate": money.rerate,
        "rejected": people.rejected,
        "alerts": alerts.group,
        "mark": alerts.marks,
        "config": config.group,
        "rules": rules.group,
        "prices": prices.group,
        "report": money.reports,
        "budgets": money.plans,
    },
}
"""The whole command line: commands and groups of commands by name, as ``--help`` shows them."""
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)
for extension in extensions():
    extension.register(app)


def main() -> NoReturn:
    """Run the command line and exit; an error of ours is one sentence on stderr, never a traceback."""
    ended_by_sigterm = _listen()
    end_with_parent()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # services configure their own logs
    try:
        app(standalone_mode=True)
    except SystemExit as ended:
        if ended_by_sigterm and ended.code == _INTERRUPTED:
            _end_by_sigterm()
        raise
    except KeyboardInterrupt:  # while the command line was being built
        if ended_by_sigterm:
            _end_by_sigterm()
        sys.exit(_INTERRUPTED)
    except Exception as error:
        ours = sentence_of(error)
        if ours is None:
            raise  # a defect of ours deserves its traceback
        _complain(ours)
        sys.exit(2 if isinstance(ours, ConfigError) else 1)
    sys.exit(0)


def _listen() -> list[int]:
    """Make SIGTERM a ``KeyboardInterrupt``; the list that is returned has its number once it came.

    Workers of this process get it too, as the terminal's Ctrl-C gets to a whole group; without that a pool waits for
    them. Processes forked off end by it at once.
    """
    ours, received = os.getpid(), list[int]()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != ours:
            _end_by_sigterm()
        received.append(number)
        if "multiprocessing" in sys.modules:
            from multiprocessing import active_children

            for child in active_children():
                child.terminate()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _hang_up)
    return received


def _hang_up(_number: int, _frame: FrameType | None) -> None:
    """The terminal is gone: writing to it would break off what stops the rest. Shell and kernel both say so: what comes
    second would do the same."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        with contextlib.suppress(OSError):  # closed
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                os.dup2(nowhere, stream)
    os.close(nowhere)
    signal.raise_signal(signal.SIGTERM)


def _end_by_sigterm() -> None:
    """So that whoever sent it sees that it was the signal."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _complain(error: FleetpulseError) -> None:
    cause = cause_of(error)
    more = "" if cause is None else f"\n{cause}: {cause.url}"
    err.print(f"fleetpulse: {error}{more}", style="red", markup=False, highlight=False, soft_wrap=True)
