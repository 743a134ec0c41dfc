"""Metric definitions name fields that exist, in the unit that those have."""

from __future__ import annotations

from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.events.metrics import BY_NAME, METRICS
from schemas.fields import Role
from schemas.rows.tables import DEFINITION_VERSION, PARTIALS


def test_a_metric_names_fields_that_exist() -> None:
    """Topic and fields are those of the event tables, and every metric says when it is unknown."""
    for metric in METRICS:
        names = {field.name for field in BY_TOPIC[metric.topic].fields}

        assert set(metric.fields) <= names, metric.name
        assert metric.formula, metric.name
        assert metric.unknown, metric.name


def test_names_are_unique_and_versions_known() -> None:
    """One meaning per name; no definition is newer than the version that rows carry."""
    assert len(BY_NAME) == len(METRICS)
    assert all(1 <= metric.since <= DEFINITION_VERSION for metric in METRICS)


def test_every_sketched_duration_has_a_definition() -> None:
    """Whatever has percentiles has a definition of what is measured, in its unit."""
    sketched = {
        field.name: field.unit
        for event in EVENTS
        for field in event.of(Role.SKETCH, Role.SKETCH_BINS, Role.GAUGE)
        if field.distributed or field.role is not Role.GAUGE
    }
    defined = {
        name: metric.unit for metric in METRICS for name in metric.fields if name in sketched and metric.name in name
    }

    assert defined == sketched


def test_partial_rows_carry_the_version() -> None:
    """Every partials table has the column."""
    assert all("definition_version" in {field.name for field in table.fields} for table in PARTIALS.values())
