"""What a cost step owns per upstream partition: its state, and what it has not sent yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_jobs.costs.minute_buffer import EmittedMinute, MinuteBuffer
from stream_jobs.finals.progress import Progress


@dataclass(slots=True)
class State:
    """``position`` is the offset behind the last record; records below ``replay_to`` were folded before the state was
    dumped. ``rejected`` are offsets of records that made a fold raise."""

    partition: int
    progress: Progress
    buffer: MinuteBuffer
    rejected: set[int] = field(default_factory=set)
    position: int = 0
    replay_to: int = 0


@dataclass(slots=True)
class Changes:
    """Since the last commit: minutes to be emitted; the rest is counted. ``bills`` are those of the commit's records,
    ``late_rows`` came too late to be billed, ``gaps`` are places where a record of the windows job was missing or could
    not be read."""

    emitted: list[EmittedMinute] = field(default_factory=list)
    bills: int = 0
    late_rows: int = 0
    gaps: int = 0
