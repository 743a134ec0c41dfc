"""Compiling ahead of time: see ``stream_jobs.warm_rows``. The first window must not wait, nor the first alert."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block
from schemas.fields import Field
from schemas.limits import WINDOW_MS
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.detectors import novelty
from stream_jobs.insight.fleet_detector import FleetDetector
from stream_jobs.insight.frame import Window
from stream_jobs.insight.project import View
from stream_jobs.insight.statistics import slopes
from stream_jobs.rules.model import Rule
from stream_jobs.warm_rows import encoded, row_of

_WINDOW_MS = 1_700_000_040_000
"""A multiple of a minute."""
_WINDOWS = 7
"""So that a window of a minute ends, and one more."""


def warm(rules: Sequence[Rule], whole: bool = False) -> None:
    """Detect in some tiny windows by all ``rules``, over a restart: loads every detector they need and compiles what is
    not in the cache. ``whole``: also what other rules may need."""
    if whole or any(rule.kind == "novelty" for rule in rules):
        novelty.warm()
    detector = FleetDetector(rules)
    tables = _tables(detector)
    for number in range(_WINDOWS):
        detector.detect(Window(_WINDOW_MS + number * WINDOW_MS, tables))
    FleetDetector(rules).load(detector.dump())
    slopes(np.zeros((1, 1)))


def _tables(detector: FleetDetector) -> dict[str, Block]:
    """A row for every view, with the labels it asks for; as two records brought together, as they come from a log."""
    views = dict.fromkeys(one.view for each in detector.detectors.values() for one in each.needed)
    rows: dict[str, list[dict[str, object]]] = {}
    for view in views:
        rows.setdefault(view.topic, []).append(_a_row(view))
    return {topic: _from_the_log(PARTIALS[topic].fields, found) for topic, found in rows.items()}


def _from_the_log(fields: Sequence[Field], rows: Sequence[dict[str, object]]) -> Block:
    value = encoded(fields, *rows)
    return native.concat(fields, [native.decode(value, fields) for _ in range(2)])


def _a_row(view: View) -> dict[str, object]:
    given = {where.dimension: "warm" if where.negated else where.one_of[0] for where in view.where}
    return row_of(PARTIALS[view.topic].fields, **given, grouping=view.grouping)
