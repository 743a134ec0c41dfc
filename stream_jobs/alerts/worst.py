"""What an alert says of a trouble that passes: the values of its worst window, not those of the last, calm one.

The worst window is the one furthest beyond what was expected there; of equal ones the last. While a window is beyond
its own values are emitted; once it is not, or the trouble is over, those of the worst so far. Kept besides a signal
only while they are others than its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from math import inf
from typing import Any

from stream_jobs.alerts.signals import Signal


@dataclass(frozen=True, slots=True)
class WindowValues:
    """Of one window, and the sentence that says them."""

    value: float | None
    baseline: float | None
    low: float | None
    high: float | None
    count: int
    summary: str


def values_of(signal: Signal) -> WindowValues:
    """Of the signal's window."""
    return WindowValues(signal.value, signal.baseline, signal.low, signal.high, signal.count, signal.summary)


def excess(one: Signal | WindowValues) -> float:
    """How far beyond the expected range the value lies, 0 or less inside; from the baseline where there is no range;
    -inf where nothing says."""
    if one.value is None:
        return -inf
    if one.low is None and one.high is None:
        return -inf if one.baseline is None else abs(one.value - one.baseline)
    above = -inf if one.high is None else one.value - one.high
    below = -inf if one.low is None else one.low - one.value
    return max(above, below)


def to_emit(now: Signal, before: Signal, worst: WindowValues | None) -> tuple[Signal, WindowValues | None]:
    """The signal of this window as it is to be emitted after ``before``, and what was worse."""
    peak = worst or values_of(before)
    away, most = excess(now), excess(peak)
    if away >= most:
        return now, None
    return (now, peak) if away > 0 else (with_values(now, peak), None)


def with_values(signal: Signal, values: WindowValues) -> Signal:
    """The signal with the values of another window."""
    return replace(signal, **asdict(values))


def dump(values: WindowValues) -> list[Any]:
    """As plain values."""
    return list(astuple(values))


def load(found: Sequence[Any] | None) -> WindowValues | None:
    """Of a dump."""
    return None if found is None else WindowValues(*found)
