"""One series drawn: values, what was expected, within which limits, labelled spans, and when the rule fired; as an SVG
that stands by itself, and as a page with the same around every alert. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

import numpy as np

from fleetpulse.backtest.judging import Judged
from fleetpulse.backtest.labelled import Run
from fleetpulse.backtest.series_file import Points, Spans
from fleetpulse.report.html import html, nice
from fleetpulse.report.page import Headline, Page, Section, Table
from stream_jobs.insight.frame import Floats, Mask, Whole

ALERTS_DRAWN = 12
"""Each with what was around it; the table has them all."""
_AROUND = 60
"""Points at least before and after an alert."""
_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 960, 260, 64, 26, 24
_TICKS = 7
_GAP = 5
"""Intervals without a value that leave a line broken."""
_TEXT = (
    "Limits are those of a single value, and nothing is judged where there are none. novelty also judges averages and "
    "spread, so it can fire within them."
)
_STYLE = """
.plot { --v: #0072b2; --e: #8a5a00; --l: #c9d3dc; --a: #d55e00; --s: #009e73; --i: #57606a; --g: #d0d7de;
  font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .plot { --v: #58a6e0; --e: #f2bd4b; --l: #39444f; --a: #f0883e; --s: #3fc59b;
  --i: #a3adb8; --g: #3a424c; } }
.plot .v { fill: none; stroke: var(--v); stroke-width: 1.2; } .plot .e { fill: none; stroke: var(--e);
  stroke-dasharray: 4 2; } .plot .l { fill: var(--l); fill-opacity: .55; stroke: none; }
.plot .a { fill: var(--a); fill-opacity: .3; } .plot .s { fill: var(--s); } .plot .g { stroke: var(--g); }
.plot text { fill: var(--i); font-size: 12px; }
"""


def drawing(points: Points, judged: Judged, runs: Sequence[Run], labelled: Spans, rows: slice, caption: str) -> str:
    """The points ``rows`` as an SVG."""
    part = _Part(points, judged, rows)
    scene = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {_WIDTH} {_TOP + _HEIGHT + _BELOW}" '
        f'role="img" aria-label="{escape(caption, quote=True)}">',
        f"<title>{escape(caption)}</title><style>{_STYLE}</style>",
        *part.axes(),
        *(part.span("s", begin, end, _TOP - 6, 5) for begin, end in labelled),
        *(part.span("a", run.since_ms, run.until_ms, _TOP, _HEIGHT) for run in runs),
        f'<path class="l" d="{part.band()}"/>',
        f'<path class="e" d="{part.line(judged.baseline[rows])}"/>',
        f'<path class="v" d="{part.line(points.values[rows], both=True)}"/>',
        *_key(bool(labelled)),
        "</svg>",
    ]
    return "".join(scene)


def _key(labelled: bool) -> Iterator[str]:
    x = _LEFT
    marks = [("v", "value", 2), ("e", "expected", 2), ("l", "limits", 9), ("a", "fires", 9)]
    for name, text, height in [*marks, *([("s", "labelled", 5)] if labelled else [])]:
        shape = f'd="M{x} 8h18"' if height == 2 else f'd="M{x} {8 - height / 2}h18v{height}h-18z"'
        yield f'<path class="{name}" {shape}/><text x="{x + 23}" y="12">{text}</text>'
        x += 100


class _Part:
    """Some points of a series and their places in the picture: by time, or by number where time steps back."""

    def __init__(self, points: Points, judged: Judged, rows: slice) -> None:
        self._at_ms = points.at_ms[rows]
        self._values, self._low, self._high = points.values[rows], judged.low[rows], judged.high[rows]
        self._in_order = bool((np.diff(self._at_ms) >= 0).all())
        along = self._at_ms if self._in_order else np.arange(len(self._at_ms)) * points.interval_ms
        self._along = (along - along[0]) / max(1, int(along[-1] - along[0]))
        self._gap = _GAP * points.interval_ms / max(1, int(along[-1] - along[0]))
        self._least, self._most = self._range()

    def _range(self) -> tuple[float, float]:
        """Of the values, and of limits that are not far from them."""
        known = self._values[np.isfinite(self._values)]
        least, most = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        room = (most - least or abs(most) or 1.0) / 2
        limits = np.concatenate([self._low, self._high])
        limits = limits[(limits > least - room) & (limits < most + room)]
        least, most = float(limits.min(initial=least)), float(limits.max(initial=most))
        more = 0.04 * (most - least or abs(most) or 1.0)
        return least - more, most + more

    def _x(self, share: Floats) -> Floats:
        return _LEFT + share * (_WIDTH - _LEFT - 4)

    def _y(self, value: Floats) -> Floats:
        place = _TOP + _HEIGHT * (1 - (value - self._least) / (self._most - self._least))
        return np.clip(place, _TOP, _TOP + _HEIGHT)

    def axes(self) -> Iterator[str]:
        """Lines with numbers, and moments below."""
        step = nice((self._most - self._least) / 5)
        for number in range(int(np.ceil(self._least / step)), int(self._most // step) + 1):
            y = float(self._y(np.array(number * step)))
            yield f'<line class="g" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:,.4g}</text>'
        for share in np.linspace(0, 1, _TICKS):
            nearest = int(np.abs(self._along - share).argmin())
            anchor = "start" if share == 0 else "end" if share == 1 else "middle"
            x = float(self._x(self._along[nearest : nearest + 1])[0])
            text = moment(int(self._at_ms[nearest]))[5:16]
            yield f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="{anchor}">{text}</text>'

    def span(self, name: str, begin_ms: int, end_ms: int, y: float, height: float) -> str:
        """A stretch of time, at least two pixels wide; nothing where none of the points lies in it."""
        inside = np.flatnonzero((self._at_ms >= begin_ms) & (self._at_ms <= end_ms))
        if not len(inside):
            return ""
        left, right = self._x(self._along[inside[[0, -1]]]).tolist()
        width = max(2.0, right - left)
        return f'<rect class="{name}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{height}"/>'

    def _columns(self, known: Mask) -> tuple[Whole, Whole]:
        """Known points, and where among them each column of pixels begins."""
        rows = np.flatnonzero(known)
        pixels = self._x(self._along[rows]).astype(np.int64)
        broken = np.diff(self._along[rows], prepend=self._along[rows[:1]]) > self._gap
        return rows, np.flatnonzero((np.diff(pixels, prepend=-1) != 0) | broken)

    def _drawn(self, rows: Whole, begins: Whole, heights: Sequence[Floats]) -> str:
        x = self._x(self._along[rows[begins]]).tolist()
        last = np.concatenate([begins[1:], [len(rows)]]) - 1
        broken = self._along[rows[begins]][1:] - self._along[rows[last]][:-1] > self._gap
        steps = zip(x, [True, *broken.tolist()], *(self._y(one).tolist() for one in heights), strict=True)
        return "".join(
            ("M" if begins_anew and not number else "L") + f"{place:.1f} {height:.1f}"
            for place, begins_anew, *several in steps
            for number, height in enumerate(several)
        )

    def line(self, values: Floats, both: bool = False) -> str:
        """A path; where several points share a column of pixels, through their mean, or both extremes."""
        rows, begins = self._columns(np.isfinite(values))
        if not len(rows):
            return ""
        found = values[rows]
        if both:
            return self._drawn(rows, begins, [np.minimum.reduceat(found, begins), np.maximum.reduceat(found, begins)])
        counts = np.diff(np.concatenate([begins, [len(rows)]]))
        return self._drawn(rows, begins, [np.add.reduceat(found, begins) / counts])

    def band(self) -> str:
        """Between the limits: a stroke down and up again in each column of pixels."""
        rows, begins = self._columns(np.isfinite(self._low) & np.isfinite(self._high))
        if not len(rows):
            return ""
        low = self._y(np.minimum.reduceat(self._low[rows], begins)).tolist()
        high = self._y(np.maximum.reduceat(self._high[rows], begins)).tolist()
        share = self._along[rows[begins]]
        width = np.minimum(np.diff(share, append=share[-1] + self._gap), self._gap)
        left, right = self._x(share).tolist(), np.minimum(self._x(share + width), _WIDTH).tolist()
        boxes = zip(left, right, low, high, strict=True)
        return "".join(f"M{x:.1f} {top:.1f}H{until:.1f}V{bottom:.1f}H{x:.1f}z" for x, until, bottom, top in boxes)


def moment(at_ms: int) -> str:
    """UTC, to the second; milliseconds where they are out of range."""
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def page(name: str, detector: str, points: Points, judged: Judged, runs: Sequence[Run], labelled: Spans) -> str:
    """The page of a series as HTML: no script, nothing from elsewhere."""

    def drawn(rows: slice, caption: str) -> str:
        return drawing(points, judged, runs, labelled, rows, caption)

    rows = tuple(
        (
            moment(run.since_ms),
            moment(run.until_ms),
            f"{run.value:,.6g}",
            _number(run.baseline),
            f"{_worst(points, judged, run):.3f}",
        )
        for run in runs
    )
    table = Table(
        "UTC", ("since", "until", "value", "expected", "score"), rows, frozenset({"value", "expected", "score"})
    )
    whole = Section("Whole series", _TEXT,
                    drawing=drawn(slice(None), name), tables=(table,), empty="The rule never fired.")  # fmt: skip
    unseen = len(runs) - ALERTS_DRAWN
    return html(
        Page(
            name,
            f"{detector}, {moment(int(points.at_ms[0]))} to {moment(int(points.at_ms[-1]))} UTC",
            (Headline("points", f"{len(points):,}"), Headline("alerts", f"{len(runs):,}"),
             Headline("steps back in time", f"{points.steps_back:,}"), Headline("labelled", f"{len(labelled):,}")),
            (whole, *_around(points, runs, drawn)),
            (f"{unseen:,} more alerts stand in the table alone.",) if unseen > 0 else (),
            ("A score is 0.5 at the limit; the further beyond the nearer to 1.",),
        )
    )  # fmt: skip


def _around(points: Points, runs: Sequence[Run], drawn: Callable[[slice, str], str]) -> Iterator[Section]:
    for run in runs[:ALERTS_DRAWN]:
        inside = np.flatnonzero((points.at_ms >= run.since_ms) & (points.at_ms <= run.until_ms))
        more = max(_AROUND, len(inside))
        rows = slice(max(0, int(inside[0]) - more), int(inside[-1]) + more)
        yield Section(moment(run.since_ms), drawing=drawn(rows, f"around {moment(run.since_ms)}"))


def _worst(points: Points, judged: Judged, run: Run) -> float:
    return float(judged.score[(points.at_ms >= run.since_ms) & (points.at_ms <= run.until_ms)].max())


def _number(value: float) -> str:
    return f"{value:,.6g}" if np.isfinite(value) else ""
