"""Curve: what one endpoint does at each concurrency, as a file, and what of a later one is worse. Pure.

The file is JSON: ``format`` (``fleetpulse.baseline/1``), what was measured (fields of ``Setup``) and ``points``, one
for each concurrency, in rising order (fields of ``Point``). Latencies are whole microseconds by percentile; what could
not be measured is null. Unknown keys are ignored, so that newer files can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import orjson

from schemas.errors import ConfigError
from schemas.sketch import counted_min

FORMAT = "fleetpulse.baseline/1"
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
LATENCIES = ("ttft_us", "itl_us", "e2e_us")
JUDGED_MIN = {"p50": counted_min(PERCENTILES["p50"]), "p95": 10 * counted_min(PERCENTILES["p95"])}
"""The percentiles that are compared, each with the fewest requests that it is judged by. Ten of them have to lie above
p95: of fewer it is nearly the longest, and may be worse by chance alone."""
RATES = ("requests_per_s", "output_tokens_per_s")
POINTS_MAX = 64
CONCURRENCY_MAX = 4_096
FLOOR_US = 1_000
"""A latency that is worse by less than a millisecond is not called worse: timers and schedulers move as much."""
FAILED_SHARE = 0.01
"""A later run may fail this much more of its requests."""

Latency = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Setup:
    """What was measured. ``gpus``: of one engine; ``origin``: baseline (a run) or windows (live traffic)."""

    model: str
    url: str | None = None
    at: str | None = None
    engine_version: str | None = None
    gpu: str | None = None
    gpus: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    api: str = "chat"
    origin: str = "baseline"


@dataclass(frozen=True, slots=True)
class Point:
    """One concurrency: requests that ended within ``seconds``, latencies of those that were good, rates of them."""

    concurrency: float
    requests: int
    failed: int
    seconds: float
    requests_per_s: float
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    ttft_us: Latency = field(default_factory=dict)
    itl_us: Latency = field(default_factory=dict)
    e2e_us: Latency = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in rising order of concurrency, at least one."""

    setup: Setup
    points: tuple[Point, ...]


def text_of(curve: Curve) -> bytes:
    """The file of a curve."""
    document = {"format": FORMAT, **asdict(curve.setup), "points": [asdict(point) for point in curve.points]}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def curve_of(text: bytes, name: str) -> Curve:
    """The curve in a file's text; ``ConfigError`` names the file and what is wrong with it."""
    try:
        document = orjson.loads(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ConfigError("curve", name, f"must be a JSON file of the format {FORMAT}")
        setup = Setup(**_known(Setup, document))
        points = tuple(Point(**_known(Point, one)) for one in document["points"])
        return checked(Curve(setup, points), name)
    except (orjson.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError("curve", name, f"cannot be read: {error}") from error


def _known(kind: type[Setup] | type[Point], document: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


def checked(curve: Curve, name: str) -> Curve:
    """The same curve; ``ConfigError`` where its points are none, too many, out of order or without throughput."""
    found = [point.concurrency for point in curve.points]
    if not 0 < len(found) <= POINTS_MAX or any(not isinstance(one, int | float) or one <= 0 for one in found):
        raise ConfigError("curve", name, f"must have 1 to {POINTS_MAX} points with a concurrency above 0")
    if found != sorted(set(found)):
        raise ConfigError("curve", name, "must have its points in rising order of concurrency, each once")
    return curve


def concurrencies(text: str) -> tuple[int, ...]:
    """``1,2,4..32`` as numbers, rising, each once: ``a..b`` doubles from a up to b, and b is one of them."""
    found: set[int] = set()
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        if not first.isdecimal() or (dots and not last.isdecimal()) or len(first) > 6 or len(last) > 6:
            raise ConfigError("--concurrency", text, "must be whole numbers and ranges such as 1,2,4..32")
        step, until = int(first), int(last or first)
        while 0 < step < until:
            found.add(step)
            step *= 2
        found.add(until)
    if min(found) < 1 or max(found) > CONCURRENCY_MAX or len(found) > POINTS_MAX:
        raise ConfigError("--concurrency", text, f"must be up to {POINTS_MAX} numbers from 1 to {CONCURRENCY_MAX}")
    return tuple(sorted(found))


# Comparison


@dataclass(frozen=True, slots=True)
class Difference:
    """One number of one concurrency beside the same of the run before. ``change``: 0.2 is a fifth more. ``judged``:
    whether there are enough requests behind both; else it is not called worse."""

    concurrency: float
    measure: str
    before: float
    after: float
    change: float
    worse: bool
    judged: bool = True


def comparable(before: Setup, after: Setup) -> list[str]:
    """What makes two curves different experiments, in words; empty: they may be compared."""
    names = ("model", "prompt_tokens", "output_tokens", "api", "gpu", "gpus")
    return [
        f"{name} {getattr(before, name)} and {getattr(after, name)}"
        for name in names
        if None not in (getattr(before, name), getattr(after, name)) and getattr(before, name) != getattr(after, name)
    ]


def differences(before: Curve, after: Curve, margin: float) -> list[Difference]:
    """Each number that both have at the same concurrency; ``worse``: by more than ``margin`` (0.15: 15 %)."""
    known = {point.concurrency: point for point in before.points}
    return [
        each
        for point in after.points
        if (was := known.get(point.concurrency)) is not None
        for each in _of_point(was, point, margin)
    ]


def _of_point(was: Point, now: Point, margin: float) -> Sequence[Difference]:
    found = []
    for measure, before, after, floor, sign, judged in _pairs(was, now):
        if before is None or after is None or before <= 0:
            continue
        change = after / before - 1
        worse = judged and sign * change > margin and abs(after - before) >= floor
        found.append(Difference(now.concurrency, measure, before, after, change, worse, judged))
    before_share, after_share = was.failed / max(1, was.requests), now.failed / max(1, now.requests)
    if before_share or after_share:
        grown = after_share - before_share
        found.append(Difference(now.concurrency, "failed", before_share, after_share, grown, grown > FAILED_SHARE))
    return found


def _pairs(was: Point, now: Point) -> list[tuple[str, float | None, float | None, float, int, bool]]:
    """Measure, before, after, the least difference that counts, the sign of what is worse, and whether it is judged;
    gaps between tokens are many more than requests."""
    good = min(point.requests - point.failed for point in (was, now))
    latencies = [
        (
            f"{name} {each}",
            getattr(was, name).get(each),
            getattr(now, name).get(each),
            float(FLOOR_US),
            1,
            name == "itl_us" or good >= least,
        )
        for name in LATENCIES
        for each, least in JUDGED_MIN.items()
    ]
    return latencies + [(name, getattr(was, name), getattr(now, name), 0.0, -1, True) for name in RATES]
