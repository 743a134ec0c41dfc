"""The map of GPUs: letters for colours and states, and what is said of a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.heat_map import (
    CELL_MAX_PX,
    CELL_MIN_PX,
    COLUMNS,
    GPU_METRICS,
    HEIGHT_PX,
    SHADES,
    Tiles,
    description,
    heat_map,
    level,
    shades,
    tiles,
)
from fleetpulse.dashboard.theme import DARK, LIGHT

BUSY, POWER = GPU_METRICS["busy"], GPU_METRICS["power_w"]


def gpu(host: str = "h", value: float | None = 0.5, verdict: str = "fine", **other: Any) -> dict[str, Any]:
    usual = {"host": host, "gpu_uuid": "GPU-1", "part_of_gpu": None, "engine": "e"}
    return {**usual, "value": value, "verdict": verdict, **other}


def test_a_cell_is_a_letter_for_its_colour_and_one_for_its_state() -> None:
    """In the order of the GPUs, at places that count row by row."""
    found = heat_map(
        [gpu("a", 0.0), gpu("a", 1.0, "hot"), gpu("b", None, "throttled"), gpu("b", 0.5, "missing")], BUSY, LIGHT
    )

    assert (found["levels"], found["states"], found["places"]) == ("0o P", ".wwm", "0 2 1 3")
    assert (found["columns"], found["rows"], found["hosts"]) == (2, 2, ["a", "b"])
    assert (found["least"], found["most"]) == ("0.0 %", "100.0 %")


def test_what_is_not_known_is_not_coloured_as_idle() -> None:
    """Unknown is no zero."""
    assert level(None, 1.0) != level(0.0, 1.0)


@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e12))
def test_every_value_has_one_of_the_shades(value: float, most: float) -> None:
    """Also one beyond the ends."""
    assert 0 <= ord(level(value, most)) - ord("0") < SHADES


def test_shades_go_along_the_ramp() -> None:
    """Both ends are of it, and what lies between is mixed."""
    assert shades(["#000000", "#ff0000", "#ffffff"], 5) == ["#000000", "#800000", "#ff0000", "#ff8080", "#ffffff"]
    for palette in (LIGHT, DARK):
        found = shades(palette.ramp, SHADES)
        assert (len(found), found[0], found[-1]) == (SHADES, palette.ramp[0], palette.ramp[-1])


def test_a_measure_without_an_upper_end_reaches_to_its_greatest_value() -> None:
    """The fleet's greatest, 1 where all are 0 or unknown."""
    assert heat_map([gpu(value=250.0), gpu(value=500.0)], POWER, DARK)["most"] == "500 W"
    assert heat_map([gpu(value=None)], POWER, DARK)["most"] == "1 W"


def test_ten_thousand_gpus_are_a_few_short_texts() -> None:
    """Names and links are fetched when somebody looks."""
    found = heat_map([gpu(f"host-{number // 8}") for number in range(10_000)], BUSY, LIGHT)

    assert sum(len(str(value)) for value in found.values()) < 80_000


@pytest.mark.parametrize(("value", "said"), [(0.25, "throttled · 25.0 %"), (None, "throttled · not known")])
def test_a_gpu_is_described_in_lines(value: float | None, said: str) -> None:
    """Its host and the beginning of its UUID, how it is, its engine; what turns text about is shown as its code."""
    found = description(gpu("h\u202e", value, "throttled", gpu_uuid="GPU-0123456789abcdef"), BUSY)

    assert found == ["h\\u202e · GPU-0123456789ab", said, "engine e"]


def test_a_mig_device_is_described_as_one_of_its_gpu() -> None:
    """It is no GPU of its own."""
    found = description(gpu(gpu_uuid="MIG-0123456789abcdef", part_of_gpu="GPU-0123456789abcdef"), BUSY)

    assert found[:2] == ["h · MIG-0123456789ab", "MIG device of GPU-0123456789ab"]


# places of GPUs


def test_hosts_stand_side_by_side() -> None:
    """Each as a column of its GPUs."""
    assert tiles(["a", "a", "b"]) == Tiles(((0, 0), (0, 1), (1, 0)), 2, 2, ("a", "b"))


def test_no_gpus_take_no_place() -> None:
    """An empty fleet is drawn by nobody."""
    assert tiles([]) == Tiles((), 1, 1, ())


@given(st.lists(st.integers(1, 8), min_size=1, max_size=300))
def test_every_gpu_has_a_place_of_its_own_within_the_map(sizes: list[int]) -> None:
    """However many hosts there are."""
    found = tiles([f"h{number}" for number, size in enumerate(sizes) for _ in range(size)])

    assert len(set(found.cells)) == len(found.cells) == sum(sizes)
    assert all(0 <= x < found.columns <= COLUMNS[-1] and 0 <= y < found.rows for x, y in found.cells)
    assert CELL_MIN_PX <= found.cell_px <= CELL_MAX_PX


def test_few_hosts_are_named() -> None:
    """Many would write over one another, and wrapped rows have no common name."""
    assert tiles([f"h{number}" for number in range(16)]).labelled
    assert not tiles([f"h{number}" for number in range(17)]).labelled
    assert tiles([f"h{number}" for number in range(70)]).columns == 35


def test_a_big_fleet_stands_wider_before_it_stands_taller_than_the_map() -> None:
    """Ten thousand GPUs are seen at once."""
    found = tiles([f"h{number}" for number in range(1_250) for _ in range(8)])

    assert found.columns == 125
    assert found.rows * found.cell_px <= HEIGHT_PX
