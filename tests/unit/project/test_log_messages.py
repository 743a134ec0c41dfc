"""Every message that a process logs at WARNING or above stands in docs/how-to/running.md, and no other does."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "running.md"
PACKAGES = ("schemas", "runtime", "producers", "stream_jobs", "sinks", "fleetpulse", "lab", "sdk")
LEVELS = {
    "warning": "WARNING",
    "warn": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "CRITICAL",
    "fatal": "CRITICAL",
    "log": "WARNING",  # of a level that is computed: its upper bound is documented
}
LOGGERS = {"_log", "log", "_logger", "logger", "logging"}


@cache
def sources() -> dict[str, str]:
    """The text of every module by its path."""
    listing = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listing.stdout.splitlines() if name.endswith(".py") and (ROOT / name).exists()]
    return {name: (ROOT / name).read_text() for name in names}


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """``(place, call, level)`` of every call of a logger at WARNING or above."""
    for name, text in sources().items():
        if "getLogger" not in text and "logging." not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                logger = node.func.value
                if isinstance(logger, ast.Name) and logger.id in LOGGERS:
                    yield f"{name}:{node.lineno}", node, LEVELS[node.func.attr]


def message_of(call: ast.Call) -> str:
    """The message as the page writes it; empty where it is no literal."""
    assert isinstance(call.func, ast.Attribute)
    found = call.args[1 if call.func.attr == "log" else 0]
    return re.sub(r"%[sdr]", "…", found.value) if isinstance(found, ast.Constant) and type(found.value) is str else ""


def logged() -> dict[str, set[str]]:
    """Levels of each message in the source."""
    messages = defaultdict(set)
    for _, call, level in calls():
        messages[message_of(call)].add(level)
    return messages


def documented() -> list[tuple[str, str]]:
    """``(message, level)`` of each row of the page."""
    return re.findall(
        r"^\| `([^`]+)` \| (WARNING|ERROR|CRITICAL) \| [^|]+ \| [^|]+ \|$", PAGE.read_text(), re.MULTILINE
    )


def test_a_log_message_is_a_literal_and_its_facts_stand_beside_it() -> None:
    """So that the page and a search find it: what varies is in ``extra=``."""
    assert [place for place, call, _ in calls() if not message_of(call)] == []


def test_every_logger_is_one_that_is_looked_at() -> None:
    """A logger of another name would log messages that no test sees."""
    names = {
        found
        for text in sources().values()
        for found in re.findall(r"^\s*(\w+) = logging\.getLogger\(__name__\)", text, re.MULTILINE)
    }

    assert names
    assert names <= LOGGERS


def test_every_warning_and_error_is_documented_with_what_to_do() -> None:
    """Both ways: a message that no code logs fails as well, and the level is the one it is logged at."""
    rows = documented()

    assert len(rows) == len({message for message, _ in rows}), "a message stands in the page twice"
    assert {(message, level) for message, levels in logged().items() for level in levels} == set(rows)
