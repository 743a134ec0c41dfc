"""Goodput: which requests met all objectives of their class, and how much of the error budget that leaves.

A request is *good* when it ended well and met every objective of its class. One that failed is not good, whatever its
latencies were. A latency that is not known is not judged: with the others met, the request is good; a class without
latencies judges availability alone. Client faults (``error_kind`` ``client``: 4xx but 408 and 429, which are ours) are
left out, and so is a request whose client went away before any objective was missed; one who left after that had a
reason, and it is a miss. Requests of no class are not judged. By model or tenant as well: give each pair its own index.

Attainment is good / judged; the error budget of a class is the share of judged requests that may be bad, ``1 - share``;
the burn rate is how many times faster than that it is used. All are None where nothing was judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from stream_jobs.costs.wide import UNKNOWN, Flags, Ints
from stream_jobs.rules.model import SloClass

DEFINITION_VERSION = 1
OBJECTIVES = ("ttft_us", "tpot_us", "e2e_us")
VERDICTS = ("good", "missed", "failed", "left_out", "not_judged")
GOOD, MISSED, FAILED, LEFT_OUT, NOT_JUDGED = range(len(VERDICTS))


@dataclass(frozen=True, slots=True)
class Served:
    """Columns of requests. ``slo_class``: index into the classes, -1 for none of them; ``UNKNOWN`` for null."""

    slo_class: Ints
    ok: Flags
    aborted: Flags
    client_fault: Flags
    ttft_us: Ints
    tpot_us: Ints
    e2e_us: Ints
    input_tokens: Ints
    output_tokens: Ints


@dataclass(frozen=True, slots=True)
class Goodput:
    """Counts of a class; they add. ``missed_*``: good status, but that objective missed (one request may miss several).

    ``unjudged``: good requests with an objective that could not be judged. Tokens: prompt and output where known.
    """

    good: int = 0
    missed: int = 0
    failed: int = 0
    left_out: int = 0
    missed_ttft_us: int = 0
    missed_tpot_us: int = 0
    missed_e2e_us: int = 0
    unjudged: int = 0
    good_input_tokens: int = 0
    good_output_tokens: int = 0

    @property
    def judged(self) -> int:
        """Requests that count."""
        return self.good + self.missed + self.failed

    def __add__(self, other: Goodput) -> Goodput:
        return Goodput(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def attainment(self) -> float | None:
        """Share of the judged requests that were good."""
        return self.good / self.judged if self.judged else None

    def budget_left(self, slo: SloClass) -> float | None:
        """Share of the error budget that is left: 1 all, 0 none, below overspent; None: nothing judged, no budget."""
        allowed = (1 - slo.share) * self.judged
        return 1 - (self.judged - self.good) / allowed if allowed else None

    def burn_rate(self, slo: SloClass) -> float | None:
        """Share of bad requests over the share that may be bad."""
        left = self.budget_left(slo)
        return None if left is None else 1 - left


def verdicts(served: Served, classes: Sequence[SloClass]) -> tuple[Ints, dict[str, Flags]]:
    """The verdict of every request (index into ``VERDICTS``), and by objective who missed it."""
    missed = {name: _missed(served, classes, name) for name in OBJECTIVES}
    any_missed = np.any(list(missed.values()), axis=0)
    left_out = served.client_fault | (served.aborted & ~any_missed)
    late = any_missed & (served.ok | served.aborted)
    rules = [served.slo_class < 0, left_out, late, ~served.ok]
    found = np.select(rules, [NOT_JUDGED, LEFT_OUT, MISSED, FAILED], GOOD)
    return found.astype(np.int64), missed


def goodput(served: Served, classes: Sequence[SloClass]) -> list[Goodput]:
    """Counts of every class, in their order."""
    verdict, missed = verdicts(served, classes)
    unjudged = _unjudged(served, classes)
    classed = [np.asarray(served.slo_class == number) for number in range(len(classes))]
    return [_counts(served, verdict, missed, unjudged, mine) for mine in classed]


def _objective(classes: Sequence[SloClass], name: str) -> Ints:
    """Of each class its objective, ``UNKNOWN`` where it has none; and one more for requests of no class."""
    bounds = [getattr(slo, name) for slo in classes]
    return np.array([UNKNOWN if one is None else one for one in [*bounds, None]], dtype=np.int64)


def _missed(served: Served, classes: Sequence[SloClass], name: str) -> Flags:
    bound, value = _objective(classes, name)[served.slo_class], getattr(served, name)
    return np.asarray((bound != UNKNOWN) & (value != UNKNOWN) & (value > bound))


def _unjudged(served: Served, classes: Sequence[SloClass]) -> Flags:
    judged = [(_objective(classes, name)[served.slo_class] != UNKNOWN, getattr(served, name)) for name in OBJECTIVES]
    return np.any([bound & (value == UNKNOWN) for bound, value in judged], axis=0)


def _counts(served: Served, verdict: Ints, missed: dict[str, Flags], unjudged: Flags, mine: Flags) -> Goodput:
    counted = dict(zip(VERDICTS, np.bincount(verdict[mine], minlength=len(VERDICTS)).tolist(), strict=True))
    del counted["not_judged"]
    good, late = mine & (verdict == GOOD), mine & (verdict == MISSED)
    return Goodput(
        **counted,
        **{f"missed_{name}": int(np.count_nonzero(late & missed[name])) for name in OBJECTIVES},
        unjudged=int(np.count_nonzero(good & unjudged)),
        good_input_tokens=_known_sum(served.input_tokens[good]),
        good_output_tokens=_known_sum(served.output_tokens[good]),
    )


def _known_sum(column: Ints) -> int:
    return int(column[column != UNKNOWN].sum())
