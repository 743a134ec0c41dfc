"""Names without room are looked for in every grouping set, as the registry lists them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetpulse.queries.levels import Source
from fleetpulse.queries.overflow import with_overflow
from schemas.events import grouping
from schemas.events.event_types import BY_TOPIC, TRAINING_STEPS

LEVELS = (("10s", None),)
TRAINING = """SELECT grouping, toInt128(event_count) AS events, '' AS of_tenant,
        arrayJoin(if(ifNull(origin, '') = '__other__', ['every label'], arrayMap(name -> name.1, arrayFilter(
            name -> name.2 = '__other__', [('host', ifNull(host, '')), ('engine_id', ifNull(engine_id, '')), \
('job', ifNull(job, '')), ('rank', ifNull(rank, '')), ('model', ifNull(model, ''))])))) AS dimension
    FROM {steps:Rows}
    WHERE grouping IN ('training') AND window_ms >= {from_ms:Int64} AND window_ms < {to_ms:Int64}
        AND (origin = '__other__' OR host = '__other__' OR engine_id = '__other__' OR job = '__other__' \
OR rank = '__other__' OR model = '__other__')"""


def test_each_source_is_read_once_by_the_dimensions_of_its_sets() -> None:
    """But for those of few values, of closed sets, and those that follow another."""
    sources = {"steps": Source("training.steps", LEVELS), "hosts": Source("host.samples", LEVELS)}

    steps, hosts = with_overflow("{every:Overflow}", sources).split("\n    UNION ALL\n    ")

    assert steps == TRAINING
    assert "FROM {hosts:Rows}" in hosts
    assert hosts.endswith("AND (origin = '__other__' OR host = '__other__')")


def test_tenants_come_from_events_that_have_them() -> None:
    """Of both grouping sets of requests, whose rows are in one table."""
    sql = with_overflow("{every:Overflow}", {"requests": Source("llm.requests", LEVELS)})

    assert "ifNull(tenant, '') AS of_tenant" in sql
    assert "grouping IN ('service', 'engine')" in sql
    assert "('tenant', ifNull(tenant, ''))" in sql
    assert "OR engine_id = '__other__'" in sql


def test_a_new_grouping_set_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its dimensions, and nothing else to write."""
    sources = {"devices": Source("gpu.processes", LEVELS)}
    new = grouping.GroupingSet("gpu_process", "gpu.processes", ("cluster", "gpu_uuid", "origin"), "series")
    monkeypatch.setattr(grouping, "GROUPING_SETS", (*grouping.GROUPING_SETS, new))

    sql = with_overflow("{every:Overflow}", sources)

    assert "grouping IN ('gpu_process')" in sql
    assert sql.endswith("AND (origin = '__other__' OR gpu_uuid = '__other__')")


def test_a_bounded_label_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ones are is said where the field is declared."""
    fields = (replace(field, bounded=field.name != "host") for field in TRAINING_STEPS.fields)
    monkeypatch.setitem(BY_TOPIC, "training.steps", replace(TRAINING_STEPS, fields=tuple(fields)))

    sql = with_overflow("{every:Overflow}", {"steps": Source("training.steps", LEVELS)})

    assert sql.endswith("AND (origin = '__other__' OR host = '__other__')")


@pytest.mark.parametrize("topic", ["books", "costs", "gpu.history"])
def test_other_queries_may_read_what_has_no_grouping_sets(topic: str) -> None:
    """They stay as they are."""
    assert with_overflow("SELECT 1 FROM {rows:Rows}", {"rows": Source(topic, LEVELS)}) == "SELECT 1 FROM {rows:Rows}"
