"""Numbers as people read them in a dashboard: few digits, a fitting unit, a dash for what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.sketch import counted_min

UNKNOWN = "–"
FEW = "few"
"""Stands for a percentile of too few values."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def short(value: float | None) -> str:
    """Three digits that count, with k, M, G, T or P: ``1.23M``, ``45.6``, ``0``."""
    if value is None or value != value:
        return UNKNOWN
    for step, letter in _STEPS:
        if abs(value) >= 0.9995 * step:
            return f"{_three(value / step)}{letter}"
    return _three(value)


def microseconds(value: float | str | None) -> str:
    """A duration given in microseconds: ``850 µs``, ``12.3 ms``, ``4.56 s``, ``3.2 min``; ``few`` stays what it is."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return UNKNOWN
    if abs(value) < 999.5:
        return f"{_three(value)} µs"
    if abs(value) < 999_500:
        return f"{_three(value / 1e3)} ms"
    return f"{_three(value / 1e6)} s" if abs(value) < 120e6 else f"{_three(value / 60e6)} min"


def watts(value: float | None) -> str:
    """Power given in watts: ``350 W``, ``21.7 kW``, ``3.2 MW``."""
    return scaled(value, "W")


def scaled(value: float | None, unit: str) -> str:
    """An amount in a unit that takes prefixes: ``350 W``, ``1.27 PFLOP/s``."""
    text = short(value)
    return f"{text[:-1]} {text[-1]}{unit}" if text[-1] in "kMGTP" else text if text == UNKNOWN else f"{text} {unit}"


def energy(joules: float | None) -> str:
    """Energy given in joules: ``350 Wh``, ``21.7 kWh``, ``3.2 MWh``."""
    text = watts(None if joules is None else joules / 3_600)
    return text if text == UNKNOWN else f"{text}h"


def percent(value: float | None) -> str:
    """A share of 0 to 1: ``12.3 %``; small ones keep two digits that count."""
    if value is None or value != value:
        return UNKNOWN
    points = 100 * value
    return f"{points:.2g} %" if 0 < abs(points) < 0.995 else f"{points:.1f} %"


def size(value: float | None) -> str:
    """Bytes: ``80.0 GiB``."""
    if value is None or value != value:
        return UNKNOWN
    for step, unit in _BYTES:
        if abs(value) >= step:
            return f"{_three(value / step)} {unit}"
    return f"{value:.0f} B"


def ago(age_ms: float | None) -> str:
    """How long ago: ``now``, ``12 s``, ``5 min``, ``3 h``, ``9 d``."""
    if age_ms is None:
        return UNKNOWN
    seconds = age_ms / 1_000
    for limit, step, unit in ((1, 1, ""), (100, 1, "s"), (6_000, 60, "min"), (172_800, 3_600, "h")):
        if seconds < limit:
            return f"{seconds / step:.0f} {unit}" if unit else "now"
    return f"{seconds / 86_400:.0f} d"


def rate(amount: float, seconds: float | None) -> float | None:
    """An amount a second; None where no second is covered."""
    return amount / seconds if seconds else None


def covered_text(seconds: float | None, span_ms: int, what: str = "data") -> str:
    """What a rate is the mean of: ``over 4 min of data, of 30 d``; without the range where all of it is covered."""
    if not seconds:
        return f"no {what} in this range"
    whole = 1_000 * seconds >= 0.98 * span_ms
    return f"over {ago(1_000 * seconds)} of {what}" + ("" if whole else f", of {ago(span_ms)}")


def clean(value: object) -> str:
    """Anybody's text for a label: control characters and direction marks shown as escapes, at most 200 characters."""
    if value is None:
        return UNKNOWN
    text = str(value)
    text = text if len(text) <= 200 else f"{text[:199]}…"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def middle(value: object) -> str:
    """Anybody's id for a narrow cell: its beginning and its end, which differ between ids."""
    text = clean(value)
    return text if len(text) <= 18 else f"{text[:6]}…{text[-10:]}"


def gpu_name(value: object) -> str:
    """The name of a GPU type without its maker, for narrow places."""
    return clean(value).removeprefix("NVIDIA ")


def percentile(value: float | None, counted: int, name: str) -> float | str | None:
    """What is shown of percentile ``name`` of so many values: itself, or ``few``."""
    return value if value is None or counted >= counted_min(QUANTILES[name]) else FEW


def percentile_cells(
    names: Sequence[str], found: Sequence[tuple[Sequence[float], int] | None]
) -> dict[str, float | str | None]:
    """Cells of a table row: of each latency, found as percentiles 50, 95 and perhaps 99, and the number of values that
    went in, such as ``ttft_p50``, ``ttft_p95`` and ``ttft_counted``."""
    cells: dict[str, float | str | None] = {}
    for name, one in zip(names, found, strict=True):
        values, counted = one or ((), 0)
        for place, each in enumerate(QUANTILES):
            cells[f"{name}_{each}"] = percentile(values[place], counted, each) if place < len(values) else None
        cells[f"{name}_counted"] = counted
    return cells


def _three(value: float) -> str:
    size = abs(value)
    if size and size < 0.01:
        return f"{value:.1e}"
    digits = 0 if size >= 99.95 or value == 0 else 1 if size >= 9.995 else 2
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
