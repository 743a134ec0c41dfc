"""Which views the measures of all rules need, shared where they are the same; and from their rows to a frame: one row
per series that has a slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.codec.block import Block, Labels
from schemas.errors import ConfigError
from stream_jobs.insight import group_kernels as kernels
from stream_jobs.insight.frame import Frame, Mask, Whole
from stream_jobs.insight.measures import columns_of, counts_of, value_of
from stream_jobs.insight.project import View, an_index, match_name
from stream_jobs.insight.series import IDLE_MS, Registry
from stream_jobs.rules import vocabulary
from stream_jobs.rules.model import Measure, Rule, Where


@dataclass(frozen=True, slots=True)
class Needed:
    """A measure, and the view that holds its columns (those of all measures that share it).

    ``by`` of the view are the labels of the rule that the measure's topic knows: a measure that knows fewer than the
    first one holds for every series with those labels.
    """

    measure: Measure
    view: View


def plan(rules: Sequence[Rule]) -> dict[str, tuple[Needed, ...]]:
    """What each rule asks for, by its name; views with the same key are one.

    Raises ``ConfigError`` for a rule whose first measure has no grouping set that keeps all its labels, and for a
    field that is not kept as the function needs it.
    """
    needed = {rule.name: [(measure, _view(rule, measure)) for measure in rule.measures] for rule in rules}
    shared = _united(view for pairs in needed.values() for _, view in pairs)
    return {name: tuple(Needed(measure, shared[view.key]) for measure, view in pairs) for name, pairs in needed.items()}


def _united(views: Iterable[View]) -> dict[object, View]:
    whole: dict[object, View] = {}
    for view in views:
        other = whole.get(view.key)
        columns = dict.fromkeys((*(other.columns if other else ()), *view.columns))
        matches = dict.fromkeys((*(other.matches if other else ()), *view.matches))
        whole[view.key] = View(view.topic, view.grouping, view.by, view.where, tuple(sorted(columns)), _sorted(matches))
    return whole


def _sorted(matches: Iterable[Where]) -> tuple[Where, ...]:
    return tuple(sorted(matches, key=match_name))


def _view(rule: Rule, measure: Measure) -> View:
    match = () if measure.match is None else (measure.match,)
    conditions = vocabulary.conditions(measure)
    grouping = vocabulary.answering(measure.topic, conditions, rule.by)
    by = tuple(name for name in rule.by if grouping is not None and name in grouping.dimensions)
    if grouping is None or (measure is rule.value and by != rule.by):
        wanted = ", ".join(sorted({*rule.by, *conditions}))
        raise ConfigError(f"rule {rule.name}", measure.text, f"{measure.topic} has no grouping set with {wanted}")
    try:
        columns = columns_of(measure)
    except KeyError as error:
        raise ConfigError(f"rule {rule.name}", measure.text, str(error.args[0])) from error
    return View(measure.topic, grouping.name, by, measure.where, columns, match)


Rows = Callable[[View], Block]


@dataclass(frozen=True, slots=True)
class Made:
    """A frame, the slots given out for it, and why rows are not in it."""

    frame: Frame
    taken: Whole
    beyond_limit: int
    below_count: int


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
    down again. Not so what was not seen for ``IDLE_MS``: it was taken away. Of further measures they have what other
    views know; of those in the view that has no row, nothing.
    """
    first, (window_ms, length_ms) = needed[0], window
    rows = rows_of(first.view)
    found, taken = registry.slots_of(_labels(first.view, rows), rows.rows, window_ms + length_ms)
    firing = grow(registry.room)
    counts = counts_of(first.measure, rows)
    enough = counts >= min_count
    chosen = np.flatnonzero((found >= 0) & enough)
    chosen = chosen[np.argsort(found[chosen], kind="stable")]
    filled = fill and vocabulary.fills_with_zero(first.measure)
    absent = _absent(registry, found, firing, min_count, window_ms + length_ms) if filled else found[:0]
    slots = np.concatenate([found[chosen], absent])
    values = {}
    for one in needed:
        known = value_of(one.measure, rows_of(one.view), length_ms)
        if one.view is first.view:
            none = np.full(len(absent), 0.0 if one is first else np.nan)
            values[one.measure.name] = np.concatenate([known[chosen], none])
        else:
            values[one.measure.name] = np.append(known, np.nan)[_joined(one, first, rows_of, registry, slots)]
    shown = np.concatenate([counts[chosen], np.zeros(len(absent), np.int64)])
    frame = Frame(window_ms, length_ms, slots, values, shown, firing[slots])
    return Made(frame, taken, int((found < 0).sum()), int((~enough & (found >= 0)).sum()))


def _labels(view: View, rows: Block) -> list[Labels]:
    return [rows.labels(name) for name in view.by]


def _absent(registry: Registry, found: Whole, firing: Mask, min_count: int, end_ms: int) -> Whole:
    missing = registry.alive & (registry.seen_ms >= end_ms - IDLE_MS)
    missing[found[found >= 0]] = False
    return np.flatnonzero(missing if min_count == 0 else missing & firing)


def _joined(one: Needed, first: Needed, rows_of: Rows, registry: Registry, slots: Whole) -> Whole:
    """The row of another view with the labels of each series, as far as its topic knows them; -1 where it has none."""
    rows = rows_of(one.view)
    places = [first.view.by.index(name) for name in one.view.by]
    codes = registry.known_codes(_labels(one.view, rows), rows.rows, places)
    index = an_index(rows.rows)
    kernels.enter_lines(codes, np.arange(rows.rows), index)
    wanted = np.ascontiguousarray(registry.lines[slots][:, places])
    at = np.empty(len(wanted), np.int64)
    kernels.find_lines(wanted, codes, index, at)
    return at
