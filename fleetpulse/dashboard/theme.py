"""Colours, once for charts and once for CSS, light and dark. Text on its ground has a contrast of 4.5 or better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of charts. ``series`` in order of use; ``ramp`` from little to much."""

    text: str
    muted: str
    line: str
    ground: str
    raised: str
    accent: str
    good: str
    warn: str
    bad: str
    gone: str
    series: tuple[str, ...]
    ramp: tuple[str, ...]


LIGHT = Palette(
    text="#1b2230",
    muted="#5b6577",
    line="#e3e7ee",
    ground="#f6f7f9",
    raised="#ffffff",
    accent="#2459d3",
    good="#15803d",
    warn="#b45309",
    bad="#c81e1e",
    gone="#c4cad4",
    series=("#2459d3", "#0e8f7e", "#b4560b", "#8b3fc4", "#c2255c", "#4d7c0f", "#0c7fa8", "#7a5c3e"),
    ramp=("#eaf1fb", "#b9d3f3", "#7fb0e6", "#4389d0", "#2460ab", "#163f7a"),
)
DARK = Palette(
    text="#e4e8f0",
    muted="#97a2b5",
    line="#262e3b",
    ground="#0e1217",
    raised="#151b23",
    accent="#6ea0ff",
    good="#4ade80",
    warn="#f5a623",
    bad="#ff6b6b",
    gone="#4a5465",
    series=("#6ea0ff", "#3ec9b0", "#f0a04b", "#bf8cf0", "#f2749b", "#a3cf5a", "#56bfe6", "#c9a783"),
    ramp=("#1a2433", "#1d3d63", "#245f99", "#3c88c8", "#7ab5e4", "#c9e3f7"),
)


@cache
def css() -> str:
    """The style sheet: the colours as variables, then ``dashboard.css``."""
    text = files(__package__).joinpath("dashboard.css").read_text(encoding="utf-8")
    return f":root{{{_variables(LIGHT)}}}\nbody.body--dark{{{_variables(DARK)}}}\n{text}"


def _variables(palette: Palette) -> str:
    names = ("text", "muted", "line", "ground", "raised", "accent", "good", "warn", "bad", "gone")
    return "".join(f"--{name}:{getattr(palette, name)};" for name in names)
