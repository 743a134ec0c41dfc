from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.dcgm.fields import FIELDS, in_our_unit


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("POWER_USAGE", 34.156, 34_156),
        ("FB_USED", 2, 2_097_152),
        ("GPU_TEMP", -3, -3),
        ("GPU_UTIL", -1, None),
        ("GPU_UTIL", 0, 0),
        ("MEMORY_TEMP", 0, None),
        ("MEMORY_TEMP", 54, 54),
        ("PSTATE", 15, 15),
        ("PSTATE", 32, None),
        ("POWER_VIOLATION", 1_999, 1),
        ("TOTAL_ENERGY_CONSUMPTION", 5_551_899_580, 5_551_899_580),
        ("TOTAL_ENERGY_CONSUMPTION", 2_147_483_632, 2_147_483_632),
        ("SM_CLOCK", 2_147_483_632, None),
        ("SM_CLOCK", 2_147_483_635, None),
        ("SM_CLOCK", 2_147_483_636, 2_147_483_636),
        ("TOTAL_ENERGY_CONSUMPTION", 9_223_372_036_854_775_792, None),
        ("TOTAL_ENERGY_CONSUMPTION", 9_223_372_036_854_775_794, None),
        ("TOTAL_ENERGY_CONSUMPTION", 9.223372036854776e18, None),
        ("POWER_USAGE", 140_737_488_355_328.0, None),
        ("POWER_USAGE", 140_737_488_355_331.0, None),
        ("POWER_USAGE", math.nan, None),
        ("POWER_USAGE", math.inf, None),
        ("POWER_USAGE", -math.inf, None),
    ],
)
def test_a_value_in_our_unit(name: str, value: float, ours: int | None) -> None:
    """DCGM says "no value" by numbers; a counter of 64 bits may pass those of 32."""
    assert in_our_unit(FIELDS[f"DCGM_FI_DEV_{name}"], value) == ours


@given(st.sampled_from(sorted(FIELDS)), st.integers() | st.floats())
def test_any_number_is_a_whole_number_or_unknown(name: str, value: float) -> None:
    """And below zero only where that is possible."""
    ours = in_our_unit(FIELDS[name], value)

    assert ours is None or (isinstance(ours, int) and (ours >= 0 or FIELDS[name].signed))
