from __future__ import annotations

from typing import Any

import pytest

from producers.metric_units import in_kept_units


@pytest.mark.parametrize(
    ("unit", "kept"),
    [("By", "MiB"), ("B", "MiB"), ("bytes", "MiB"), ("By/s", "MiB/s"), ("bytes/s", "MiB/s")],
)
def test_bytes_are_mib(unit: str, kept: str) -> None:
    """Of a level and of an increase, each to the nearest millionth; below 0, too."""
    row = {"metric": "m", "unit": unit, "value_micro": -3 * 2**20, "increase_micro": 2**19}

    assert in_kept_units(row) == {"metric": "m", "unit": kept, "value_micro": -3, "increase_micro": 1}


@pytest.mark.parametrize("row", [{"unit": "MiB", "value_micro": 5}, {"unit": None}, {"unit": ["By"]}, {}], ids=str)
def test_other_rows_stay_as_they_are(row: dict[str, Any]) -> None:
    """In whatever unit, with none, or with what is none."""
    assert in_kept_units(row) == row


@pytest.mark.parametrize("value", [None, "5", 5.5, True], ids=str)
def test_what_is_no_whole_number_stays(value: Any) -> None:
    """The pipeline rejects it with its reason, where it is a value at all."""
    assert in_kept_units({"unit": "By", "value_micro": value})["value_micro"] is value
