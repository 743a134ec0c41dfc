"""Statistics of one commit of the finals job, of one upstream partition."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.limits import WINDOW_MS
from stream_jobs.finals.changes import Changes, State
from stream_jobs.step import Stat


def stats_of(state: State, changes: Changes) -> Iterator[Stat]:
    """Windows closed, rows emitted (first and revised), rows that came too late, and gaps: places where a record of the
    windows job was missing or could not be read."""
    low_ms, partition = state.progress.low_ms, {"partition": state.partition}
    incomplete = sum(window_ms + WINDOW_MS > low_ms for window_ms in changes.closed)
    yield Stat("finals_windows", len(changes.closed), partition)
    yield Stat("finals_incomplete", incomplete, partition)
    yield Stat("finals_rows", changes.rows, partition)
    yield Stat("finals_late_rows", changes.late_rows, partition)
    yield Stat("finals_gaps", changes.gaps + changes.rejected, partition)
    yield Stat("finals_through_ms", state.progress.through_ms, partition)
