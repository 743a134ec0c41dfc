"""Frames for the tests of detectors: one series per column, one window per row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.firing import Firing
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Labels, Mask
from stream_jobs.insight.slotted import Slotted
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.model import Function, Measure, Rule

WINDOW_MS = 10_000
START_MS = 1_760_000_400_000


def rule(kind: str, *others: str, window_ms: int = WINDOW_MS, **options: Any) -> Rule:
    """A rule with the shipped defaults of its kind, but for ``options``; ``others`` are its further measures."""
    measures = tuple(Measure(name, "llm.requests", Function.MEAN, "ttft_us") for name in ("value", *others))
    defaults = {option.name: option.default for option in KINDS[kind].options}
    return Rule("r", kind, measures, ("model",), "warning", "", window_ms=window_ms, options={**defaults, **options})


def frame(
    number: int,
    values: Mapping[str, Any],
    counts: Any = None,
    firing: Any = None,
    window_ms: int = WINDOW_MS,
) -> Frame:
    """Window ``number`` with all series present."""
    columns = {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in values.items()}
    size = len(next(iter(columns.values())))
    return Frame(
        START_MS + number * window_ms,
        window_ms,
        np.arange(size),
        columns,
        np.full(size, 1_000) if counts is None else np.broadcast_to(np.asarray(counts, np.int64), size),
        np.zeros(size, np.bool_) if firing is None else np.broadcast_to(np.asarray(firing, np.bool_), size),
    )


def judged(
    detector: Detector,
    values: Mapping[str, npt.NDArray[np.float64]],
    counts: npt.NDArray[np.int64] | None = None,
    window_ms: int = WINDOW_MS,
    first: int = 0,
) -> Iterator[tuple[int, Detection]]:
    """Runs windows x series through a detector; a series fires from its first window beyond to its first within."""
    windows, series = next(iter(values.values())).shape
    detector.grow(series)
    firing: Mask = np.zeros(series, np.bool_)
    for number in range(windows):
        row = {name: value[number] for name, value in values.items()}
        seen = frame(first + number, row, None if counts is None else counts[number], firing, window_ms)
        said = detector.detect(seen)
        firing = firing.copy()
        firing[said.slots[said.beyond]] = True
        firing[said.slots[said.within]] = False
        yield number, said


def first_beyond(
    detector: Detector,
    values: Mapping[str, npt.NDArray[np.float64]],
    counts: npt.NDArray[np.int64] | None = None,
    window_ms: int = WINDOW_MS,
) -> list[int | None]:
    """Number of the first window beyond, per series."""
    series = next(iter(values.values())).shape[1]
    found: list[int | None] = [None] * series
    for number, said in judged(detector, values, counts, window_ms):
        for slot in said.slots[said.beyond]:
            found[slot] = number if found[slot] is None else found[slot]
    return found


def beyond_count(
    detector: Detector, values: Mapping[str, npt.NDArray[np.float64]], counts: Any = None, window_ms: int = WINDOW_MS
) -> int:
    """Series-windows beyond."""
    return sum(int(said.beyond.sum()) for _, said in judged(detector, values, counts, window_ms))


def noise(seed: int, windows: int, series: int, sigma: float, correlation: float = 0.7) -> Floats:
    """Logarithmic noise with neighbours that are alike, as latencies have it; mean 0."""
    random = np.random.default_rng(seed)
    fresh = random.normal(0, sigma * (1 - correlation**2) ** 0.5, (windows, series))
    out = np.empty_like(fresh)
    out[0] = random.normal(0, sigma, series)
    for number in range(1, windows):
        out[number] = correlation * out[number - 1] + fresh[number]
    return out


def day(windows: int, window_ms: int = WINDOW_MS, depth: float = 0.6) -> Floats:
    """Load over the day, 1 on average, a column."""
    at = np.arange(windows) * window_ms / 86_400_000
    return (1 + depth * np.sin(2 * np.pi * (at - 0.3)))[:, None]


def ended(detector: Detector, windows: Sequence[Frame], clear_after: int = 3) -> tuple[int, str] | None:
    """After how many of ``windows`` slot 0, which fires, has cleared, and with which note."""
    firing = Firing(1, 1, clear_after, windows[0].length_ms)
    firing.grow(detector.size if isinstance(detector, Slotted) and detector.size else len(windows[0].slots))
    firing.state["firing"][0], firing.state["heard_ms"][0] = True, windows[0].window_ms
    for number, window in enumerate(windows, 1):
        cleared = firing.step(window, detector.detect(replace(window, firing=firing.firing[window.slots])), 1)
        if 0 in cleared:
            return number, firing.notes.get(0, "")
    return None


def same(left: Detection, right: Detection) -> bool:
    """Equal in every array, NaN equal to NaN."""
    names = ("slots", "beyond", "within", "value", "baseline", "low", "high", "note")
    return left.notes == right.notes and all(_equal(getattr(left, name), getattr(right, name)) for name in names)


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))


def resumed(detector: Detector, fresh: Detector, names: Sequence[Labels] = ()) -> Detector:
    """``fresh`` with the state of ``detector``, as after a restart."""
    arrays = detector.dump()
    again = detector.dump()
    assert {name: array.tobytes() for name, array in arrays.items()} == {n: a.tobytes() for n, a in again.items()}
    fresh.load(arrays)
    if hasattr(fresh, "named") and names:
        fresh.named(np.arange(len(names)), list(names))
    return fresh
