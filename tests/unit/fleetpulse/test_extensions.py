"""Commands of other distributions, and what is said where the lab is not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import typer
from typer.testing import CliRunner

import lab.commands
from fleetpulse.cli import app
from fleetpulse.extensions import GROUP, LAB_COMMANDS, Commands, extensions


def test_the_lab_is_an_extension() -> None:
    """Its entry point is read from its installed distribution."""
    assert [(point.name, point.value) for point in entry_points(group=GROUP)] == [("lab", "lab.commands")]
    assert extensions() == (lab.commands,)


def test_the_commands_of_the_lab_are_those_it_registers() -> None:
    """What is said without it fits what is there with it."""
    bare = typer.Typer()
    lab.commands.register(bare)

    names = [command.name or command.callback.__name__ for command in bare.registered_commands if command.callback]
    assert {*names, *(group.name for group in bare.registered_groups)} == set(LAB_COMMANDS)


@pytest.mark.parametrize("name", LAB_COMMANDS)
def test_without_the_lab_its_commands_name_the_distribution(name: str) -> None:
    """Exit code 2, which distribution it is, and how it is installed."""
    bare = typer.Typer(cls=Commands)
    bare.command("up")(lambda: None)
    bare.command("down")(lambda: None)

    result = CliRunner().invoke(bare, [name, "--seconds", "20"])

    said = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == 2
    assert f"`{name}` is a command of the distribution fleetpulse-lab, which is not installed here." in said
    assert "pip install fleetpulse-lab" in said


def test_another_unknown_command_is_refused_as_ever() -> None:
    """The lab is not the answer to a typing mistake."""
    result = CliRunner().invoke(app, ["no-such-command"])

    assert result.exit_code == 2
    assert "fleetpulse-lab" not in result.output


def test_the_product_imports_nothing_of_the_lab() -> None:
    """Where the lab is not installed, every product command still loads."""
    code = """
import sys
sys.modules["lab"] = None
import fleetpulse.extensions as extensions
extensions.extensions = lambda: ()
from fleetpulse.cli import app
from typer.main import get_command
print(*get_command(app).commands)
"""
    listed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout

    assert {"up", "jobs", "sink", "backtest", "reconcile", "audit", "doctor"} <= set(listed.split())
    assert not set(listed.split()) & set(LAB_COMMANDS)
