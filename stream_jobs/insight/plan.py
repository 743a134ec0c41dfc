"""Which views the measures of all rules need, shared where they are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.errors import ConfigError
from schemas.events.grouping import GroupingSet, sets_of
from stream_jobs.insight.measures import columns_of
from stream_jobs.insight.project import View, match_name
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
    conditions = {where.dimension for where in (*measure.where, *match)}
    grouping = _smallest(measure.topic, set(rule.by), conditions)
    by = tuple(name for name in rule.by if grouping is not None and name in grouping.dimensions)
    if grouping is None or (measure is rule.value and by != rule.by):
        wanted = ", ".join(sorted({*rule.by, *conditions}))
        raise ConfigError(f"rule {rule.name}", measure.text, f"{measure.topic} has no grouping set with {wanted}")
    try:
        columns = columns_of(measure)
    except KeyError as error:
        raise ConfigError(f"rule {rule.name}", measure.text, str(error.args[0])) from error
    return View(measure.topic, grouping.name, by, measure.where, columns, match)


def _smallest(topic: str, by: set[str], conditions: set[str]) -> GroupingSet | None:
    """The set that keeps the conditions' labels and most of ``by``; among those the smallest."""
    fit = [one for one in sets_of(topic) if conditions <= set(one.dimensions)]
    return min(fit, key=lambda one: (-len(by & set(one.dimensions)), len(one.dimensions)), default=None)
