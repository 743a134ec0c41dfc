"""A source partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """``gapless``: its offsets have no holes, as is so without transactional writers and compaction."""

    topic: str
    partition: int
    gapless: bool = True

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"
