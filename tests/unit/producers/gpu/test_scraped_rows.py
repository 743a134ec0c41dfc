from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from producers.gpu.scraped_rows import Reading, SampleField, counters, sample_rows

LEVEL = SampleField("util_gpu_pct", "gauge", ("a",), ("b", "c"))
GROWTH = SampleField("energy_mj", "counter", ("x", "y"))
PART = SampleField("nvlink_errors", "counter", ("x", "y"), partial=True)
RATE = SampleField("pcie_tx_bytes", "rate", ("r",))
ALL = (LEVEL, GROWTH, PART, RATE)


def test_a_level_takes_its_other_sources_when_its_own_are_missing() -> None:
    """All of them, or it is unknown."""
    assert sample_rows((LEVEL,), None, Reading(1, 1, {"a": 5, "b": 1, "c": 2})) == [{"at_ms": 1, "util_gpu_pct": 5}]
    assert sample_rows((LEVEL,), None, Reading(1, 1, {"b": 1, "c": 2})) == [{"at_ms": 1, "util_gpu_pct": 3}]
    assert sample_rows((LEVEL,), None, Reading(1, 1, {"b": 1})) == [{"at_ms": 1, "util_gpu_pct": None}]


def test_growth_needs_all_parts_or_any() -> None:
    """As the table says; a rate is unknown where its source is missing."""
    before, now = Reading(1_000, 0, {"x": 1, "y": 5}), Reading(2_000, 1_000, {"x": 4})

    assert sample_rows(ALL, before, now) == [
        {
            "at_ms": 2_000,
            "interval_ms": 1_000,
            "util_gpu_pct": None,
            "energy_mj": None,
            "nvlink_errors": 3,
            "pcie_tx_bytes": None,
        }
    ]


def test_no_time_and_too_much_time_have_no_differences() -> None:
    """They would belong to no window."""
    now = Reading(9, 5_000_000, {"a": 1, "x": 1, "y": 1})

    for monotonic_ms in (5_000_000, 5_000_001, 1_399_999):
        assert sample_rows(ALL, Reading(1, monotonic_ms, {"x": 0, "y": 0}), now) == [{"at_ms": 9, "util_gpu_pct": 1}]


@given(st.lists(st.tuples(st.integers(1, 30_000), st.integers(0, 1_000), st.booleans()), min_size=1, max_size=20))
def test_differences_add_up_whatever_was_missing_in_between(steps: list[tuple[int, int, bool]]) -> None:
    """The first and the last reading are whole; between them some are empty."""
    total, at_ms, added = 0, 50_000, 0
    before = counters(None, Reading(at_ms, at_ms, {"x": 0, "y": 0}))
    for wait_ms, growth, known in [*steps, (1, 0, True)]:
        total, at_ms = total + growth, at_ms + wait_ms
        now = Reading(at_ms, at_ms, {"x": total, "y": 0} if known else {})
        added += sum(row.get("energy_mj") or 0 for row in sample_rows((GROWTH,), before, now))
        before = counters(before, now)

    assert added == total
