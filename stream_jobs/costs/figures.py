"""What a commit of the cost job tells about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one upstream partition since its last commit: bills told and how many of these were final; rows that came too
    late to be taken; gaps, where a record of the windows job was missing or could not be read. ``held`` are (group,
    minute)s in memory."""

    partition: int
    bills: int
    final: int
    late_rows: int
    gaps: int
    held: int
    through_ms: int
