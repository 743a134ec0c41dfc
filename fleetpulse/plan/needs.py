"""Needs: how many engines and GPUs a traffic takes, from a measured curve and an SLO. Pure.

One engine's *capacity* is the most requests per second at which every latency of the SLO holds:

- the points of the curve are walked from the lowest concurrency to the first that breaks a limit. All hold: capacity is
  the highest throughput that was measured, and *measured*; more is not known, so more is never assumed;
- between the last point that holds and the first that does not, the concurrency at which the limit is reached lies on
  the straight line between both (for the limit that is reached first); capacity is *interpolated* there, and is never
  below what the last good point measured nor above what the next one did;
- the first point breaks a limit: no number of engines of this kind keeps the SLO.

Engines are independent: N of them carry N times the traffic (the balancer's work; it is an assumption, and said).

A traffic of longer prompts or answers than the curve's takes more engines, by the larger ratio, and is called *scaled*.
Gaps between tokens are taken to stay as they are at the same concurrency; TTFT of longer prompts, and E2E of longer
prompts or answers, are not known from the curve, so that a limit for them is refused. Shorter requests are given no
more than was measured, and the curve's latencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from typing import Any, Literal

from fleetpulse.baseline.curve import PERCENTILES, Curve, Latency, Point
from schemas.errors import ConfigError
from schemas.sketch import counted_min

Basis = Literal["measured", "interpolated"]
ENGINES_MAX = 1_000_000
FAILED_SHARE_MAX = 0.01
"""A point at which more requests failed does not hold, whatever its latencies."""
SAME_LENGTH = 0.05
"""Lengths that differ by no more than this share are the same."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper limits [us] of one percentile; None: no limit."""

    ttft_us: int | None = None
    itl_us: int | None = None
    e2e_us: int | None = None
    percentile: str = "p95"

    def limits(self) -> dict[str, int]:
        """The limits there are."""
        return {name: limit for name in ("ttft_us", "itl_us", "e2e_us") if (limit := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class Traffic:
    """``requests_per_s`` and tokens of a request; None: as the curve has them. ``headroom``: share kept free."""

    requests_per_s: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    headroom: float = 0.2

    def __post_init__(self) -> None:
        if not isfinite(self.requests_per_s) or self.requests_per_s <= 0:
            raise ConfigError("--traffic", self.requests_per_s, "must be above 0")
        if not 0 <= self.headroom < 1:
            raise ConfigError("--headroom", self.headroom, "must be a share from 0 to below 1")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Of one engine: requests per second under the SLO, where on the curve, and what keeps it from more."""

    requests_per_s: float
    concurrency: float
    basis: Basis
    limit: str | None


@dataclass(frozen=True, slots=True)
class Expected:
    """Of an engine under its share of the traffic; latencies that the curve does not tell are null."""

    concurrency: float
    ttft_us: Latency
    itl_us: Latency
    e2e_us: Latency


@dataclass(frozen=True, slots=True)
class Plan:
    """``engines`` (None: the SLO cannot be kept), their GPUs (None: not known how many one has), and each one's load.

    ``notes`` say what is measured, interpolated, scaled or assumed."""

    engines: int | None
    gpus: int | None
    capacity: Capacity | None
    requests_per_s_per_engine: float | None
    expected: Expected | None
    notes: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def holds(point: Point, slo: Slo) -> bool:
    """Whether every limit holds at a point; a latency that was not measured holds no limit."""
    return point.failed <= FAILED_SHARE_MAX * point.requests and not _broken(point, slo)


def _broken(point: Point, slo: Slo) -> list[str]:
    found = []
    for name, limit in slo.limits().items():
        value = getattr(point, name).get(slo.percentile)
        if value is None or value > limit:
            found.append(name)
    return found


def capacity_of(points: Sequence[Point], slo: Slo) -> Capacity | None:
    """The capacity of the engine with this curve; None where the SLO does not hold at its first point."""
    good: list[Point] = []
    for point in points:
        if not holds(point, slo):
            break
        good.append(point)
    if not good:
        return None
    best = max(good, key=lambda point: point.requests_per_s)
    capacity = Capacity(best.requests_per_s, best.concurrency, "measured", None)
    if len(good) == len(points):
        return capacity
    return _between(good[-1], points[len(good)], slo, capacity)


def _between(last: Point, broken: Point, slo: Slo, measured: Capacity) -> Capacity:
    """Where the first limit is reached between two points, if that is more than was measured."""
    names = _broken(broken, slo)
    shares = [_share(last, broken, name, slo) for name in names] if names else [0.0]
    share = min(shares)
    limit = names[shares.index(share)] if names else "failed"
    requests_per_s = last.requests_per_s + share * (broken.requests_per_s - last.requests_per_s)
    if share <= 0 or requests_per_s <= measured.requests_per_s:
        return Capacity(measured.requests_per_s, measured.concurrency, "measured", limit)
    concurrency = last.concurrency + share * (broken.concurrency - last.concurrency)
    return Capacity(requests_per_s, concurrency, "interpolated", limit)


def _share(last: Point, broken: Point, name: str, slo: Slo) -> float:
    """How far from ``last`` to ``broken`` the latency reaches its limit; 0 where it was not measured."""
    before, after = getattr(last, name).get(slo.percentile), getattr(broken, name).get(slo.percentile)
    if before is None or after is None or after <= before:
        return 0.0
    return float((slo.limits()[name] - before) / (after - before))


def ratios_of(curve: Curve, traffic: Traffic) -> tuple[dict[str, float] | None, list[str]]:
    """Tokens of a request by those of the curve's (2: twice), for ``input`` and ``output``, and what is said of them;
    None: cannot be known. A length that is not planned, or is within ``SAME_LENGTH`` of it, is the curve's own."""
    said, ratios = [], dict[str, float]()
    for what, planned, name in (
        ("input", traffic.input_tokens, "input_tokens_per_s"),
        ("output", traffic.output_tokens, "output_tokens_per_s"),
    ):
        ratios[what] = 1.0
        if planned is None:
            continue
        measured = _tokens(curve, name)
        if measured is None:
            return None, [f"the curve did not measure {what} tokens, so that a traffic of {planned} cannot be compared"]
        if abs(planned / measured - 1) > SAME_LENGTH:
            ratios[what] = planned / measured
            said.append(f"{what} {planned:,} tokens a request, the curve has {measured:,.0f}")
    if not said:
        return ratios, []
    scale, lengths = max(ratios.values()), "; ".join(said)
    if scale > 1:
        return ratios, [f"scaled by {scale:.2f}: {lengths}. Measure a curve of these lengths to be sure"]
    return ratios, [f"not scaled: {lengths}. Shorter requests are given no more than was measured, nor lower latencies"]


def _unknown(ratios: Mapping[str, float]) -> list[str]:
    """Latencies that a curve of shorter requests does not tell."""
    longer = {what for what, ratio in ratios.items() if ratio > 1}
    return [name for name, of in (("ttft_us", {"input"}), ("e2e_us", {"input", "output"})) if of & longer]


def _tokens(curve: Curve, name: str) -> float | None:
    """Tokens of a request on the curve: of its middle point."""
    point = curve.points[len(curve.points) // 2]
    rate = getattr(point, name)
    return rate / point.requests_per_s if rate and point.requests_per_s else None


def plan(curve: Curve, traffic: Traffic, slo: Slo, gpus_per_engine: int | None = None) -> Plan:
    """Engines and GPUs for a traffic under an SLO; ``ConfigError`` for a limit that no curve of shorter requests can
    be held to."""
    ratios, notes = ratios_of(curve, traffic)
    unknown = _unknown(ratios or {})
    if refused := [name for name in unknown if name in slo.limits()]:
        option, limit_ms = f"--{refused[0].removesuffix('_us')}-ms", slo.limits()[refused[0]] / 1_000
        raise ConfigError(option, limit_ms, f"cannot be held against a curve of shorter requests ({notes[0]})")
    capacity = capacity_of(curve.points, slo)
    if capacity is None or ratios is None or capacity.requests_per_s <= 0:
        broken = ", ".join(_broken(curve.points[0], slo)) or "failed requests"
        first = curve.points[0].concurrency
        why = f"the SLO does not hold at concurrency {first:g}, the lowest of the curve: {broken}"
        return Plan(None, None, None, None, None, (*notes, why) if capacity is None else tuple(notes))
    scale = max(1.0, *ratios.values())
    each = capacity.requests_per_s / scale * (1 - traffic.headroom)
    engines = max(1, ceil(traffic.requests_per_s / each * (1 - 1e-12)))
    if engines > ENGINES_MAX:
        raise ConfigError("--traffic", traffic.requests_per_s, f"needs more than {ENGINES_MAX:,} engines")
    load = traffic.requests_per_s / engines
    expected, where = expected_at(curve.points, load * scale)
    if expected is not None:
        blank: dict[str, Any] = {name: dict.fromkeys(getattr(expected, name)) for name in unknown}
        expected = replace(expected, **blank)
    gpus = gpus_per_engine or curve.setup.gpus
    notes = [*_said(curve, capacity, slo), *_few(curve.points, slo), *notes, *where]
    if engines > 1:
        notes.append(f"{engines} engines are taken to carry {engines} times what one was measured with")
    if gpus is None:
        notes.append("how many GPUs an engine has is not known: give --gpus-per-engine")
    return Plan(engines, engines * gpus if gpus else None, capacity, load, expected, tuple(notes))


def _said(curve: Curve, capacity: Capacity, slo: Slo) -> list[str]:
    at = f"{capacity.requests_per_s:.3g} requests/s of one engine at concurrency {capacity.concurrency:.3g}"
    if capacity.basis == "interpolated":
        return [f"interpolated: {at}, where {slo.percentile} of {capacity.limit} reaches its limit"]
    if capacity.limit is not None:
        return [f"measured: {at}; the next point of the curve breaks {capacity.limit}"]
    highest = curve.points[-1].concurrency
    return [f"measured: {at}; nothing is known above concurrency {highest:g}, and no more is assumed"]


def _few(points: Sequence[Point], slo: Slo) -> list[str]:
    """Where the SLO was judged by a percentile of too few requests; gaps between tokens are many more."""
    least = counted_min(PERCENTILES[slo.percentile])
    judged = slo.limits().keys() & {"ttft_us", "e2e_us"}
    few = [f"{point.concurrency:g}" for point in points if point.requests - point.failed < least] if judged else []
    if not few:
        return []
    return [f"{slo.percentile} at concurrency {', '.join(few)} is of few requests, below {least}: measure longer there"]


def expected_at(points: Sequence[Point], requests_per_s: float) -> tuple[Expected | None, list[str]]:
    """What to expect of an engine at a load: on the straight line between the two points around it. Below the curve
    those of its first point, and a note; None, with a note, for a load that no point carried."""
    before: Point | None = None
    for point in points:
        if point.requests_per_s >= requests_per_s:
            if before is None:
                below = point.requests_per_s > requests_per_s
                said = "its load is below the lowest measured point; latencies are those of that point"
                return _mixed(point, point, 0.0), [said] if below else []
            gap = point.requests_per_s - before.requests_per_s
            return _mixed(before, point, (requests_per_s - before.requests_per_s) / gap), []
        before = point
    return None, ["no measured point carries this load"]


def _mixed(one: Point, other: Point, share: float) -> Expected:
    def between(low: float, high: float) -> float:
        return low + share * (high - low)

    def latency(name: str) -> dict[str, int | None]:
        lows, highs = getattr(one, name), getattr(other, name)
        known = {each: (lows[each], highs.get(each)) for each in lows}
        return {each: None if None in pair else round(between(*pair)) for each, pair in known.items()}

    return Expected(between(one.concurrency, other.concurrency), *map(latency, ("ttft_us", "itl_us", "e2e_us")))
