"""The windows job as a step: see ``stream_jobs.step`` for the rules it keeps and the package for its parts.

A fold first reads and judges (pure), then changes state and sums, so a record that cannot be judged leaves no trace.
Rows are taken in runs between two sweeps of unused series; where a sweep stands is decided by the records alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from schemas.codec.block import Block
from schemas.contract.headers import clock_skew_ms
from schemas.contract.record import Output, Record
from schemas.contract.topics import BY_NAME
from schemas.contract.verdicts import Verdict
from schemas.limits import WINDOW_MS, Limits
from stream_jobs.costs.usage import NO_ASSUMPTIONS, Requests
from stream_jobs.rules.model import SloClass
from stream_jobs.step import Commit, Stat, Step
from stream_jobs.windows import kernels, messages, snapshot
from stream_jobs.windows.changes import Changes, State
from stream_jobs.windows.columns import Columns, Whole, codes_of, columns_of
from stream_jobs.windows.dedup import Dedup
from stream_jobs.windows.exemplars import Details, details_of
from stream_jobs.windows.judge import Judged, book, events_in, internal, judge, rejections, source_of, take_new
from stream_jobs.windows.kernels import EVENT_COUNT, UNKNOWN
from stream_jobs.windows.plan import Plan, plan_of
from stream_jobs.windows.series import OTHER_CODE, OTHER_SERIES, SWEEP_MS, Budget, Codes, Series
from stream_jobs.windows.shares import Processes, processes_of
from stream_jobs.windows.usage import requests_of
from stream_jobs.windows.watermark import announced_ms, watermark_ms

CHANGES_BYTES_MAX = 256 * 1024 * 1024
"""Unsent changes that use more memory are due."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is needed of the events of a fold beside their columns, where they have it: for exemplars, usage, shares."""

    details: Details | None
    requests: Requests | None
    processes: Processes | None

    @classmethod
    def of(cls, plan: Plan, columns: Columns, block: Block) -> Beside:
        return cls(details_of(plan, block), requests_of(plan, columns, block), processes_of(plan, block))


@dataclass(frozen=True, slots=True)
class _Clocks:
    """Of each record its append time, and how far its sender's clock is off where watermarks allow for it, else 0."""

    appended_ms: Whole
    skew_ms: Whole


class WindowsStep(Step[State, Changes]):
    """Additive rows per window, grouping set and series, and the books. ``partitions`` are the counts of each topic;
    the contract's where a source topic is missing; requests are judged by ``classes``."""

    name = "windows"

    def __init__(
        self,
        limits: Limits,
        partitions: Mapping[str, int],
        window_ms: int = WINDOW_MS,
        classes: Sequence[SloClass] = (),
    ) -> None:
        self.limits = limits
        self.classes = classes
        self.window_ms = window_ms
        self._partials, self._books, self._rejected = messages.topics(partitions)
        self._partitions = partitions

    def new(self, topic: str, partition: int) -> State:
        plan = plan_of(topic)
        budget = Budget.of(self.limits, self._partitions.get(topic, BY_NAME[topic].partitions))
        return State(topic, partition, plan, Dedup(self.limits.source_expiry_ms), Series.new(plan, budget))

    def changes(self) -> Changes:
        return Changes()

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        if not records:
            return
        self.fold_judged(state, judge(state.plan.event, records, self.limits), changes)

    def fold_judged(self, state: State, judged: Judged, changes: Changes) -> None:
        """The second half of ``fold``: from here on state and changes move."""
        columns = columns_of(state.plan, judged.admitted, judged.record_of, self.window_ms, self.classes)

        fresh = take_new(state.dedup, judged)
        book(judged, fresh, changes.books)
        changes.reject(rejections(judged, fresh))
        if fresh is not None:
            columns.verdicts[~fresh[columns.record_of]] = Verdict.DUPLICATE
        appended = np.array([record.timestamp_ms for record in judged.records], np.int64)
        skew = np.array([self._skew_ms(record) for record in judged.records], np.int64)
        beside = Beside.of(state.plan, columns, judged.admitted.block)
        self._fold_columns(state, columns, beside, _Clocks(appended, skew), changes)

    def _skew_ms(self, record: Record) -> int:
        skew_ms = clock_skew_ms(record.headers)
        return skew_ms if abs(skew_ms) > self.limits.future_skew_ms else 0

    def _fold_columns(self, state: State, columns: Columns, beside: Beside, clocks: _Clocks, changes: Changes) -> None:
        rows = len(columns.at)
        codes = np.empty((len(state.plan.dimensions), rows), np.int32)
        series = np.empty(rows, np.int64)
        start = 0
        while start < rows:
            stop, progress = self._run(state, columns, clocks, start)
            before = watermark_ms(state.progress_ms, self.limits.out_of_orderness_ms)
            if progress != UNKNOWN:
                self._fold_run(state, columns, beside, start, stop, codes, series, changes)
                state.progress_ms = max(state.progress_ms, progress)
                open_end = kernels.first_open(columns.windows, columns.verdicts, start, stop, before - self.window_ms)
                changes.open_end_ms = min(changes.open_end_ms, open_end + self.window_ms)
            self._sweep(state)
            start = stop

    def _run(self, state: State, columns: Columns, clocks: _Clocks, start: int) -> tuple[int, int]:
        """End of the rows up to the record that makes a sweep due (or of all), and the progress they make."""
        beyond = state.sweep_at_ms + self.limits.out_of_orderness_ms
        at, record_of, verdicts = columns.at, columns.record_of, columns.verdicts
        appended, skew = clocks.appended_ms, clocks.skew_ms
        rows = len(at)
        progress, row = kernels.progress(at, appended, skew, record_of, verdicts, start, rows, beyond)
        if row == rows:
            return rows, progress
        stop = int(np.searchsorted(record_of, record_of[row], side="right"))
        progress, _ = kernels.progress(at, appended, skew, record_of, verdicts, start, stop, kernels.LEAST)
        return stop, progress

    def _fold_run(
        self,
        state: State,
        columns: Columns,
        beside: Beside,
        start: int,
        stop: int,
        codes: Codes,
        series: Whole,
        changes: Changes,
    ) -> None:
        codes_of(state.series, columns, start, stop, codes)
        segment = changes.segment(state)
        for number, table in enumerate(state.series.tables):
            table.find(codes, columns.verdicts, columns.windows, start, stop, series)
            segment.sums[number].add(columns, series, start, stop)
        segment.keep(columns, start, stop)
        if beside.details is not None:
            changes.exemplars[-1].add(columns, beside.details, codes, start, stop)
        if beside.requests is not None:
            changes.usage[-1].add(columns, beside.requests, codes, start, stop)
        if beside.processes is not None:
            changes.shares[-1].add(columns, beside.processes, start, stop)

    def _sweep(self, state: State) -> None:
        watermark = watermark_ms(state.progress_ms, self.limits.out_of_orderness_ms)
        if watermark < state.sweep_at_ms:
            return
        state.sweep_at_ms = (watermark // SWEEP_MS + 1) * SWEEP_MS
        state.series = state.series.swept(watermark - self.limits.allowed_lateness_ms - self.window_ms)

    def reject(self, state: State, record: Record, detail: str, changes: Changes) -> None:
        """As the protocol says, but the identity counts as taken: the same record again is a duplicate."""
        head, rejection = internal(state.plan.event, record, detail, self.limits)
        identity = head.identity if head else None
        if identity is not None and not state.dedup.take(identity, record.timestamp_ms):
            changes.books.add_one(source_of(head), Verdict.DUPLICATE, events_in(head))
            return
        changes.books.add_one(source_of(head), Verdict.REJECTED, events_in(head))
        changes.reject([rejection])

    def due(self, state: State, changes: Changes) -> bool:
        watermark = watermark_ms(state.progress_ms, self.limits.out_of_orderness_ms)
        return watermark >= changes.open_end_ms or changes.bytes > CHANGES_BYTES_MAX

    def rows(self, state: State, changes: Changes, commit: Commit) -> list[Output]:
        watermark = announced_ms(state.progress_ms, self.limits.out_of_orderness_ms, commit.now_ms, commit.idle)
        return [
            *messages.partials(state.plan, changes, commit, watermark, state.last_sent, self._partials, self.name),
            *messages.books(changes.books, commit, self._books, self.name),
            *messages.rejected(changes.rejections, commit, self._rejected, self.name),
        ]

    def stats(self, state: State, changes: Changes) -> Iterator[Stat]:
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
        for (grouping, dimension), number in _overflow_labels(changes).items():
            yield Stat("job_overflow_labels", number, {"set": grouping, "dimension": dimension})
        for assumption, number in _assumptions(changes).items():
            yield Stat("job_usage_assumptions", number, {"assumption": assumption})
        yield from _sizes(state, self.limits.out_of_orderness_ms)

    def dump(self, state: State) -> list[bytes]:
        return snapshot.dump(state)

    def load(self, topic: str, partition: int, parts: Sequence[bytes]) -> State:
        return snapshot.load(self.new(topic, partition), parts)


def _sizes(state: State, out_of_orderness_ms: int) -> Iterator[Stat]:
    place = {"topic": state.topic, "partition": state.partition}
    for table in state.series.tables:
        where = {"set": table.grouping.name, "partition": state.partition}
        yield Stat("job_series", table.count - 1, where)
        yield Stat("job_series_max", table.limit - 1, where)
    yield Stat("job_watermark_ms", watermark_ms(state.progress_ms, out_of_orderness_ms), place)
    yield Stat("job_label_values", max((words.kept for words in state.series.words), default=0), place)
    yield Stat("job_sources", len(state.dedup.sources), place)
    yield Stat("job_forgotten", state.dedup.forgotten, place)


def _overflow(changes: Changes) -> Counter[str]:
    """Events by grouping set that fell into ``__other__``: the set was full, or their tenant's part of it."""
    overflow: Counter[str] = Counter()
    for segment in changes.segments:
        for sums in segment.sums:
            others = sums.row_series[: sums.rows] == OTHER_SERIES
            overflow[sums.table.grouping.name] += int(sums.cells[: sums.rows, EVENT_COUNT][others].sum())
    return overflow


def _overflow_labels(changes: Changes) -> Counter[tuple[str, str]]:
    """Events by grouping set and dimension whose value alone reads ``__other__``: there was no room for its name."""
    overflow: Counter[tuple[str, str]] = Counter()
    for segment in changes.segments:
        for sums in segment.sums:
            series, events = sums.row_series[: sums.rows], sums.cells[: sums.rows, EVENT_COUNT]
            beyond = (sums.table.lines[series] == OTHER_CODE) & (series != OTHER_SERIES)[:, None]
            counts = events @ beyond
            for dimension, number in zip(sums.table.grouping.dimensions, counts.tolist(), strict=True):
                if number:
                    overflow[sums.table.grouping.name, dimension] += number
    return overflow


def _assumptions(changes: Changes) -> Mapping[str, int]:
    """Requests of whose usage something had to be assumed, by what (``stream_jobs.costs.usage``)."""
    total = NO_ASSUMPTIONS
    for part in changes.usage:
        total = total.plus(part.sums.assumptions)
    return {name: number for name, number in asdict(total).items() if name != "requests"}
