"""What of a stack runs, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartStatus:
    """``ready`` is its own word: it answered just now. ``memory_bytes`` is what it holds in RAM; both tell nothing of a
    part that is down (False, None)."""

    name: str
    running: bool
    ready: bool
    pid: int | None
    address: str | None
    memory_bytes: int | None
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """``wanted``: brought up and not taken down since."""

    data_dir: str
    wanted: bool
    parts: tuple[PartStatus, ...]

    @property
    def running(self) -> bool:
        """Whether every part runs and answers."""
        return bool(self.parts) and all(part.running and part.ready for part in self.parts)
