"""What a range should say, counted from single requests by plain loops: no SQL, no table of windows, no code of ours.

A range counts the requests whose window of ten seconds begins in it. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lab.oracle.machines import Sample, readings

Key = tuple[str, str]
"""A metric and what it is of: ``model=m``, ``tenant=t``, ``part=request`` of the bill, or ``all``."""
WINDOW_MS = 10_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
GAP_MS = 5 * MINUTE_MS
"""Shorter gaps between windows with data count as covered."""
SKETCH_ERROR = 0.0109
"""Of a percentile, relative."""
PERCENTS = (50, 95, 99)
FAST_US = 500_000


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
    slo_class: str = ""
    tpot_us: int | None = None
    e2e_us: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bill: of a minute, for requests that ended so, or for nobody in particular (no status)."""

    minute_ms: int
    part: str
    model: str
    tenant: str
    status: str | None
    cost_nusd: int | None
    energy_mj: int | None
    kind: str = ""
    amount: int | None = None
    meter_mj: int | None = None
    carbon_ug: int | None = None
    use: str = ""


@dataclass(frozen=True, slots=True)
class Raw:
    """What there is, each sorted by its time. ``meters``: minute and energy at the meter [mJ] of each bill;
    ``windows``: starts of those in which anything reported; ``objectives``: of each service class the longest TTFT,
    TPOT and end to end [us], None for any."""

    requests: Sequence[Request]
    parts: Sequence[Part] = ()
    meters: Sequence[tuple[int, int]] = ()
    windows: Sequence[int] = ()
    objectives: Mapping[str, tuple[int | None, int | None, int | None]] = field(default_factory=dict)
    samples: Sequence[Sample] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A number that a face rounds: ``half`` is half of its last digit."""

    value: float | None
    half: float


@dataclass(frozen=True, slots=True)
class Value:
    """A number between ``least`` and ``most``, both included."""

    least: float
    most: float

    def holds(self, value: object) -> bool:
        """Whether a face's answer is this, or this as far as its digits go; null is 0 to those who count."""
        half = value.half * (1 + 1e-6) if isinstance(value, Shown) else 0  # a tie is no number of binary digits
        number = value.value if isinstance(value, Shown) else value
        number = float(number) if isinstance(number, (int, float)) else 0.0
        return math.isfinite(number) and self.least - half - 1e-9 <= number <= self.most + half + 1e-9


def outcome(request: Request) -> str:
    """How it ended, in one of four words."""
    if request.status in ("ok", "aborted"):
        return request.status
    return "client_fault" if request.error_kind == "client" else "failed"


def verdict(request: Request, objectives: Mapping[str, tuple[int | None, ...]]) -> str | None:
    """Good, missed or failed; None: not judged, of no class, a client fault, or left before any miss."""
    if request.slo_class not in objectives or request.error_kind == "client":
        return None
    times = (request.ttft_us, request.tpot_us, request.e2e_us)
    missed = any(
        most is not None and time is not None and time > most
        for time, most in zip(times, objectives[request.slo_class], strict=True)
    )
    if request.status not in ("ok", "aborted"):
        return "failed"
    if missed:
        return "missed"
    return "good" if request.status == "ok" else None


def goodput(group: Sequence[Request], objectives: Mapping[str, tuple[int | None, ...]]) -> Mapping[str, float]:
    """Verdicts of the requests that are judged; nothing where none is."""
    verdicts = [(verdict(one, objectives), one) for one in group]
    good = [one for said, one in verdicts if said == "good"]
    judged = sum(said is not None for said, _ in verdicts)
    if not judged:
        return {}
    return {
        "judged": judged,
        "good": len(good),
        "judged_failed": sum(said == "failed" for said, _ in verdicts),
        "missed": sum(said == "missed" for said, _ in verdicts),
        "good_tokens": sum(one.input_tokens + one.output_tokens for one in good),
        "good_share": len(good) / judged,
    }


def recount(raw: Raw, from_ms: int, to_ms: int) -> dict[Key, Value]:
    """Every metric of the range, by model, by tenant and of all; what did not happen is not there. Requests are those
    of windows that begin in the range, the slowest single one is of those that ended in it."""
    groups: dict[str, list[Request]] = {}
    first = bisect_left(raw.requests, from_ms, key=lambda one: one.at_ms)
    last = bisect_left(raw.requests, to_ms + WINDOW_MS, key=lambda one: one.at_ms)
    for one in raw.requests[first:last]:
        if from_ms <= one.at_ms - one.at_ms % WINDOW_MS < to_ms:
            for name in ("all", f"model={one.model}", f"tenant={one.tenant}", f"class={one.slo_class}"):
                groups.setdefault(name, []).append(one)
    found: dict[Key, Value] = {}
    covered_s = covered_ms(raw.windows, from_ms, to_ms) / 1_000
    if raw.windows:
        found["covered_s", "all"] = _exactly(covered_s)
    for name, group in groups.items():
        counts = _counts(group)
        found |= {(metric, name): _exactly(value) for metric, value in counts.items()}
        if covered_s:
            found["requests_per_s", name] = _exactly(counts["requests"] / covered_s)
            found["output_tokens_per_s", name] = _exactly(counts["output_tokens"] / covered_s)
        if good := goodput(group, raw.objectives):
            found |= {(metric, name): _exactly(value) for metric, value in good.items()}
        waits = sorted(one.ttft_us for one in group if one.ttft_us is not None)
        found["ttft_counted", name] = _exactly(len(waits))
        if waits:
            found |= {(f"ttft_us_p{one}", name): percentile(waits, one / 100) for one in PERCENTS}
            found["fast_share", name] = fast_share(waits)
    ended = raw.requests[first : bisect_left(raw.requests, to_ms, key=lambda one: one.at_ms)]
    if waited := [one.ttft_us for one in ended if one.ttft_us is not None]:
        found["ttft_us_max", "all"] = _exactly(max(waited))
    metered = [amount for minute_ms, amount in raw.meters if from_ms <= minute_ms < to_ms]
    if metered:
        found["meter_mj", "all"] = _exactly(sum(metered))
    parts = [one for one in raw.parts if from_ms <= one.minute_ms < to_ms]
    found |= {key: _exactly(value) for key, value in readings(raw.samples, from_ms, to_ms).items()}
    return found | _bill(parts) | _unit_costs(parts)


def _bill(parts: Sequence[Part]) -> dict[Key, Value]:
    """Money and energy; as lists have it, where what is nobody's stands under its part, and by labels alone."""
    found: dict[Key, int] = {}

    def add(metric: str, of: str, amount: int | None) -> None:
        found[metric, of] = found.get((metric, of), 0) + (amount or 0)

    for one in parts:
        for of in ("all", f"model={one.model}", f"tenant={one.tenant}"):
            add("cost_nusd", of, one.cost_nusd)
            add("energy_mj", of, one.energy_mj)
        for dimension, name in (("model", one.model), ("tenant", one.tenant)):
            add("listed_cost_nusd", f"{dimension}={one.part if one.status is None else name}", one.cost_nusd)
        add("cost_nusd", f"part={one.part}", one.cost_nusd)
        if one.use == "idle":
            add("idle_host_nusd", "all", one.cost_nusd)
        if one.part in ("__idle__", "__wasted__"):
            add("idle_nusd", "all", one.cost_nusd)
    if parts:
        found["billed_minutes", "all"] = len({one.minute_ms for one in parts})
    return {key: _exactly(amount) for key, amount in found.items()}


def _unit_costs(parts: Sequence[Part]) -> dict[Key, Value]:
    """Of requests of a model, or tenant: tokens that were paid for, what both sides cost, and a million of each."""
    groups: dict[str, list[Part]] = {}
    for one in parts:
        if one.status is not None:
            for name in (f"model={one.model}", f"tenant={one.tenant}"):
                groups.setdefault(name, []).append(one)
    found: dict[Key, Value] = {}
    for name, group in groups.items():
        generated = sum(one.amount or 0 for one in group if one.kind == "decode") > 0
        for side, kind in (("uncached", "prefill"), ("output", "decode")):
            if side == "output" and not generated:
                continue
            kinds = {kind, "kv"} if generated == (side == "output") else {kind}
            for unit, column, scale in (("usd", "cost_nusd", 1e9), ("kwh", "meter_mj", 3.6e9), ("g", "carbon_ug", 1e6)):
                spent = sum(getattr(one, column) or 0 for one in group if one.kind in kinds)
                tokens = sum(one.amount or 0 for one in group if one.kind == kind and getattr(one, column) is not None)
                if unit == "usd":
                    found[f"{side}_nusd", name], found[f"priced_{side}_tokens", name] = (
                        _exactly(spent),
                        _exactly(tokens),
                    )
                if tokens:
                    found[f"{unit}_per_million_{side}", name] = _exactly(spent / scale / tokens * 1e6)
    return found


def covered_ms(windows: Sequence[int], from_ms: int, to_ms: int) -> int:
    """How much of the range has data: up to an hour by windows, else by minutes; beyond six hours an hour between two
    with data counts whole. Gaps of five minutes at most count."""
    inside = windows[bisect_left(windows, from_ms) : bisect_left(windows, to_ms)]
    pieces = {(one, WINDOW_MS) for one in inside}
    if to_ms - from_ms > HOUR_MS:
        pieces = {(minute, MINUTE_MS) if from_ms <= minute <= to_ms - MINUTE_MS else (one, WINDOW_MS)
                  for one in inside for minute in [one - one % MINUTE_MS]}  # fmt: skip
    if to_ms - from_ms > 6 * HOUR_MS:
        reported = windows[bisect_left(windows, from_ms - from_ms % HOUR_MS) : bisect_left(windows, to_ms + HOUR_MS)]
        hours = {one // HOUR_MS for one in reported if from_ms - HOUR_MS < one - one % HOUR_MS < to_ms}
        whole = {hour for hour in hours if {hour - 1, hour + 1} <= hours}
        pieces = {one for one in pieces if one[0] // HOUR_MS not in whole}
        pieces |= {(hour * HOUR_MS, HOUR_MS) for hour in whole}
    rising = sorted(pieces)
    gaps_ms = [after - start for (start, _), (after, _) in pairwise(rising)] + [math.inf]
    return sum(
        int(gap_ms) if gap_ms <= max(width, GAP_MS) else width
        for (_, width), gap_ms in zip(rising, gaps_ms, strict=False)
    )


def fast_share(rising: Sequence[int]) -> Value:
    """How many were at most ``FAST_US``; those that the sketch may take for the other side, a bin around, may count."""
    bounds = (FAST_US * (1 - 2 * SKETCH_ERROR), FAST_US * (1 + 2 * SKETCH_ERROR))
    return Value(*(bisect_right(rising, one) / len(rising) for one in bounds))


def _counts(group: Sequence[Request]) -> Mapping[str, float]:
    ends = [outcome(one) for one in group]
    of_ends = {end: ends.count(end) for end in ("ok", "aborted", "client_fault", "failed")}
    valid = len(group) - of_ends["client_fault"]
    return {
        "requests": len(group),
        "tokens": sum(one.input_tokens + one.output_tokens for one in group),
        **of_ends,
        **({"failed_share": of_ends["failed"] / valid} if valid else {}),
        "not_ok": len(group) - of_ends["ok"],
        "input_tokens": sum(one.input_tokens for one in group),
        "cached_tokens": sum(one.cached_tokens for one in group),
        "output_tokens": sum(one.output_tokens for one in group),
    }


def _exactly(value: float) -> Value:
    return Value(value, value)


def percentile(rising: Sequence[int], share: float) -> Value:
    """Of values in order, from that at the rank below to the one above: definitions of a percentile differ within."""
    rank = share * (len(rising) - 1)
    return Value(rising[math.floor(rank)] * (1 - SKETCH_ERROR), rising[math.ceil(rank)] * (1 + SKETCH_ERROR))
