"""From projected columns to numbers: what a measure asks for, and its value per row.

Everything is float64, NaN where it is unknown: a share of nothing, a mean of no values, the least of what was never
reported. The sides of a ratio are brought to one unit where they can be, so that a share of time is a share.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from schemas.codec.block import Bins, Block
from schemas.events.event_types import BY_TOPIC
from schemas.fields import Event, Role
from schemas.rows.tables import PARTIALS
from schemas.sketch import ZERO_BIN, bin_of
from stream_jobs.insight import group_kernels as kernels
from stream_jobs.insight.frame import Floats, Whole
from stream_jobs.insight.project import EVENTS, LATEST_AT, match_name, plain
from stream_jobs.rules.model import Function, Measure
from stream_jobs.rules.units import quotient


def columns_of(measure: Measure) -> tuple[str, ...]:
    """Names of the partials columns that the measure is made of; the count of events is always among them.

    Raises ``KeyError`` where the topic has no such field in the form that the function needs.
    """
    names = [EVENTS, *_BY_FUNCTION[measure.function](measure)]
    known = {field.name for field in PARTIALS[measure.topic].fields}
    for name in names:
        if name not in known:
            raise KeyError(f"{measure.topic} has no column {name} for {measure.text or measure.function}")
    return tuple(dict.fromkeys(names))


def value_of(measure: Measure, rows: Block, length_ms: int) -> Floats:
    """The measure per row of a projection that holds ``columns_of`` it, over a window of ``length_ms``."""
    return _VALUES[measure.function](measure, rows, length_ms)


def counts_of(measure: Measure, rows: Block) -> Whole:
    """The events behind it: values that were known for a distribution or a level, else all events."""
    if measure.function in (Function.PERCENTILE, Function.MEAN, Function.MIN, Function.MAX, Function.ABOVE):
        return _known_values(measure, rows)
    return _whole(rows, EVENTS)


def _event(measure: Measure) -> Event:
    return BY_TOPIC[measure.topic]


def _is_ready_made(measure: Measure, name: str) -> bool:
    """True for a sketch that arrives as bins; it is known by its own name, with or without ``_bins``."""
    return any(f.name in (name, f"{name}_bins") for f in _event(measure).of(Role.SKETCH_BINS))


def _bins_name(measure: Measure) -> str:
    return measure.field if measure.field.endswith("_bins") else f"{measure.field}_bins"


def _needs_mean(measure: Measure, name: str) -> list[str]:
    if _is_ready_made(measure, name):
        return [name if name.endswith("_bins") else f"{name}_bins"]
    return [f"{name}_count", f"{name}_sum"]


def _needs_percentile(measure: Measure) -> list[str]:
    return [_bins_name(measure), *([] if _is_ready_made(measure, measure.field) else [f"{measure.field}_count"])]


def _needs_ratio(measure: Measure) -> list[str]:
    return [column for name in (measure.field, measure.over) for column in _parts(measure, name)]


def _parts(measure: Measure, name: str) -> list[str]:
    """Columns of one side of a ratio: a sum, or what a mean is made of."""
    return [f"{name}_sum"] if _is_difference(measure, name) else _needs_mean(measure, name)


def _is_difference(measure: Measure, name: str) -> bool:
    return any(field.name == name for field in _event(measure).of(Role.DIFFERENCE))


_BY_FUNCTION: dict[Function, Callable[[Measure], list[str]]] = {
    Function.PERCENTILE: _needs_percentile,
    Function.MEAN: lambda measure: _needs_mean(measure, measure.field),
    Function.MIN: lambda measure: [f"{measure.field}_min", f"{measure.field}_count"],
    Function.MAX: lambda measure: [f"{measure.field}_max", f"{measure.field}_count"],
    Function.LAST: lambda measure: [f"{measure.field}_last", LATEST_AT],
    Function.SUM: lambda measure: [f"{measure.field}_sum"],
    Function.RATE: lambda measure: [f"{measure.field}_sum"] if measure.field else [],
    Function.COUNT: lambda measure: [],
    Function.SHARE: lambda measure: [],
    Function.RATIO: _needs_ratio,
    Function.KNOWN: lambda measure: [f"{measure.field}_count"],
    Function.ABOVE: _needs_percentile,
}


def _numbers(rows: Block, name: str) -> Floats:
    column = rows.numbers(name)
    values = column.values.astype(np.float64)
    if column.known is not None:
        values[~column.known] = np.nan
    return values


def _whole(rows: Block, name: str) -> Whole:
    return rows.numbers(name).values.astype(np.int64)


def _sketch(rows: Block, name: str) -> Bins:
    column = rows.bins(name)
    return Bins(plain(column.ends, np.int64), plain(column.keys, np.int16), plain(column.counts, np.uint64))


def _known_values(measure: Measure, rows: Block) -> Whole:
    if _is_ready_made(measure, measure.field):
        return sketch_sums(rows, _bins_name(measure))[0]
    return _whole(rows, f"{measure.field}_count")


def sketch_sums(rows: Block, name: str) -> tuple[Whole, Floats]:
    """Values in the sketch of each row, and about their sum: each counts as the value of its bin."""
    return _sums_of(_sketch(rows, name))


def _sums_of(bins: Bins) -> tuple[Whole, Floats]:
    counts, sums = np.zeros(len(bins.ends), np.int64), np.zeros(len(bins.ends))
    kernels.sketch_sums(bins.ends, bins.keys, bins.counts, counts, sums)
    return counts, sums


def _divided(above: Floats, below: Floats) -> Floats:
    """Quotient; NaN where there is nothing below."""
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _percentile(measure: Measure, rows: Block, length_ms: int) -> Floats:
    bins = _sketch(rows, _bins_name(measure))
    out = np.full(rows.rows, np.nan)
    kernels.quantiles(bins.ends, bins.keys, bins.counts, measure.q, out)
    return out


def _above(measure: Measure, rows: Block, length_ms: int) -> Floats:
    """Values are whole numbers: those above a limit lie above its whole part. The bin of the limit counts as below."""
    bins = _sketch(rows, _bins_name(measure))
    limit = int(bin_of(np.array([math.floor(measure.limit)]))[0]) if measure.limit >= 0 else ZERO_BIN - 1
    above, (counts, _) = np.zeros(rows.rows, np.int64), _sums_of(bins)
    kernels.counts_above(bins.ends, bins.keys, bins.counts, limit, above)
    return _divided(above.astype(np.float64), counts.astype(np.float64))


def _mean_of(measure: Measure, rows: Block, name: str) -> Floats:
    if _is_ready_made(measure, name):
        counts, sums = sketch_sums(rows, name if name.endswith("_bins") else f"{name}_bins")
        return _divided(sums, counts.astype(np.float64))
    return _divided(_numbers(rows, f"{name}_sum"), _numbers(rows, f"{name}_count"))


def _rate(measure: Measure, rows: Block, length_ms: int) -> Floats:
    return _numbers(rows, f"{measure.field}_sum" if measure.field else EVENTS) / (length_ms / 1_000)


def _share(measure: Measure, rows: Block, length_ms: int) -> Floats:
    assert measure.match is not None, measure
    return _divided(_numbers(rows, match_name(measure.match)), _numbers(rows, EVENTS))


def _ratio(measure: Measure, rows: Block, length_ms: int) -> Floats:
    above, below = (_event(measure).field(name).unit for name in (measure.field, measure.over))
    scale = quotient(above, below) or 1.0
    return scale * _divided(_side(measure, rows, measure.field), _side(measure, rows, measure.over))


def _side(measure: Measure, rows: Block, name: str) -> Floats:
    return _numbers(rows, f"{name}_sum") if _is_difference(measure, name) else _mean_of(measure, rows, name)


_VALUES: dict[Function, Callable[[Measure, Block, int], Floats]] = {
    Function.PERCENTILE: _percentile,
    Function.MEAN: lambda measure, rows, length_ms: _mean_of(measure, rows, measure.field),
    Function.MIN: lambda measure, rows, length_ms: _numbers(rows, f"{measure.field}_min"),
    Function.MAX: lambda measure, rows, length_ms: _numbers(rows, f"{measure.field}_max"),
    Function.LAST: lambda measure, rows, length_ms: _numbers(rows, f"{measure.field}_last"),
    Function.SUM: lambda measure, rows, length_ms: _numbers(rows, f"{measure.field}_sum"),
    Function.RATE: _rate,
    Function.COUNT: lambda measure, rows, length_ms: _numbers(rows, EVENTS),
    Function.SHARE: _share,
    Function.RATIO: _ratio,
    Function.KNOWN: lambda measure, rows, length_ms: _divided(
        _numbers(rows, f"{measure.field}_count"), _numbers(rows, EVENTS)
    ),
    Function.ABOVE: _above,
}
