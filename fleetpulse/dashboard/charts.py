"""ECharts options from numbers and names; the band of usual values. Pure.

What comes from data is a value in here, never a key, never code. NiceGUI runs the value of any key that begins with a
colon in the browser; all such keys below are literals of ours. Functions that write tooltips escape every name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fleetpulse.dashboard.theme import Palette
from fleetpulse.dashboard.time_range import TimeRange
from schemas.limits import DAY_MS, HOUR_MS

ESCAPE = (
    "const esc = (s) => String(s).replace(/[&<>\"'`]/g, (c) => '&#' + c.charCodeAt(0) + ';');"
    "const three = (x) => { const a = Math.abs(x);"
    " return x.toLocaleString('en', {maximumFractionDigits: a >= 100 || !a ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3}); };"
)
_NUMBERS = {
    "W": (
        "x == null ? '–' : Math.abs(x) >= 1e6 ? three(x / 1e6) + ' MW' : Math.abs(x) >= 1e3 ?"
        " three(x / 1e3) + ' kW' : three(x) + ' W'"
    ),
    "us": (
        "x == null ? '–' : Math.abs(x) < 1e3 ? three(x) + ' µs' : Math.abs(x) < 1e6 ? three(x / 1e3) + ' ms'"
        " : Math.abs(x) < 12e7 ? three(x / 1e6) + ' s' : three(x / 6e7) + ' min'"
    ),
    "share": "x == null ? '–' : three(100 * x) + ' %'",
    "bytes": (
        "x == null ? '–' : Math.abs(x) >= 2**40 ? three(x / 2**40) + ' TiB' : Math.abs(x) >= 2**30 ?"
        " three(x / 2**30) + ' GiB' : Math.abs(x) >= 2**20 ? three(x / 2**20) + ' MiB' : three(x / 1024) + ' KiB'"
    ),
    "": (
        "x == null ? '–' : Math.abs(x) >= 1e9 ? three(x / 1e9) + 'G' : Math.abs(x) >= 1e6 ? three(x / 1e6) + 'M'"
        " : Math.abs(x) >= 1e4 ? three(x / 1e3) + 'k' : three(x)"
    ),
}
UNITS = frozenset(_NUMBERS)


def number_js(unit: str) -> str:
    """A JavaScript function that writes a number of a unit: ``us``, ``share``, ``bytes``, "" or a suffix such as W."""
    body = _NUMBERS.get(unit)
    if body is None:
        assert unit.replace(" ", "").replace("/", "").replace("°", "").isalnum(), unit
        body = f"({_NUMBERS['']}) + (x == null ? '' : ' {unit}')"
    return f"(x) => {{ {ESCAPE} return {body}; }}"


BASELINE_DAYS = 7
BASELINE_HOURS_MIN = 3
_BASELINE_SHARES = (0.1, 0.9)


@dataclass(frozen=True, slots=True)
class Line:
    """``points`` are (at_ms, value); null values leave a gap. ``band`` is drawn as an area from ``low`` up."""

    name: str
    points: Sequence[tuple[int, float | None]]
    colour: str = ""
    dashed: bool = False
    area: bool = False
    stack: str = ""
    bar: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """An area between two lines, (at_ms, low, high), drawn behind everything."""

    name: str
    points: Sequence[tuple[int, float | None, float | None]]


def over_time(
    lines: Sequence[Line],
    span: TimeRange,
    palette: Palette,
    unit: str = "",
    band: Band | None = None,
    marks: Sequence[tuple[int, str]] = (),
) -> dict[str, Any]:
    """A chart of lines over a range. ``marks`` are moments with a name, drawn as upright lines."""
    series = [_line(line, number, palette) for number, line in enumerate(lines)]
    if marks and series:
        series[0]["markLine"] = _marks(marks, palette)
    if band is not None:
        series = [*_band(band, palette), *series]
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "grid": {
            "left": 8,
            "right": 28,
            "top": 30 if len(lines) > 1 or band else 12,
            "bottom": 4,
            "containLabel": True,
        },
        "legend": legend([line.name for line in lines] + ([band.name] if band else []), palette),
        "tooltip": tooltip("axis", palette) | {":valueFormatter": number_js(unit)},
        "xAxis": time_axis(span, palette),
        "yAxis": value_axis(palette, unit, *_ends(lines)),
        "series": series,
    }


def marked(options: Mapping[str, Any], marks: Sequence[tuple[int, str]], palette: Palette) -> dict[str, Any]:
    """The options with more moments, where the chart has an axis of time and a line to hang them on."""
    axis, series = options.get("xAxis"), list(options.get("series") or ())
    if not marks or not series or not isinstance(axis, Mapping) or axis.get("type") != "time":
        return dict(options)
    own = series[0].get("markLine") or {}
    new = _marks(marks, palette)
    series[0] = {**series[0], "markLine": {**new, "data": [*own.get("data", ()), *new["data"]]}}
    return {**options, "series": series}


def zoomed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with marking of a stretch switched on; its button is hidden, the mouse has it from the start."""
    zoom = {"yAxisIndex": "none", "filterMode": "none", "brushStyle": {"opacity": 0.15}}
    hidden = {
        "show": True,
        "top": -100,
        "feature": {"dataZoom": {**zoom, "icon": {"zoom": "path://", "back": "path://"}}},
    }
    return {**options, "toolbox": hidden}


def legend(names: Sequence[str], palette: Palette) -> dict[str, Any]:
    """A legend above the chart; none for a single line."""
    return {
        "show": len(names) > 1,
        "type": "scroll",
        "data": list(names),
        "top": 0,
        "left": 0,
        "icon": "roundRect",
        "itemWidth": 12,
        "itemHeight": 3,
        "itemGap": 14,
        "textStyle": {"color": palette.muted, "fontSize": 12, "lineHeight": 18},
        "pageTextStyle": {"color": palette.muted},
        "pageIconColor": palette.muted,
    }


def tooltip(trigger: str, palette: Palette) -> dict[str, Any]:
    """A tooltip in the page's colours. ECharts' own texts escape names."""
    return {
        "trigger": trigger,
        "confine": True,
        "transitionDuration": 0,
        "backgroundColor": palette.raised,
        "borderColor": palette.line,
        "padding": [6, 10],
        "textStyle": {"color": palette.text, "fontSize": 12},
        "axisPointer": {"type": "line", "lineStyle": {"color": palette.muted, "type": "solid", "opacity": 0.5}},
    }


def time_axis(span: TimeRange, palette: Palette) -> dict[str, Any]:
    """The range as an axis; ``Chart`` says in which time zone."""
    return {
        "type": "time",
        "min": span.from_ms,
        "max": span.to_ms,
        "axisLine": {"lineStyle": {"color": palette.line}},
        "axisTick": {"show": False},
        "axisLabel": {"color": palette.muted, "fontSize": 11, "hideOverlap": True},
        "splitLine": {"show": False},
    }


def value_axis(palette: Palette, unit: str = "", most: float = 0, least: float = 0) -> dict[str, Any]:
    """An axis of values from 0, or from below the ``least``. Shares end at 100 %; bytes stand at powers of two."""
    axis: dict[str, Any] = {
        "type": "value",
        **({"min": 0} if least >= 0 else {}),
        "splitNumber": 4,
        "axisLabel": {"color": palette.muted, "fontSize": 11, ":formatter": number_js(unit)},
        "splitLine": {"lineStyle": {"color": palette.line}},
    }
    if unit == "share" and (0.5 < most <= 1 or not most):
        axis |= {"max": 1, "interval": 0.25}
    elif unit == "bytes" and most > 0:
        step = 2 ** math.ceil(math.log2(most / 4))
        axis |= {"max": step * math.ceil(most / step), "interval": step}
    return axis


def _ends(lines: Sequence[Line]) -> tuple[float, float]:
    """The greatest value and the least."""
    values = [value for line in lines for _, value in line.points if value is not None]
    return max(values, default=0), min(values, default=0)


def with_gaps(points: Sequence[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    """Points with a null where steps are missing, so that a line has a gap where nothing was reported.

    The step is the least distance of two points that follow one another."""
    step_ms = min((after[0] - before[0] for before, after in pairwise(points)), default=0)
    found: list[tuple[int, float | None]] = []
    for at_ms, value in points:
        if found and at_ms - found[-1][0] > step_ms:
            found.append((found[-1][0] + step_ms, None))
        found.append((at_ms, value))
    return found


def _line(line: Line, number: int, palette: Palette) -> dict[str, Any]:
    colour = line.colour or palette.series[number % len(palette.series)]
    points = list(line.points) if line.bar or line.stack else with_gaps(line.points)
    made: dict[str, Any] = {
        "name": line.name,
        "type": "bar" if line.bar else "line",
        "data": [[at_ms, value] for at_ms, value in points],
        "itemStyle": {"color": colour},
        "lineStyle": {"width": 1.5, "color": colour, "type": "dashed" if line.dashed else "solid"},
        "showSymbol": len(points) == 1,
        "symbolSize": 4,
        "emphasis": {"disabled": True},
    }
    if line.area:
        made["areaStyle"] = {"color": colour, "opacity": 0.16}
    if line.stack:
        made["stack"] = line.stack
    if line.bar:
        made["barMaxWidth"] = 14
    return made


def _band(band: Band, palette: Palette) -> list[dict[str, Any]]:
    base = {
        "type": "line",
        "stack": "band",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "emphasis": {"disabled": True},
        "silent": True,
        "z": 0,
        "itemStyle": {"color": palette.muted},
    }
    low = [[at_ms, low] for at_ms, low, _ in band.points]
    height = [[at_ms, None if low is None or high is None else high - low] for at_ms, low, high in band.points]
    quiet = {"tooltip": {"show": False}}
    return [
        {**base, **quiet, "name": f"{band.name} low", "data": low},
        {**base, **quiet, "name": band.name, "data": height, "areaStyle": {"color": palette.muted, "opacity": 0.18}},
    ]


def _marks(marks: Sequence[tuple[int, str]], palette: Palette) -> dict[str, Any]:
    return {
        "symbol": "none",
        "silent": True,
        "label": {"show": True, "position": "insideEndTop", "color": palette.warn, "fontSize": 11, "formatter": "{b}"},
        "lineStyle": {"color": palette.warn, "type": "dashed", "width": 1},
        "data": [{"xAxis": at_ms, "name": name} for at_ms, name in marks],
    }


def baseline_range(span: TimeRange) -> TimeRange:
    """The stretch whose hours say what was usual: whole hours, up to the one in which the range begins."""
    to_ms = span.from_ms // HOUR_MS * HOUR_MS
    return TimeRange(to_ms - BASELINE_DAYS * DAY_MS, to_ms)


def usual_band(hours: Mapping[int, Sequence[float]], span: TimeRange) -> list[tuple[int, float | None, float | None]]:
    """(at_ms, low, high) at the ends of the range and at each hour in it. ``hours``: values by hour of the day.

    For each hour of the day the 10th to the 90th percentile of that hour's values. With fewer than
    ``BASELINE_HOURS_MIN`` values for an hour of the day, all hours together; with fewer in all, there is no band.
    """
    everything = [value for values in hours.values() for value in values]
    if len(everything) < BASELINE_HOURS_MIN:
        return []
    usual = _low_high(everything)
    by_hour = {hour: _low_high(values) for hour, values in hours.items() if len(values) >= BASELINE_HOURS_MIN}
    step_ms = max(HOUR_MS, -(-span.span_ms // (200 * HOUR_MS)) * HOUR_MS)
    first = span.from_ms // HOUR_MS * HOUR_MS
    moments = [span.from_ms, *range(first + HOUR_MS, span.to_ms, step_ms), span.to_ms]
    return [(at_ms, *by_hour.get(at_ms // HOUR_MS % 24, usual)) for at_ms in moments]


def _low_high(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(np.asarray(values, dtype=np.float64), _BASELINE_SHARES)
    return float(low), float(high)
