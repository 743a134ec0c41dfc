"""Statistics of one commit of the cost job, of one upstream partition."""

from __future__ import annotations

from collections.abc import Iterator

from stream_jobs.costs.changes import Changes, State
from stream_jobs.step import Stat


def stats_of(state: State, changes: Changes) -> Iterator[Stat]:
    """Bills emitted and how many of them are final, rows that came too late to be billed, gaps: places where a record
    of the windows job was missing or could not be read; and (group, minute)s in memory."""
    partition = {"partition": state.partition}
    yield Stat("cost_bills", changes.bills, partition)
    yield Stat("cost_final_bills", sum(int(one.final.sum()) for one in changes.emitted), partition)
    yield Stat("cost_late_rows", changes.late_rows, partition)
    yield Stat("cost_gaps", changes.gaps, partition)
    yield Stat("cost_held", state.buffer.held, partition)
    yield Stat("cost_through_ms", state.progress.through_ms, partition)
