"""When a collector reads next, and how long it pauses after a failure. Pure: the time is an argument.

Readings lie on the grid of the wall clock (every second on the second), so that samples of all hosts can be laid side
by side. A collector whose readings cost more than 2 % of their time reads half as often, and again, up to a limit; it
comes back by one step after ten readings in a row that would cost at most 1 % of the shorter interval. Between the two
bounds nothing changes: a cost that wavers does not make the interval waver. Costs are judged over ten seconds of
readings, since some of what a GPU is asked for is read once in so long, by one reading for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from runtime.backoff import Backoff

RESTART = Backoff(2.0, 60.0)
"""A collector that failed: soon the first time, at most once a minute when it goes on failing."""
HEALTHY_READINGS = 10
"""Readings in a row after which earlier failures are forgiven."""


def next_tick_ms(now_ms: int, period_ms: int = 1_000) -> int:
    """The next moment on the grid, above ``now_ms``: a late reading skips ticks, it is never made up for."""
    return (now_ms // period_ms + 1) * period_ms


STRETCH_MS = 10_000
"""Readings of so long are judged together; at once where they cost more than all of it may."""


@dataclass(frozen=True, slots=True)
class PaceRule:
    """``share_max_ppm`` of the time may be spent on readings; half of it lets the interval shrink again."""

    share_max_ppm: int = 20_000
    calm_readings: int = 10
    interval_ms_max: int = 60_000


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval now: the wanted period, doubled ``doublings`` times; ``calm`` cheap readings in a row so far;
    ``readings`` not yet judged, and what they cost.
    """

    period_ms: int
    doublings: int = 0
    calm: int = 0
    readings: int = 0
    spent_us: int = 0

    @property
    def interval_ms(self) -> int:
        """Milliseconds from reading to reading."""
        return self.period_ms << self.doublings


def paced(rule: PaceRule, pace: Pace, cost_us: int) -> Pace:
    """The pace after a reading that took ``cost_us`` of processor time."""
    readings, spent_us = pace.readings + 1, pace.spent_us + cost_us
    bearable_us = rule.share_max_ppm * STRETCH_MS // 1_000
    if readings * pace.interval_ms < STRETCH_MS and spent_us <= bearable_us:
        return replace(pace, readings=readings, spent_us=spent_us)
    return _judged(rule, Pace(pace.period_ms, pace.doublings, pace.calm), readings, spent_us / readings)


def _judged(rule: PaceRule, pace: Pace, readings: int, mean_us: float) -> Pace:
    """After a stretch of so many readings."""
    if _dear(rule, pace, mean_us):
        return _lengthened(rule, pace, mean_us)
    if not pace.doublings:
        return replace(pace, calm=0)
    shorter_us = pace.interval_ms * 1_000 // 2
    if mean_us * 1_000_000 * 2 > rule.share_max_ppm * shorter_us:
        return replace(pace, calm=0)
    if pace.calm + readings < rule.calm_readings:
        return replace(pace, calm=pace.calm + readings)
    return Pace(pace.period_ms, pace.doublings - 1)


def _dear(rule: PaceRule, pace: Pace, mean_us: float) -> bool:
    return mean_us * 1_000_000 > rule.share_max_ppm * pace.interval_ms * 1_000


def _lengthened(rule: PaceRule, pace: Pace, mean_us: float) -> Pace:
    """The shortest interval that bears the cost, or the longest allowed."""
    longer = replace(pace, calm=0)
    while _dear(rule, longer, mean_us) and longer.interval_ms * 2 <= rule.interval_ms_max:
        longer = replace(longer, doublings=longer.doublings + 1)
    return longer
