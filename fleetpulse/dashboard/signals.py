"""Charts of one machine or engine over time, from a table: title, unit, hint, and the column of each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetpulse.dashboard.charts import Line, over_time
from fleetpulse.dashboard.parts import ChartPanel
from fleetpulse.dashboard.view import View

HEIGHT_PX = 160


@dataclass(frozen=True, slots=True)
class Signal:
    """A chart: ``columns`` are columns of the answer by the name of their line."""

    title: str
    unit: str
    columns: Mapping[str, str]
    hint: str = ""


@dataclass
class Signals:
    """Panels of signals, made where they are created. Lines that nobody reported are left out."""

    view: View
    specs: Sequence[Signal]
    _panels: list[ChartPanel] = field(default_factory=list)

    def __post_init__(self) -> None:
        for one in self.specs:
            self._panels.append(ChartPanel(self.view, one.title, one.hint, f"{one.title} over time", HEIGHT_PX))

    def show(self, rows: Sequence[Mapping[str, Any]], marks: Sequence[tuple[int, str]] = ()) -> None:
        """Draw what these rows, in order of ``at_ms``, hold."""
        view = self.view
        for panel, one in zip(self._panels, self.specs, strict=True):
            reported = {
                name: column for name, column in one.columns.items() if any(row[column] is not None for row in rows)
            }
            if not reported:
                panel.empty("Not reported in this range", "" if rows else "Choose a longer range.")
                continue
            lines = [Line(name, [(row["at_ms"], row[column]) for row in rows]) for name, column in reported.items()]
            panel.draw(over_time(lines, view.range, view.palette, one.unit, marks=marks))
