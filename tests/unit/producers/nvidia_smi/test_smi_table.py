from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.nvidia_smi.fields import (
    COLUMNS,
    QUERY_COLUMNS,
    GpuLine,
    Table,
    query,
    read_table,
    refused_column,
    value_of,
)


@pytest.mark.parametrize(
    ("name", "cell", "value"),
    [
        ("power.draw", "69.85 W", 69_850),
        ("power.draw", "1.5 kW", 1_500_000),
        ("memory.total", "81559 MiB", 81_559 * 2**20),
        ("memory.total", "2 GiB", 2**31),
        ("utilization.gpu", "0 %", 0),
        ("clocks.current.sm", "1980 MHz", 1_980),
        ("clocks_event_reasons_counters.sw_power_cap", "3 ms", 3_000),
        ("temperature.gpu", "-4", -4),
        ("clocks_event_reasons.active", "0x00000000000000A1", 0xA1),
        ("pstate", "P12", 12),
        ("remapped_rows.pending", "Yes", 1),
        ("gpu_recovery_action", "None", 0),
        ("gpu_recovery_action", "Drain and Reset", 4),
        *(
            ("power.draw", spelling, None)
            for spelling in (
                "[N/A]",
                "N/A",
                "",
                "-",
                "None",
                "[Not Supported]",
                "[Requested functionality has been deprecated]",
                "[Unknown]",
            )
        ),
    ],
)
def test_a_cell_in_our_unit(name: str, cell: str, value: int | None) -> None:
    """By the unit behind the number; what is no value is unknown."""
    assert value_of(COLUMNS[name], cell) == value


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("power.draw", "69.85"),
        ("power.draw", "69 C"),
        ("power.draw", "[GPU is lost]"),
        ("pstate", "P77"),
        ("power.draw", "9" * 400 + ".5 W"),
        ("pstate", "x"),
    ],
)
def test_a_cell_that_says_something_else_is_refused(name: str, cell: str) -> None:
    """Never a number of another unit."""
    with pytest.raises(ValueError, match=name):
        value_of(COLUMNS[name], cell)


def test_columns_are_found_by_name_and_lines_cost_themselves() -> None:
    """In any order; a comma in quotes is no separator; older names count."""
    text = """temperature.memory, uuid, clocks.sm [MHz], power.draw [W], name, other
0, GPU-a, 210 MHz, [GPU is lost], "A, B", 5
7, GPU-b, 210 MHz
7, No devices were found, 1 MHz, 1.00 W, C, 5

7, GPU-c, [N/A], 1.00 W, [N/A], 5
"""

    assert read_table(text) == Table(
        (
            GpuLine("GPU-a", "A, B", {"clocks.current.sm": 210}),
            GpuLine("GPU-c", None, {"power.draw": 1_000, "temperature.memory": 7}),
        ),
        {"line": 2, "power.draw": 1},
    )


@pytest.mark.parametrize(
    "text", ["", "\n", "uuid, " + "x" * 200_000, "No devices were found\n", "NVIDIA-SMI has failed"]
)
def test_no_table_is_counted(text: str) -> None:
    """Nothing is guessed from it."""
    assert read_table(text) == Table((), {"no header": 1})


@given(st.text(max_size=80))
def test_any_text_is_read_without_an_error(text: str) -> None:
    """As the program of an unknown driver may print it."""
    assert read_table(f"uuid, pstate\nGPU-a, P0\n{text.replace(chr(0), '')}").gpus[:1] == (
        GpuLine("GPU-a", None, {"pstate": 0}),
    )


def test_a_refused_column_is_queried_by_its_older_name_and_then_no_more() -> None:
    """So that one column does not cost the others."""
    new, old = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
    answer = f'Field "{new}" is not a valid field to query.\n\n'

    assert refused_column(answer) == new
    assert refused_column("Unable to determine the device handle") is None
    assert query() == QUERY_COLUMNS
    assert query(frozenset({new})) == tuple(old if name == new else name for name in QUERY_COLUMNS)
    assert query(frozenset({new, old})) == tuple(name for name in QUERY_COLUMNS if name != new)
