"""The page about commands follows from the command tree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from fleetpulse import queries
from fleetpulse.cli import app
from fleetpulse.commands.reference import METRICS_PAGE, PAGE, QUESTIONS_PAGE, metrics_page, page, questions_page
from fleetpulse.queries.questions import numbered
from runtime.counters import PREFIX, exported_name
from runtime.metric_catalogue import METRICS

ROOT = Path(__file__).resolve().parents[4]


@cache
def tree() -> Any:
    return get_command(app)


@cache
def written() -> str:
    return page()


def test_the_page_is_what_the_commands_say() -> None:
    """``python -m fleetpulse.commands.reference`` was run after the last change."""
    assert PAGE.read_text(encoding="utf-8") == written()


def test_every_command_stands_on_the_page_once() -> None:
    """Groups by their commands, and those that can be run by themselves too."""
    titles = re.findall(r"^####? `fleetpulse (.+)`$", written(), re.MULTILINE)

    assert len(titles) == len(set(titles))
    assert {"top", "query", "doctor", "config", "config show", "config check", "percentiles", "alerts"} <= set(titles)
    assert {title.split()[0] for title in titles} == set(tree().commands)


def test_every_question_and_query_stands_on_its_page_with_what_it_says() -> None:
    """Once; the page is what the queries say now."""
    text = questions_page()
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (\d+|`\w+`) \|", line)]

    assert QUESTIONS_PAGE.read_text(encoding="utf-8") == text
    assert len(rows) == len(numbered()) + len(queries.names())
    assert [row for row in rows if not row[1].strip()] == []


def test_every_metric_of_a_process_stands_in_the_reference_with_what_is_normal() -> None:
    """Once, under its name at /metrics; the page is what the catalogue says now."""
    text = metrics_page()
    names = [PREFIX + exported_name(one.name) + ("_total" if one.kind == "counter" else "") for one in METRICS]

    assert METRICS_PAGE.read_text(encoding="utf-8") == text
    assert sorted(re.findall(r"^\| `(fleetpulse_\w+)`", text, re.MULTILINE)) == sorted(names)
    assert [line for line in text.splitlines() if re.search(r"\|\s*\|$", line)] == []


def test_every_recorded_figure_answers_a_question_of_the_reference() -> None:
    """All rules of the shipped file but those by partition, which the others are made of."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "pipeline.yaml").read_text())["groups"][0]["rules"]
    recorded = {rule["record"] for rule in rules if not rule["record"].endswith(":partition")}

    assert set(re.findall(r"^\| .* \| `(fleetpulse:\S+)` \|", metrics_page(), re.MULTILINE)) == recorded


def told_commands() -> Iterator[tuple[str, str]]:
    """Every ``fleetpulse ...`` that a mending text advises to run."""
    for file in sorted((ROOT / "fleetpulse" / "doctor").glob("*.py")):
        for text in re.findall(r'"(fleetpulse [^"{]*)', file.read_text()):
            yield file.name, text
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            for text in re.findall(r"fleetpulse [a-z][^:;,()]*", rule["annotations"]["description"]):
                yield rule["alert"], text


@pytest.mark.parametrize(("place", "text"), sorted(set(told_commands())), ids=lambda value: value[:40])
def test_a_command_that_people_are_told_to_run_exists(place: str, text: str) -> None:
    """Its words are commands, its options theirs."""
    words = shlex.split(text.partition("#")[0].partition("&&")[0])[1:]
    command = tree()
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]

    assert command is not tree(), (place, text)
    known = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known, (place, text)
