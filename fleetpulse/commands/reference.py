"""``docs/reference/commands.md``, written from the command tree: ``python -m fleetpulse.commands.reference``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from fleetpulse.cli import app
from fleetpulse.extensions import LAB, extensions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"
_INTRODUCTION = """# Commands

<!-- Written by `python -m fleetpulse.commands.reference`; a test keeps it equal to the command tree. -->

Every command has `--help` with an example; what prints data takes `--json`. Data goes to standard output, everything
else to standard error, so that `fleetpulse ... | jq` works. Ctrl-C and SIGTERM end every command cleanly.

| exit code | meaning |
|---|---|
| 0 | done; a service was stopped by SIGTERM |
| 1 | something is wrong: a difference in the books, a finding of `doctor`, a server away, SQL that is refused |
| 2 | wrong use or configuration: the sentence names key, value and bound |
| 70 | `jobs` alone: a fatal error; restart it after 2 s, always |
| 130, 143 | ended by Ctrl-C or SIGTERM before it was done |

Settings come from flags, then `FLEETPULSE_*`, then `fleetpulse.toml`; `fleetpulse config show` shows where each
value came from.

Completion: `fleetpulse --install-completion` for the shell in use (bash, zsh, fish, PowerShell), or
`fleetpulse --show-completion >> ~/.bashrc` to see and keep it yourself.
"""
_MARKUP = re.compile(r"\[/?(?:bold|dim|italic)\]")


def page() -> str:
    """The whole page."""
    tree = get_command(app)
    panels: dict[str, list[str]] = {}
    for words, command in _walk(tree, ()):
        panel = _panel(tree, words[0])
        panels.setdefault(panel, []).append(_section(words, command))
    sections = [f"## {panel}\n\n" + "\n".join(sections) for panel, sections in panels.items()]
    return _INTRODUCTION + "\n" + "\n".join(sections)


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be run, with the words that call it."""
    inner = getattr(command, "commands", None)
    if inner is None or (words and command.invoke_without_command):
        yield words, command
    for name, child in (inner or {}).items():
        yield from _walk(child, (*words, name))


def _panel(tree: Any, name: str) -> str:
    return str(getattr(tree.commands[name], "rich_help_panel", None) or "Others")


def _section(words: tuple[str, ...], command: Any) -> str:
    usage = " ".join(["fleetpulse", *words, *_arguments(command)])
    rows = [_row(option) for option in command.params if option.param_type_name == "option" and not option.hidden]
    shown = [row for row in rows if not row.startswith("| `--help`")]
    table = "\n".join(["", "| option | meaning |", "|---|---|", *shown, ""]) if shown else ""
    return f"### {' '.join(words)}\n\n`{usage}`\n\n{_plain(command.help)}\n{table}"


def _arguments(command: Any) -> Iterator[str]:
    for one in command.params:
        if one.param_type_name == "argument":
            name = (one.metavar or one.name).upper()
            yield name if one.required else f"[{name}]"


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    meaning = _plain(option.help).replace("|", "\\|").replace("\n", " ")
    default = option.default
    if isinstance(default, bool) or default is None or callable(default) or default == []:
        return f"| {names} | {meaning} |"
    return f"| {names} | {meaning} Default: `{_default(default)}`. |"


def _default(value: Any) -> str:
    """A default as one types it; a file of the package without the folder of this machine."""
    text = str(getattr(value, "value", value))
    return text.removeprefix(f"{PAGE.parents[2]}/")


def _plain(text: str | None) -> str:
    """Help text as Markdown: examples as code, no other markup; lines of one paragraph joined."""
    said = (text or "").replace("[bold]", "`").replace("[/bold]", "`")
    paragraphs = [" ".join(part.split()) for part in _MARKUP.sub("", said).split("\n\n")]
    return "\n\n".join(part for part in paragraphs if part)


if __name__ == "__main__":
    if not extensions():
        sys.exit(f"the page also lists the commands of {LAB}: pip install --editable ./lab")
    PAGE.write_text(page(), encoding="utf-8")
