"""Counters into differences, where the reading before is known. Pure.

Unknown stays unknown. A counter that is lower than before was restarted from nothing: what it shows now is what was
counted since (the part before the restart is lost; it is not made up).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.fields import Event, Role

INTERVAL_MS_MAX = 3_600_000
"""Differences over a longer time (a machine that slept) belong to no window: they are left out."""


def since(before: int | None, now: int | None) -> int | None:
    """The growth of a counter; None when either reading is unknown."""
    if before is None or now is None:
        return None
    return now - before if now >= before else now


def summed(before: Mapping[str, int] | None, now: Mapping[str, int] | None) -> int | None:
    """The growth of a counter that every device keeps, over the devices of both readings.

    A device that is new may bring a count from elsewhere: it counts from its second reading. None when there is no
    device to compare.
    """
    if before is None or now is None:
        return None
    parts = [since(before[name], now[name]) for name in now if name in before]
    return sum(part for part in parts if part is not None) if parts else None


def share_ppm(part: float, whole: float) -> int | None:
    """``part / whole`` in parts per million within [0, 1,000,000]; None when nothing passed."""
    if whole <= 0:
        return None
    return round(min(1.0, max(0.0, part / whole)) * 1_000_000)


def plausible(event: Event, row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row with numbers outside their field's bounds made unknown, and the names of those fields.

    A device that answers nonsense for one figure would otherwise cost the whole sample.
    """
    out, wrong = dict(row), []
    for field in event.of(Role.GAUGE, Role.DIFFERENCE, Role.SKETCH):
        value = out.get(field.name)
        low = 0 if field.low is None else field.low
        if value is not None and not (low <= value and (field.high is None or value <= field.high)):
            out[field.name] = None
            wrong.append(field.name)
    return out, wrong
