"""A small file from which an agent that starts again goes on with its counters.

It is written after every reading (into two slots in turn, so that a kill leaves one of them whole) and before the rows
of that reading are handed on: a process that is killed between the two loses the differences of one reading, and never
counts any twice.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from producers.spool.slots import Slots

AGE_MS_MAX = 60_000
"""What is older is not gone on from: the difference would be smeared over windows in which nobody looked."""


class KeptFile:
    """The file at ``path``. A disk that fails costs the memory, never a sample."""

    def __init__(self, path: Path, slot_bytes: int) -> None:
        self.path = path
        self._slot_bytes = slot_bytes
        self._slots: Slots | None = None
        self._failed = False

    def load(self) -> bytes | None:
        """What was saved last; None when there is no file, or none that can be read."""
        with contextlib.suppress(OSError):
            return self._opened().read() if self.path.exists() else None
        return None

    def save(self, data: bytes) -> OSError | None:
        """Replace it. What failed, the first time something did: to be logged once."""
        try:
            self._opened().write(data, durable=False)
        except OSError as error:
            first, self._failed = not self._failed, True
            return error if first else None
        return None

    def close(self) -> None:
        """Let go of the file."""
        if self._slots is not None:
            self._slots.close()
            self._slots = None

    def _opened(self) -> Slots:
        if self._slots is None:
            self._slots = Slots.open(self.path, self._slot_bytes)
        return self._slots
