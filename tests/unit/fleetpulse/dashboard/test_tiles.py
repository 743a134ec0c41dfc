"""Places of GPUs in the heat map."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.tiles import CELL_MAX_PX, CELL_MIN_PX, COLUMNS, HEIGHT_PX, Tiles, tiles


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
