"""Single requests that stand for a window: the slowest of every engine and model, and some that failed.

Of every (window, engine_id, model) of the events since the last commit: the two with the greatest (TTFT, request id),
the two with the greatest (end-to-end time, request id), up to four that did not end well: those that failed on our side
before those that the client aborted or got wrong, by greatest request id. Which these are hangs on the events alone; a
reader that unites what several commits sent and keeps the greatest again has those of the window, wherever batches and
commits were cut. Request ids are unique; of two events with the same one any may stand.

A fold looks at every event once and copies text only of those among the greatest so far (``exemplar_kernels``).
Series beyond the limit share one group, as they share one row of partials. A sweep of unused series starts again, which
can only send more than needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block, Column, Labels, Numbers, Texts
from schemas.events.grouping import sets_of
from schemas.fields import Kind
from schemas.rows.tables import EXEMPLARS, EXEMPLARS_MAX, EXEMPLARS_OF, EXEMPLARS_OF_CLIENT
from stream_jobs.windows import exemplar_kernels as kernels
from stream_jobs.windows.columns import Columns, Whole
from stream_jobs.windows.emit import compacted
from stream_jobs.windows.exemplar_kernels import E2E, FAILED, OLD, SLOTS, TTFT, UNKNOWN
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import Codes
from stream_jobs.windows.sums import Segment

CANDIDATES_MIN = 16_384
"""Below this many, candidates are not looked through between two commits; they hold some 200 bytes each."""

_LABELS = tuple(f.name for f in EXEMPLARS.fields if f.kind is Kind.LABEL and f.name != "metric")
_METRICS: list[bytes | None] = [None, *(name.encode() for name in EXEMPLARS_MAX)]
_METRIC_OF_SLOT = np.repeat(np.arange(1, len(_METRICS)), tuple(EXEMPLARS_MAX.values()))
_SET = next(n for n, one in enumerate(sets_of(EXEMPLARS_OF)) if one.placed_by == "placement_group")
"""The grouping set whose rows know engine and model, and whose placement exemplars share."""

assert np.flatnonzero(np.diff(_METRIC_OF_SLOT, prepend=0)).tolist() == [TTFT, E2E, FAILED]
assert len(_METRIC_OF_SLOT) == SLOTS


@dataclass(frozen=True, slots=True)
class _Words:
    """Texts as arrays: ``data`` are bytes."""

    data: npt.NDArray[np.uint8]
    ends: Whole

    def of(self, rows: Whole) -> _Words:
        """Those of some rows, in their order."""
        sizes = np.diff(self.ends, prepend=0)
        out, ends = np.empty(int(sizes[rows].sum()), np.uint8), np.empty(len(rows), np.int64)
        kernels.copy_texts(self.data, self.ends, rows, out, ends)
        out.setflags(write=False)  # one form of input for the compiled loops: the texts of a fold are not writable
        return _Words(out, ends)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.ends.nbytes


@dataclass(frozen=True, slots=True)
class Details:
    """What exemplars need of the events beside their columns."""

    http_status: Numbers
    ids: _Words
    traces: _Words
    traces_known: npt.NDArray[np.bool_] | None


def details_of(plan: Plan, block: Block) -> Details | None:
    """The details of admitted rows; None for events that have no exemplars."""
    if plan.event.topic != EXEMPLARS_OF:
        return None
    ids, traces = block.texts("request_id"), block.texts("trace_id")
    return Details(block.numbers("http_status"), _words(ids), _words(traces), traces.known)


def _words(texts: Texts) -> _Words:
    return _Words(np.frombuffer(texts.data, np.uint8), texts.ends)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Rows that were among the greatest when they came. ``numbers`` are six lines: group, slot, value, series, HTTP
    status (-1: unknown), and whether a trace is known; ``codes`` those of ``_LABELS``."""

    numbers: Whole
    codes: Codes
    ids: _Words
    traces: _Words

    @property
    def nbytes(self) -> int:
        return self.numbers.nbytes + self.codes.nbytes + self.ids.nbytes + self.traces.nbytes

    def of(self, rows: Whole) -> _Candidates:
        """Some of them, in this order."""
        return _Candidates(
            self.numbers.take(rows, axis=1), self.codes.take(rows, axis=1), self.ids.of(rows), self.traces.of(rows)
        )


class Exemplars:
    """The candidates among the events of one segment."""

    __slots__ = (
        "_candidates", "_group_of", "_groups", "_kept", "_lines", "_plan", "_refs", "_segment", "_tops", "rows",
    )  # fmt: skip

    def __init__(self, plan: Plan, segment: Segment) -> None:
        self._plan = plan
        self._segment = segment
        self._groups: dict[tuple[int, int, int], int] = {}
        self._group_of = np.zeros(0, np.int64)
        self._lines = 0
        self._tops, self._refs = _slots(0)
        self._candidates: list[_Candidates] = []
        self._kept = 0
        self.rows = 0

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return self._tops.nbytes + self._refs.nbytes + sum(one.nbytes for one in self._candidates)

    def add(self, columns: Columns, details: Details, codes: Codes, start: int, stop: int) -> None:
        """Look at rows ``[start, stop)``, which were added to the sums of the segment just now."""
        self._group_lines()
        plan, lines = self._plan, self._segment.sums[_SET].lines[-1]
        status, kind = codes[plan.dimensions.index("status")], codes[plan.dimensions.index("error_kind")]
        ok, aborted, client = (self._code(*one) for one in (("status", "ok"), *EXEMPLARS_OF_CLIENT.items()))
        ttft, e2e = (columns.values[_place(plan, name)] for name in ("ttft_us", "e2e_us"))
        groups = len(self._tops)
        is_touched, touched = np.zeros(groups, np.bool_), np.empty(groups, np.int64)
        ids = details.ids
        count = kernels.choose(
            lines, self._group_of, status, ok, aborted, kind, client, ttft, e2e, ids.data, ids.ends,
            start, stop, self._tops, self._refs, is_touched, touched,
        )  # fmt: skip
        room = min(SLOTS * count, 3 * (stop - start))
        rows, slots, of = (np.empty(room, np.int64) for _ in range(3))
        found = kernels.take(touched, count, self._refs, is_touched, rows, slots, of)
        if found:
            values = np.where(slots[:found] < E2E, ttft[rows[:found]], e2e[rows[:found]])
            series = self._segment.sums[_SET].row_series[lines[rows[:found] - start]]
            self._take(details, codes, rows[:found], slots[:found], of[:found], values, series)

    def _code(self, name: str, word: str) -> int:
        return self._segment.series.words[self._plan.dimensions.index(name)].codes.get(word.encode(), OLD)

    def _group_lines(self) -> None:
        """Give every line of sums that is new its group."""
        sums = self._segment.sums[_SET]
        first, stop = self._lines, sums.rows
        if first == stop:
            return
        if len(self._group_of) < stop:
            self._group_of = np.resize(self._group_of, 2 * stop)
        series = sums.row_series[first:stop]
        named = sums.table.lines[series]
        engine, model = (sums.table.grouping.dimensions.index(name) for name in ("engine_id", "model"))
        keys = zip(
            sums.row_windows[first:stop].tolist(), named[:, engine].tolist(), named[:, model].tolist(), strict=True
        )
        groups = self._groups
        self._group_of[first:stop] = [groups.setdefault(key, len(groups)) for key in keys]
        self._lines = stop
        if len(groups) > len(self._tops):
            before = len(self._tops)
            tops, refs = _slots(2 * len(groups))
            tops[:before], refs[:before] = self._tops, self._refs
            self._tops, self._refs = tops, refs

    def _take(
        self, details: Details, codes: Codes, rows: Whole, slots: Whole, groups: Whole, values: Whole, series: Whole
    ) -> None:
        status, known = details.http_status.values[rows].astype(np.int64), details.http_status.known
        if known is not None:
            status[~known[rows]] = -1
        traced = np.ones(len(rows), np.int64)
        if details.traces_known is not None:
            traced[:] = details.traces_known[rows]
        labels = np.stack([codes[self._plan.dimensions.index(name)].take(rows) for name in _LABELS])
        numbers = np.stack((groups, slots, values, series, status, traced))
        self._candidates.append(_Candidates(numbers, labels, details.ids.of(rows), details.traces.of(rows)))
        self.rows += len(rows)
        if self.rows > max(CANDIDATES_MIN, 3 * self._kept):
            self._forget()

    def _settle(self) -> tuple[_Candidates, Whole]:
        """All candidates, and the rows of the greatest of them: ``[group, slot]``, ``OLD`` where there is none."""
        found = _joined(self._candidates)
        tops, refs = _slots(len(self._groups))
        groups, slots, values = found.numbers[:3]
        aborted, client = (
            found.codes[_LABELS.index(name)] == self._code(name, word) for name, word in EXEMPLARS_OF_CLIENT.items()
        )
        kernels.settle(groups, slots, values, ~(aborted | client), found.ids.data, found.ids.ends, tops, refs)
        return found, refs

    def _forget(self) -> None:
        """Let go of the candidates that are no longer among the greatest."""
        found, refs = self._settle()
        kept = found.of(refs[refs != OLD])
        self._candidates, self._kept, self.rows = [kept], kept.numbers.shape[1], kept.numbers.shape[1]

    def blocks(self, partitions: int) -> dict[int, Block]:
        """Rows of ``tables.EXEMPLARS`` by target partition; ``emit.blocks_of`` must have placed the series.

        Order: window, model, engine, metric, then falling.
        """
        if self.rows == 0:
            return {}
        found, refs = self._settle()
        windows, engines, models = np.array(list(self._groups), np.int64).T
        words = self._segment.series.words
        engines = compacted(engines, words[self._plan.dimensions.index("engine_id")].words)[0]
        models = compacted(models, words[self._plan.dimensions.index("model")].words)[0]
        rows = refs[np.lexsort((engines, models, windows))].ravel()
        rows = rows[rows != OLD]
        targets = self._segment.sums[_SET].table.targets[found.numbers[3, rows]]
        return {
            target: self._block(found, rows[targets == target], windows)
            for target in range(partitions)
            if (targets == target).any()
        }

    def _block(self, found: _Candidates, rows: Whole, windows: Whole) -> Block:
        ids, traces = found.ids.of(rows), found.traces.of(rows)
        groups, slots, values, _, status, traced = found.numbers.take(rows, axis=1)
        columns: dict[str, Column] = {
            "window_ms": Numbers(windows[groups]),
            "value_us": _optional(values, values != UNKNOWN, "<i8"),
            "http_status": _optional(status, status >= 0, "<u4"),
            "metric": Labels(*compacted(_METRIC_OF_SLOT[slots], _METRICS)),
            "request_id": Texts(ids.data.tobytes(), ids.ends),
            "trace_id": Texts(traces.data.tobytes(), traces.ends, None if traced.all() else traced > 0),
        }
        for line, name in zip(found.codes, _LABELS, strict=True):
            words = self._segment.series.words[self._plan.dimensions.index(name)].words
            columns[name] = Labels(*compacted(line[rows], words))
        return Block(len(rows), columns)


def _place(plan: Plan, name: str) -> int:
    """Where a measure stands among the values."""
    return next(number for number, field in enumerate(plan.measures) if field.name == name)


def _slots(groups: int) -> tuple[Whole, Whole]:
    return np.full((groups, SLOTS), UNKNOWN, np.int64), np.full((groups, SLOTS), OLD, np.int64)


def _optional(values: Whole, known: npt.NDArray[np.bool_], dtype: str) -> Numbers:
    return Numbers(np.where(known, values, 0).astype(dtype), None if known.all() else known)


def _joined(parts: list[_Candidates]) -> _Candidates:
    if len(parts) == 1:
        return parts[0]
    numbers = np.concatenate([part.numbers for part in parts], axis=1)
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return _Candidates(numbers, codes, _texts([p.ids for p in parts]), _texts([p.traces for p in parts]))


def _texts(parts: list[_Words]) -> _Words:
    bases = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
    data = np.concatenate([part.data for part in parts])
    data.setflags(write=False)
    return _Words(data, np.concatenate([part.ends + base for part, base in zip(parts, bases, strict=False)]))
