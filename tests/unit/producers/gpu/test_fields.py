from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from producers.gpu.calls import CALLS
from producers.gpu.fields import (
    ALL_LINKS,
    BY_NAME,
    COUNTER_KEYS,
    FIELDS,
    VALUES,
    Call,
    Gpm,
    Value,
    plan_for,
    shared_plan,
)
from schemas.events.machine_events import GPU_SAMPLES
from schemas.fields import Role

KEYS = sorted({source.key for field in FIELDS for source in field.sources()})
OF_CALLS = {key for call in CALLS for key in call.keys}


def test_the_table_holds_every_number_of_a_gpu_sample() -> None:
    """A counter where the event has a difference. Intervals and times are not in the table, nor what engines report."""
    numbers = {
        field.name
        for field in GPU_SAMPLES.of(Role.GAUGE, Role.DIFFERENCE, Role.ATTRIBUTE)
        if field.name not in ("interval_ms", "parent_uuid", "mig_profile", "memory_engine_bytes")
    }
    differences = {field.name for field in GPU_SAMPLES.of(Role.DIFFERENCE)} - {"interval_ms"}

    assert sorted(field.name for field in FIELDS) == sorted(numbers)
    assert {name for name in differences if BY_NAME[name].nature != "counter"} == set()


def test_every_source_of_a_field_can_be_read() -> None:
    """Calls have their keys in the table of calls; no NVML field or GPM metric is read twice."""
    calls = {source.key for field in FIELDS for source in field.sources() if isinstance(source, Call)}

    assert calls <= OF_CALLS
    assert OF_CALLS - calls == {"remapped_failed"}
    assert len({(value.id, value.scope) for value in VALUES}) == len(VALUES) == len({value.key for value in VALUES})


def test_counters_are_remembered() -> None:
    """And no gauge."""
    assert "energy" in COUNTER_KEYS
    assert "field 82" not in COUNTER_KEYS


def test_links_are_distinguished_from_their_sum() -> None:
    """By key and by scope."""
    assert [(Value(202, link).key, Value(202, link).scope) for link in (None, 0, 17, ALL_LINKS)] == [
        ("field 202", 0),
        ("field 202 link 0", 0),
        ("field 202 link 17", 17),
        ("field 202", ALL_LINKS),
    ]


def test_a_plan_begins_with_the_best_source_of_everything() -> None:
    """Nothing is missing yet, and nothing is read that another source makes superfluous."""
    plan = plan_for(())

    assert plan.missing == ()
    assert plan.parts["energy_mj"] == ("field 83",)
    assert plan.parts["throttled_us"] == ("field 74", "field 271", "field 269", "field 270", "field 77", "field 79")
    assert plan.parts["throttled_fault_us"] == plan.parts["throttled_us"][1:]
    assert plan.gpms == (2, 3, 5, 10, 20, 21)
    assert {"energy", "power", "ecc_corrected", "remapped_corrected"}.isdisjoint(plan.calls)


def test_what_is_refused_is_replaced_by_the_next_source() -> None:
    """Down to none: then the field is missing."""
    refused = {"field 83", "field 269", "field 270", "field 202", "field 138", "field 230", "field 202 link 3"}

    plan = plan_for(refused)

    assert plan.parts["energy_mj"] == ("energy",)
    assert plan.parts["throttled_thermal_us"] == ("field 75",)
    assert plan.parts["nvlink_tx_bytes"] == tuple(f"field 202 link {link}" for link in range(18) if link != 3)
    assert plan.missing == ("recovery_action",)


def test_an_option_of_which_something_is_left_is_kept() -> None:
    """One of two causes of heat is better than the older counter of both."""
    assert plan_for({"field 270"}).parts["throttled_thermal_us"] == ("field 269",)


@given(st.sets(st.sampled_from(KEYS)))
def test_a_plan_asks_for_nothing_that_was_refused(refused: set[str]) -> None:
    """And for every field of which any source is left."""
    plan = plan_for(refused)

    read = {value.key for value in plan.values} | plan.calls | {Gpm(id).key for id in plan.gpms}
    assert read.isdisjoint(refused)
    assert {key for keys in plan.parts.values() for key in keys} <= read
    for field in FIELDS:
        assert (field.name in plan.missing) == all(source.key in refused for source in field.sources())


def test_devices_that_refuse_the_same_share_a_plan() -> None:
    """In whatever order they refused it."""
    refused = ["field 186", "util_encoder"]

    assert shared_plan(frozenset(refused)) is shared_plan(frozenset(reversed(refused)))
    assert shared_plan(frozenset(refused)) == plan_for(refused)
