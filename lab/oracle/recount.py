"""What a range should say, counted from single requests by plain loops: no SQL, no table of windows, no code of ours.

A range counts the requests whose window of ten seconds begins in it. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[str, str]
"""A metric and what it is of: ``model=m``, ``tenant=t``, or ``all``."""
WINDOW_MS = 10_000
SKETCH_ERROR = 0.0109
"""Of a percentile, relative."""


@dataclass(frozen=True, slots=True)
class Request:
    """One row of ``llm.requests`` that was accepted."""

    at_ms: int
    model: str
    tenant: str
    status: str
    error_kind: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    ttft_us: int | None


@dataclass(frozen=True, slots=True)
class Value:
    """A number between ``least`` and ``most``, both included."""

    least: float
    most: float

    def holds(self, value: object) -> bool:
        """Whether a face's answer is this; null is 0 to those who count."""
        number = float(value) if isinstance(value, (int, float)) else 0.0
        return math.isfinite(number) and self.least - 1e-9 <= number <= self.most + 1e-9


def outcome(request: Request) -> str:
    """How it ended, in one of four words."""
    if request.status in ("ok", "aborted"):
        return request.status
    return "client_fault" if request.error_kind == "client" else "failed"


def recount(requests: Iterable[Request], from_ms: int, to_ms: int) -> dict[Key, Value]:
    """Every metric of the range, by model, by tenant and of all; what did not happen is not there."""
    groups: dict[str, list[Request]] = {}
    for one in requests:
        if from_ms <= one.at_ms - one.at_ms % WINDOW_MS < to_ms:
            for name in ("all", f"model={one.model}", f"tenant={one.tenant}"):
                groups.setdefault(name, []).append(one)
    found: dict[Key, Value] = {}
    for name, group in groups.items():
        for metric, value in _counts(group).items():
            found[metric, name] = Value(value, value)
        waits = sorted(one.ttft_us for one in group if one.ttft_us is not None)
        for percent in (50, 95):
            if waits:
                found[f"ttft_us_p{percent}", name] = _percentile(waits, percent / 100)
    return found


def _counts(group: Sequence[Request]) -> Mapping[str, float]:
    ends = [outcome(one) for one in group]
    of_ends = {end: ends.count(end) for end in ("ok", "aborted", "client_fault", "failed")}
    valid = len(group) - of_ends["client_fault"]
    return {
        "requests": len(group),
        **of_ends,
        **({"failed_share": of_ends["failed"] / valid} if valid else {}),
        "not_ok": len(group) - of_ends["ok"],
        "input_tokens": sum(one.input_tokens for one in group),
        "cached_tokens": sum(one.cached_tokens for one in group),
        "output_tokens": sum(one.output_tokens for one in group),
    }


def _percentile(rising: Sequence[int], share: float) -> Value:
    """From the value at the rank below to the one above: definitions of a percentile differ within these."""
    rank = share * (len(rising) - 1)
    return Value(rising[math.floor(rank)] * (1 - SKETCH_ERROR), rising[math.ceil(rank)] * (1 + SKETCH_ERROR))
