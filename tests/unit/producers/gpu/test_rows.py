from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.differences import split
from producers.gpu.fields import plan_for
from producers.gpu.rows import Reading, counters, sample_rows, shape_of

AT_MS = 1_000_005_000
PARTS = {
    "power_mw": ("field 185",),
    "temperature_memory_c": ("field 82",),
    "performance_state": ("performance_state",),
    "remapped_rows": ("field 142", "field 143"),
    "energy_mj": ("field 83",),
    "throttled_us": ("field 74", "field 269"),
}
SHAPE = shape_of(PARTS)


def reading(after_ms: int, **values: int) -> Reading:
    """``field_83`` stands for the key "field 83"."""
    return Reading(
        AT_MS + after_ms, 50_000 + after_ms, {key.replace("_", " ", 1): value for key, value in values.items()}
    )


def test_a_first_reading_has_levels_alone() -> None:
    """What needs two readings is not there; what is missing is null."""
    assert sample_rows(SHAPE, None, reading(0, field_185=90_000, field_83=5, field_142=1, field_143=2)) == [
        {
            "at_ms": AT_MS,
            "power_mw": 90_000,
            "temperature_memory_c": None,
            "performance_state": None,
            "remapped_rows": 3,
        }
    ]


def test_growth_that_is_read_as_such_needs_no_reading_before_to_compare() -> None:
    """It is the row's; too much of it is unknown; it is not remembered."""
    shape = shape_of({"pcie_tx_bytes": ("gpm 20",)})
    before, now = reading(0, gpm_20=9_000), reading(1_000, gpm_20=5_000)

    assert sample_rows(shape, None, before) == [{"at_ms": AT_MS}]
    assert sample_rows(shape, before, now) == [{"at_ms": AT_MS + 1_000, "interval_ms": 1_000, "pcie_tx_bytes": 5_000}]
    assert sample_rows(shape, before, reading(1_000, gpm_20=2**43))[0]["pcie_tx_bytes"] is None
    assert counters(None, now).values == {}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature_memory_c", {"field 82": 0}),
        ("performance_state", {"performance_state": 32}),
        ("remapped_rows", {"field 142": 1}),
    ],
    ids=["no sensor", "P-state unknown", "one part not known"],
)
def test_the_driver_s_words_for_unknown_are_null(name: str, values: dict[str, int]) -> None:
    """A sum of which a part is unknown is unknown."""
    (row,) = sample_rows(SHAPE, None, Reading(AT_MS, 0, values))

    assert row[name] is None


@pytest.mark.parametrize(
    ("before", "now", "after_ms", "expected"),
    [
        ({"field 74": 5}, {"field 74": 15, "field 269": 900}, 1_000, 10),
        ({"field 74": 0, "field 269": 0}, {"field 74": 9_000, "field 269": 9_000}, 10, 10_000),
        ({"field 269": 0}, {"field 74": 9_000}, 1_000, None),
        ({"field 74": 0}, {"field 74": 5_000_001}, 1_000, None),
        ({"field 74": 0}, {"field 74": 5_000_000}, 1_000, 1_000_000),
    ],
    ids=[
        "a cause seen for the first time counts from its second reading",
        "causes at the same time are cut to the time that passed",
        "no cause known in both readings",
        "grown impossibly fast",
        "as fast as is believed",
    ],
)
def test_throttled_time_is_the_sum_of_its_causes(
    before: dict[str, int], now: dict[str, int], after_ms: int, expected: int | None
) -> None:
    """Each cause is followed by itself."""
    (row,) = sample_rows(SHAPE, Reading(AT_MS, 0, before), Reading(AT_MS + after_ms, after_ms, now))

    assert row["throttled_us"] == expected


@pytest.mark.parametrize(
    ("after_ms", "covered"), [(0, False), (-1, False), (1, True), (3_600_000, True), (3_600_001, False)]
)
def test_differences_cover_no_more_than_an_hour(after_ms: int, covered: bool) -> None:
    """A machine that slept, or a clock that went back, gives levels alone."""
    rows = sample_rows(SHAPE, Reading(AT_MS, 0, {"field 83": 1}), Reading(AT_MS + after_ms, after_ms, {"field 83": 2}))

    assert ("energy_mj" in rows[-1]) == covered


def test_a_counter_that_was_misread_is_not_believed() -> None:
    """Neither the jump nor the way back: a million joules in a second is no power draw."""
    before, jump, back = (reading(ms, field_83=value) for ms, value in ((0, 1_000), (1_000, 10**12), (2_000, 2_400)))

    (first,) = sample_rows(SHAPE, before, jump)
    (second,) = sample_rows(SHAPE, counters(before, jump), back)
    (third,) = sample_rows(SHAPE, counters(jump, back), reading(3_000, field_83=3_000))

    assert (first["energy_mj"], second["energy_mj"], third["energy_mj"]) == (None, 2_400, 600)


def test_a_counter_not_read_once_is_made_up_for() -> None:
    """It is compared with the last reading that had it."""
    kept = counters(counters(None, reading(0, field_83=100, field_82=40)), reading(1_000, field_74=7))

    (row,) = sample_rows(SHAPE, kept, reading(2_000, field_83=900, field_74=9))

    assert kept.values == {"field 83": 100, "field 74": 7}
    assert (row["interval_ms"], row["energy_mj"], row["throttled_us"]) == (1_000, 800, 2)


def test_a_gap_gives_a_row_for_each_window() -> None:
    """Levels stand in the last alone."""
    rows = sample_rows(SHAPE, reading(0, field_83=0), reading(12_000, field_83=1_200, field_185=7))

    assert [(row["at_ms"], row["interval_ms"], row["energy_mj"], row.get("power_mw")) for row in rows] == [
        (AT_MS + 4_999, 5_000, 500, None),
        (AT_MS + 12_000, 7_000, 700, 7),
    ]
    assert "power_mw" not in rows[0]


@given(
    st.integers(1_000_000, 2_000_000),
    st.integers(1, 400_000),
    st.dictionaries(st.sampled_from(["energy_mj", "pcie_tx_bytes"]), st.none() | st.integers(0, 2**44)),
)
def test_a_split_loses_nothing(at_ms: int, interval_ms: int, grown: dict[str, int | None]) -> None:
    """Every amount and the time itself add up; what is unknown is unknown in every row."""
    rows = split(at_ms, interval_ms, grown)

    assert sum(row["interval_ms"] or 0 for row in rows) == interval_ms
    assert rows[-1]["at_ms"] == at_ms
    for name, amount in grown.items():
        parts = [row[name] for row in rows]
        assert parts == [None] * len(rows) if amount is None else sum(part or 0 for part in parts) == amount


def test_every_field_of_a_plan_has_a_row() -> None:
    """Levels and counters together are the whole table."""
    plan = plan_for(())
    before, now = Reading(AT_MS, 0, {}), Reading(AT_MS + 1_000, 1_000, {})

    (row,) = sample_rows(shape_of(plan.parts), before, now)

    assert set(row) == {"at_ms", "interval_ms", *plan.parts}
