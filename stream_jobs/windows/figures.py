"""What a commit of the windows job tells about itself: a few numbers, read off state and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from schemas.verdicts import Verdict
from stream_jobs.costs.usage import NO_DOUBTS
from stream_jobs.windows.changes import Changes, State
from stream_jobs.windows.kernels import EVENT_COUNT
from stream_jobs.windows.series import OTHER_SERIES
from stream_jobs.windows.watermark import watermark_ms


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one source partition; ``events``, ``duplicates``, ``refused`` and ``overflow`` since its last commit.

    ``refused`` are records refused as a whole by reason; ``overflow`` are events by grouping set that fell into
    ``__other__`` because the set was full. ``words`` is the greatest number that any dimension holds. ``forgotten``
    counts ranges and sources of the dedup state that limits took away since the state was made or loaded. ``doubts``
    are requests of whose usage something had to be assumed, by what (``stream_jobs.costs.usage``).
    """

    topic: str
    partition: int
    events: Mapping[Verdict, int]
    duplicates: int
    refused: Mapping[str, int]
    overflow: Mapping[str, int]
    watermark_ms: int
    series: Mapping[str, int]
    words: int
    sources: int
    forgotten: int
    doubts: Mapping[str, int]


def figures_of(state: State, changes: Changes, lateness_ms: int) -> Figures:
    """The figures of a commit of these changes."""
    records, events = changes.books.totals()
    overflow: Counter[str] = Counter()
    for segment in changes.segments:
        for sums in segment.sums:
            others = sums.row_series[: sums.rows] == OTHER_SERIES
            overflow[sums.table.grouping.name] += int(sums.cells[: sums.rows, EVENT_COUNT][others].sum())
    return Figures(
        topic=state.topic,
        partition=state.partition,
        events=events,
        duplicates=records[Verdict.DUPLICATE],
        refused=Counter(refusal.reason for refusal in changes.refusals if refusal.row is None),
        overflow=overflow,
        watermark_ms=watermark_ms(state.progress_ms, lateness_ms),
        series={table.grouping.name: table.count - 1 for table in state.series.tables},
        words=max((words.kept for words in state.series.words), default=0),
        sources=len(state.dedup.sources),
        forgotten=state.dedup.forgotten,
        doubts=_doubts(changes),
    )


def _doubts(changes: Changes) -> dict[str, int]:
    total = NO_DOUBTS
    for part in changes.usage:
        total = total.plus(part.sums.doubts)
    return {name: number for name, number in asdict(total).items() if name != "requests"}
