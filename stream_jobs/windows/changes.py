"""The two things a step instance owns per source partition: its state, and what it has not sent yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.rows.gpu_shares import SHARES_OF
from schemas.rows.tables import EXEMPLARS_OF
from schemas.rows.usage import USAGE_OF
from stream_jobs.windows.books import Books, Rejection
from stream_jobs.windows.dedup import Dedup
from stream_jobs.windows.exemplars import Exemplars
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import Series
from stream_jobs.windows.shares import ShareRows
from stream_jobs.windows.sums import Segment
from stream_jobs.windows.usage import UsageKeys, UsageRows
from stream_jobs.windows.watermark import NOTHING_MS

NEVER_MS = 1 << 62


class LastSent(NamedTuple):
    """The number of the last record that an owner sent to a target partition, and the greatest watermark [ms] that it
    announced there."""

    number: int
    watermark_ms: int


@dataclass(slots=True)
class State:
    """What later records are judged by. It holds no sums: those are sent with every commit and merged by readers.

    ``sweep_at_ms``: the watermark of the next sweep of unused series and label values. ``usage_keys`` only save time,
    ``last_sent`` (by target partition) only records that say nothing new: both are in no snapshot.
    """

    topic: str
    partition: int
    plan: Plan
    dedup: Dedup
    series: Series
    progress_ms: int = NOTHING_MS
    sweep_at_ms: int = 0
    usage_keys: UsageKeys | None = None
    last_sent: dict[int, LastSent] = field(default_factory=dict)


@dataclass(slots=True)
class Changes:
    """Everything since the last commit. ``open_end_ms``: first end of a window that was open when rows came to it.

    ``exemplars`` and ``usage`` have one entry per segment, where events have them at all; ``shares`` at most one.
    """

    segments: list[Segment] = field(default_factory=list)
    exemplars: list[Exemplars] = field(default_factory=list)
    usage: list[UsageRows] = field(default_factory=list)
    shares: list[ShareRows] = field(default_factory=list)
    books: Books = field(default_factory=Books)
    rejections: list[Rejection] = field(default_factory=list)
    rejected_bytes: int = 0
    open_end_ms: int = NEVER_MS

    def segment(self, state: State) -> Segment:
        """Where sums of the present series of ``state`` belong."""
        if not self.segments or self.segments[-1].series is not state.series:
            self.segments.append(Segment(state.plan, state.series))
            if state.plan.event.topic == EXEMPLARS_OF:
                self.exemplars.append(Exemplars(state.plan, self.segments[-1]))
            if state.plan.event.topic == USAGE_OF:
                state.usage_keys = UsageKeys.of(state.plan, state.series, state.usage_keys)
                self.usage.append(UsageRows(state.usage_keys, self.segments[-1]))
            if state.plan.event.topic == SHARES_OF and not self.shares:
                self.shares.append(ShareRows())
        return self.segments[-1]

    def reject(self, rejections: list[Rejection]) -> None:
        """Keep these rows for ``rejected``."""
        self.rejections += rejections
        self.rejected_bytes += sum(len(rejection.kept) for rejection in rejections)

    @property
    def bytes(self) -> int:
        """Memory in use, bytes of rejected records included."""
        used = sum(segment.bytes for segment in self.segments) + sum(one.bytes for one in self.exemplars)
        used += sum(one.bytes for one in self.usage) + sum(one.bytes for one in self.shares)
        return self.rejected_bytes + used
