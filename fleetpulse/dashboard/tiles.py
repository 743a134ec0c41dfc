"""Where each GPU stands in the heat map: hosts side by side as columns of GPUs, wrapped into rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

COLUMNS = (64, 128)
"""Hosts side by side; more of them begin another row. The second where the first would be taller than the map."""
CELL_MAX_PX, CELL_MIN_PX = 22, 6
HEIGHT_PX = 640
_LABELLED_MAX = 16


@dataclass(frozen=True, slots=True)
class Tiles:
    """``cells`` are (x, y) of each GPU in the order given; ``hosts`` the names of the first row's columns, when few."""

    cells: tuple[tuple[int, int], ...]
    columns: int
    rows: int
    hosts: tuple[str, ...]

    @property
    def cell_px(self) -> int:
        """Height of a cell: big for few GPUs, never smaller than a finger or an eye needs."""
        return max(CELL_MIN_PX, min(CELL_MAX_PX, HEIGHT_PX // max(1, self.rows)))

    @property
    def labelled(self) -> bool:
        """Whether columns have room for the names of their hosts."""
        return len(self.hosts) <= _LABELLED_MAX


def tiles(hosts: Sequence[str]) -> Tiles:
    """Places for GPUs whose hosts are given, each host's GPUs standing together."""
    groups = [(host, len(list(found))) for host, found in groupby(hosts)]
    tall = max((count for _, count in groups), default=1)
    columns, bands = _bands(len(groups), tall)
    cells = [
        (number % columns, (number // columns) * (tall + 1) + place)
        for number, (_, count) in enumerate(groups)
        for place in range(count)
    ]
    first = tuple(host for host, _ in groups) if bands == 1 else ()
    return Tiles(tuple(cells), columns, bands * (tall + 1) - 1, first)


def _bands(hosts: int, tall: int) -> tuple[int, int]:
    """Columns, and how many rows of hosts there are, each ``tall`` cells and a gap."""
    for most in COLUMNS:
        bands = max(1, -(-hosts // most))
        if (bands * (tall + 1) - 1) * CELL_MIN_PX <= HEIGHT_PX:
            break
    # A few rows more than one look better filled: 70 hosts stand as 2 x 35, not as 64 + 6.
    return max(1, -(-hosts // bands)), bands
