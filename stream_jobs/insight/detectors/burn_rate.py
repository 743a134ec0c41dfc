"""Error budget used up too fast, over a long and a short range at once (Google SRE Workbook, chapter 5).

Options: ``objective`` 0.999, ``pairs`` ((3600, 300, 14.4), (21600, 1800, 6), (259200, 21600, 1)) as (long s, short s,
rate), ``min_events`` 50. The measure is a share of bad events; its count turns it into bad and total.

A pair fires when bad / total / (1 - objective) reaches its rate over both ranges, the short range has ``min_events``,
and so many bad ones in the long range would come by chance less than once in a million from a service that exactly
meets its objective (Chernoff's bound for Poisson), and so many in the short one less than once in a thousand: a single
error among fifty requests pages nobody, and neither does one hours after a fault that the long range still holds.

**Ranges that are not full yet**: what is not known counts as good, at the traffic seen so far (total is scaled by
range / age). A pair thus fires when its part of the budget is really gone, as it would with full history: everything
failing at 99.9 % pages after 52 s, an error in the first minute does not.

**It ends** when the short range burns slower than the rate, or earlier: when a recent part of it burns slower too, and
has so few bad ones that the pace of the short range cannot have gone on (once in a thousand by chance; without any
request: against the traffic before). Recent is the short range of the next faster pair; of the fastest it is the two
newest of the five buckets of its own, where those are five minutes. Ten minutes of failing would else fire for half an
hour, or for six. Where a pair that fired ends so, its bad ones of before count for nothing more: half a day later a
second incident, or an error in a thousand, would else make an alert of the first. What goes on burning counts again.

Each pair has its own ring whose buckets are a fifth of the short range: 60 for a ratio of twelve, three rings of 480
bytes. Ranges end with the bucket that is being filled, so they are up to one bucket shorter than they say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_jobs.insight.durations import WORDS, exact, nearest
from stream_jobs.insight.frame import Detection, Detector, Floats, Frame, Mask, Whole
from stream_jobs.insight.slotted import NEVER, Column, Slotted, in_order, passed
from stream_jobs.rules.model import Rule

BUCKETS_PER_SHORT = 5
RECENT_MS = 300_000
"""The least that shows that something is over."""
BUDGET_S = 30 * 86_400.0
"""Length of time that an error budget is for."""
_FIRES_FIRST = 1e12
"""Of several pairs the one that fires is shown, then the one with the highest burn for its rate."""
_CHANCE = 13.8
"""-ln of one in a million."""
_GONE = "error budget of 30 days gone in"
_STOPPED = 6.9
"""-ln of one in a thousand."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Ranges in buckets and ms; ``name`` of its ring."""

    name: str
    long_s: float
    short_s: float
    rate: float
    bucket_ms: int
    points: int


@dataclass(frozen=True, slots=True)
class Burn:
    """Per series, of one pair: times the budget over both ranges, share of bad over the long one, and counts."""

    long: Floats
    short: Floats
    share: Floats
    bad: Floats
    total: Floats
    bad_short: Floats
    total_short: Floats
    per_s: Floats
    """Traffic in the short range."""


@dataclass(frozen=True, slots=True)
class Recent:
    """Per series, of the newest ``range_s``: bad ones and all; infinitely many bad where it is not looked at."""

    bad: Floats
    total: Floats
    range_s: float


class BurnRate(Slotted, Detector):
    """Judges every series it has ever seen: silence lets the short range run empty and ends an alert."""

    STATE_OPTIONS = ("pairs",)

    def __init__(self, rule: Rule) -> None:
        pairs = sorted(rule.options["pairs"], key=lambda one: (one[1], one[0]))
        self._pairs = tuple(_pair(number, *map(float, one)) for number, one in enumerate(pairs))
        self._notes = ("", *(f"{_words(pair)}: {_GONE} {words}" for pair in self._pairs for words in WORDS))
        columns = [Column("first_ms", "i8", NEVER)]
        for pair in self._pairs:
            columns += [Column(f"{pair.name}_bad", "f4", 0, (pair.points,))]
            columns += [Column(f"{pair.name}_total", "f4", 0, (pair.points,))]
            columns += [Column(f"{pair.name}_sums", "f8", 0, (4,))]
        super().__init__(tuple(columns), {pair.name: NEVER for pair in self._pairs})
        self._name = rule.value.name
        self._budget = 1.0 - float(rule.options["objective"])
        self._events = float(rule.options["min_events"])

    def detect(self, frame: Frame) -> Detection:
        """Counts the window, then judges all series with history."""
        self._count(frame)
        slots = np.flatnonzero(self.state["first_ms"] != NEVER)
        burns = [self._burn(pair, slots, frame.end_ms) for pair in self._pairs]
        count = len(slots)
        beyond, within = np.zeros(count, np.bool_), np.ones(count, np.bool_)
        value, worst = np.full(count, np.nan), np.full(count, -np.inf)
        note = np.zeros(count, np.int16)
        for number, (pair, burn) in enumerate(zip(self._pairs, burns, strict=True)):
            burns_on, real = burn.short >= pair.rate, self._fires(pair, burn)
            recent = self._recent(number, slots, burns)
            goes_on = burns_on & ~self._stopped(pair, burn, recent)
            fires = goes_on & real
            over = np.flatnonzero(burns_on & real & ~goes_on)
            self._settle(pair, slots[over], recent.bad[over])
            within &= ~goes_on
            rank = burn.long / pair.rate + np.where(fires, _FIRES_FIRST, 0.0)
            worse = rank > worst
            value, worst = np.where(worse, burn.share, value), np.maximum(worst, rank)
            code = 1 + number * len(WORDS) + nearest(self._gone_in_s(pair, burn))
            note = np.where(worse & fires, code, note).astype(np.int16)
            beyond |= fires
        level, unknown = np.full(count, self._budget), np.full(count, np.nan)
        return Detection(slots, beyond, within & ~beyond, value, level, unknown, level, note, self._notes)

    def _count(self, frame: Frame) -> None:
        share = frame.values[self._name]
        known = np.isfinite(share) & (frame.counts > 0)
        slots, total = frame.slots[known], frame.counts[known].astype(np.float64)
        bad = np.clip(share[known], 0.0, 1.0) * total
        first = self.state["first_ms"]
        first[slots] = np.where(first[slots] == NEVER, frame.window_ms, first[slots])
        for pair in self._pairs:
            self._turn(pair, frame.window_ms // pair.bucket_ms)
            column = self.clock[pair.name] % pair.points
            self.state[f"{pair.name}_bad"][slots, column] += bad.astype(np.float32)
            self.state[f"{pair.name}_total"][slots, column] += total.astype(np.float32)
            sums = self.state[f"{pair.name}_sums"]
            sums[slots] += np.stack([bad, total, bad, total], axis=1)

    def _turn(self, pair: Pair, bucket: int) -> None:
        """Moves a ring on. Its sums are added up again at every bucket: nothing drifts."""
        newest = self.clock[pair.name]
        empty = passed(newest, bucket, pair.points)
        self.clock[pair.name] = max(newest, bucket)
        if not len(empty):
            return
        for at, name in enumerate(("bad", "total")):
            ring = self.state[f"{pair.name}_{name}"]
            ring[:, empty] = 0
            sums = self.state[f"{pair.name}_sums"]
            sums[:, at] = ring.sum(axis=1, dtype=np.float64)
            recent = in_order(self.clock[pair.name], pair.points, BUCKETS_PER_SHORT)
            sums[:, at + 2] = ring[:, recent].sum(axis=1, dtype=np.float64)

    def _burn(self, pair: Pair, slots: Whole, end_ms: int) -> Burn:
        bad, total, bad_short, total_short = self.state[f"{pair.name}_sums"][slots].T
        age_s = np.maximum(end_ms - self.state["first_ms"][slots], 1) / 1_000
        share = _share(bad, total)
        long = share * np.minimum(age_s / pair.long_s, 1) / self._budget
        short = _share(bad_short, total_short) * np.minimum(age_s / pair.short_s, 1) / self._budget
        per_s = total_short / np.minimum(age_s, pair.short_s)
        return Burn(long, short, share, bad, total, bad_short, total_short, per_s)

    def _fires(self, pair: Pair, burn: Burn) -> Mask:
        """Over the long range too, with enough events, and no matter of chance."""
        expected, now = burn.total * self._budget, burn.total_short * self._budget
        real = (burn.bad > expected) & (_surprise(burn.bad, expected) > _CHANCE)
        real &= (burn.bad_short > now) & (_surprise(burn.bad_short, now) > _STOPPED)
        return (burn.long >= pair.rate) & (burn.total_short >= self._events) & real

    def _recent(self, number: int, slots: Whole, burns: list[Burn]) -> Recent:
        """What came last, to see whether the pace of a pair goes on; of the fastest nothing where it is too short."""
        if number:
            faster = burns[number - 1]
            return Recent(faster.bad_short, faster.total_short, self._pairs[number - 1].short_s)
        pair = self._pairs[0]
        buckets = -(-RECENT_MS // pair.bucket_ms) + 1
        if buckets >= BUCKETS_PER_SHORT:
            return Recent(np.full(len(slots), np.inf), np.ones(len(slots)), 0.0)
        columns = in_order(self.clock[pair.name], pair.points, buckets)
        rings = (self.state[f"{pair.name}_{name}"][slots][:, columns] for name in ("bad", "total"))
        bad, total = (ring.sum(axis=1, dtype=np.float64) for ring in rings)
        return Recent(bad, total, buckets * pair.bucket_ms / 1_000)

    def _stopped(self, pair: Pair, burn: Burn, recent: Recent) -> Mask:
        """Whether what came last shows that the pace of the pair is over."""
        total = np.where(recent.total > 0, recent.total, burn.per_s * recent.range_s)
        least = total * self._budget * pair.rate
        expected = np.maximum(least, total * _share(burn.bad_short, burn.total_short))
        few = recent.bad < least
        return few & (_surprise(np.where(few, recent.bad, 0.0), expected) > _STOPPED)

    def _settle(self, pair: Pair, slots: Whole, recent_bad: Floats) -> None:
        """What these fired for is over: of their bad ones those that came last stay."""
        if not len(slots):
            return
        bad, sums = self.state[f"{pair.name}_bad"], self.state[f"{pair.name}_sums"]
        bad[slots] = 0
        bad[slots, self.clock[pair.name] % pair.points] = recent_bad.astype(np.float32)
        sums[slots, 0] = sums[slots, 2] = recent_bad

    def _gone_in_s(self, pair: Pair, burn: Burn) -> Floats:
        """Time until a budget of 30 days is gone at the pace of the short range, less what the long range has used."""
        left = np.maximum(1.0 - burn.long * pair.long_s / BUDGET_S, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(burn.short > 0, left * BUDGET_S / burn.short, np.inf)


def _pair(number: int, long_s: float, short_s: float, rate: float) -> Pair:
    bucket_ms = max(int(short_s * 1_000) // BUCKETS_PER_SHORT, 1)
    return Pair(f"pair{number}", long_s, short_s, rate, bucket_ms, -(-int(long_s * 1_000) // bucket_ms))


def _words(pair: Pair) -> str:
    return f"more than {pair.rate:g} times over {exact(pair.long_s)} and {exact(pair.short_s)}"


def _surprise(bad: Floats, expected: Floats) -> Floats:
    """-ln of how likely chance brings as many (or as few) bad ones as this where ``expected`` are: Chernoff's bound."""
    some, mean = np.maximum(bad, 1e-300), np.maximum(expected, 1e-300)
    return some * np.log(some / mean) - bad + expected


def _share(bad: Floats, total: Floats) -> Floats:
    return np.divide(bad, total, out=np.zeros(len(total)), where=total > 0)
