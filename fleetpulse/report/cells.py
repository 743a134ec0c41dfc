"""Cells of any answer as people read them: amounts by the unit in the column's name. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fleetpulse.report import amounts

_MOMENTS_MS = range(10**12, 253_402_128_000_000)
"""Numbers of milliseconds from here on (2001) are moments, below it they are durations; no calendar has what is beyond
the year 9999, in whatever zone."""
_NO_MOMENT = "token_ms"
_READABLE: Mapping[str, Callable[[Any], str]] = {
    "_nusd": amounts.usd,
    "_mj": amounts.energy,
    "_ug": amounts.carbon,
    **dict.fromkeys(("gpu_ms", "gpu_time_ms", "billed_ms", "unpriced_ms", "estimated_ms"), amounts.gpu_hours),
}


def readable(column: str, value: Any, moment: Callable[[int], Any] = amounts.instant) -> Any:
    """Text of an amount in a unit that people read, of a moment too, as ``moment`` says it (else UTC, to the minute);
    any other value as it is. None for no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    for ending, said in _READABLE.items():
        if column.endswith(ending):
            return said(value)
    if column.endswith("_ms") and int(value) in _MOMENTS_MS and not column.endswith(_NO_MOMENT):
        return moment(int(value))
    return value


def head(column: str) -> str:
    """Heading of a column whose amounts are ``readable``: without their unit."""
    for ending in _READABLE:
        if column.endswith(ending):
            return column.removesuffix(ending) if ending.startswith("_") else f"{column.removesuffix('_ms')}_time"
    return column


def rounded(value: float) -> str:
    """A float to three digits, thousands separated."""
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
