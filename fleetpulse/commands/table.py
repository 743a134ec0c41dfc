"""Tables for terminals in which every word and number stays whole, however narrow the terminal is.

A table that is too wide first wraps its texts between words, then shortens long names with an ellipsis, and then leaves
out columns, the least important first, and says below which. Widths are decided when the table is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

NAME_CELLS_MIN = 20
"""Longer words of a text, such as names and ids, may be shortened to so many cells."""
PHRASE_CELLS_MAX = 8
"""Lines up to this length, such as ``2 of 3``, are not wrapped."""
AMOUNT_CELLS_MAX = 24
"""A word that begins with a digit and is no longer than this is a number, a time or an amount: never shortened."""
_GAP_CELLS = 2
_SIGNS = "+-±$<>~"


@dataclass(frozen=True, slots=True)
class Need:
    """Cells that a column needs: for its longest line, for its longest word, for that with names shortened."""

    line: int
    word: int
    short: int


def widths_of(needs: Sequence[Need], room: int) -> list[int] | None:
    """Widths of columns that together fit ``room`` cells; None where even shortened names do not fit.

    No column is narrower than its longest word unless the room is less than all of these together.
    """
    for least, most in (("word", "line"), ("short", "word")):
        low, high = [getattr(need, least) for need in needs], [getattr(need, most) for need in needs]
        if sum(low) <= room:
            return _shared(low, high, room)
    return None


def _shared(low: Sequence[int], high: Sequence[int], room: int) -> list[int]:
    """Widths from ``low`` to ``high``: the narrowest grow first, so that short columns stay whole."""
    found = list(low)
    for level in range(room + 1):
        grown = [min(most, max(least, level)) for least, most in zip(low, high, strict=True)]
        if sum(grown) > room:
            break
        found = grown
    return found


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``right`` for numbers, whose cells are kept on one line where they can be.

    Texts of a column that is not ``wrapped`` stay on one line and are shortened as a whole."""

    heading: str
    right: bool = False
    wrapped: bool = True

    def need(self, cells: Sequence[str]) -> Need:
        """The cells that the heading and these values need."""
        lines = [line for cell in cells for line in cell.split("\n")]
        heading = self.worded().split()
        line = max(map(cell_len, (*lines, self.heading)))
        if self.right:
            kept = [cell_len(one) if cell_len(one) <= AMOUNT_CELLS_MAX else _longest(one.split()) for one in lines]
            word = max([*kept, _longest(heading)], default=0)
            return Need(line, word, word)
        words = [word for one in lines for word in self._words(one)]
        short = [cell_len(word) if _is_amount(word) else min(cell_len(word), NAME_CELLS_MIN) for word in words]
        return Need(line, _longest((*words, *heading)), max([*short, _longest(heading)], default=0))

    def shortened(self, cell: Text, width: int) -> Text:
        """The cell with words that are longer than ``width`` cut to it, an ellipsis at their end."""
        lines = cell.plain.split("\n")
        if max((_longest(self._words(line)) for line in lines), default=0) <= width:
            return cell
        return Text("\n".join(" ".join(_cut(word, width) for word in self._words(line)) for line in lines), cell.style)

    def _words(self, line: str) -> list[str]:
        return line.split() if self.wrapped and cell_len(line) > PHRASE_CELLS_MAX else [line]

    def worded(self) -> str:
        """The heading with blanks for underscores, where it may be wrapped."""
        return self.heading.replace("_", " ")


def _longest(words: Sequence[str]) -> int:
    return max(map(cell_len, words), default=0)


def _is_amount(word: str) -> bool:
    return word.lstrip(_SIGNS)[:1].isdigit() and len(word) <= AMOUNT_CELLS_MAX


class FittedTable:
    """A table that fits the console it is printed on. ``least`` names the columns that are left out first, in order;
    then they go from the right. The first column always stays."""

    def __init__(
        self, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Text]], least: Sequence[str] = ()
    ) -> None:
        self.title = title
        self.columns = columns
        self.rows = rows
        self.least = least

    def width_min(self) -> int:
        """Cells in which no column is left out and no name is shortened."""
        needs = self._needs()
        return max(_longest(self.title.split()), sum(need.word for need in needs) + _gaps(len(needs)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        kept, widths = self._fitted(options.max_width)
        if self.title:
            yield Text(self.title, style="italic")
        yield self._drawn(kept, widths)
        left_out = [column.heading for at, column in enumerate(self.columns) if at not in kept and column.heading]
        if left_out:
            yield Text(f"no room in {options.max_width} columns for: {', '.join(left_out)}", style="dim")

    def _fitted(self, width: int) -> tuple[list[int], list[int]]:
        needs, kept = self._needs(), list(range(len(self.columns)))
        named = [number for name in self.least for number in kept if self.columns[number].heading == name]
        going = [number for number in dict.fromkeys([*named, *reversed(kept)]) if number]
        while (found := widths_of([needs[number] for number in kept], width - _gaps(len(kept)))) is None:
            if len(kept) == 1:
                return kept, [width]
            kept.remove(going.pop(0))
        return kept, found

    def _needs(self) -> list[Need]:
        return [column.need([row[at].plain for row in self.rows]) for at, column in enumerate(self.columns)]

    def _drawn(self, kept: Sequence[int], widths: Sequence[int]) -> Table:
        at = list(zip(kept, widths, strict=True))
        rows = [[self.columns[number].shortened(row[number], width) for number, width in at] for row in self.rows]
        wrapped = any(
            "\n" in cell.plain or cell.cell_len > width for row in rows for cell, width in zip(row, widths, strict=True)
        )
        made = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", border_style="dim",
            padding=(0, _GAP_CELLS - 1, 0, 0), collapse_padding=True, leading=int(wrapped),
            show_header=any(column.heading for column in self.columns),
        )  # fmt: skip
        for number, width in at:
            column = self.columns[number]
            heading = column.heading if cell_len(column.heading) <= width else column.worded()
            made.add_column(Text(heading), justify="right" if column.right else "left", width=width)
        for row in rows:
            made.add_row(*row)
        return made


def _gaps(columns: int) -> int:
    return _GAP_CELLS * (columns - 1)


def _cut(word: str, width: int) -> str:
    return word if cell_len(word) <= width else f"{set_cell_size(word, width - 1).rstrip()}…"
