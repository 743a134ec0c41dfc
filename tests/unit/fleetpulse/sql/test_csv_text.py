"""CSV for spreadsheets: names are never formulas, and numbers stay numbers."""

from __future__ import annotations

import csv
import io

import pytest

from fleetpulse.sql.csv_text import as_text, each_as_text

TEXTS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "acme",
    "",
    "a=1",
    'say "=1"',
    '"=1',
    "a,",
    ',"',
    "a\n=1",
    "'=1",
    "x-",
]
FORMULAS = TEXTS[:6]


def written(rows: list[list[str | int | None]], end: str = "\n", between: str = ",") -> bytes:
    """As the server writes them: text in quotes, numbers and nulls without."""
    return "".join(
        between.join(
            r"\N" if one is None else str(one) if isinstance(one, int) else '"{}"'.format(one.replace('"', '""'))
            for one in row
        ) + end
        for row in rows
    ).encode()  # fmt: skip


@pytest.mark.parametrize("between", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_that_would_be_a_formula_begins_with_an_apostrophe(end: str, between: str) -> None:
    """Every other cell is to the byte what the server wrote, wherever it stands in its row and whatever its settings
    put between cells."""
    rows = [[text, -7, other, None] for text in TEXTS for other in TEXTS]
    found = [*csv.reader(io.StringIO(as_text(written(rows, end, between)).decode(), newline=""), delimiter=between)]

    def safe(text: str) -> str:
        return f"'{text}" if text in FORMULAS else text

    assert found == [[safe(text), "-7", safe(other), r"\N"] for text in TEXTS for other in TEXTS]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 10**6])
def test_pieces_of_any_size_are_the_whole(size: int) -> None:
    """Also where one ends in the middle of a cell."""
    data = written([[text, 1] for text in TEXTS]) + b"the rest"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]

    assert b"".join(each_as_text(pieces)) == as_text(data)
    assert b"".join(each_as_text([])) == b""
