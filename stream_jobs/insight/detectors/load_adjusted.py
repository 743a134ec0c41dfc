"""Out of the ordinary *for this much load*: a busier engine is slower and that is no fault.

Options: ``direction`` above, ``enter_sigmas`` 4, ``leave_sigmas`` 2, ``min_relative`` 0.15, ``floor_relative`` 0.05,
``floor_absolute`` 0, ``half_life_s`` 3600, ``warm_up_windows`` 30, ``log`` true, ``relearn_after_s`` 7200.

Load is cut into 16 half octaves around the first one seen. Each keeps the exponentially weighted mean and variance of
load, the mean of value and of the squared surprise; the curve runs straight from one to the next. So it may bend, as
latency does, and a load that is rare (the night) is not forgotten while it is away.

Expected is the point of the curve at this load. A half octave that was seen in fewer than 24 windows has no curve yet:
the value is then compared with the next higher one that is known (more load, more latency) for ``above``, the next
lower one for ``below``, and where there is none it is learned and not judged. A surge beyond what
was ever seen never alarms. Loads above all half octaves are learned as if they lay in the highest and never judged by
it: where they are more usual than the lowest, the half octaves move up to them (a first load of almost nothing says
little of those that follow). To loads below all half octaves they move down once those are usual, where none that
leaves is known: a first load may have been a surge. Inside the busiest half octave known the value may rise with load
as steeply as its own spread over the loads seen there allows, and with the eighth power beyond those, as it does near
capacity.

Nothing is learned while a series fires, nor from a window that is beyond; what lies outside the leaving level is
learned as if it lay on it. What stays beyond for ``relearn_after_s``, and was seen so for half of that, is taken as the
new normal: everything about the series is learned again.

With ``log`` a value of 0 has no place of its own: for ``below`` and ``both`` it is taken as ``floor_absolute`` or
``LEAST``, judged and never learned, nor accepted as normal; for ``above`` it is unknown.

Take a load that the fault does not change: with requests *running*, a slower engine has more of them (Little's law) and
part of the fault explains itself; with the *rate* of requests it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_jobs.insight.baseline import LEAST, Scale
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import Column, Slotted
from stream_jobs.rules.model import Rule

BINS = 16
PER_OCTAVE = 2
_FIRST_AT, _MOVED_AT = 5, 10
"""Half octave of the first load of a series, and of those to which its half octaves move down; and up."""
NOTES = ("", "more than this load explains", "less than this load explains")
_KNOWN = 24.0
_SLOPE_MAX = 8.0
"""Near capacity latency rises with a high power of load."""
_REACH = 2.0
"""Loads were seen up to so many of their standard deviations from their mean."""
_HALF = float(np.sqrt(2.0))
"""Half of the windows of a half octave, those above its mean, show a slope that begins there."""
_PRIOR = 10.0
"""A half octave's own spread counts like so many windows of the series' spread."""
_UNPLACED = -32_768
_CURVE = ("n", "x", "xx", "y", "yy")
"""Columns with a number per half octave."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """Per row, on the scale that is judged: what load explains at least and at most (infinite where it is unknown), the
    likeliest (NaN where its half octave is not known) and the standard deviation."""

    low: Floats
    high: Floats
    middle: Floats
    sigma: Floats


class LoadAdjusted(Slotted, Detector):
    """The curve of a value over the logarithm of load, per series."""

    STATE_OPTIONS = ("half_life_s", "log")
    STATE_VERSION = 1
    STATE_NAME = "given"
    LEARNS = True

    def __init__(self, rule: Rule) -> None:
        columns = (
            Column("first", "i2", _UNPLACED),
            Column("n", "f4", 0, (BINS,)),
            Column("x", "f4", 0, (BINS,)),
            Column("xx", "f4", 0, (BINS,)),
            Column("y", "f8", 0, (BINS,)),
            Column("yy", "f8", 0, (BINS,)),
            Column("spread", "f8", np.nan),
            Column("seen", "i4"),
            Column("beyond_ms", "i8", -1),
            Column("off", "i4"),
        )
        super().__init__(columns)
        options = rule.options
        self._name = rule.value.name
        self._direction = str(options["direction"])
        self._enter, self._leave = float(options["enter_sigmas"]), float(options["leave_sigmas"])
        self._relative = float(options["min_relative"])
        self._log, floor_absolute = bool(options["log"]), float(options["floor_absolute"])
        self._scale = Scale(self._log, float(options["floor_relative"]), floor_absolute)
        self._warm_up = int(options["warm_up_windows"])
        self._zero = max(floor_absolute, LEAST) if self._log and self._direction != "above" else np.nan
        self._relearn_ms = rule.relearn_after_ms
        self._step = 1.0 - 0.5 ** (rule.window_ms / 1_000 / float(options["half_life_s"]))

    def dump(self) -> dict[str, npt.NDArray[np.generic]]:
        """The whole state; ``off`` only while a series is: releases that do not keep it read the rest."""
        found = super().dump()
        return found if found["off"].any() else {name: array for name, array in found.items() if name != "off"}

    def load(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over a dump, also one without ``off``."""
        super().load({"off": np.zeros(len(arrays["beyond_ms"]), np.int32), **arrays})

    def detect(self, frame: Frame) -> Detection:
        """Judges, then learns."""
        value = frame.values[self._name]
        count = len(frame.slots)
        low, high, middle = np.full(count, np.nan), np.full(count, np.nan), np.full(count, np.nan)
        beyond, within = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        note = np.zeros(count, np.int16)
        y, x = self._scaled(value), _log_load(frame.values["load"])
        known = np.isfinite(y) & ~np.isnan(x)
        rows, value = np.flatnonzero(known), np.where(known, value, np.nan)
        if not len(rows):
            return Detection(frame.slots, beyond, within, value, middle, low, high, note, NOTES)
        slots, y, x = frame.slots[rows], y[rows], x[rows]
        some = (value[rows] != 0) | (not self._log)
        bins, x = self._place(slots, x)
        expected = self._expect(slots, bins, x)
        warm = self.state["seen"][slots] >= self._warm_up
        enter_low, enter_high = self._bounds(expected, self._enter, self._relative)
        leave_low, leave_high = self._bounds(expected, self._leave, self._relative / 2)
        above, below = (y > enter_high) & (self._direction != "below"), (y < enter_low) & (self._direction != "above")
        beyond[rows] = (above | below) & warm
        calm = ((y <= leave_high) | (self._direction == "below")) & ((y >= leave_low) | (self._direction == "above"))
        within[rows] = calm & ~beyond[rows]
        note[rows] = np.where(beyond[rows], np.where(above, 1, 2), 0)
        low[rows], high[rows] = self._plain(enter_low, warm), self._plain(enter_high, warm)
        middle[rows] = self._plain(expected.middle, warm & np.isfinite(expected.middle))
        self._accept(frame, slots[some], beyond[rows][some], within[rows][some])
        free = ~beyond[rows] & ~frame.firing[rows] & some
        limit = self._leave * self._floored(expected.sigma, expected.middle)
        self._learn(slots[free], bins[free], x[free], y[free], limit[free])
        self._move(slots[free & (bins == BINS - 1)], BINS - 1, _MOVED_AT)
        self._move(slots[free & (bins == 0)], 0, _FIRST_AT)
        return Detection(frame.slots, beyond, within, value, middle, low, high, note, NOTES)

    def _scaled(self, value: Floats) -> Floats:
        value = np.where(value == 0, self._zero, value) if self._log else value
        known = np.isfinite(value) & ((value > 0) | (not self._log)) & (np.abs(value) < 1e100)
        return np.where(known, np.log(np.where(known, value, 1.0)) if self._log else value, np.nan)

    def _plain(self, bound: Floats, known: Mask) -> Floats:
        """Back on the value's scale; NaN where there is no such bound."""
        finite = known & np.isfinite(bound)
        plain = np.where(finite, bound, 0.0)
        return np.where(finite, np.exp(np.minimum(plain, 700.0)) if self._log else plain, np.nan)

    def _place(self, slots: Whole, x: Floats) -> tuple[Whole, Floats]:
        """Half octave of each load, 0 to 15, and the load; the first load of a series gets the fifth: traffic grows
        more often than it shrinks. No load at all is the lowest half octave, wherever that is."""
        some = np.isfinite(x)
        octave = np.floor(np.where(some, x, 0.0) * PER_OCTAVE).astype(np.int64)
        first = self.state["first"]
        fresh = some & (first[slots] == _UNPLACED)
        first[slots[fresh]] = octave[fresh] - _FIRST_AT
        self.state["x"][slots[fresh], 0] = first[slots[fresh]] / PER_OCTAVE  # what was seen before was no load at all
        lowest = np.where(first[slots] == _UNPLACED, 0, first[slots]).astype(np.int64)
        bins = np.where(some, np.clip(octave - lowest, 0, BINS - 1), 0)
        return bins, np.where(some, x, lowest / PER_OCTAVE)

    def _expect(self, slots: Whole, bins: Whole, x: Floats) -> _Expected:
        state = self.state
        n = state["n"][slots]
        known = n >= _KNOWN
        above_all = (bins == BINS - 1) & (x * PER_OCTAVE >= state["first"][slots].astype(np.int64) + BINS)
        own = known[np.arange(len(slots)), bins] & ~above_all
        middle, moved = self._at(slots, bins, known, x)
        y, sigma = state["y"][slots, bins], self._sigma(slots, bins)
        (up, is_up), (down, is_down) = self._chord(slots, bins, known, 1), self._chord(slots, bins, known, -1)
        beyond = self._most(slots, bins, sigma, np.abs(moved))
        high = np.where(moved > 0, y + np.where(is_up, np.maximum(up, 0.0) * moved, beyond), middle)
        low = np.where(moved < 0, y - np.where(is_down, np.maximum(down, 0.0) * -moved, beyond), middle)
        high = np.where(own, high, self._bound(slots, bins, known, 1))
        low = np.where(own, low, self._bound(slots, bins, known, -1))
        return _Expected(low, high, np.where(own, middle, np.nan), sigma)

    def _sigma(self, slots: Whole, bins: Whole) -> Floats:
        """Standard deviation in a half octave, by that of the series while little is known of its own."""
        state = self.state
        weight = np.minimum(state["n"][slots, bins], 1_000).astype(np.float64)
        prior, spread = np.nan_to_num(state["spread"][slots]), state["yy"][slots, bins]
        sigma: Floats = np.sqrt((_PRIOR * prior + weight * spread) / (_PRIOR + weight))
        return sigma

    def _most(self, slots: Whole, bins: Whole, sigma: Floats, moved: Floats) -> Floats:
        """By how much load may change the value over so many octaves where no further half octave is known: within the
        loads seen no steeper than the spread of the values allows (Cauchy and Schwarz), beyond them with the eighth
        power."""
        state = self.state
        most = _SLOPE_MAX * np.log(2) * (1.0 if self._log else np.abs(state["y"][slots, bins]))
        width = np.sqrt(state["xx"][slots, bins].astype(np.float64))
        slope = np.minimum(_HALF * sigma / np.maximum(width, 1e-6), most)
        seen = np.minimum(moved, _REACH * width)
        return slope * seen + most * (moved - seen)

    def _at(self, slots: Whole, bins: Whole, known: npt.NDArray[np.bool_], x: Floats) -> tuple[Floats, Floats]:
        """Mean of a half octave moved along the curve to ``x``, and by how many octaves: at most its width."""
        moved = np.clip(x - self.state["x"][slots, bins], -1 / PER_OCTAVE, 1 / PER_OCTAVE)
        up, down = self._chord(slots, bins, known, 1)[0], self._chord(slots, bins, known, -1)[0]
        return self.state["y"][slots, bins] + np.where(moved > 0, up, down) * moved, moved

    def _bound(self, slots: Whole, bins: Whole, known: npt.NDArray[np.bool_], side: int) -> Floats:
        """Value of the next known half octave on a side; infinite on that side where there is none."""
        at, found = _next(bins, known, side)
        return np.where(found, self.state["y"][slots, at], side * np.inf)

    def _chord(self, slots: Whole, bins: Whole, known: npt.NDArray[np.bool_], side: int) -> tuple[Floats, Mask]:
        """Slope per octave towards the next known half octave on a side, 0 without one; and whether there is one."""
        at, found = _next(bins, known, side)
        y, x = self.state["y"], self.state["x"]
        away = np.maximum(np.abs(x[slots, at] - x[slots, bins]), 0.5 / PER_OCTAVE)
        return np.where(found, side * (y[slots, at] - y[slots, bins]) / away, 0.0), found

    def _bounds(self, expected: _Expected, sigmas: float, relative: float) -> tuple[Floats, Floats]:
        bounds = []
        for sign, level in ((-1, expected.low), (1, expected.high)):
            known = np.where(np.isfinite(level), level, 0.0)
            sigma = np.maximum(expected.sigma, self._scale.floor(known))
            least = np.log1p(relative) if self._log else relative * np.abs(known)
            bounds.append(level + sign * np.maximum(sigmas * sigma, least))
        return bounds[0], bounds[1]

    def _floored(self, sigma: Floats, level: Floats) -> Floats:
        """The deviation, at least as great as the floors; NaN where the level is not known."""
        return np.where(np.isnan(level), np.nan, np.maximum(sigma, self._scale.floor(level)))

    def _learn(self, slots: Whole, bins: Whole, x: Floats, y: Floats, limit: Floats) -> None:
        """What is further away than ``limit`` (NaN: none) counts as being there: else a slow drift would make itself
        the usual spread, and never be found."""
        state = self.state
        state["seen"][slots] += 1
        n = state["n"][slots, bins].astype(np.float64)
        fresh = n == 0
        surprise = np.where(fresh, 0.0, y - self._at(slots, bins, state["n"][slots] >= _KNOWN, x)[0])
        held = np.where(np.isnan(limit), surprise, np.clip(surprise, -limit, limit))
        y, surprise = y - (surprise - held), held
        # While little is known each window counts alike, later the newer ones count more.
        step = np.maximum(1.0 / (n + 1), self._step)
        state["n"][slots, bins] = np.minimum(n + 1, max(1.0 / self._step, _KNOWN))
        aside = x - state["x"][slots, bins]
        state["xx"][slots, bins] = np.where(fresh, 0.0, (1 - step) * (state["xx"][slots, bins] + step * aside**2))
        state["x"][slots, bins] += step * aside
        state["y"][slots, bins] += step * (y - state["y"][slots, bins])
        square = np.where(fresh, 0.0, surprise**2)
        state["yy"][slots, bins] += step * (square - state["yy"][slots, bins])
        spread = state["spread"][slots]
        wide = np.maximum(1.0 / np.maximum(state["seen"][slots] - 1, 1), self._step)
        learned = np.where(np.isnan(spread), square, spread + wide * (square - spread))
        state["spread"][slots] = np.where(fresh, spread, learned)

    def _move(self, slots: Whole, end: int, to: int) -> None:
        """Places the half octaves anew where the loads of the one at this ``end`` lie beyond it on average: into number
        ``to``. Up: where they were seen as often as those of any that leaves; down: where none that leaves is known.
        What the others know goes with them; the one at the end held a mixture."""
        state = self.state
        first, n = state["first"][slots].astype(np.int64), state["n"][slots]
        octave = np.floor(state["x"][slots, end] * PER_OCTAVE).astype(np.int64)
        source = np.arange(BINS) + (octave - first - to)[:, None]
        up, down = octave >= first + BINS, (octave < first) & (first != _UNPLACED)
        leaves = (np.arange(BINS) < source[:, :1]) | (np.arange(BINS) > np.maximum(source[:, -1:], end))
        leaving = np.where(leaves, n, 0).max(axis=1)
        usual = n[:, end] >= np.maximum(leaving, _KNOWN) if end else (n[:, end] >= _KNOWN) & (leaving < _KNOWN)
        moves = (up if end else down) & usual
        slots, source = slots[moves], source[moves]
        state["first"][slots] = octave[moves] - to
        stays = (source >= 0) & (source < BINS) & (source != end)
        for name in _CURVE:
            moved = np.take_along_axis(state[name][slots], np.where(stays, source, 0), axis=1)
            state[name][slots] = np.where(stays, moved, 0)

    def _accept(self, frame: Frame, slots: Whole, beyond: Mask, within: Mask) -> None:
        """Forgets what stays beyond for too long: what follows is learned as the new normal. Half of the time must have
        been seen: silence proves none."""
        since, off = self.state["beyond_ms"], self.state["off"]
        since[slots[within]], off[slots[within]] = -1, 0
        begins = slots[beyond & (since[slots] < 0)]
        since[begins] = frame.window_ms
        away = slots[since[slots] >= 0]
        off[away] += 1
        lasted = frame.window_ms - since[away] >= self._relearn_ms
        self.forget(away[lasted & (2 * off[away].astype(np.int64) * frame.length_ms >= self._relearn_ms)])


def _next(bins: Whole, known: npt.NDArray[np.bool_], side: int) -> tuple[Whole, Mask]:
    """The nearest known column above (side 1) or below (-1) each row's own, and whether there is one."""
    columns = np.arange(BINS)
    if side > 0:
        at = np.where(known & (columns > bins[:, None]), columns, BINS).min(axis=1)
    else:
        at = np.where(known & (columns < bins[:, None]), columns, -1).max(axis=1)
    return np.clip(at, 0, BINS - 1), (at >= 0) & (at < BINS)


def _log_load(load: Floats) -> Floats:
    """In octaves; -inf where there is no load, NaN where it is unknown."""
    some = np.isfinite(load) & (load > 0)
    none = np.where(load == 0, -np.inf, np.nan)
    return np.where(some, np.log2(np.where(some, load, 1.0)), none)
