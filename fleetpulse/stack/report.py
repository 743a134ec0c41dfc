"""What of a stack runs, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote


@dataclass(frozen=True, slots=True)
class PartStatus:
    """``ready`` is its own word: it answered just now. ``memory_bytes`` is what it holds in RAM; of a part that is
    down they are False and None."""

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


def command_for(words: str, data_dir: str | Path) -> str:
    """A command of the stack in this folder, to be copied into a shell: ``fleetpulse up --data-dir '/a b'``."""
    return f"fleetpulse {words} --data-dir {quote(str(data_dir))}"
