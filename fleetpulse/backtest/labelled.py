"""Alerts against labels: what was found, how soon, what was not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetpulse.backtest.alerting import percentile
from fleetpulse.backtest.judging import Judged
from fleetpulse.backtest.series_file import Points, Spans


@dataclass(frozen=True, slots=True)
class Run:
    """A run of firing of a series. ``until_ms`` of its last point; ``value`` and ``baseline`` where it began."""

    since_ms: int
    since: str
    until_ms: int
    value: float
    baseline: float


def runs_of(points: Points, judged: Judged) -> list[Run]:
    """All runs of a series, the one that goes on included."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], judged.firing, [False]]))).reshape(-1, 2)
    return [
        Run(int(points.at_ms[begin]), str(points.texts[begin]), int(points.at_ms[end - 1]), float(points.values[begin]),
            float(judged.baseline[begin]))
        for begin, end in edges.tolist()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """``late_ms`` from the begin of each span that was found to the first alert in it."""

    runs: int
    right: int
    spans: int
    found: int
    late_ms: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Shares; None of nothing."""
        late_s = [late / 1_000 for late in self.late_ms]
        return {
            "alerts": self.runs,
            "labelled": self.spans,
            "found": self.found,
            "precision": self.right / self.runs if self.runs else None,
            "recall": self.found / self.spans if self.spans else None,
            "late_p50_s": percentile(late_s, 0.5),
            "late_p95_s": percentile(late_s, 0.95),
        }


def compare(runs: Iterable[Run], spans: Spans) -> Found:
    """An alert is right when it overlaps a span; a span is found when an alert overlaps it."""
    listed = list(runs)
    right = sum(any(_overlap(run, span) for span in spans) for run in listed)
    late = []
    for span in spans:
        hits = [max(0, run.since_ms - span[0]) for run in listed if _overlap(run, span)]
        late += [min(hits)] if hits else []
    return Found(len(listed), right, len(spans), len(late), tuple(late))


def _overlap(run: Run, span: tuple[int, int]) -> bool:
    return run.since_ms <= span[1] and run.until_ms >= span[0]


def together(found: Iterable[Found]) -> Found:
    """All of them as one."""
    listed = list(found)
    return Found(
        sum(one.runs for one in listed),
        sum(one.right for one in listed),
        sum(one.spans for one in listed),
        sum(one.found for one in listed),
        tuple(late for one in listed for late in one.late_ms),
    )
