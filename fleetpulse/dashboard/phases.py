"""Where the time of one request went. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.dashboard.charts import ESCAPE, number_js, tooltip
from fleetpulse.dashboard.theme import Palette

MARGIN_MS = 15_000
"""How much of the time around a request is shown of its GPUs."""


@dataclass(frozen=True, slots=True)
class Phase:
    """[from_us, to_us) after the request was received."""

    name: str
    from_us: int
    to_us: int


def received_ms(request: Mapping[str, Any]) -> int | None:
    """When it was received; None when its duration was not reported."""
    return None if request["e2e_us"] is None else request["at_ms"] - round(request["e2e_us"] / 1_000)


def phases(request: Mapping[str, Any]) -> list[Phase]:
    """Queue, prefill, decode and what follows the last token, as far as they were reported; none without an end.

    Time between two reported moments that has no name of its own is ``to first token`` or ``rest``.
    """
    end_us, first_us = request["e2e_us"], request["ttft_us"]
    if end_us is None:
        return []
    found: list[Phase] = []
    at_us = 0
    for name, length_us in (("queue", request["queue_us"]), ("prefill", request["prefill_us"])):
        if length_us:
            found.append(Phase(name, at_us, min(end_us, at_us + length_us)))
            at_us = found[-1].to_us
    if first_us is not None and at_us < first_us <= end_us:
        found.append(Phase("to first token", at_us, first_us))
        at_us = first_us
    if first_us is not None and request["decode_us"]:
        found.append(Phase("decode", at_us, min(end_us, at_us + request["decode_us"])))
        at_us = found[-1].to_us
    # Parts are rounded one by one: a thousandth is no phase.
    if end_us - at_us > max(1_000, end_us // 1_000):
        found.append(Phase("rest", at_us, end_us))
    return [phase for phase in found if phase.to_us > phase.from_us]


def timeline(parts: Sequence[Phase], palette: Palette) -> dict[str, Any]:
    """One bar of phases, in microseconds from its beginning."""
    colours = {
        "queue": palette.series[2],
        "prefill": palette.series[0],
        "to first token": palette.series[6],
        "decode": palette.series[1],
        "rest": palette.gone,
    }
    return {
        "animation": False,
        "backgroundColor": "transparent",
        "grid": {"left": 4, "right": 20, "top": 28, "bottom": 4, "containLabel": True},
        "legend": {
            "top": 0,
            "left": 0,
            "icon": "roundRect",
            "itemWidth": 10,
            "itemHeight": 10,
            "textStyle": {"color": palette.muted, "fontSize": 12},
        },
        "tooltip": tooltip("item", palette) | {":formatter": _TOOLTIP},
        "xAxis": {
            "type": "value",
            "min": 0,
            "max": parts[-1].to_us if parts else 1,
            "axisLabel": {"color": palette.muted, "fontSize": 11, ":formatter": number_js("us"), "hideOverlap": True},
            "splitLine": {"lineStyle": {"color": palette.line}},
        },
        "yAxis": {"type": "category", "data": [""], "show": False},
        "series": [
            {
                "name": part.name,
                "type": "bar",
                "stack": "request",
                "data": [part.to_us - part.from_us],
                "barWidth": 26,
                "itemStyle": {"color": colours[part.name]},
                "emphasis": {"disabled": True},
            }
            for part in parts
        ],
    }


_TOOLTIP = f"(p) => {{ {ESCAPE} const show = {number_js('us')}; return esc(p.seriesName) + ' ' + esc(show(p.value)); }}"
