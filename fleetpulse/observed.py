"""The windows job with counters: the step itself stays pure, this shell tells what each of its commits holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.counters import COUNTERS, Counters
from schemas.limits import Limits
from schemas.record import Output
from stream_jobs.step import Commit
from stream_jobs.windows.changes import Changes, State
from stream_jobs.windows.figures import Figures, figures_of
from stream_jobs.windows.step import WindowsStep


class ObservedWindowsStep(WindowsStep):
    """Hands the figures of every commit to ``observe`` when its messages are made.

    A commit that fails ends the process, so no process counts one twice.
    """

    def __init__(
        self,
        limits: Limits,
        partitions: Mapping[str, int],
        observe: Callable[[Figures], None] = lambda figures: count(figures, COUNTERS),
    ) -> None:
        super().__init__(limits, partitions)
        self._observe = observe

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        self._observe(figures_of(state, changes, self.limits.lateness_ms))
        return super().rows(state, changes, commit)


def count(figures: Figures, counters: Counters) -> None:
    """Put the figures of a commit into the process's counters."""
    topic, place = figures.topic, {"topic": figures.topic, "partition": figures.partition}
    for verdict, events in figures.events.items():
        counters.add("job_events", events, topic=topic, verdict=verdict.name.lower())
    counters.add("job_records_duplicate", figures.duplicates, topic=topic)
    for reason, records in figures.refused.items():
        counters.add("job_records_rejected", records, topic=topic, reason=reason)
    for grouping, events in figures.overflow.items():
        counters.add("job_overflow_events", events, set=grouping)
    for doubt, requests in figures.doubts.items():
        counters.add("job_usage_doubts", requests, doubt=doubt)
    for grouping, series in figures.series.items():
        counters.set("job_series", series, set=grouping, partition=figures.partition)
    counters.set("job_watermark_ms", figures.watermark_ms, **place)
    counters.set("job_words", figures.words, **place)
    counters.set("job_sources", figures.sources, **place)
    counters.set("job_forgotten", figures.forgotten, **place)
