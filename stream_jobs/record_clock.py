"""A clock that is read off the records of a log, so that every reader of it, and every replay, reads the same time.

It goes on by the time between the newest record and the next, by ``pause_ms`` at most: a silence of everybody is no
time in which somebody was silent. Records bear the time at which their sender made them, by its own clock, and come in
another order: one that is older than the newest moves nothing.

Where one sender's clock is ahead and that sender falls silent, the records of all others are old for as long as it was
ahead. So one that is behind the newest by more than ``BEHIND_MS``, which no transaction lasts, is taken to have another
clock: from then on its times count from the newest.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Self

from schemas.limits import MINUTE_MS

BEHIND_MS = 2 * MINUTE_MS
"""Records that come later than they were made come earlier than this."""


@dataclass(slots=True)
class RecordClock:
    """``now_ms`` begins at 0. ``heard_ms`` is the time of the newest record, 0 before the first; ``behind_ms`` by
    sender what is added to its times."""

    pause_ms: int
    now_ms: int = 0
    heard_ms: int = 0
    behind_ms: dict[Hashable, int] = field(default_factory=dict)

    def copy(self) -> Self:
        """One that does not change with this."""
        return replace(self, behind_ms=dict(self.behind_ms))

    def hear(self, sender: Hashable, at_ms: int) -> None:
        """A record of ``sender`` that was made at ``at_ms``."""
        at_ms += self.behind_ms.get(sender, 0)
        if at_ms < self.heard_ms - BEHIND_MS:
            self.behind_ms[sender] = self.behind_ms.get(sender, 0) + self.heard_ms - at_ms
            return
        if self.heard_ms:
            self.now_ms += min(max(at_ms - self.heard_ms, 0), self.pause_ms)
        self.heard_ms = max(self.heard_ms, at_ms)
