"""What a number should be, and how near to it an answer must come. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[str, str]
"""A metric and what it is of: ``model=m``, ``tenant=t``, ``part=request`` of the bill, or ``all``."""
SKETCH_ERROR = 0.0109
"""Of a percentile, relative."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A number that a face rounds: ``half`` is half of its last digit."""

    value: float | None
    half: float


@dataclass(frozen=True, slots=True)
class Each:
    """What several queries of a face say of one thing."""

    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A number between ``least`` and ``most``, both included."""

    least: float
    most: float

    def holds(self, value: object) -> bool:
        """Whether a face's answer is this, or this as far as its digits go; null is 0 to those who count; of several
        answers each must be."""
        if isinstance(value, Each):
            return all(map(self.holds, value.values))
        half = value.half * (1 + 1e-6) if isinstance(value, Shown) else 0  # a tie is no number of binary digits
        number = value.value if isinstance(value, Shown) else value
        number = float(number) if isinstance(number, (int, float)) else 0.0
        return math.isfinite(number) and self.least - half - 1e-9 <= number <= self.most + half + 1e-9


def exactly(value: float) -> Value:
    return Value(value, value)


def percentile(rising: Sequence[int], share: float) -> Value:
    """Of values in order, from that at the rank below to the one above: definitions of a percentile differ within."""
    rank = share * (len(rising) - 1)
    return Value(rising[math.floor(rank)] * (1 - SKETCH_ERROR), rising[math.ceil(rank)] * (1 + SKETCH_ERROR))


def merged(sketches: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    """Counts by bin, of all."""
    found = Counter[int]()
    for one in sketches:
        for number, count in one.items():
            found[number] += count
    return found


def percentile_of_bins(bins: Mapping[int, int], share: float) -> Value:
    """Likewise of values that are known by their bin alone: 32 to an octave, -1 holds zeros."""
    rank, ends = share * (sum(bins.values()) - 1), list[float]()
    for place in (math.floor(rank), math.ceil(rank)):
        held = -1
        for number in sorted(bins):
            held += bins[number]
            if held >= place:
                ends.append(number)
                break
    below, above = (0.0 if end < 0 else 2 ** (end / 32) for end in (ends[0] - 1, ends[1]))
    return Value(below, above)
