"""From the projected rows of a rule's measures to a frame: one row per series that has a slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.codec.block import Block, Labels
from stream_jobs.insight import group_kernels as kernels
from stream_jobs.insight.frame import Floats, Frame, Mask, Whole
from stream_jobs.insight.measures import counts_of, fills_with_zero, value_of
from stream_jobs.insight.plan import Needed
from stream_jobs.insight.project import View, an_index
from stream_jobs.insight.series import Registry

Rows = Callable[[View], Block]


@dataclass(frozen=True, slots=True)
class Made:
    """A frame, the slots given out for it, and why rows are not in it."""

    frame: Frame
    taken: Whole
    beyond_limit: int
    below_count: int


@dataclass(frozen=True, slots=True)
class Present:
    """The rows of the first measure that have a slot, in the order of the slots."""

    slots: Whole
    rows: Whole


def make(
    needed: Sequence[Needed],
    rows_of: Rows,
    registry: Registry,
    grow: Callable[[int], Mask],
    window: tuple[int, int],
    min_count: int,
    *,
    fill: bool = True,
) -> Made:
    """The frame of a window (start, length). ``grow`` makes room for so many slots and returns which of them fire.

    Rows with fewer than ``min_count`` events are left out. Where no event is a count of none (and ``fill``), series
    without a row stand in it with 0 if they fire, or always if ``min_count`` is 0: else such a count could not come
    down again.
    """
    first, (window_ms, length_ms) = needed[0], window
    rows = rows_of(first.view)
    found, taken = registry.slots_of(_labels(first.view, rows), rows.rows, window_ms + length_ms)
    firing = grow(registry.room)
    counts = counts_of(first.measure, rows)
    enough = counts >= min_count
    chosen = np.flatnonzero((found >= 0) & enough)
    chosen = chosen[np.argsort(found[chosen], kind="stable")]
    present = Present(found[chosen], chosen)
    filled = fill and fills_with_zero(first.measure)
    absent = _absent(registry, found, firing, min_count) if filled else found[:0]
    slots = np.concatenate([present.slots, absent])
    values = {
        one.measure.name: np.concatenate([_joined(one, first, rows_of, registry, present, length_ms), rest])
        for one in needed
        for rest in [np.full(len(absent), 0.0 if one is first else np.nan)]
    }
    shown = np.concatenate([counts[chosen], np.zeros(len(absent), np.int64)])
    frame = Frame(window_ms, length_ms, slots, values, shown, firing[slots])
    return Made(frame, taken, int((found < 0).sum()), int((~enough & (found >= 0)).sum()))


def _labels(view: View, rows: Block) -> list[Labels]:
    return [rows.labels(name) for name in view.by]


def _absent(registry: Registry, found: Whole, firing: Mask, min_count: int) -> Whole:
    missing = registry.alive.copy()
    missing[found[found >= 0]] = False
    return np.flatnonzero(missing if min_count == 0 else missing & firing)


def _joined(one: Needed, first: Needed, rows_of: Rows, registry: Registry, present: Present, length_ms: int) -> Floats:
    """A measure per present series: of the row with the same labels, as far as its topic knows them."""
    rows = rows_of(one.view)
    values = value_of(one.measure, rows, length_ms)
    if one.view is first.view:
        return values[present.rows]
    places = [first.view.by.index(name) for name in one.view.by]
    codes = registry.known_codes(_labels(one.view, rows), rows.rows, places)
    index = an_index(rows.rows)
    kernels.enter_lines(codes, np.arange(rows.rows), index)
    wanted = np.ascontiguousarray(registry.lines[present.slots][:, places])
    at = np.empty(len(wanted), np.int64)
    kernels.find_lines(wanted, codes, index, at)
    return np.where(at >= 0, np.append(values, np.nan)[at], np.nan)
