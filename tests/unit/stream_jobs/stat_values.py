"""Statistics of a commit, to compare with."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.metric_catalogue import CATALOGUE
from stream_jobs.step import Stat


def values_of(stats: Iterable[Stat]) -> dict[tuple[object, ...], float]:
    """By metric and the values of its labels, which are those of the catalogue."""
    stats = list(stats)
    assert [stat for stat in stats if tuple(stat.labels) != CATALOGUE[stat.metric].labels] == []
    return {(metric, *labels.values()): value for metric, value, labels in stats}
