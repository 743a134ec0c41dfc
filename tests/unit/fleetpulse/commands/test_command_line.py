"""The command line: help with examples, exit codes, one sentence for what is wrong."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import pytest
from click import Context
from typer.main import get_command
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.commands.people import duration_ms
from schemas.errors import ConfigError

PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"


def commands() -> dict[tuple[str, ...], Any]:
    """Every command and subcommand by the words that call it."""
    found: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[words] = command
            return
        for name, child in inner.items():
            walk(child, (*words, name))

    walk(get_command(app), ())
    return found


COMMANDS = commands()


def examples(help_text: str) -> Iterator[list[str]]:
    """Lines to copy as words: behind variables, up to a pipe or a redirection."""
    for text in re.findall(r"\[bold\](.+?)\[/bold\]", help_text.partition("Example:")[2], re.DOTALL):
        words = list(takewhile(lambda word: word not in ("|", ">"), shlex.split(text)))
        yield list(dropwhile(lambda word: re.fullmatch(r"[A-Z][A-Z0-9_]*=\S*", word), words))


def test_the_version_is_that_of_the_distribution() -> None:
    """On standard output, without a command."""
    result = CliRunner().invoke(app, ["--version"])

    expected = tomllib.loads(PYPROJECT.read_text())["project"]["version"]
    assert (result.exit_code, result.stdout) == (0, f"fleetpulse {expected}\n")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(words: tuple[str, ...]) -> None:
    """`--help` answers at once and shows lines to copy: they call this command, with options that it has."""
    command = COMMANDS[words]
    shown = [example for example in examples(command.help or "") if example]
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})

    assert result.exit_code == 0
    assert shown
    for example in shown:
        call, arguments = example[: len(words) + 1], example[len(words) + 1 :]
        assert call == ["fleetpulse", *words]
        assert " ".join(call) in result.output.partition("Example:")[2]
        command.make_parser(Context(command)).parse_args(arguments)


def test_an_example_that_calls_something_else_is_found_out() -> None:
    """Variables before it and a pipe behind it belong to the shell."""
    text = "[bold]x[/bold] Example: [bold]A_B=1 fleetpulse top --sort 'temp C' | jq .[/bold], [bold]fleet[/bold]"

    assert list(examples(text)) == [["fleetpulse", "top", "--sort", "temp C"], ["fleet"]]


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
