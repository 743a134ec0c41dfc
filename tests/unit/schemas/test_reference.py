"""The reference pages say what the tables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.contract.topics import TOPICS
from schemas.contract.verdicts import REASONS
from schemas.ddl.declared import declared, made
from schemas.events.event_types import EVENTS
from schemas.limits import DEFAULT_LIMITS
from schemas.reference import FOLDER, pages, table, write


def test_the_pages_on_disk_are_what_the_tables_say() -> None:
    """Pages of docs/reference that name ``python -m schemas.reference`` are what it writes, no page more."""
    texts = {path.name: path.read_text() for path in FOLDER.glob("*.md")}

    assert {name: text for name, text in texts.items() if "Written by `python -m schemas.reference`" in text} == pages()


def test_writing_makes_every_page(tmp_path: Path) -> None:
    """One file per page."""
    assert {path.name: path.read_text() for path in write(tmp_path / "reference")} == pages()


@pytest.mark.parametrize(
    ("page", "words"),
    [
        pytest.param("events.md", [field.name for event in EVENTS for field in event.fields], id="fields"),
        pytest.param("topics.md", [topic.name for topic in TOPICS], id="topics"),
        pytest.param("limits.md", list(DEFAULT_LIMITS.__slots__), id="limits"),
        pytest.param("reasons.md", list(REASONS), id="reasons"),
        pytest.param(
            "tables.md",
            [name for name, text in declared().items() if made(text)[0] in ("table", "view")],
            id="tables and views",
        ),
    ],
)
def test_nothing_is_left_out(page: str, words: list[str]) -> None:
    """Each name of the code's tables has its line."""
    text = pages()[page]

    assert [word for word in words if f"`{word}`" not in text and f"## {word}\n" not in text] == []


def test_every_limit_says_what_happens() -> None:
    """No limit without a word beside it, except where its name and section say it all."""
    rows = [line for line in pages()["limits.md"].splitlines() if line.startswith("| `") and "_max`" in line]

    assert [line for line in rows if line.endswith("|  |")] == []


def test_bars_do_not_break_a_table() -> None:
    """A cell with a bar stays one cell."""
    assert table(("a",), [("x|y",)]).splitlines()[-1] == "| x\\|y |"


def test_what_is_kept_for_ever_says_so() -> None:
    """The audit of what people do; no retention is a negative time."""
    kept = {
        line.split(" | ")[0].strip("| `"): line.split(" | ")[2]
        for line in pages()["topics.md"].splitlines()
        if "| `" in line
    }

    assert kept["alert.commands"] == "for ever"
    assert not any(one.startswith("-") for one in kept.values())
