"""Counting single readings of GPUs."""

from __future__ import annotations

from dataclasses import replace

from lab.oracle.machines import Sample, readings

ONE = Sample(20_000, "g", "t", 50, 40, 1_000, 7)


def test_a_reading_counts_where_its_window_begins_in_the_range() -> None:
    """By type, by GPU and of all; means are of what is known."""
    other = replace(ONE, at_ms=29_999, gpu_uuid="h", util_gpu_pct=100, temperature_c=None, energy_mj=None)

    found = readings([ONE, other, replace(ONE, at_ms=30_000)], 20_000, 30_000)

    assert {metric: value for (metric, of), value in found.items() if of == "gpu_model=t"} == {
        "gpus": 2, "util_pct": 75, "hottest_c": 40, "power_mw": 1_000, "gpu_energy_mj": 7,
    }  # fmt: skip
    assert found["util_pct", "gpu=h"] == 100
    assert ("hottest_c", "gpu=h") not in found
    assert readings([ONE], 20_001, 30_000) == {}
