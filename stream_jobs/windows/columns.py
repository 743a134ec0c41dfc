"""The columns of admitted rows in the one form that the compiled loops take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Bins, Block, Labels, Numbers
from schemas.contract.admission import Admitted
from schemas.events.grouping import Derived
from stream_jobs.rules.model import SloClass
from stream_jobs.windows import bin_kernels, kernels
from stream_jobs.windows.goodput import goodput_of
from stream_jobs.windows.kernels import UNKNOWN
from stream_jobs.windows.plan import Plan
from stream_jobs.windows.series import Codes, Series

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of many records. ``values[f]`` is the f-th measure of the plan with ``UNKNOWN`` for null.

    ``windows`` holds the start of each row's window, ``value_bins[f]`` the sketch bins of the first measures,
    ``ready_bins`` the columns of bins that came ready-made.
    """

    at: Whole
    windows: Whole
    values: Whole
    value_bins: npt.NDArray[np.int16]
    ready_bins: list[Bins]
    labels: list[Labels]
    record_of: Whole
    verdicts: npt.NDArray[np.uint8]


def columns_of(
    plan: Plan, admitted: Admitted, record_of: Whole, window_ms: int, classes: Sequence[SloClass] = ()
) -> Columns:
    """The columns of all rows, rejected ones included (their values are never read); judged by ``classes``."""
    block = admitted.block
    at = np.array(block.numbers(plan.event.fields[0].name).values, dtype=np.int64)
    values = _values(plan, block, classes)
    value_bins = np.empty((len(plan.binned), block.rows), np.int16)
    bin_kernels.bins_of(values[: len(plan.binned)], value_bins)
    return Columns(
        at=at,
        windows=at - at % window_ms,
        values=values,
        value_bins=value_bins,
        ready_bins=[block.bins(field.name) for field in plan.ready_bins],
        labels=_labels(plan, block),
        record_of=record_of,
        verdicts=np.array(admitted.verdicts, dtype=np.uint8),
    )


def _values(plan: Plan, block: Block, classes: Sequence[SloClass]) -> Whole:
    measures = plan.measures
    values = np.full((len(measures), block.rows), UNKNOWN, np.int64)
    for out, field in zip(values, measures, strict=True):
        if field not in plan.computed:
            _fill(block.numbers(field.name), out)
    if plan.computed and classes:
        named = {field.name: line for field, line in zip(measures, values, strict=True)}
        for field, found in zip(plan.computed, goodput_of(block, named, classes), strict=True):
            named[field.name][:] = found
    return values


def _fill(column: Numbers, out: Whole) -> None:
    out[:] = column.values
    if column.known is not None:
        np.copyto(out, UNKNOWN, where=~column.known)


def whole_of(block: Block, name: str) -> Whole:
    """A column that is no measure, in the form of those that are."""
    out = np.empty(block.rows, np.int64)
    _fill(block.numbers(name), out)
    return out


def _labels(plan: Plan, block: Block) -> list[Labels]:
    derived = {d.name: d for d in plan.derived}
    return [_derive(derived[name], block) if name in derived else block.labels(name) for name in plan.dimensions]


def _derive(derived: Derived, block: Block) -> Labels:
    column = block.numbers(derived.field)
    codes = np.ones(block.rows, np.uint8)
    for bound in derived.bounds:
        codes += column.values > bound
    if column.known is not None:
        codes *= column.known
    return Labels(codes, [None, *(word.encode() for word in derived.words)])


def codes_of(series: Series, columns: Columns, start: int, stop: int, out: Codes) -> None:
    """Write the codes of rows ``[start, stop)`` to ``out[dimension, row]``; words new to ``series`` are added to it.

    New words are taken in the order in which accepted rows use them; those of other rows are not taken. Those that
    clients can make up come last: their rows' tenants are known then.
    """
    labelled = list(zip(series.words, columns.labels, out, strict=True))
    verdicts = columns.verdicts[start:stop]
    for words, labels, line in sorted(labelled, key=lambda each: each[0].bounded is not None):
        known = np.fromiter(map(words.codes.get, labels.words, repeat(-1)), np.int32, len(labels.words))
        if known.min() < 0:
            rows = np.array(labels.codes[start:stop], dtype=np.int64)
            if words.bounded:
                words.name(labels.words, rows, verdicts, out[series.tenant_at, start:stop], known, line[start:stop])
                continue
            order = np.empty(len(known), np.int64)
            count = kernels.first_uses(rows, verdicts, known < 0, order)
            for code in order[:count].tolist():
                known[code] = words.add(labels.words[code])
        np.take(known, labels.codes[start:stop], out=line[start:stop], mode="clip")
