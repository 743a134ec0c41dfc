"""When a latency rose most: the stretches of time in which that is looked for, by query ``latency_rise``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.limits import HOUR_MS, MINUTE_MS

SLOWED, RISE = "who_slowed_model", "latency_rise"
WIDTHS_MS = (MINUTE_MS, 10 * MINUTE_MS, HOUR_MS)
"""The shortest in which a model has requests enough is taken."""


def bounds(row: Mapping[str, Any], width_ms: int) -> dict[str, int]:
    """The stretch of a row, and the one before it that it is compared with."""
    at_ms = int(row["at_ms"])
    return {"from_ms": at_ms, "to_ms": at_ms + width_ms, "before_from_ms": at_ms - width_ms, "before_to_ms": at_ms}
