"""What a series is usually like, learned as it goes.

Exponentially weighted mean and variance (West 1979; Finch 2009) with a half-life in event time. The first windows
count equally, so that mean and variance start as the plain ones. Windows that follow each other are alike: a half-life
holds few independent ones. So the variance is kept a second time, with ``STEADIER`` times the half-life; the greater
one counts, and while it is known from ``n`` windows only, ``1 + UNSURE_WINDOWS / n`` times its root. A gap counts as at
most ``GAP_SHARE`` of a half-life: a series that comes back is not thrown over by its first window.

Robust: a window beyond the limits does not train, nor does any while the series fires; one that is far off on the
side that nobody judges trains as if it lay at the limit. What lasts is accepted: a series that has been off for
``relearn_after_ms`` gets the level it had in that time. It is off from its first window beyond until it was within
for ``well_windows`` in a row.

With a season (``season``), a second mean and variance follow what the hour of the week leaves over. The expectation
nearer to the value counts: a rise that comes every Monday at nine is none, and neither is a Monday without it. The
hours themselves are learned from all windows, those beyond the limits too: that rise is beyond them until it is known.
A fault in one of the last weeks may so excuse a smaller one at the same hour, never make one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.limits import HOUR_MS
from stream_jobs.insight import season
from stream_jobs.insight.frame import Floats, Mask, Whole
from stream_jobs.insight.season import HOURS, NO_ROW, STEPS, Pool, Rows
from stream_jobs.insight.slotted import Column, Slotted

LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """On what a baseline judges, and how wide it must at least be: the standard deviation is at least
    ``floor_relative`` of the expected value and ``floor_absolute`` in the measure's unit. Latencies and rates are
    judged by ratio (``log``): 10 % more is the same step everywhere. There negative values are unknown, and zero is
    taken as ``floor_absolute``, or as ``LEAST``."""

    log: bool = False
    floor_relative: float = 0.0
    floor_absolute: float = 0.0

    def of(self, values: Floats) -> Floats:
        """Values on the scale; NaN for what has no place there."""
        finite = np.where(np.isfinite(values), values, np.nan)
        if not self.log:
            return finite
        return np.log(np.maximum(np.where(finite < 0, np.nan, finite), max(self.floor_absolute, LEAST)))

    def back(self, places: Floats) -> Floats:
        """The values at these places."""
        return np.exp(np.minimum(places, 700.0)) if self.log else places

    def sigma(self, level: Floats, variance: Floats) -> Floats:
        """Standard deviation on the scale, not below the floors around ``level``."""
        return np.maximum(np.sqrt(np.maximum(variance, 0.0)), self.floor(level))

    def floor(self, level: Floats) -> Floats:
        """Least standard deviation on the scale around ``level``."""
        if not self.log:
            return np.maximum(self.floor_relative * np.abs(level), self.floor_absolute)
        with np.errstate(over="ignore"):
            absolute = np.log1p(self.floor_absolute * np.exp(-level)) if self.floor_absolute else np.zeros(len(level))
        return np.maximum(np.log1p(self.floor_relative), absolute)

    def step(self, level: Floats, share: float, up: bool) -> Floats:
        """How far above or below ``level`` the value lies that is by ``share`` more or less."""
        if not self.log:
            return share * np.abs(level)
        return np.full(len(level), np.log1p(share) if up else -np.log1p(-min(share, 1 - LEAST)))

    def size(self, level: Floats, sigma: Floats) -> Floats:
        """What counts as one on the scale: 1 where it is logarithmic, else the level or 8 deviations."""
        if self.log:
            return np.ones(len(level))
        return np.maximum(np.maximum(np.abs(level), 8 * sigma), LEAST)


GAP_SHARE = 0.15
STEADIER = 8.0
UNSURE_WINDOWS = 15.0

_TINY = 1e-12

COLUMNS = (
    Column("level", "f8"),
    Column("variance", "f8"),
    Column("steady", "f8"),
    Column("samples", "i4"),
    Column("at_ms", "i8"),
    Column("off_since_ms", "i8"),
    Column("well", "i4"),
    Column("new_level", "f8"),
    Column("new_variance", "f8"),
    Column("new_steady", "f8"),
    Column("new_samples", "i4"),
)


@dataclass(frozen=True, slots=True)
class Terms:
    """How a baseline learns. ``season_weeks_min`` 0: without a season."""

    half_life_ms: int
    warm_up_windows: int
    relearn_after_ms: int
    well_windows: int = 3
    season_weeks_min: int = 0


@dataclass(frozen=True, slots=True)
class Weight:
    """Of the newest window, per row: in mean and variance, and in the steady variance."""

    mean: Floats
    steady: Floats

    def some(self, rows: Mask) -> Weight:
        """Of these rows."""
        return Weight(self.mean[rows], self.steady[rows])


@dataclass(frozen=True, slots=True)
class Expected:
    """On the scale of the baseline, per row: ``level``, ``sigma``; ``warm`` where there is enough history."""

    level: Floats
    sigma: Floats
    warm: Mask


@dataclass(frozen=True, slots=True)
class Seen:
    """A window of some series: ``slots``, their values on the scale (all finite), and what was thought of them.

    ``limit`` is how far from the expected level a value may lie and still train as it is.
    """

    slots: Whole
    values: Floats
    beyond: Mask
    within: Mask
    firing: Mask
    expected: Expected
    limit: Floats
    window_ms: int
    length_ms: int


class Baseline(Slotted):
    """Arrays of all series of a rule. 80 bytes per series, with a season 150 and 336 in its pool."""

    def __init__(self, terms: Terms, scale: Scale, more: tuple[Column, ...] = ()) -> None:
        super().__init__((*COLUMNS, *(season.COLUMNS if terms.season_weeks_min else ()), *more))
        self.terms, self.scale = terms, scale
        self.pool = Pool()

    def expected(self, slots: Whole, values: Floats, window_ms: int) -> Expected:
        """What was to be expected of these series in this window, before it trains anything."""
        state = self.state
        level = state["level"][slots]
        sigma = self._sigma("", slots, level)
        warm = state["samples"][slots] >= self.terms.warm_up_windows
        if not self.terms.season_weeks_min:
            return Expected(level, sigma, warm)
        seasonal = self._seasonal(slots, values, window_ms)
        seasonal_sigma = self._sigma("season_", slots, seasonal)
        known = (state["season_samples"][slots] >= self.terms.warm_up_windows) & ~np.isnan(seasonal)
        nearer = known & (_away(values, seasonal, seasonal_sigma) < _away(values, level, sigma))
        return Expected(np.where(nearer, seasonal, level), np.where(nearer, seasonal_sigma, sigma), warm)

    def learn(self, seen: Seen) -> Mask:
        """Trains what may train; returns where a new level was accepted."""
        fit = ~seen.beyond & ~seen.firing
        self._train(seen, fit)
        if self.terms.season_weeks_min:
            self._train_season(seen, fit)
            self._run_hour(seen.slots, seen.values, seen.window_ms // HOUR_MS)
        self._follow(seen)
        return self._accept(seen)

    def forget(self, slots: Whole) -> None:
        """Empty these slots; their places in the season become free."""
        if self.terms.season_weeks_min:
            rows = self.state["season_row"][slots]
            self.pool.clear(rows[rows != NO_ROW])
        super().forget(slots)

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """The whole state, the season's rows up to the last in use."""
        if not self.terms.season_weeks_min:
            return super().dump()
        used = int(self.state["season_row"].max(initial=NO_ROW)) + 1
        kept = super().dump()
        kept["season_places"] = self.pool.places[:used].copy()
        return kept

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over a dump. Raises ``KeyError`` when a column is missing."""
        super().load(arrays)
        if self.terms.season_weeks_min:
            self.pool.places = np.array(arrays["season_places"], np.int16)

    def _sigma(self, prefix: str, slots: Whole, level: Floats) -> Floats:
        """Deviation around a level, wider while it is known from few windows."""
        variance, steady, samples = (self.state[prefix + name][slots] for name in ("variance", "steady", "samples"))
        unsure = 1.0 + UNSURE_WINDOWS / np.maximum(samples, 1)
        return self.scale.sigma(level, np.maximum(variance, steady) * unsure * unsure)

    def _seasonal(self, slots: Whole, values: Floats, window_ms: int) -> Floats:
        """Level that the season expects, NaN without one: of its band, what explains the value best."""
        out = np.full(len(slots), np.nan)
        old = window_ms // HOUR_MS - self.state["season_from"][slots] >= self.terms.season_weeks_min * HOURS
        has = np.flatnonzero(old & (self.state["season_row"][slots] != NO_ROW))
        if len(has):
            low, high = self.pool.band(self._rows(slots[has]), window_ms, self.terms.season_weeks_min)
            left_over = self.state["season_level"][slots[has]]
            started = self.state["season_samples"][slots[has]] > 0
            best = np.clip(values[has] - left_over, low, high)
            out[has] = np.where(started, best + left_over, (low + high) / 2)
        return out

    def _weight(self, slots: Whole, samples: npt.NDArray[np.int32], seen: Seen) -> Weight:
        half_life_ms = self.terms.half_life_ms
        gap = np.minimum(seen.window_ms + seen.length_ms - self.state["at_ms"][slots], half_life_ms * GAP_SHARE)
        passed = np.maximum(gap, seen.length_ms) / half_life_ms
        first = 1.0 / (samples + 1.0)
        mean = np.maximum(1.0 - np.exp2(-passed), first)
        return Weight(mean, np.maximum(1.0 - np.exp2(-passed / STEADIER), first))

    def _train(self, seen: Seen, fit: Mask) -> None:
        slots, state = seen.slots[fit], self.state
        expected, limit = seen.expected.level[fit], seen.limit[fit]
        near = np.clip(seen.values[fit], expected - limit, expected + limit)
        values = np.where(seen.expected.warm[fit], near, seen.values[fit])
        weight = self._weight(slots, state["samples"][slots], seen)
        _move(state, "", slots, values, weight)
        state["at_ms"][slots] = seen.window_ms + seen.length_ms

    def _train_season(self, seen: Seen, fit: Mask) -> None:
        slots, values, state = seen.slots[fit], seen.values[fit], self.state
        seasonal = self._seasonal(slots, values, seen.window_ms)
        known = ~np.isnan(seasonal)
        warm = known & (state["season_samples"][slots] >= self.terms.warm_up_windows)
        limit = np.where(warm, seen.limit[fit], np.inf)
        left_over = np.clip(values - seasonal, -limit, limit) + state["season_level"][slots]
        weight = self._weight(slots, state["season_samples"][slots], seen)
        _move(state, "season_", slots[known], left_over[known], weight.some(known))

    def _run_hour(self, slots: Whole, values: Floats, hour: int) -> None:
        state = self.state
        over = slots[(state["hour"][slots] != hour) & (state["hour_samples"][slots] > 0)]
        if len(over):
            self._give_rows(over[state["season_row"][over] == NO_ROW])
            means = state["hour_sum"][over] / state["hour_samples"][over]
            self.pool.enter(self._rows(over), state["hour"][over], means)
            state["hour_sum"][over] = 0
            state["hour_samples"][over] = 0
        state["hour"][slots] = hour
        state["hour_sum"][slots] += values
        state["hour_samples"][slots] += 1

    def _give_rows(self, slots: Whole) -> None:
        state = self.state
        rows = state["season_row"]
        rows[slots] = self.pool.take(len(slots), rows[rows != NO_ROW].astype(np.int64))
        middle = state["hour_sum"][slots] / state["hour_samples"][slots]
        size = self.scale.size(middle, self.scale.sigma(middle, state["variance"][slots]))
        state["season_from"][slots] = state["hour"][slots]
        state["season_ref"][slots] = middle
        state["season_step"][slots] = size / STEPS

    def _rows(self, slots: Whole) -> Rows:
        state = self.state
        numbers, began = (state[name][slots].astype(np.int64) for name in ("season_row", "season_from"))
        return Rows(numbers, began, state["season_ref"][slots], state["season_step"][slots])

    def _follow(self, seen: Seen) -> None:
        """Where a series is off, learn what it is like now; where it has been well long enough, it is off no more."""
        slots, state = seen.slots, self.state
        state["well"][slots] = np.where(seen.within, state["well"][slots] + 1, 0)
        back = slots[state["well"][slots] >= self.terms.well_windows]
        state["off_since_ms"][back] = 0
        state["new_samples"][back] = 0
        starts = slots[seen.beyond & (state["off_since_ms"][slots] == 0)]
        state["off_since_ms"][starts] = seen.window_ms
        state["new_samples"][starts] = 0
        off = ~seen.within & (state["off_since_ms"][slots] > 0)
        weight = self._weight(slots[off], state["new_samples"][slots[off]], seen)
        _move(state, "new_", slots[off], seen.values[off], weight)

    def _accept(self, seen: Seen) -> Mask:
        """Half of the time must have been seen: silence proves no new level."""
        slots, state, after_ms = seen.slots, self.state, self.terms.relearn_after_ms
        since, samples = state["off_since_ms"][slots], state["new_samples"][slots].astype(np.int64)
        lasted = seen.window_ms + seen.length_ms - since >= after_ms
        accepted: Mask = (since > 0) & lasted & (2 * samples * seen.length_ms >= after_ms)
        chosen = slots[accepted]
        if len(chosen):
            self._take_new(chosen)
        return accepted

    def _take_new(self, slots: Whole) -> None:
        state = self.state
        if self.terms.season_weeks_min:
            state["season_level"][slots] += state["new_level"][slots] - state["level"][slots]
        for name in ("level", "variance", "steady"):
            state[name][slots] = state[f"new_{name}"][slots]
        for name in ("off_since_ms", "well", "new_level", "new_variance", "new_steady", "new_samples"):
            state[name][slots] = 0


def _away(values: Floats, level: Floats, sigma: Floats) -> Floats:
    """Distance in deviations; without any, every distance is far."""
    return np.abs(values - level) / np.maximum(sigma, _TINY)


def _move(state: dict[str, npt.NDArray[Any]], prefix: str, slots: Whole, values: Floats, weight: Weight) -> None:
    """Move mean and variance by one window. Without a sample before, the value is the mean and the variance 0."""
    level, variance, steady = (state[prefix + name] for name in ("level", "variance", "steady"))
    first = state[f"{prefix}samples"][slots] == 0
    old = np.where(first, values, level[slots])
    away = values - old
    level[slots] = old + weight.mean * away
    surprise = (1.0 - weight.mean) * away * away
    variance[slots] = np.where(first, 0.0, (1.0 - weight.mean) * variance[slots] + weight.mean * surprise)
    steady[slots] = np.where(first, 0.0, (1.0 - weight.steady) * steady[slots] + weight.steady * surprise)
    state[f"{prefix}samples"][slots] += 1
