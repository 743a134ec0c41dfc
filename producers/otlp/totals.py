"""Totals: the last cumulative point of each series, at most ``series_max`` of them.

A series is what was measured (its identity) by one process, which its start tells apart: processes of one service may
share all else. A start that is new counts from 0 only where a series of the same identity ended before it (a restart);
else there is nothing to compare it with, and what it had counted before may have been taken before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

Identity = bytes
"""``producers.series.digest_of`` what names it."""


@dataclass(frozen=True, slots=True)
class Total:
    """The last cumulative point of a series."""

    at_ns: int
    amount: int


class Totals:
    """The series not seen for longest is forgotten for a new one."""

    def __init__(self, series_max: int) -> None:
        self._series_max = series_max
        self._kept: OrderedDict[tuple[Identity, int], Total] = OrderedDict()
        self._starts: dict[Identity, set[int]] = {}
        self._changed: list[tuple[Identity, int, Total | None]] | None = None  # and what was kept before

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is taken inside is as if it had never come, when an error leaves the block."""
        changed: list[tuple[Identity, int, Total | None]] = []
        self._changed = changed
        try:
            yield
        except BaseException:
            for identity, start_ns, before in reversed(changed):
                was_forgotten = (identity, start_ns) not in self._kept
                self._keep(identity, start_ns, before)
                if was_forgotten:
                    self._kept.move_to_end((identity, start_ns), last=False)
            raise
        finally:
            self._changed = None

    def take(self, identity: Identity, start_ns: int, total: Total) -> Total | None:
        """What to take the difference to: the point before, or 0 at a restart. None for the first of a series, and for
        one that is sent again, or was overtaken."""
        before = self._kept.get((identity, start_ns))
        if before is not None and before.at_ns >= total.at_ns:
            return None
        self._change(identity, start_ns, total)
        if before is None and self._is_restart(identity, start_ns):
            before = Total(start_ns, 0)
        if len(self._kept) > self._series_max:
            oldest, its_start_ns = next(iter(self._kept))
            self._change(oldest, its_start_ns, None)
        return before

    def _is_restart(self, identity: Identity, start_ns: int) -> bool:
        others = self._starts[identity] - {start_ns}
        return any(self._kept[identity, other].at_ns <= start_ns for other in others)

    def _change(self, identity: Identity, start_ns: int, total: Total | None) -> None:
        if self._changed is not None:
            self._changed.append((identity, start_ns, self._kept.get((identity, start_ns))))
        self._keep(identity, start_ns, total)

    def _keep(self, identity: Identity, start_ns: int, total: Total | None) -> None:
        if total is not None:
            self._kept[identity, start_ns] = total
            self._kept.move_to_end((identity, start_ns))
            self._starts.setdefault(identity, set()).add(start_ns)
            return
        self._kept.pop((identity, start_ns))
        self._starts[identity].discard(start_ns)
        if not self._starts[identity]:
            del self._starts[identity]
