"""Field tables: what everything else follows from keeps its own rules.

Covers schemas.fields, schemas.events.event_types, schemas.events.event_fields, schemas.events.machine_events,
schemas.events.application_events, schemas.rows.tables, schemas.events.grouping, schemas.contract.topics,
schemas.codec.block, schemas.contract.record, schemas.contract.verdicts and schemas.errors.
"""

from __future__ import annotations

import re

import pytest

from schemas import errors
from schemas.contract.topics import DERIVED_TOPICS, SOURCE_TOPICS, STATE_TOPICS, TOPICS
from schemas.contract.verdicts import REASONS, Verdict
from schemas.events.event_types import BY_SCHEMA, EVENTS, LLM_REQUESTS
from schemas.events.grouping import DERIVED, GROUPING_SETS, derived_of, sets_of
from schemas.fields import Event, Field, Kind, Role
from schemas.rows.tables import GROUPED, PARTIALS, TABLES

UNITS = {"ms": "_ms", "us": "_us", "bytes": "_bytes", "mW": "_mw", "mJ": "_mj", "MHz": "_mhz", "%": "_pct", "C": "_c"}
TIME = Field("at_ms", Kind.INT64, Role.TIME, "ms", "")


def test_a_name_says_its_unit() -> None:
    """A field whose unit has a suffix carries it, last."""
    for event in EVENTS:
        for field in event.fields:
            if field.unit in UNITS and field.kind is not Kind.BINS:
                assert field.name.endswith(UNITS[field.unit]), field.name


def test_every_field_says_what_it_means() -> None:
    """Meaning is never empty, names are plain."""
    for event in EVENTS:
        for field in event.fields:
            assert field.meaning, field.name
            assert re.fullmatch(r"[a-z][a-z0-9_]*", field.name), field.name


def test_unknown_can_be_told() -> None:
    """Every measure is nullable; only time and texts that are required are not."""
    for event in EVENTS:
        for field in event.fields:
            assert field.kind.optional or field.role in (Role.TIME, Role.SKETCH_BINS) or field.required, field.name


def test_a_day_of_the_greatest_values_adds_up_in_64_bits() -> None:
    """Half a million events of the greatest amount stay below 2^63."""
    for event in EVENTS:
        for field in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE):
            assert field.high is not None, field.name
            assert field.high * 500_000 < 2**63, field.name


@pytest.mark.parametrize(
    "fields",
    [
        (TIME, Field("a", Kind.LABEL, Role.DIMENSION, "", ""), Field("b", Kind.UINT32, Role.GAUGE, "", "")),
        (TIME, Field("a", Kind.TEXT, Role.ATTRIBUTE, "", ""), Field("b", Kind.BINS, Role.SKETCH_BINS, "", "")),
        (TIME, TIME),
        (Field("a", Kind.UINT32, Role.GAUGE, "", ""), TIME),
        (Field("at_ms", Kind.UINT64, Role.TIME, "ms", ""),),
    ],
    ids=["label before number", "text before sketch", "a name twice", "time not first", "time of another kind"],
)
def test_a_table_out_of_order_is_refused(fields: tuple[Field, ...]) -> None:
    """The order of columns is part of the contract."""
    with pytest.raises(AssertionError):
        Event("t", 1, "", (), fields)


def test_an_event_finds_its_fields() -> None:
    """By name, by role, and by schema."""
    assert LLM_REQUESTS.field("ttft_us").unit == "us"
    assert [field.name for field in LLM_REQUESTS.of(Role.SKETCH)] == ["ttft_us", "tpot_us", "e2e_us", "queue_us"]
    assert BY_SCHEMA["llm.requests/1"] is LLM_REQUESTS
    with pytest.raises(KeyError):
        LLM_REQUESTS.field("nothing")


def test_rows_between_our_processes_keep_the_order_of_columns() -> None:
    """Numbers, labels, sketches, texts; time first; no name twice."""
    for table in TABLES:
        fields = table.fields
        assert Event("check", 1, "", (), fields).fields == fields, table.name


def test_partials_hold_every_measure() -> None:
    """Sketches with bins, gauges with last, differences with their sum."""
    for event in EVENTS:
        names = {field.name for field in PARTIALS[event.topic].fields}

        for field in event.fields:
            expected = {
                Role.SKETCH: {"count", "sum", "min", "max", "bins"},
                Role.GAUGE: {"count", "sum", "min", "max", "last"},
                Role.DIFFERENCE: {"sum"},
            }.get(field.role, set())
            assert {f"{field.name}_{suffix}" for suffix in expected} <= names, (event.topic, field.name)
            assert field.role not in (Role.DIMENSION, Role.SKETCH_BINS) or field.name in names, (
                event.topic,
                field.name,
            )


def test_grouping_sets_use_dimensions_that_exist() -> None:
    """Of the event or derived from it; sets that hold a host, GPU or engine follow their placement group."""
    for grouping in GROUPING_SETS:
        event = next(event for event in EVENTS if event.topic == grouping.topic)
        names = {field.name for field in event.of(Role.DIMENSION)} | {
            derived.name for derived in derived_of(event.topic)
        }
        dimensions = set(grouping.dimensions)

        assert dimensions <= names, grouping.name
        assert (grouping.placed_by == "placement_group") == bool(dimensions & {"host", "engine_id", "gpu_uuid"}), (
            grouping.name
        )


def test_slow_readings_and_engine_events_alone_are_not_grouped() -> None:
    """Every other event type has a grouping set, requests have two; set names are unique."""
    assert {event.topic for event in EVENTS} - {event.topic for event in GROUPED} == {
        "gpu.processes",
        "host.devices",
        "engine.events",
    }
    assert all(sets_of(event.topic) for event in GROUPED)
    assert len(sets_of("llm.requests")) >= 2
    assert len({grouping.name for grouping in GROUPING_SETS}) == len(GROUPING_SETS)


def test_derived_dimensions_cover_every_number() -> None:
    """Bounds rise and there is one word more than bounds."""
    for derived in DERIVED:
        assert list(derived.bounds) == sorted(set(derived.bounds)), derived.name
        assert len(derived.words) == len(derived.bounds) + 1, derived.name


def test_topics_are_what_jobs_rely_on() -> None:
    """Source topics carry append time; state topics are compacted and have their source's partitions."""
    assert all(topic.log_append_time and not topic.compacted for topic in SOURCE_TOPICS)
    assert all(not topic.compacted for topic in DERIVED_TOPICS)
    assert all(topic.compacted for topic in STATE_TOPICS)
    partitions = {topic.name: topic.partitions for topic in TOPICS}
    assert [t.partitions for t in STATE_TOPICS] == [partitions[t.name.split(".", 2)[2]] for t in STATE_TOPICS]
    assert len({topic.name for topic in TOPICS}) == len(TOPICS)


def test_reasons_say_what_to_change() -> None:
    """A closed set of plain words, each with its explanation."""
    assert all(re.fullmatch(r"[a-z_]+", reason) and text for reason, text in REASONS.items())


def test_verdicts_keep_their_numbers() -> None:
    """They are stored in books."""
    assert {verdict.name: int(verdict) for verdict in Verdict} == {
        "ACCEPTED": 0,
        "LATE": 1,
        "FUTURE": 2,
        "REJECTED": 3,
        "DUPLICATE": 4,
    }


def test_errors_say_whether_to_try_again() -> None:
    """One tree; only what a server may recover from is retriable; data stands in attributes."""
    found = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    tree = {name: kind for name, kind in found.items() if issubclass(kind, Exception)}

    assert all(issubclass(kind, errors.FleetpulseError) for kind in tree.values())
    assert {name for name, kind in tree.items() if kind.retriable} == {
        "UnavailableError",
        "DiskFullError",
        "BrokenPartError",
        "ReplicaBehindError",
        "CertificateExpiredError",
    }
    assert str(errors.ConfigError("a.b", 3, "must be 4")) == "a.b = 3: must be 4"
    assert (errors.RejectedError("count", "x").reason, errors.RejectedError("count", "x").detail) == ("count", "x")
