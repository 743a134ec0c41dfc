"""The command line: help with examples, exit codes, one sentence for what is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.people import duration_ms
from schemas.errors import ConfigError


def commands() -> list[tuple[str, ...]]:
    """Every command and subcommand as the words that call it."""
    found: list[tuple[str, ...]] = []

    def walk(command: object, words: tuple[str, ...]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found.append(words)
            return
        for name, child in inner.items():
            walk(child, (*words, name))

    walk(get_command(app), ())
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_help_with_an_example(words: tuple[str, ...]) -> None:
    """`--help` answers at once and shows a line to copy."""
    result = CliRunner().invoke(app, [*words, "--help"])

    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"fleetpulse {words[0]}" in result.output or "FLEETPULSE_" in result.output


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_durations_have_a_number_and_a_unit(text: str, milliseconds: int) -> None:
    """Seconds, minutes, hours and days."""
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "h", "0h", "-1h", "1.5h", "10", "1w"])
def test_other_durations_are_refused(text: str) -> None:
    """Anything else is one sentence with key, value and bound."""
    with pytest.raises(ConfigError, match="must be a whole number above 0 with a unit"):
        duration_ms(text)


def test_a_wrong_setting_ends_with_exit_code_two_and_one_sentence() -> None:
    """Bad configuration names key, value and bound, without a traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "fleetpulse", "config"],
        env={"FLEETPULSE_LIMITS__OUT_OF_ORDERNESS_MS": "0", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "out_of_orderness_ms" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_wrong_flag_ends_with_exit_code_two() -> None:
    """Wrong use is exit code 2."""
    assert CliRunner().invoke(app, ["demo", "--seconds", "nine"]).exit_code == 2
