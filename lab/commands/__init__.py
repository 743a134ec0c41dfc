"""The lab's commands, which appear in ``fleetpulse`` where the distribution is installed.

Modules with compiled loops are imported when a command runs, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

PANEL = "Lab"


def register(app: typer.Typer) -> None:
    """Add the commands; ``audit simulated`` joins the product's group ``audit``."""
    from fleetpulse.commands.money import audits
    from lab.bench.command import app as bench
    from lab.commands import evaluate, proof, simulator

    for command in (proof.demo, simulator.simulate, simulator.replay, proof.chaos, evaluate.evaluate):
        app.command(rich_help_panel=PANEL)(command)
    app.add_typer(bench, name="bench", rich_help_panel=PANEL)
    audits.command("simulated")(proof.audit_simulated)


def compiled() -> dict[str, Callable[[], None]]:
    """What ``fleetpulse compile`` compiles for the lab, by the command that needs it."""
    from lab.simulator.run import warm_up

    return {"simulate": warm_up}
