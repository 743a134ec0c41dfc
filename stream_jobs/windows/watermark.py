"""How far a source partition has come, in event time.

The *progress* of a partition is the greatest event time of its accepted events, none above the append time of its
record (a fast clock at an edge must not run ahead of everybody). The watermark trails it by the allowed lateness.
Where a record's sender says that its clock is off by more than ``future_skew_ms``, that is taken out of its event times
here: a host alone in its partition would hold up the windows of all others, by as much as its clock is behind, or by
the wait for a silent source where its clock is ahead. Its own events stay in the windows that they name.
A partition that was read to its end and is quiet moves by the wall clock of its owner instead.
"""

from __future__ import annotations

NOTHING_MS = 0
"""Progress before the first event: no window ends before 1970."""


def watermark_ms(progress_ms: int, out_of_orderness_ms: int) -> int:
    """The watermark by events alone; windows that end at or before it are passed."""
    return max(progress_ms - out_of_orderness_ms, NOTHING_MS)


def announced_ms(progress_ms: int, out_of_orderness_ms: int, now_ms: int, idle: bool) -> int:
    """The watermark that a commit announces to its readers, which keep the greatest.

    After a crash a partition that was idle may announce less than before; events never wait for that.
    """
    by_events = watermark_ms(progress_ms, out_of_orderness_ms)
    return max(by_events, now_ms - out_of_orderness_ms) if idle else by_events
