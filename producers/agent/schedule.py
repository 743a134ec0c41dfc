"""When a collector reads next, and how long it pauses after a failure. Pure: the time is an argument.

Readings lie on the grid of the wall clock (every second on the second), so that samples of all hosts can be laid side
by side. A collector whose reading costs more than 2 % of its interval reads half as often, and again, up to a limit;
it comes back by one step after ten readings in a row that would cost at most 1 % of the shorter interval. Between the
two bounds nothing changes: a cost that wavers does not make the interval waver.
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


@dataclass(frozen=True, slots=True)
class PaceRule:
    """``share_max_ppm`` of the interval may be spent on a reading; half of it lets the interval shrink again."""

    share_max_ppm: int = 20_000
    calm_readings: int = 10
    interval_ms_max: int = 60_000


@dataclass(frozen=True, slots=True)
class Pace:
    """The interval now: the wanted period, doubled ``doublings`` times; ``calm`` cheap readings in a row so far."""

    period_ms: int
    doublings: int = 0
    calm: int = 0

    @property
    def interval_ms(self) -> int:
        """Milliseconds from reading to reading."""
        return self.period_ms << self.doublings


def paced(rule: PaceRule, pace: Pace, cost_us: int) -> Pace:
    """The pace after a reading that took ``cost_us`` of processor time."""
    if _dear(rule, pace, cost_us):
        return _lengthened(rule, pace, cost_us)
    if not pace.doublings:
        return pace if not pace.calm else replace(pace, calm=0)
    shorter_us = pace.interval_ms * 1_000 // 2
    if cost_us * 1_000_000 * 2 > rule.share_max_ppm * shorter_us:
        return replace(pace, calm=0)
    if pace.calm + 1 < rule.calm_readings:
        return replace(pace, calm=pace.calm + 1)
    return Pace(pace.period_ms, pace.doublings - 1)


def _dear(rule: PaceRule, pace: Pace, cost_us: int) -> bool:
    return cost_us * 1_000_000 > rule.share_max_ppm * pace.interval_ms * 1_000


def _lengthened(rule: PaceRule, pace: Pace, cost_us: int) -> Pace:
    """The shortest interval that bears the cost, or the longest allowed."""
    longer = replace(pace, calm=0)
    while _dear(rule, longer, cost_us) and longer.interval_ms * 2 <= rule.interval_ms_max:
        longer = replace(longer, doublings=longer.doublings + 1)
    return longer
