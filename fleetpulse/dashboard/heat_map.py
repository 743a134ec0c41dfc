"""The heat map of the fleet as ECharts options. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fleetpulse.dashboard.charts import ESCAPE, number_js, tooltip
from fleetpulse.dashboard.gpu_metrics import GpuMetric
from fleetpulse.dashboard.theme import Palette
from fleetpulse.dashboard.tiles import Tiles, tiles
from fleetpulse.dashboard.values import clean, percent, short, watts

_HEADROOM_PX = 26
_FOOT_PX = 34
_LABEL_PX = 96


def heat_map(
    gpus: Sequence[Mapping[str, Any]], metric: GpuMetric, palette: Palette, link: Callable[[Mapping[str, Any]], str]
) -> tuple[dict[str, Any], int]:
    """Options and height [px]. A cell is a GPU; missing ones are grey with a border, whatever they told before."""
    placed = tiles([str(one["host"]) for one in gpus])
    pairs = list(zip(gpus, placed.cells, strict=True))
    height_px = placed.rows * placed.cell_px + _HEADROOM_PX + _FOOT_PX
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "grid": {
            "left": 0,
            "right": 0,
            "top": _HEADROOM_PX if placed.labelled else 4,
            "bottom": _FOOT_PX,
            "outerBoundsMode": "none",
        },
        "tooltip": tooltip("item", palette) | {":formatter": _tooltip_js(metric)},
        "xAxis": _hosts(placed, palette),
        "yAxis": {"type": "category", "show": False, "inverse": True, "data": list(range(placed.rows))},
        "visualMap": _colours(gpus, metric, palette),
        "series": [
            {
                "type": "heatmap",
                "data": [_cell(*pair, palette, link) for pair in sorted(pairs, key=_stands_out)],
                "itemStyle": {"borderColor": palette.raised, "borderWidth": 1.5 if placed.cell_px > 10 else 0.5},
                "emphasis": {"itemStyle": {"borderColor": palette.text, "borderWidth": 1.5}},
                "progressive": 0,
            }
        ],
    }, height_px


def _hosts(placed: Tiles, palette: Palette) -> dict[str, Any]:
    return {
        "type": "category",
        "position": "top",
        "data": [clean(host) for host in placed.hosts] or list(range(placed.columns)),
        "axisLine": {"show": False},
        "axisTick": {"show": False},
        "axisLabel": {
            "show": placed.labelled and bool(placed.hosts),
            "color": palette.muted,
            "fontSize": 11,
            "interval": "auto",
            "hideOverlap": True,
            "width": _LABEL_PX,
            "overflow": "truncate",
        },
    }


def _colours(gpus: Sequence[Mapping[str, Any]], metric: GpuMetric, palette: Palette) -> dict[str, Any]:
    most = metric.most if metric.most is not None else max((one["value"] or 0 for one in gpus), default=1) or 1
    return {
        "min": 0,
        "max": most,
        "dimension": 2,
        "calculable": False,
        "orient": "horizontal",
        "left": 0,
        "bottom": 4,
        "itemWidth": 8,
        "itemHeight": 140,
        "textStyle": {"color": palette.muted, "fontSize": 11},
        "text": [in_words(most, metric.unit), in_words(0, metric.unit)],
        "inRange": {"color": list(palette.ramp)},
        "outOfRange": {"color": [palette.ramp[-1]]},
        ":formatter": number_js(metric.unit),
    }


def in_words(value: float, unit: str) -> str:
    """A value of a metric as text."""
    return percent(value) if unit == "share" else watts(value) if unit == "W" else f"{short(value)} {unit}".strip()


def _stands_out(pair: tuple[Mapping[str, Any], tuple[int, int]]) -> bool:
    """Cells with a border are drawn last, so that no neighbour covers it."""
    return bool(pair[0]["verdict"] != "fine")


def _cell(
    gpu: Mapping[str, Any], place: tuple[int, int], palette: Palette, link: Callable[[Mapping[str, Any]], str]
) -> dict[str, Any]:
    value, verdict = gpu["value"], gpu["verdict"]
    cell: dict[str, Any] = {
        "value": [*place, -1 if value is None else round(value, 4)],
        "name": f"{clean(gpu['host'])} · {clean(gpu['gpu_uuid'])[:16]}",
        "told": "" if value is not None else "not known",
        "state": verdict,
        "engine": clean(gpu["engine"]),
        "href": link(gpu),
    }
    if verdict == "missing":
        cell |= {
            "visualMap": False,
            "itemStyle": {"color": palette.gone, "borderColor": palette.bad, "borderWidth": 1.5},
        }
    elif value is None:
        cell |= {"visualMap": False, "itemStyle": {"color": palette.line}}
    elif verdict != "fine":
        cell |= {"itemStyle": {"borderColor": palette.warn, "borderWidth": 2}}
    return cell


def _tooltip_js(metric: GpuMetric) -> str:
    return (
        f"(p) => {{ {ESCAPE} const d = p.data, show = {number_js(metric.unit)};"
        " return '<b>' + esc(d.name) + '</b><br>' + esc(d.state) + ' · '"
        " + (d.told ? esc(d.told) : esc(show(d.value[2]))) + '<br>engine ' + esc(d.engine); }"
    )
