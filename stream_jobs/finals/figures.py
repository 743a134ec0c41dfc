"""What a commit of the finals job tells about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one upstream partition since its last commit: windows closed (``incomplete`` of them without some source),
    rows told (first and again), rows that came too late to be told, and gaps: places where a record of the windows job
    was missing or could not be read."""

    partition: int
    windows: int
    incomplete: int
    rows: int
    late_rows: int
    gaps: int
    through_ms: int
