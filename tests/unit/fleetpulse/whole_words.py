"""What a terminal made of a table: which words and numbers it broke, lost or shortened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console, RenderableType

from fleetpulse.commands.table import FittedTable

PREFIX_MIN = 8
"""A shortened name keeps so many characters."""

BAR = "█"
"""Bars beside numbers say nothing that the numbers do not."""


def drawn(renderable: RenderableType, width: int = 80) -> str:
    """What a terminal of this width shows."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def broken(table: FittedTable, width: int = 80) -> list[str]:
    """Words of the table that do not stand whole in a terminal of this width, and lines that are wider than it.

    Columns that the terminal says it has left out do not count. A long name may end in an ellipsis, a number may not.
    """
    lines = drawn(table, width).splitlines()
    text = "\n".join(line for line in lines if set(line.strip()) != {"─"})
    text, _, note = text.replace(BAR, "").partition("\nno room in ")
    left_out = {name.strip() for name in " ".join(note.split()).partition(":")[2].split(",")} if note else set()
    shown, expected = Counter(text.split()), _expected(table, left_out, text.split())
    lost, strange = expected - shown, shown - expected
    for word in list(strange.elements()):
        whole = next((one for one in lost if _shortens(word, one)), None)
        if whole is not None:
            strange -= Counter([word])
            lost -= Counter([whole])
    return [f"lost {word}" for word in lost] + [f"strange {word}" for word in strange] + _wide(lines, width)


def _expected(table: FittedTable, left_out: set[str], shown: Sequence[str]) -> Counter[str]:
    """Words that must be there: of the title, of the headings, with blanks for underscores or not, and of the cells."""
    kept = [at for at, column in enumerate(table.columns) if column.heading not in left_out]
    words = table.title.split() + [word for row in table.rows for at in kept for word in row[at].plain.split()]
    if any(column.heading for column in table.columns):
        for heading in (table.columns[at].heading for at in kept):
            words += [heading] if heading in shown else heading.replace("_", " ").split()
    return Counter(word for word in words if set(word) != {BAR})


def _shortens(word: str, whole: str) -> bool:
    prefix = word.removesuffix("…")
    number = whole.lstrip("-$")[:1].isdigit() and len(whole) <= PREFIX_MIN * 3
    return word.endswith("…") and len(prefix) >= PREFIX_MIN and whole.startswith(prefix) and not number


def _wide(lines: Sequence[str], width: int) -> list[str]:
    return [f"wide {line}" for line in lines if len(line.rstrip()) > width]
