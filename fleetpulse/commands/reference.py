"""``docs/reference/commands.md``, written from the command tree: ``python -m fleetpulse.commands.reference``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click
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
| 1 | something is wrong: a difference in the books, a finding of `doctor`, a server away, SQL that is rejected |
| 2 | wrong use or configuration: the sentence names key, value and bound |
| 70 | `jobs` alone: a fatal error; restart it after 2 s, always |
| 130, 143 | ended by Ctrl-C or SIGTERM before it was done |

Settings come from flags, then `FLEETPULSE_*`, then `fleetpulse.toml`; `fleetpulse config show` shows where each
value came from.

Completion: `fleetpulse --install-completion` for the shell in use (bash, zsh, fish, PowerShell), or
`fleetpulse --show-completion >> ~/.bashrc` to see and keep it yourself.
"""
_HELP = re.compile(r"^\* `--help`.*\n", re.MULTILINE)
_BOLD = re.compile(r"\[/?bold\]")


def page() -> str:
    """The whole page, command by command as typer describes them."""
    tree: Any = get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in tree.commands.items():
        text = get_docs_for_click(obj=command, ctx=typer.Context(tree), indent=2, name=name, call_prefix="fleetpulse")
        panels.setdefault(command.rich_help_panel, []).append(text)
    listed = [f"## {panel}\n\n{''.join(texts)}" for panel, texts in panels.items()]
    text = _BOLD.sub("`", _HELP.sub("", "\n".join((_INTRODUCTION, *listed))))
    return text.replace("**Options**:\n\n\n", "").replace("\\[", "[").replace(f"{PAGE.parents[2]}/", "").rstrip() + "\n"


if __name__ == "__main__":
    if not extensions():
        sys.exit(f"the page also lists the commands of {LAB}: pip install --editable ./lab")
    PAGE.write_text(page(), encoding="utf-8")
