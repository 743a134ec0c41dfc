"""Statistics of one commit of the windows job, of one source partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from schemas.contract.verdicts import Verdict
from stream_jobs.costs.usage import NO_ASSUMPTIONS
from stream_jobs.step import Stat
from stream_jobs.windows.changes import Changes, State
from stream_jobs.windows.kernels import EVENT_COUNT
from stream_jobs.windows.series import OTHER_SERIES
from stream_jobs.windows.watermark import watermark_ms


def stats_of(state: State, changes: Changes, out_of_orderness_ms: int) -> Iterator[Stat]:
    """Events by verdict and whole records by reason since the last commit, and the sizes of the state."""
    topic = {"topic": state.topic}
    records, events = changes.books.totals()
    for verdict, number in events.items():
        yield Stat("job_events", number, topic | {"verdict": verdict.name.lower()})
    yield Stat("job_records_duplicate", records[Verdict.DUPLICATE], topic)
    rejected = Counter(rejection.reason for rejection in changes.rejections if rejection.row is None)
    for reason, number in rejected.items():
        yield Stat("job_records_rejected", number, topic | {"reason": reason})
    for grouping, number in _overflow(changes).items():
        yield Stat("job_overflow_events", number, {"set": grouping})
    for assumption, number in _assumptions(changes).items():
        yield Stat("job_usage_assumptions", number, {"assumption": assumption})
    yield from _sizes(state, out_of_orderness_ms)


def _sizes(state: State, out_of_orderness_ms: int) -> Iterator[Stat]:
    place = {"topic": state.topic, "partition": state.partition}
    for table in state.series.tables:
        yield Stat("job_series", table.count - 1, {"set": table.grouping.name, "partition": state.partition})
    yield Stat("job_watermark_ms", watermark_ms(state.progress_ms, out_of_orderness_ms), place)
    yield Stat("job_label_values", max((words.kept for words in state.series.words), default=0), place)
    yield Stat("job_sources", len(state.dedup.sources), place)
    yield Stat("job_forgotten", state.dedup.forgotten, place)


def _overflow(changes: Changes) -> Counter[str]:
    """Events by grouping set that fell into ``__other__`` because the set was full."""
    overflow: Counter[str] = Counter()
    for segment in changes.segments:
        for sums in segment.sums:
            others = sums.row_series[: sums.rows] == OTHER_SERIES
            overflow[sums.table.grouping.name] += int(sums.cells[: sums.rows, EVENT_COUNT][others].sum())
    return overflow


def _assumptions(changes: Changes) -> Mapping[str, int]:
    """Requests of whose usage something had to be assumed, by what (``stream_jobs.costs.usage``)."""
    total = NO_ASSUMPTIONS
    for part in changes.usage:
        total = total.plus(part.sums.assumptions)
    return {name: number for name, number in asdict(total).items() if name != "requests"}
