"""Which elements of which dimension explain a change: Adtributor (Bhagwan et al., NSDI 2014), with its two sorts of
measures.

Of an element (tenant t1) of a dimension (tenant), with actual amounts A (now) and expected ones F (before):

- *explanatory power*: the share of the whole change that came through it, ``(A_e - F_e) / (A - F)``. Those of all
  elements of a dimension add to 1; one that moved against the change has a negative one.
- *surprise*: how far its share of the whole moved, the Jensen-Shannon term of ``p = F_e / F`` and ``q = A_e / A``.
- *succinctness*: few elements are better. They are taken by falling surprise, each with at least ``ELEMENT_MIN`` of the
  change, until they have ``SHARE_MIN`` of it together; what is not needed for that is left out again (this is ours).

Dimensions are ranked by the surprise of the elements taken. A measure that is a ratio (errors / requests, sum of
latency / count) is not additive: the power of an element is then the change of the whole ratio had this element alone
changed, made to add to 1, and its surprise is the sum of those of both amounts (section 4.4 of the paper):

    ((A1_e - F1_e) F2 - (A2_e - F2_e) F1) / (F2 (F2 + A2_e - F2_e))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from schemas.codec.block import Labels
from stream_jobs.insight.frame import Floats

SHARE_MIN = 0.67
"""``T_EP`` of the paper: a dimension explains a change when the elements taken have this much of it."""
ELEMENT_MIN = 0.1
"""``T_EEP``: an element with less explains nothing."""
ELEMENTS_MAX = 5
"""A dimension that needs more does not explain: it was everybody."""
DIMENSIONS_MAX = 3
_NOTHING = 1e-12

Element = str | None


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts by element of one dimension. ``second`` is the denominator where the measure is a ratio."""

    elements: tuple[Element, ...]
    first: Floats
    second: Floats | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """``power``: share of the change that ``elements`` (the most surprising first) explain together; ``powers`` of
    each. ``surprise`` is the sum of theirs."""

    dimension: str
    elements: tuple[Element, ...]
    powers: tuple[float, ...]
    power: float
    surprise: float


def amounts_of(labels: Labels, first: Floats, second: Floats | None = None) -> Amounts:
    """The amounts of rows, added up by label. What no row has is left out."""
    size = len(labels.words)
    used = np.flatnonzero(np.bincount(labels.codes, minlength=size))
    words = tuple(None if (word := labels.words[code]) is None else word.decode() for code in used.tolist())
    sums = [
        np.bincount(labels.codes, weights, size)[used].astype(np.float64)
        for weights in (first, second)
        if weights is not None
    ]
    return Amounts(words, sums[0], sums[1] if second is not None else None)


def explain(now: Mapping[str, Amounts], before: Mapping[str, Amounts]) -> list[Explained]:
    """The dimensions (of those in both) that explain the change from ``before`` to ``now``, the likeliest first.

    Empty where nothing changed, where a ratio has nothing to divide by before, or where no few elements stand out.
    """
    found = (_of_dimension(name, now[name], before[name]) for name in now if name in before)
    ranked = sorted(
        (one for one in found if one is not None), key=lambda one: (-one.surprise, len(one.elements), one.dimension)
    )
    return ranked[:DIMENSIONS_MAX]


def powers(now: Amounts, before: Amounts) -> Floats:
    """Explanatory power of each element; both must have the same ones. Empty where the whole did not change."""
    a1, f1 = now.first, before.first
    if now.second is None or before.second is None:
        parts = a1 - f1
    else:
        a2, f2 = now.second, before.second
        whole1, whole2 = f1.sum(), f2.sum()
        below = whole2 * (whole2 + a2 - f2)
        if whole2 <= 0 or (below <= 0).any():
            return np.empty(0)
        parts = ((a1 - f1) * whole2 - (a2 - f2) * whole1) / below
    whole, size = parts.sum(), np.abs(parts).sum()
    if size == 0 or abs(whole) <= _NOTHING * size:
        return np.empty(0)
    return np.asarray(parts / whole, np.float64)


def surprises(now: Amounts, before: Amounts) -> Floats:
    """Surprise of each element, 0 or above; both must have the same ones."""
    found = _divergence(before.first, now.first)
    if now.second is not None and before.second is not None:
        found = found + _divergence(before.second, now.second)
    return found


def _divergence(before: Floats, now: Floats) -> Floats:
    p, q = _shares(before), _shares(now)
    middle = p + q
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(p > 0, p * np.log(2 * p / middle), 0.0)
        right = np.where(q > 0, q * np.log(2 * q / middle), 0.0)
    return np.asarray(np.maximum(0.5 * (left + right), 0.0), np.float64)


def _shares(amounts: Floats) -> Floats:
    whole = amounts.sum()
    return amounts / whole if whole > 0 else np.zeros_like(amounts)


def _of_dimension(name: str, now: Amounts, before: Amounts) -> Explained | None:
    elements = _all_of(now.elements, before.elements)
    if len(elements) < 2:
        return None  # one element explains nothing
    now, before = _spread(now, elements), _spread(before, elements)
    power, surprise = powers(now, before), surprises(now, before)
    if len(power) == 0:
        return None
    taken = _taken(power, surprise)
    if not 0 < len(taken) <= ELEMENTS_MAX or len(taken) == len(elements) or surprise[taken].sum() <= _NOTHING:
        return None
    names, each = tuple(elements[place] for place in taken), tuple(power[taken].tolist())
    return Explained(name, names, each, sum(each), float(surprise[taken].sum()))


def _taken(power: Floats, surprise: Floats) -> list[int]:
    """Elements by falling surprise until they explain enough, without those that turned out not to be needed; none
    when all together do not."""
    taken: list[int] = []
    explained = 0.0
    for place in np.lexsort((-power, -surprise)).tolist():
        if power[place] >= ELEMENT_MIN and explained < SHARE_MIN:
            taken.append(place)
            explained += float(power[place])
    for place in sorted(taken, key=lambda one: float(power[one])):
        if explained - power[place] >= SHARE_MIN:
            taken.remove(place)
            explained -= float(power[place])
    return taken if explained >= SHARE_MIN else []


def _all_of(*many: Iterable[Element]) -> tuple[Element, ...]:
    """Every element once, null first and the others rising."""
    return tuple(sorted({element for one in many for element in one}, key=lambda one: (one is not None, one or "")))


def _spread(amounts: Amounts, elements: tuple[Element, ...]) -> Amounts:
    """The same amounts for these elements, 0 for those it does not have."""
    place = {element: number for number, element in enumerate(elements)}
    at = [place[element] for element in amounts.elements]

    def over(values: Floats) -> Floats:
        out = np.zeros(len(elements))
        out[at] = values
        return out

    return Amounts(elements, over(amounts.first), None if amounts.second is None else over(amounts.second))
