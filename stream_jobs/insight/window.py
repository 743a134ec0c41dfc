"""What one window of the whole fleet looks like to a rule: merged rows of every source topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.codec.block import Block


@dataclass(frozen=True, slots=True)
class Window:
    """``tables`` by source topic: rows with the columns of ``tables.PARTIALS``, one per grouping set and series
    (rows of different origins need not be merged: whoever reads adds them up).

    ``exemplars`` has the columns of ``tables.EXEMPLARS``; None when none came. ``complete`` is False when the
    window was closed without having heard of every source.
    """

    window_ms: int
    tables: Mapping[str, Block]
    exemplars: Block | None = None
    complete: bool = True
