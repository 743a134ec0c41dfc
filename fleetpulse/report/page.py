"""A page for people: what a terminal and a browser both show. Made of text; how it looks is not its matter.

Values are text already, so that both show the same digits. ``Bars`` are drawn, each with the table of its numbers
beside it or in the page: a picture alone says nothing to whoever cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Headline:
    """A number that stands at the top: what it is, how much, and one line of explanation."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """``right`` names the columns whose cells are numbers, ``least`` those that a narrow terminal leaves out first.
    ``shares`` in [0, 1], one a row, are drawn as a bar."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    shares: tuple[float, ...] = ()
    least: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars over time: of each bar its label and one amount by name of ``stack``; ``unit`` is said beside."""

    caption: str
    unit: str
    stack: tuple[str, ...]
    bars: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what there is to know, then tables. ``empty`` is said where there is no table. ``drawing`` is an SVG,
    which a terminal does not show."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    bars: Bars | None = None
    empty: str = ""
    drawing: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """All of it. ``warnings`` are what must be known before any number is believed."""

    title: str
    subtitle: str
    headlines: Sequence[Headline]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()
    foot: Sequence[str] = field(default_factory=tuple)
