"""What a rule may name follows from the tables of events and grouping sets."""

from __future__ import annotations

import pytest

from schemas.events.grouping import GROUPING_SETS
from schemas.rows.tables import PARTIALS
from stream_jobs.insight.measures import columns_of
from stream_jobs.rules import vocabulary
from stream_jobs.rules.load import load
from stream_jobs.rules.model import Function, Measure, Where
from stream_jobs.rules.units import FAMILIES


def test_topics_are_those_that_are_grouped() -> None:
    """Kept raw, not aggregated: nothing to judge."""
    assert set(vocabulary.TOPICS) == {one.topic for one in GROUPING_SETS}


@pytest.mark.parametrize("topic", vocabulary.TOPICS)
def test_every_function_of_every_column_reads_columns_that_finals_have(topic: str) -> None:
    """Nothing can be asked that is not there."""
    there = {field.name for field in PARTIALS[topic].fields}

    for name, field in vocabulary.columns(topic).items():
        for function in vocabulary.functions_of(field):
            over = name if function is Function.RATIO else ""
            measure = Measure("value", topic, function, name, over)
            assert set(vocabulary.columns_read(measure)) <= there, measure


@pytest.mark.parametrize("topic", vocabulary.TOPICS)
def test_every_column_has_a_unit_that_people_can_write(topic: str) -> None:
    """A new unit must be added to the table of families."""
    assert {field.unit for field in vocabulary.columns(topic).values()} <= set(FAMILIES)


def test_the_columns_told_are_among_those_the_judge_reads() -> None:
    """Explaining and judging do not drift apart."""
    for rule in load():
        for measure in rule.measures:
            assert set(vocabulary.columns_read(measure)) <= set(columns_of(measure)), rule.name


def test_the_smallest_set_answers() -> None:
    """Both request sets keep the model; the one with fewer dimensions is read."""
    assert [
        getattr(vocabulary.answering("llm.requests", wanted, by), "name", None)
        for wanted, by in (
            (["model"], []),
            (["tenant"], []),
            (["host"], []),
            (["tenant", "host"], []),
            (["model"], ["engine_id"]),
            (["model"], ["tenant", "host", "engine_id"]),
        )
    ] == ["service", "service", "engine", None, "engine", "engine"]


def test_closed_sets_of_derived_dimensions_are_known() -> None:
    """Buckets are words of their own."""
    assert vocabulary.allowed("llm.requests", "input_bucket")[0] == "<=256"
    assert vocabulary.allowed("llm.requests", "tenant") == ()


@pytest.mark.parametrize(
    ("function", "field", "over", "topic", "unit"),
    [
        (Function.PERCENTILE, "ttft_us", "", "llm.requests", "us"),
        (Function.SHARE, "", "", "llm.requests", "share"),
        (Function.ABOVE, "ttft_us", "", "llm.requests", "share"),
        (Function.COUNT, "", "", "llm.requests", ""),
        (Function.RATE, "", "", "llm.requests", "1/s"),
        (Function.RATE, "output_tokens", "", "llm.requests", "tokens/s"),
        (Function.RATIO, "throttled_us", "interval_ms", "gpu.samples", "share"),
        (Function.RATIO, "memory_used_bytes", "memory_total_bytes", "gpu.samples", "share"),
        (Function.RATIO, "energy_mj", "interval_ms", "gpu.samples", "mJ/ms"),
    ],
)
def test_units_follow_from_columns(function: Function, field: str, over: str, topic: str, unit: str) -> None:
    """A ratio of one family is a share."""
    assert vocabulary.unit_of(topic, function, field, over) == unit


def test_conditions_are_the_labels_of_where_and_match() -> None:
    """Each once, in their order."""
    measure = Measure(
        "value",
        "llm.requests",
        Function.SHARE,
        match=Where("status", ("ok",)),
        where=(Where("start", ("warm",)), Where("status", ("ok",))),
    )

    assert vocabulary.conditions(measure) == ("start", "status")
