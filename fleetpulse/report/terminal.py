"""The page in a terminal: the same words and digits as in the HTML file."""

from __future__ import annotations

from collections.abc import Iterator

from rich.columns import Columns
from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from fleetpulse.commands.table import Column, FittedTable
from fleetpulse.report.page import Bars, Page, Section, Table

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SHARE_CELLS = 10


def rendered(page: Page) -> Iterator[RenderableType]:
    """What to print, one thing after another."""
    yield Text.assemble((page.title, "bold"), "  ", (page.subtitle, "dim"))
    for warning in page.warnings:
        yield Text(f"! {warning}", style="yellow")
    yield Columns(
        [
            Panel(Text.assemble((one.value, "bold"), "\n", (one.note, "dim")), title=one.label, border_style="dim")
            for one in page.headlines
        ],
        padding=(0, 1),
    )
    for section in page.sections:
        yield from _section(section)
    for line in page.foot:
        yield Text(line, style="dim")


def _section(section: Section) -> Iterator[RenderableType]:
    yield Text(f"\n{section.title}", style="bold cyan")
    if section.text:
        yield Text(section.text, style="dim")
    if section.bars and section.bars.bars:
        yield _sparks(section.bars)
    tables = [table for table in section.tables if table.rows]
    for table in tables:
        yield _table(table)
    if section.empty and not tables:
        yield Text(section.empty, style="dim")


def _table(table: Table) -> FittedTable:
    heads = [Column(name, name in table.right) for name in table.columns]
    rows = [[Text(printable(cell)) for cell in row] for row in table.rows]
    if table.shares:
        heads.append(Column(""))
        for row, share in zip(rows, table.shares, strict=True):
            row.append(Text("█" * round(_SHARE_CELLS * share)))
    return FittedTable(table.caption, heads, rows, ["", *table.least])


def _sparks(bars: Bars) -> Text:
    """One line: the height of each bar in eighths of the highest."""
    sums = [sum(amounts) for _, amounts in bars.bars]
    highest = max(sums) or 1.0
    line = "".join(_BLOCKS[round(8 * one / highest)] for one in sums)
    most = f"{highest:,.0f}" if highest >= 1_000 else f"{highest:.4g}"
    first, last = bars.bars[0][0], bars.bars[-1][0]
    return Text.assemble((f"{bars.caption}: ", "dim"), line, (f"  {first} to {last}, highest ", "dim"),
                         f"{bars.unit}{most}")  # fmt: skip


def printable(text: str) -> str:
    """Control characters of anybody's labels as escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
