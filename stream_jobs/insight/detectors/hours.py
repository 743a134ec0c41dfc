"""What the level of a series leaves over in each hour of the week: a table of two bytes an hour, and what of it lies
near the hour that runs.

Works on the columns of a ``Slotted``. An hour counts half, the same hour of the weeks before the other half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.frame import Mask, Whole
from stream_jobs.insight.slotted import Column

HOURS = 168
DAY_HOURS = 24
COLUMNS = (
    Column("unit", "f8", 1),
    Column("hour", "i8", -1),
    Column("hour_sum", "f8"),
    Column("hour_n", "i4"),
    Column("week", "f2", np.nan, (HOURS,)),
    Column("near_day", "f4", 0, (3,)),
    Column("near_week", "f4", np.nan, (5,)),
)
"""``unit``: in what the table is kept, so that it fits."""
_FAR = 60_000
"""Units from the level; what lies further is cut off."""

State = dict[str, npt.NDArray[Any]]


def turn(state: State, slots: Whole, hour: int) -> None:
    """To hour ``hour`` since the epoch: the one that is over enters the table."""
    turned = slots[state["hour"][slots] != hour]
    if not len(turned):
        return
    over = turned[state["hour_n"][turned] > 0]
    place = state["hour"][over] % HOURS
    mean = state["hour_sum"][over] / state["hour_n"][over] / state["unit"][over]
    before = state["week"][over, place].astype(np.float64)
    state["week"][over, place] = np.clip(np.where(np.isnan(before), mean, (before + mean) / 2), -_FAR, _FAR)
    state["hour"][turned] = hour
    state["hour_sum"][turned], state["hour_n"][turned] = 0, 0
    _bring_near(state, turned, hour)


def _bring_near(state: State, slots: Whole, hour: int) -> None:
    week = state["week"][slots].astype(np.float64) * state["unit"][slots][:, None]
    for number, near in enumerate((-1, 0, 1)):
        days = week[:, (hour + near + DAY_HOURS * np.arange(7)) % HOURS]
        known = np.isfinite(days).sum(axis=1)
        state["near_day"][slots, number] = np.where(np.isnan(days), 0.0, days).sum(axis=1) * known / (known**2 + 1)
    state["near_week"][slots] = week[:, (hour + np.arange(-2, 3)) % HOURS]


def straighten(state: State, slots: Whole, hour: int, daily: Mask, follows: float) -> None:
    """Of series whose every hour is known: before anything explained weekends the level followed them, by ``follows``
    an hour of what it and (``daily``) the hour of the day left over, and the table is what was left over then. How it
    moved follows from that: the table becomes that of a level that stood still, and the level the middle of it."""
    if not len(slots):
        return
    order = (hour + 1 + np.arange(HOURS)) % HOURS
    unit = state["unit"][slots][:, None]
    rest = state["week"][slots[:, None], order].astype(np.float64) * unit
    of_day = np.tile(rest.reshape(-1, HOURS // DAY_HOURS, DAY_HOURS).mean(axis=1), HOURS // DAY_HOURS)
    followed = follows * np.cumsum(rest - np.where(daily[:, None], of_day, 0.0), axis=1)
    middle = (rest + followed).mean(axis=1, keepdims=True)
    state["level"][slots] += middle[:, 0] - followed[:, -1]
    state["week"][slots[:, None], order] = np.clip((rest + followed - middle) / unit, -_FAR, _FAR)
    _bring_near(state, slots, hour)


def clear(state: State, slots: Whole) -> None:
    """Nothing is known of these series any more."""
    for name, empty in (("week", np.nan), ("near_day", 0), ("near_week", np.nan), ("hour_sum", 0), ("hour_n", 0)):
        state[name][slots] = empty
