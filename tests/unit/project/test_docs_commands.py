"""Commands of documents exist, with the options that they are given; figures of the README are those of the pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from typer.main import get_command

from fleetpulse.cli import app
from fleetpulse.queries.questions import numbered

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""Its language, where it has one, and its lines."""
CALL = re.compile(r"(?:^|&& |-- |[A-Z_]=\S+ )\s*fleetpulse ([a-z].*)")
"""At the begin of a line, behind another command, in a container, or behind variables."""
COMPLETION = {"--help", "--install-completion", "--show-completion"}


@cache
def tree() -> Any:
    return get_command(app)


def calls(text: str) -> Iterator[str]:
    """What stands behind ``fleetpulse`` in blocks and within single backticks, without what follows the command."""
    blocks = [block.replace("\\\n", " ") for language, block in BLOCK.findall(text) if language in ("", "sh")]
    lines = [line for block in blocks for line in block.splitlines()]
    for line in (*lines, *re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))):
        for found in CALL.findall(line):
            yield re.split(r"\s#|&&|[|;<>]", found)[0].strip()


def mistake(call: str) -> str | None:
    """What is wrong with a command line: no such command, or options that it lacks."""
    try:
        words = shlex.split(call)
    except ValueError:  # an apostrophe of a question
        words = call.split()
    command, named = tree(), list[str]()
    while words and words[0] in getattr(command, "commands", {}):
        named.append(words.pop(0))
        command = command.commands[named[-1]]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | COMPLETION
    unknown = {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"} - known
    return f"{' '.join(named) or 'no command'}: {sorted(unknown)}" if unknown or not named else None


def test_every_command_of_a_document_exists_with_its_options() -> None:
    """Nobody is told to type what is refused."""
    found = [(path.name, call) for path in DOCUMENTS for call in calls(path.read_text(encoding="utf-8"))]

    assert len(found) > 300
    assert [(name, call, wrong) for name, call in found if (wrong := mistake(call)) is not None] == []


def test_every_module_of_a_document_that_python_runs_is_installed() -> None:
    """In the environment that `make` builds; what that has not is run by another tool, which brings it."""
    found = {name for path in DOCUMENTS for name in re.findall(r"python3? -m (\w+)", path.read_text(encoding="utf-8"))}

    assert "pip" in found
    assert {name for name in found if find_spec(name) is None} == set()


def test_what_would_be_refused_is_found() -> None:
    """In a block, in a sentence, in a container; a command, and an option."""
    block = "```\nX=1 fleetpulse top --jsn   # why\nfleetpulse doctor --json\n```\n"
    text = f"Run `kubectl exec a -- fleetpulse doktor`:\n{block}"

    assert [mistake(call) for call in calls(text)] == ["top: ['--jsn']", None, "no command: []"]


def test_the_readme_counts_questions_and_recipes_as_there_are() -> None:
    """Those that `fleetpulse ask` lists, and those of the cookbook."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    recipes = (ROOT / "docs" / "how-to" / "cookbook.md").read_text(encoding="utf-8").count("```sql\n")

    assert re.findall(r"`fleetpulse ask` lists (\d+) such questions", text) == [f"{len(numbered())}"]
    assert re.findall(r"cookbook.md\) has (\d+) more", text) == [f"{recipes}"]


def test_figures_of_the_readme_are_those_of_the_pages() -> None:
    """Of speed; what the page about performance says differently is measured anew, or was never."""
    (table,) = re.findall(r"^## How fast\n(.*?)^## ", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    pages = " ".join(
        (ROOT / "docs" / "why" / name).read_text(encoding="utf-8") for name in ("performance.md", "peers.md")
    )
    results = [line.split(" | ")[1] for line in table.splitlines() if line.count(" | ") == 2 and "`fleetpulse" in line]
    figures = {one for result in results for one in re.findall(r"\d[\d,.]*\d|\d", result)}

    assert len(figures) > 10
    assert {one for one in figures if not re.search(rf"(?<![\d.,]){re.escape(one)}(?![\d]|[.,]\d)", pages)} == set()


def test_kubernetes_is_asked_for_the_namespace_of_the_parts() -> None:
    """That of the manifests, not of whoever happens to be called; manifests and namespaces name themselves, and brokers
    are of another."""
    lines = [line for path in DOCUMENTS for line in path.read_text(encoding="utf-8").splitlines()]
    told = [call for line in lines for call in re.findall(r"(?:^|`)\s*kubectl ([^`]+)", line)]
    themselves = ("apply --kustomize", "create namespace", "label namespace")

    assert len(told) > 10
    namespaces = ("--namespace fleetpulse ", "--namespace kafka exec BROKER ")
    assert [one for one in told if not one.startswith((*themselves, *namespaces))] == []
