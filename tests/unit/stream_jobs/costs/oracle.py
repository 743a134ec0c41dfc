"""What a request uses and an engine costs, integrated one millisecond after another with fractions. For tests only.

Written from the definitions, not from the code: no windows, no formulas of areas, no rounding. Of every millisecond
[t, t + 1) it asks how many tokens were computed and generated in it and how many lay in the cache in its middle, which
for something that grows along straight lines with bends on whole milliseconds is the exact mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

Spent = dict[str, Fraction]


@dataclass(frozen=True)
class Work:
    """A request: moments in whole ms, ``began <= first <= end``."""

    began: int
    first: int
    end: int
    prompt: int
    cached: int
    answer: int


def of_millisecond(work: Work, at: int) -> Spent:
    """Tokens computed, found and generated in [at, at + 1), and token-milliseconds of cache."""
    middle = Fraction(2 * at + 1, 2)
    prefilling = work.began < middle < work.first
    decoding = work.first < middle < work.end
    zero = Fraction(0)
    fill = Fraction(1, work.first - work.began) if prefilling else zero
    pace = Fraction(work.answer, work.end - work.first) if decoding else zero
    kept = zero
    if work.began < middle < work.end:
        kept += work.prompt
    if decoding:
        kept += pace * (middle - work.first)
    return {"prefill": (work.prompt - work.cached) * fill, "cached": work.cached * fill, "decode": pace, "kv": kept}


def of_moments(work: Work, since: int, until: int) -> Spent:
    """What takes no time at all happens at its moment, in [since, until)."""
    zero = Fraction(0)
    spent = {"prefill": zero, "cached": zero, "decode": zero, "kv": zero}
    if work.began == work.first and since <= work.began < until:
        spent |= {"prefill": Fraction(work.prompt - work.cached), "cached": Fraction(work.cached)}
    if work.first == work.end and since <= work.first < until:
        spent["decode"] = Fraction(work.answer)
    return spent


def spent(work: Work, since: int, until: int) -> Spent:
    """What a request used in [since, until)."""
    total = of_moments(work, since, until)
    for at in range(max(since, work.began), min(until, work.end)):
        for kind, amount in of_millisecond(work, at).items():
            total[kind] += amount
    return total


def shares(works: list[Work], since: int, until: int, weights: Mapping[str, int]) -> list[Spent]:
    """The weighed usage of every request in [since, until), by kind."""
    used = [spent(work, since, until) for work in works]
    return [{kind: one[kind] * weight for kind, weight in weights.items()} for one in used]


def bill(milliseconds: int, nusd_per_hour: int, energy_mj: int, nusd_per_kwh: int, pue: Fraction) -> Fraction:
    """Nano-dollars of a GPU: each of its milliseconds, and its energy."""
    time = sum((Fraction(nusd_per_hour, 3_600_000) for _ in range(milliseconds)), Fraction(0))
    return time + Fraction(energy_mj, 3_600_000_000) * nusd_per_kwh * pue
