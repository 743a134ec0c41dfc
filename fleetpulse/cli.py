"""The command line: one group per kind of user, every command with an example.

Exit codes: 0 done, 1 found something wrong (a difference in the books, a rejected alert, a stack that would not
start), 2 wrong use or configuration. Commands import what they need when they run, so that ``--help`` is quick.
"""

from __future__ import annotations

import logging
import sys
from typing import NoReturn

import typer
from rich.console import Console

from fleetpulse.commands import (
    alerts,
    deliver,
    edge,
    evaluate,
    people,
    prices,
    proof,
    proxy,
    rules,
    services,
    stack,
    vram,
)
from fleetpulse.commands.output import sentence_of
from fleetpulse.processes import end_with_parent
from schemas.errors import ConfigError, FleetpulseError

app = typer.Typer(
    name="fleetpulse",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Telemetry for GPU fleets and LLM serving: exact books, percentiles that merge.\n\n"
    "Start with [bold]fleetpulse demo[/bold].",
)
for group in (stack, edge, proxy, services, deliver, proof, evaluate, people, alerts, rules, prices, vram):
    group.register(app)


def main() -> NoReturn:
    """Run the command line and exit; an error of ours is one sentence on stderr, never a traceback."""
    end_with_parent()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # services configure their own logs
    try:
        app(standalone_mode=True)
    except Exception as error:
        told = sentence_of(error)
        if told is None:
            raise  # a defect of ours deserves its traceback
        _complain(told)
        sys.exit(2 if isinstance(told, ConfigError) else 1)
    sys.exit(0)


def _complain(error: FleetpulseError) -> None:
    Console(stderr=True).print(f"fleetpulse: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
